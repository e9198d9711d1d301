"""`resume-gym train` and the other ways to start a training job."""

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from learners.command_line import parse
from resume_gym.cli import main
from resume_gym.support.user_errors import install

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--config", "nano", "--steps", "3"],
        ["--dry-run", "4 x NVIDIA H200"],
        ["--log-to", "wandb", "trackio", "--name=-1"],
    ],
)
def test_every_argument_reaches_the_training_job(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[Any] = []
    monkeypatch.setitem(sys.modules, "learners.aipo", SimpleNamespace(main=passed.append))
    assert main(["train", *arguments]) == 0
    assert passed == [parse(arguments)]


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--config", "smollm2", "--help"]])
def test_help_needs_no_torch(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for package in ("torch", "tomli_w"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match="0"):
        main(["train", *words])
    shown = capsys.readouterr().out
    assert shown.startswith("usage: resume-gym train [--config FILE.toml] [OPTIONS]\n")
    assert "\nexamples:\n  resume-gym train --steps 5\n" in shown
    assert "\n  3    a budget is used up" in shown
    assert not [line for line in shown.split("\n") if len(line) > 80]


@pytest.mark.parametrize(
    "start",
    [
        "runpy.run_path('learners/aipo.py', run_name='__main__')",
        "main(sys.argv)",
    ],
)
def test_a_mistake_in_a_setting_is_told_before_torch_is_imported(start: str) -> None:
    code = (
        "import runpy, sys; from resume_gym.cli import main; sys.argv = ['train', '--steps', 'x']\n"
        f"try: {start}\n"
        "finally: print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    told = "resume-gym: --steps: expected int, got 'x'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "False\n", told)


@pytest.mark.parametrize(
    "run",
    [
        lambda: runpy.run_path(str(ROOT / "learners" / "aipo.py"), run_name="__main__"),
        lambda: runpy.run_module("learners.aipo", run_name="__main__"),
        lambda: sys.exit(main(["train"])),
    ],
)
@pytest.mark.parametrize("packages", [["torch"], ["tomli-w"], ["jinja2", "pydantic", "torch"]])
def test_one_line_says_which_packages_to_install(
    packages: list[str],
    run: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    monkeypatch.delitem(sys.modules, "learners.aipo", raising=False)  # runpy warns if it is loaded
    with pytest.raises(SystemExit) as leaving:
        run()
    assert leaving.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    told = f"training needs {' and '.join(packages)}: {install('train')}\n"
    assert err == f"resume-gym: {told}"
