"""`resume-gym completion SHELL`: print a shell completion script.

shtab generates a static script from the parser, so completion does not start Python.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

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
    import shtab

    suggestions = _suggestions()
    for command in _parsers(parser):
        command.description = None  # fish would show all of it next to the command
        for action in command._actions:
            if action.dest in suggestions:
                action.complete = suggestions[action.dest]  # type: ignore[attr-defined]
            elif action.type is Path:
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


def _suggestions() -> dict[str, Any]:
    """Return suggested values for arguments that also accept others, by `dest`."""
    import gymnasium as gym

    from resume_gym.agents import AGENTS
    from resume_gym.judges import JUDGES

    envs = [name for name in gym.registry if name.startswith("ResumeEdit")]
    return {
        "env": _values("envs", envs),
        "judge": _values("judges", JUDGES),
        "agent": _values("agents", AGENTS, "d"),
        "tasks": _values("tasks", ("default", "mini"), "f"),
        "files": _values("sources", ("default", "mini"), "f"),
        "file": _values("sources", ("default", "mini"), "f"),
    }


def _values(name: str, words: Iterable[str], paths: str = "") -> dict[str, Any]:
    """Return a shtab completion of fixed words and, optionally, paths.

    Args:
        name: unique name, part of the shell function's name.
        words: suggestions, without characters that are special to a shell.
        paths: "f" for files, "d" for folders, empty for none.
    """
    listed = " ".join(words)
    kind = {"": "", "f": "_file", "d": "_dir"}[paths]  # shtab's bash script recognises paths by it
    call = f"_resume_gym{kind}_{name}"
    bash = f'compgen -W "{listed}" -- "$1"' + f'; compgen -{paths} -- "$1"' * bool(paths)
    zsh_paths = {"": "", "f": " 'paths:path:_files'", "d": " 'paths:path:_files -/'"}[paths]
    fish = {"": "", "f": "__fish_complete_path", "d": "__fish_complete_directories"}[paths]
    return {
        "bash": call,
        "zsh": call,
        "fish": f"(printf '%s\\n' {listed}; {fish} (commandline -ct))" if fish else listed,
        "preamble": {
            "bash": f"{call}() {{ {bash}; }}",
            "zsh": f"{call}() {{ _alternative '{name}:{name}:({listed})'{zsh_paths} }}",
        },
    }
