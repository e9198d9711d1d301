"""The command line: `resume-gym eval`, `revise`, `plot`, `view`, `play`, `data ...`, `judge ...`.

Each command is in the module that does the work, with its `add_command`; packages that only one
of them needs are imported when it runs.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import resume_gym
from resume_gym import revising
from resume_gym.evaluation import command
from resume_gym.judges import JudgeError
from resume_gym.llm import ModelError
from resume_gym.tasks import TaskError

if TYPE_CHECKING:
    from learners.model_player import FoundModel

_COMMANDS = ("resume_gym.report.plot", "resume_gym.viewer.command", "resume_gym.play")
_GROUPS = {
    "data": (
        "make, import and check files of tasks",
        (
            "resume_gym.synthesis.generate",
            "resume_gym.corpus.importing",
            "resume_gym.corpus.check",
            "resume_gym.corpus.hub",
        ),
    ),
    "judge": (
        "measure how far a judge can be trusted",
        ("resume_gym.judges.calibration", "resume_gym.judges.sentinel"),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0: done, 1: it failed, 2: it was asked for what cannot be."""
    options = _parser().parse_args(arguments)
    sys.path.append(os.getcwd())  # for judges and environments of one's own
    try:
        status: int | None = options.run(options)
    except (TaskError, ModuleNotFoundError) as problem:
        return _complain(problem, 2)
    except (JudgeError, ModelError, OSError) as problem:
        return _complain(problem, 1)
    except KeyboardInterrupt:
        return _complain("interrupted", 1)
    return status or 0


def _complain(problem: object, code: int) -> int:
    print(f"resume-gym: {problem}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="resume-gym", description="Resume Gym.")
    parser.add_argument("--version", action="version", version=resume_gym.__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command.add_command(commands, _find_model)
    revising.add_command(commands, _find_model)
    for module in _COMMANDS:
        import_module(module).add_command(commands)
    for group, (about, modules) in _GROUPS.items():
        some = commands.add_parser(group, help=about, description=f"{about.capitalize()}.")
        members = some.add_subparsers(title="commands", metavar="COMMAND", required=True)
        for module in modules:
            import_module(module).add_command(members)
    return parser


def _find_model(options: Mapping[str, Any]) -> "FoundModel":
    """A model of one's own, for `eval` and `revise`; nothing else here needs PyTorch."""
    from learners.model_player import FoundModel

    return FoundModel.of(options)
