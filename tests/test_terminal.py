"""No text of others reaches the terminal with a control character, whatever the command."""

import json
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from conftest import make_task

from resume_gym.cli import _COMMANDS, main
from resume_gym.support.terminal import Terminal

EVIL = "\x1b]52;c;AAAA\x07\x9b31m\x7f\r\u202e[red]"
"""Writes the clipboard, reddens, turns the direction; and looks like markup of rich."""


def leaves() -> Iterator[str]:
    for name, group in _COMMANDS.items():
        yield from [f"{name} {member}" for member in group.members] if group else [name]


def lines(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def tainted(value: object) -> object:
    """The value with the escape in each text and key."""
    if isinstance(value, dict):
        return {f"{key}{EVIL}": tainted(item) for key, item in value.items()} | value
    return [tainted(one) for one in value] if isinstance(value, list) else f"{value}{EVIL}"


def arguments(folder: Path) -> dict[str, list[list[str]]]:
    """Arguments of each command: names of files, keys, and texts in files with the escape."""
    task = {**asdict(make_task()), "split": "eval"}
    task |= {name: f"{task[name]}\n- A {EVIL} line\n" for name in ("job", "resume")}
    evil = {**task, "task_id": f"t{EVIL}"}
    tasks = lines(folder / f"tasks{EVIL}.jsonl", evil)
    wrong = [{**evil, name: tainted(task[name])} for name in ("weakness", "split", "fixes")]
    bad = lines(folder / f"bad{EVIL}.jsonl", evil, evil, {**evil, EVIL: 1}, *wrong, EVIL)
    resume, job = folder / f"ada{EVIL}.md", folder / f"job{EVIL}.md"
    resume.write_text(evil["resume"])
    job.write_text(evil["job"])
    word = folder / f"word{EVIL}.docx"
    word.write_text(EVIL)
    run = folder / f"run{EVIL}"
    run.mkdir()
    lines(run / "metrics.jsonl", {"step": 1, "reward": 1.0, EVIL: 2.0}, {"step": EVIL})
    played = folder / f"played{EVIL}"
    played.mkdir()
    lines(played / "episodes.jsonl", {"agent": EVIL, "task_id": EVIL, "text": "", "graded": True})
    lines(played / "settings.json", {"env": "ResumeEdit-v0"})
    pairs = lines(folder / f"pairs{EVIL}.jsonl", {EVIL: EVIL})
    (folder / "config.toml").write_text(f'env = {json.dumps(EVIL)}\n"a\\u001b" = 1\n')
    out, missing = str(folder / f"out{EVIL}"), str(folder / EVIL)
    imported = ["--jobs", str(job), "--anonymous", "--out", f"{out}.jsonl"]
    return {
        "train": [["--config", missing], ["--config", str(folder / "config.toml")]],
        "eval": [
            ["--tasks", tasks, "--agent", "careful", "--out", out],
            ["--tasks", bad],
            *(["--tasks", tasks, option, EVIL] for option in ("--agent", "--judge", "--env")),
        ],
        "revise": [
            [str(resume), "--job", str(job), "--agent", "careful", "--out", f"{out}.md"],
            [missing, "--job", str(job), "--agent", "careful"],
        ],
        "plot": [[str(run)], [missing]],
        "view": [[str(run), "--export", f"{out}.html"], [missing]],
        "play": [["--tasks", tasks, "--task-id", EVIL], ["--tasks", bad]],
        "data generate": [["--generator", "procedural", "--count", "2", "--out", f"{out}.made"]],
        "data rubrics": [
            [one, "--writer", "openai", "--model", EVIL, "--base-url", EVIL, "--out", f"{out}.new"]
            for one in (tasks, bad, missing)
        ],
        "data import": [[str(resume), str(word), missing, *imported]],
        "data check": [[tasks], [bad], [missing]],
        "data push": [[bad, "--to", out], [tasks, "--to", f"{out}.pushed"]],
        "judge calibrate": [["--pairs", pairs], ["--judge", EVIL]],
        "judge attack": [["--judge", EVIL]],
        "card": [
            [EVIL],
            *(["ResumeEditMini-v0", *one] for one in (["--tasks", bad], ["--judge", EVIL])),
        ],
        "rejudge": [[str(run)], [missing], [str(played)]],
    }


@pytest.mark.parametrize("command", [*leaves()])
def test_no_command_prints_a_control_character_of_others(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = ""
    for words in [*arguments(tmp_path)[command], [f"--{EVIL}"]]:
        with suppress(SystemExit):
            main([*command.split(), *words])
        printed += "".join(capsys.readouterr())
    assert "]52;c;AAAA" in printed.replace("\n", ""), "the cases test nothing"
    assert "Traceback" not in printed
    bars = "\r" if command == "data push" else ""  # of the datasets package
    seen = {one for one in printed if unicodedata.category(one) == "Cc" or one == "\u202e"}
    assert seen <= {"\n", *bars}


def test_a_terminal_without_columns_is_written_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    Terminal().print("step 1/20")
    assert capsys.readouterr().out == "step 1/20\n"


def test_a_console_keeps_its_own_control_codes(capsys: pytest.CaptureFixture[str]) -> None:
    console = Terminal(force_terminal=True, color_system="standard", highlight=False)
    console.print(f"a{EVIL}", style="red")
    assert capsys.readouterr().out == "\x1b[31ma␛]52;c;AAAA�31m␡�[red]\x1b[0m\n"
