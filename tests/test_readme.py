"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from resume_gym.cli import main

ROOT = Path(__file__).parent.parent


def blocks(language: str) -> list[str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def test_the_quickstart_prints_what_stands_below_it() -> None:
    (code,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout in blocks("")
    assert code in (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")


def test_the_evaluation_prints_the_rows_that_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## Evaluation\n")[2].partition("\n## ")[0]
    command = re.search(r"^resume-gym (eval .* --markdown)$", section, re.MULTILINE)
    assert command
    assert main(command[1].split()) == 0
    said = capsys.readouterr().out.split("\n")
    rows = [line for line in section.split("\n") if line.startswith("|")]
    assert len(rows) == 13
    assert [row for row in rows if row not in said] == []


def test_the_tree_names_every_module() -> None:
    (tree,) = (block for block in blocks("") if block.startswith("resume_gym/"))
    for package in ("resume_gym", "learners"):
        for path in (ROOT / package).glob("*.py"):
            assert path.name in tree or path.name == "__init__.py", path
