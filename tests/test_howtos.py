"""Run the commands of the how-to pages, each page from top to bottom in a folder of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))
LEFT_OUT = re.compile(r"  # (needs (a GPU|the server|your files)|until Ctrl-C)$")
"""End of a command that needs what is not on every machine, or that does not end."""
TIMEOUT_S = 900


def scripts(page: Path) -> list[tuple[str, str]]:
    """The code blocks of a page: each with its language."""
    return re.findall(r"^```(bash|python)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def runnable(script: str) -> str:
    """The commands of a block that run on every machine."""
    lines = script.replace("\\\n", " ").split("\n")
    return "\n".join(line for line in lines if not LEFT_OUT.search(line))


def test_a_page_has_at_most_sixty_lines() -> None:
    assert all(len(page.read_text("utf-8").splitlines()) <= 60 for page in PAGES)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_runs(page: Path, tmp_path: Path) -> None:
    for name in ("learners", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, script in scripts(page):
        command = ["bash", "-euo", "pipefail"] if language == "bash" else [sys.executable]
        done = subprocess.run(
            [*command, "-c", runnable(script)],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
