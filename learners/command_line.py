"""Command line of a training run: `--config FILE.toml`, and a flag for each field of `Config`.

If an argument is invalid, the program exits with status 2.
"""

import argparse
import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import filterfalse
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from learners.config import PRESETS, Config, check_envs, is_served, read_toml, to_dict
from learners.errors import ConfigError
from resume_gym.judges import named_modules, named_servers
from resume_gym.support import trust
from resume_gym.support.command_line import Parser, complain
from resume_gym.support.user_errors import did_you_mean

_PRESETS = {path.stem: path for path in sorted(PRESETS.glob("*.toml"))}
_MACHINES = {
    "four_gpus_24gb": "4 x NVIDIA RTX 4090",
    "one_gpu": "1 x NVIDIA H100",
    "one_gpu_24gb": "1 x NVIDIA RTX 4090",
    "qwen3_14b_4xh200": "4 x NVIDIA H200",
    "qwen3_14b_vllm_judge": "4 x NVIDIA H200",
    "two_nodes": "2 x 8 x NVIDIA H200",
}
"""Machines that `--dry-run` assumes for presets that need GPUs."""
# name of the program in its help and usage errors, regardless of how the program was started
_COMMAND = "resume-gym train"
_ABOUT = """\
Train a language-model agent with reinforcement learning. Without options, the bundled nano policy \
is trained; a CPU is enough. Results are written to runs/NAME; the same command resumes an \
interrupted run."""
_EXAMPLES = (
    "train --steps 5",
    "train --config smollm2 --name mine",
    "train --config qwen3_14b_4xh200 --dry-run",
)
_IMPORTS = "names a module to import"


class Arguments(NamedTuple):
    """A parsed command line.

    Attributes:
        words: the arguments as given; all processes of a run get the same arguments.
        config: settings: defaults, overridden by the file of `--config`, then by flags.
        machine: machine that `--dry-run` plans for, "here" for this one; None for a real run.
        given: values of all given flags, including flags that are not settings.
    """

    words: Sequence[str]
    config: Config
    machine: str | None
    given: Mapping[str, Any]


class _Parser(Parser):
    """Parser that suggests `--config` for an unknown argument that looks like a preset or file."""

    def hint(self, unknown: str) -> str:
        names = get_close_matches(unknown, _PRESETS, n=1) or [unknown]
        if names[0] in _PRESETS or unknown.endswith(".toml"):
            return f"; did you mean '--config {names[0]}'?"
        return super().hint(unknown)


def parse(
    argv: Sequence[str],
    default: Config | None = None,
    prog: str = _COMMAND,
    about: str = _ABOUT,
    examples: Sequence[str] = _EXAMPLES,
    more: type | None = None,
    names: Collection[str] | None = None,
) -> Arguments:
    """Parse the command line of a training run; exit with status 2 if an argument is invalid.

    Args:
        argv: command-line arguments.
        default: settings that apply if `--config` is not given.
        prog: name of the program.
        about: description of the program in the help.
        examples: example commands for the help, without `resume-gym`.
        more: a dataclass whose fields are additional flags; a program with them has no `--dry-run`.
        names: the settings of `Config` that have flags; None for all.
    """
    # accept underscores in flags, as in the names of a TOML file
    words = [re.sub(r"^--[^=]+", lambda name: name[0].replace("_", "-"), word) for word in argv]
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--config", nargs="?")
    source = first.parse_known_args(words)[0].config  # sets the defaults of all other flags
    try:
        file = _find(source) if source else None
        base = read_toml(file) if file else default or Config()
        parser = _make_parser(prog, about, examples, more, base, _MACHINES.get(source, "here"))
        _add_flags(parser, Config, base, names)
        given = vars(parser.parse_args(words))
        config = replace(base, **{name: given[name] for name in given if hasattr(base, name)})
        machine = given.get("dry_run")
        if file and not given["trust_remote_code"]:
            _check_trust(file, base, config, words)
        if machine is None:
            check_envs(config.environments)
    except ConfigError as error:
        stop(error)
    return Arguments(argv, config, machine, given)


