"""Time the README's two commands, each of which does its own set-up, in a fresh clone.

    python benchmarks/two_commands.py

The committed state is cloned into a temporary folder. `make train` installs the package and trains
the bundled policy; then `make test` installs what the tests need and runs the fast tests. Nothing
else should run on the machine meanwhile. Packages may come from the cache of pip.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import Figure, finish, options

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "make train: installation": ("make", ".venv/.train"),
    "make train: training and evaluations": ("make", "train"),
    "make test: installation": ("make", ".venv/.test"),
    "make test: fast tests": ("make", "test"),
}
"""The parts of the two commands, each with a command that does only this part after those above."""
_AT_MOST = {"make train: training and evaluations": 10.0}


def minutes(command: tuple[str, ...], folder: Path) -> float:
    """Run a command in a folder and return how long it took.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    start = time.monotonic()
    subprocess.run(command, cwd=folder, check=True)
    return (time.monotonic() - start) / 60


def main() -> int:
    """Run the commands and write the result file."""
    args = options(__doc__ or "")
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(temporary) / "clone"
        subprocess.run(("git", "clone", "--quiet", ROOT, clone), check=True)
        commands = dict(list(COMMANDS.items())[: 1 if args.quick else None])
        measured = {name: minutes(command, clone) for name, command in commands.items()}
    figures = [
        Figure(f"{name}, minutes", value, at_most=_AT_MOST.get(name))
        for name, value in measured.items()
    ]
    return finish("two_commands", args, figures, measured, ("torch",))


if __name__ == "__main__":
    sys.exit(main())
