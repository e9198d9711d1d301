"""Run examples, and write what they print into their docstrings.

    python examples/update_outputs.py gem_episode sb3_menu

The last indented block of a docstring is replaced by as many last lines of what the example prints.
Tests compare both where the output does not depend on the processor. An example needs the library
that its docstring names.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
BLOCK = re.compile(r"(?:^    \S.*\n)+", re.MULTILINE)


def updated(source: str, printed: str) -> str:
    """Return the source of an example with these printed lines in its docstring."""
    docstring = ast.get_docstring(ast.parse(source), clean=False) or ""
    start = source.index(docstring)
    *_, block = BLOCK.finditer(docstring)
    lines = printed.splitlines()[-block[0].count("\n") :]
    new = "".join(f"    {line}".rstrip() + "\n" for line in lines)
    return source[: start + block.start()] + new + source[start + block.end() :]


def main() -> None:
    """Update the examples that the arguments name."""
    for name in sys.argv[1:]:
        path = FOLDER / f"{name}.py"
        run = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, text=True, check=True)
        path.write_text(updated(path.read_text(encoding="utf-8"), run.stdout), encoding="utf-8")


if __name__ == "__main__":
    main()
