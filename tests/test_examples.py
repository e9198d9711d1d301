"""What the examples' headers show is what they print."""

import ast
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_trainer_of_your_own() -> None:
    file = EXAMPLES / "bring_your_own_trainer.py"
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=True, timeout=900
    )
    form = re.compile(r"step \d: mean reward [+-]\d\.\d\d, \d+ tokens")
    printed = done.stdout.splitlines()
    assert [bool(form.fullmatch(line)) for line in printed] == [True] * 3, done.stdout
    shown = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    assert len(form.findall(shown)) == len(printed)