def _make_parser(
    prog: str,
    about: str,
    examples: Sequence[str],
    more: type | None,
    base: Config,
    machine: str,
) -> Parser:
    flagged = "" if more else "a budget is used up, or an alarm has stopped the run"
    parser = _Parser(prog, examples, flagged=flagged, description=about, allow_abbrev=False)
    parser.usage = f"{prog} [--config FILE.toml] [OPTIONS]"
    presets = ", ".join(_PRESETS)
    add = parser.add_argument
    add("--config", metavar="FILE.toml", help=f"settings: a TOML file, or a preset: {presets}")
    if not more:  # the dry run estimates reinforcement learning only
        add(
            "--dry-run",
            nargs="?",
            const=machine,
            metavar="MACHINE",
            help="estimate the run's memory and time, and exit; MACHINE: GPUs such as "
            "'4 x NVIDIA H200', or here for this machine (default: the preset's GPUs, or here)",
        )
    add(trust.FLAG, action="store_true", help=trust.HELP)
    if more:
        _add_flags(parser, more)
    return parser


def _add_flags(
    parser: Parser, kind: type, base: object = None, names: Collection[str] | None = None
) -> None:
    """Add a flag for each field of a dataclass; parsing returns only the flags that were given.

    Args:
        parser: parser to which the flags are added.
        kind: the dataclass, whose docstring describes the fields.
        base: an instance of the dataclass with the default values; None for the class's defaults.
        names: the fields that have flags; None for all.
    """
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(kind) or "", re.MULTILINE)
    told = {name: " ".join(text.removesuffix(".").split()) for name, text in entries}
    group = parser.add_argument_group(kind.__name__.lower())
    for name, hint in get_type_hints(kind).items():
        if names is not None and name not in names:
            continue
        default: Any = getattr(base or kind, name, None)
        several, (inner, *_) = get_origin(hint) is tuple, get_args(hint) or (hint,)
        one = inner if several else hint
        options: dict[str, Any] = {"type": one, "metavar": getattr(one, "__name__", "").upper()}
        if one is bool:
            options = {"action": argparse.BooleanOptionalAction}
        elif get_origin(one) is Literal:
            options = {"choices": get_args(one), "metavar": "NAME" if several else None}
        shown = (
            " ".join(default or ()) if several else f"{default}".lower() if one is bool else default
        )
        text = told[name] + f" (default: {shown or repr(shown)})" * (default is not None)
        group.add_argument(
            f"--{name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            required=default is None,
            help=text.replace("%", "%%"),
            **options,
            **({"nargs": "*"} if several else {}),
        )


def _check_trust(file: Path, base: Config, config: Config, flags: Sequence[str]) -> None:
    """Raise a ConfigError if `file` names a module, key or remote server that `flags` lack.

    A `file` that is a preset, or belongs to a run started on this machine, is not checked.
    """
    if file in _PRESETS.values() or trust.is_remembered(file.parent, to_dict(base)):
        return
    given = {part for flag in flags for part in (flag, flag.partition("=")[2])}
    judges = [
        (name, "" if spec in given else spec)
        for name, spec in (("judge", config.judge), ("second_judge", config.second_judge))
    ]
    teachers = [config.teacher] if is_served(config.teacher) else []
    servers = ("engine_urls", config.engine_urls), ("teacher", teachers)
    for name, does, values in (
        ("env", _IMPORTS, [config.env] if ":" in "".join(config.environments) else []),
        *((name, _IMPORTS, named_modules(spec)) for name, spec in judges),
        *((name, "names a server or its key", named_servers(spec)) for name, spec in judges),
        *((name, "names a server", filterfalse(trust.is_local, urls)) for name, urls in servers),
    ):
        for value in values:
            if value not in given:
                raise ConfigError(f"{name}: {trust.refusal(file, does, value)}")


def _find(source: str) -> Path:
    """Return the path of the file that `--config` names, by a preset's name or by a path."""
    path = _PRESETS.get(source, Path(source))
    if not path.is_file():
        expected = f"a TOML file or a preset ({', '.join(_PRESETS)})"
        near = did_you_mean(source, _PRESETS)
        raise ConfigError(f"--config: expected {expected}, got {source!r}{near}")
    return path


def stop(error: Exception) -> NoReturn:
    """Print a one-line error message and exit with status 2."""
    raise SystemExit(complain(error, 2))
