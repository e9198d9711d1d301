"""`resume-gym completion SHELL`: print a shell completion script.

shtab generates a static script from the parser, so completion does not start Python.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from resume_gym.cli.arguments import Commands, add_parser

SHELLS = ("bash", "zsh", "fish")
_ABOUT = """\
Print a script with which a shell completes commands, options, files and known values. Save it to:

  bash  a file that ~/.bashrc sources, with the line: . ~/.resume-gym.bash
  zsh   _resume-gym in a folder of $fpath, set in ~/.zshrc:
        fpath+=~/.zfunc; autoload -Uz compinit; compinit
  fish  ~/.config/fish/completions/resume-gym.fish"""
_FOLDERS = ("FOLDER", "RUN_OR_RESULT")


def add_command(commands: Commands) -> None:
    """Add `completion`."""
    parser = add_parser(
        commands,
        "completion",
        "print a script that completes commands in bash, zsh or fish",
        _ABOUT,
        [
            "completion bash > ~/.resume-gym.bash",
            "completion zsh > ~/.zfunc/_resume-gym",
            "completion fish > ~/.config/fish/completions/resume-gym.fish",
        ],
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from resume_gym.cli import make_parser

    print(script(make_parser(), options.shell))


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script of a shell; modifies the parser, so do not reuse it."""
    import gymnasium as gym
    import shtab

    from resume_gym.agents import AGENTS
    from resume_gym.judges import JUDGES

    envs = [name for name in gym.registry if name.startswith("ResumeEdit")]
    known = {"env": envs, "judge": JUDGES, "agent": AGENTS}  # other values are valid, too
    for command in _parsers(parser):
        command.description = None  # fish would show all of it next to the command
        for action in command._actions:
            if action.dest in known:
                action.choices = list(known[action.dest])
            elif action.type is Path or action.dest in ("tasks", "file", "files"):
                folder = action.metavar in _FOLDERS
                action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell)
    # scripts of shtab 1.13 complete only the first of several files in zsh
    return text.replace('"(*):', '"*:') if shell == "zsh" else text


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _parsers(command)
