"""Agents on the command line: `read_spec` parses a spec, `make_entry` makes an `Entry` from it.

careful                           a scripted agent
runs/nano                         model of a run, or the folder of a checkpoint or a model
Qwen/Qwen3-4B                     a model of the Hugging Face Hub, which is downloaded
MODEL@http://localhost:8000/v1    an OpenAI-compatible server; MODEL@openai for OpenAI itself
{"model": ..., ...}               a model or server with options, as JSON
{"local": ..., "frontier": ...}   two servers; a rule selects one for each turn (`tiers`)
NAME=...                          any of these with another display name
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from resume_gym.agents import AGENTS, ANY_DOMAIN, make_agent
from resume_gym.episode.session import Session
from resume_gym.evaluation.contest import Contest, Entry
from resume_gym.evaluation.players import Player, Scripted, endpoint
from resume_gym.evaluation.tiers import TIERS, make_tiers
from resume_gym.llm.settings import check
from resume_gym.support.user_errors import TaskError, did_you_mean, missing

ENDPOINT_MAX_CONCURRENCY = 64

# a display name has no {}@/, so that an "=" in JSON, a URL or a path does not end a name
_NAMED = re.compile(r"([^={}@/\s][^={}@/]*)=(.+)", re.DOTALL)
_AT = re.compile(r"(.+)@(https?://\S+|openai)", re.DOTALL)
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_CHECKPOINT = re.compile(r"step-\d{6,}")


class AgentSpec(NamedTuple):
    """A parsed agent spec.

    Attributes:
        name: display name of the agent.
        kind: type of the agent's player.
        options: options of the player; "model" names a scripted agent, a folder or a model.
    """

    name: str
    kind: Literal["scripted", "model", "endpoint", "tiers"]
    options: dict[str, Any]

    @property
    def record(self) -> str | dict[str, Any]:
        """The spec as recorded in results; it contains no secrets."""
        return self.options["model"] if self.kind == "scripted" else self.options


def read_spec(text: str) -> AgentSpec:
    """Parse an agent spec; no model is loaded.

    Raises:
        ValueError: the spec has none of the forms listed above, or an option is invalid.
    """
    named = _NAMED.fullmatch(text)
    name, spec = (named[1], named[2]) if named else ("", text)
    options = _options(spec)
    name = name or str(options.pop("name", ""))
    options.pop("name", None)
    if options.keys() & {*TIERS}:
        tiers = {tier: _tier(tier, options.get(tier)) for tier in TIERS}
        models = " + ".join(tier["model"] for tier in tiers.values())
        return AgentSpec(name or models, "tiers", {**options, **tiers})
    model = options.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError(f"model: expected a name, got {model!r}")
    if not (name or model).isprintable():
        raise ValueError(f"expected a name of printable characters, got {name or model!r}")
    if "base_url" in options:
        check("base_url", options["base_url"])
        return AgentSpec(name or model, "endpoint", options)
    if model in AGENTS:
        if len(options) > 1:
            raise ValueError(f"{model}: a scripted agent takes no options")
        return AgentSpec(name or model, "scripted", options)
    _check_local(model)
    return AgentSpec(name or _model_name(model), "model", options)


def _tier(name: str, spec: object) -> dict[str, Any]:
    """Parse the spec of the model "local" or "frontier"; return the options of its endpoint."""
    try:
        read = read_spec(spec if isinstance(spec, str) else json.dumps(spec or {}))
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    if read.kind != "endpoint":
        wanted = "a model behind a server, such as MODEL@http://HOST:PORT/v1"
        raise ValueError(f"{name}: expected {wanted}; got {spec!r}")
    return read.options


def _options(spec: str) -> dict[str, Any]:
    if spec.lstrip().startswith("{"):
        try:
            options = json.loads(spec)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"expected JSON, got {spec!r}: {problem}") from None
        return dict(options)
    served = _AT.fullmatch(spec)
    if served:
        url = None if served[2] == "openai" else served[2]
        return {"model": served[1], "base_url": url}
    return {"model": spec}


def _check_local(model: str) -> None:
    """Check that a model is bundled, is a folder with a model, or has the form OWNER/NAME."""
    path = Path(model)
    if model in ("nano", "smollm2", "smollm2-editor"):
        return
    if (path / "config.toml").is_file() and not (path / "model").is_dir():
        saved = sorted(path.glob("checkpoints/step-*"))
        last = f"; its last checkpoint is {saved[-1]}" if saved else ""
        raise ValueError(f"the run {model!r} has not exported its model yet{last}")
    if path.is_dir():
        known = any((path / name).is_file() for name in ("config.toml", "config.json"))
        if known or path.resolve().parent.name == "checkpoints":
            return
        wanted = "a run or a checkpoint, or of a model in Hugging Face's format"
        raise ValueError(f"expected the folder of {wanted}; {model!r} is none of these")
    if model.startswith("runs/"):  # a missing run, not a model of the Hub
        near = did_you_mean(model, map(str, Path("runs").glob("*")))
        raise ValueError(f"there is no run {model!r}{near}")
    if not _ON_HUB.fullmatch(model):
        named = [*AGENTS, "nano", "smollm2", "smollm2-editor"]
        wanted = f"{', '.join(named)}, the folder of a model or a run, OWNER/NAME, or MODEL@URL"
        raise ValueError(f"expected one of {wanted}; got {model!r}{did_you_mean(model, named)}")


def _model_name(model: str) -> str:
    """Return a model's name: RUN, RUN/step-000010 (a checkpoint), or the last part of the path."""
    path = Path(model).resolve() if Path(model).is_dir() else Path(model)
    if _CHECKPOINT.fullmatch(path.name) and path.parent.name == "checkpoints":
        return f"{path.parents[1].name}/{path.name}"
    return path.parent.name if path.name == "model" else path.name


