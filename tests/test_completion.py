"""`resume-gym completion`: the scripts, asked by the shells themselves."""

import shutil
import subprocess
from pathlib import Path

import pytest

from resume_gym.cli import main, make_parser
from resume_gym.cli.completion import SHELLS, script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs" / "nano").mkdir(parents=True)
    for name in ("tasks.jsonl", "my file.md"):
        (tmp_path / name).touch()
    return tmp_path


def completed(folder: Path, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    (folder / ".script").write_text(script(make_parser(), "bash"))
    code = '. ./.script; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _shtab_resume_gym; '
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", "resume-gym", *words],
        cwd=folder, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    # bash says that the terminal's own options cannot be set where no Tab was pressed
    assert "syntax error" not in done.stderr
    return sorted(line for line in done.stdout.split("\n") if line and line[0] != ".")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["da"], ["data"]),
        (["data", ""], ["check", "generate", "import", "push"]),
        (["eval", "--ro"], ["--rollouts"]),
        (["eval", "--split", ""], ["eval", "train"]),
        (["eval", "--env", "ResumeEditM"], ["ResumeEditMini-v0"]),
        (["eval", "--agent", "noop", "--agent", "c"], ["careful"]),
        (["play", "--judge", "ru"], ["rubric"]),
        (["eval", "--tasks", "m"], ["my file.md"]),
        (["eval", "--out", ""], ["runs"]),
        (["plot", "r"], ["runs"]),
        (["plot", "runs", "r"], ["runs"]),
        (["data", "import", "m"], ["my file.md"]),
        (["data", "generate", "--generator", "pro"], ["procedural"]),
        (["judge", "calibrate", "--half", ""], ["dev", "test"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
    ],
)
def test_bash_offers(words: list[str], offered: list[str], folder: Path) -> None:
    assert completed(folder, *words) == offered


@pytest.mark.parametrize("shell", [one for one in SHELLS if shutil.which(one)])
def test_a_shell_can_read_its_script(shell: str, tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text(script(make_parser(), shell))
    done = subprocess.run([shell, "-n", file], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command_and_known_values(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for word in (
        "calibrate",
        "import",
        "noop random floor careful oracle",
        "ResumeEdit-v0",
        "rubric",
    ):
        assert word in text
    assert "Agents play tasks, a judge" not in text, "the long description of a command"
