"""Time the two commands of the README in a fresh clone, and the installation before each.

    python benchmarks/two_commands.py

Run it on a machine that does nothing else. pip's cache is used as it is, so an installation that
has to download takes longer.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from record import Figure, finish, options

ROOT = Path(__file__).parents[1]
PARTS: Mapping[str, tuple[str, float | None]] = {
    "installation before training": (".venv/.train", None),
    "`make train`, without installation": ("train", 10),
    "installation before tests": (".venv/.test", None),
    "`make test`, without installation": ("test", 3.5),
}
"""The parts in order: target of the Makefile, and wanted minutes."""


def main() -> int:
    """Run the parts in a clone of the last commit; return 1 if one takes longer than wanted."""
    args = options(__doc__ or "")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "resume-gym"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for name, (target, wanted) in PARTS.items():
            began = time.monotonic()
            subprocess.run(["make", target], cwd=clone, env=env, check=True)
            minutes = (time.monotonic() - began) / 60
            figures.append(Figure(f"minutes: {name}", minutes, at_most=wanted))
    return finish("two_commands", args, figures, {})


if __name__ == "__main__":
    sys.exit(main())
