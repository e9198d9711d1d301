"""Parse the specs that name agents on the command line.

careful                           a scripted agent
runs/nano                         model of a run, or the folder of a checkpoint or a model
Qwen/Qwen3-4B                     a model of the Hugging Face Hub, which is downloaded
MODEL@http://localhost:8000/v1    an OpenAI-compatible server; MODEL@openai for OpenAI itself
{"model": ..., ...}               a model or server with options, as JSON
NAME=...                          any of these with another display name
"""

import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from resume_gym.agents import AGENTS
from resume_gym.llm.settings import check
from resume_gym.user_errors import did_you_mean

# NAME excludes {}@/, so that an "=" within JSON, a URL or a path does not end a name
_NAMED = re.compile(r"([^={}@/\s][^={}@/]*)=(.+)", re.DOTALL)
_AT = re.compile(r"(.+)@(https?://\S+|openai)", re.DOTALL)
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_CHECKPOINT = re.compile(r"step-\d{6,}")


class AgentSpec(NamedTuple):
    """A parsed agent spec.

    Attributes:
        name: display name.
        kind: type of the player.
        options: options of the player; `model` names the scripted agent, folder or served model.
    """

    name: str
    kind: Literal["scripted", "model", "endpoint"]
    options: dict[str, Any]

    @property
    def record(self) -> str | dict[str, Any]:
        """The spec as recorded in results; it contains no secrets."""
        return self.options["model"] if self.kind == "scripted" else self.options


def read_spec(text: str) -> AgentSpec:
    """Parse an agent spec; no model is loaded.

    Raises:
        ValueError: the spec is invalid, or names no known agent, existing folder or possible model
            of the Hub.
    """
    named = _NAMED.fullmatch(text)
    name, spec = (named[1], named[2]) if named else ("", text)
    options = _options(spec)
    name = name or str(options.pop("name", ""))
    options.pop("name", None)
    model = options.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError(f"expected a model's name, a text, in 'model'; got {model!r}")
    if not (name or model).isprintable():
        raise ValueError(f"expected a name in one line, got {name or model!r}")
    if "base_url" in options:
        check("base_url", options["base_url"])
        return AgentSpec(name or model, "endpoint", options)
    if model in AGENTS:
        if len(options) > 1:
            raise ValueError(f"{model}: a scripted agent takes no options")
        return AgentSpec(name or model, "scripted", options)
    _check_local(model)
    return AgentSpec(name or _model_name(model), "model", options)


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
    """Check that a model name or folder exists; the content is checked when it is loaded."""
    if model in ("nano", "smollm2") or Path(model).is_dir() or _ON_HUB.fullmatch(model):
        return
    wanted = f"{', '.join(AGENTS)}, the folder of a model or a run, OWNER/NAME, or MODEL@URL"
    raise ValueError(f"expected one of {wanted}; got {model!r}{did_you_mean(model, AGENTS)}")


def _model_name(model: str) -> str:
    """Return RUN for a run's model, RUN/step-000010 for a checkpoint, else the folder name."""
    path = Path(model).resolve() if Path(model).is_dir() else Path(model)
    if _CHECKPOINT.fullmatch(path.name) and path.parent.name == "checkpoints":
        return f"{path.parents[1].name}/{path.name}"
    return path.parent.name if path.name == "model" else path.name