def make_entry(
    where: str,
    spec: AgentSpec,
    contest: Contest,
    max_concurrency: int | None,
    find_model: Callable[[Mapping[str, Any]], Any],
) -> Entry:
    """Make the entry of an agent, without loading a model or sending a request.

    Args:
        where: command-line option that gave the spec; error messages begin with it.
        spec: spec of the agent.
        contest: settings of the evaluation.
        max_concurrency: number of concurrent episodes; None for an endpoint's default.
        find_model: function that locates a local model by its options, without loading it; returns
            a `learners.rollouts.model_player.FoundModel`.

    Raises:
        ModuleNotFoundError: a package that the agent needs is not installed.
        TaskError: the agent does not exist, or cannot play in this environment.
    """
    resumes = issubclass(contest.session_type, Session)
    models = [spec.options, *(spec.options.get(tier, {}) for tier in TIERS)]
    if any(one.get("prompting") == "guided" for one in models) and not resumes:
        message = "prompting: 'guided' works only for resumes"
        raise TaskError(f"{where}: {message}; {contest.env} has other documents")
    try:
        if spec.kind in ("endpoint", "tiers"):
            make = make_tiers if spec.kind == "tiers" else endpoint
            made = make(spec.options, max_concurrency or ENDPOINT_MAX_CONCURRENCY)
            return Entry(spec.name, spec.record, lambda: made, lambda: made.usage)
        if spec.kind == "model":
            model = find_model(spec.options)
            return Entry(spec.name, dict(model.record), partial(_load, where, model, contest))
    except (ValueError, FileNotFoundError) as problem:
        raise TaskError(f"{where}: {problem}") from None
    except ModuleNotFoundError as problem:
        raise missing(f"{where}: needs", str(problem.name), "train") from None
    model = spec.options["model"]
    if model not in ANY_DOMAIN and not resumes:
        raise TaskError(f"{where}: {model} edits only resumes; {contest.env} has other documents")
    return Entry(spec.name, spec.record, lambda: Scripted(partial(make_agent, model)))


def _load(where: str, model: Any, contest: Contest) -> Player:
    try:
        player: Player = model.player(contest.session_type.toolbox.schemas)
        return player
    except ValueError as problem:  # messages of transformers span several lines
        raise TaskError(f"{where}: {' '.join(str(problem).split())}") from None
