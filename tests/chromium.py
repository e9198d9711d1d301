"""Find a Chromium for the tests of the viewer; `python tests/chromium.py` installs one if needed.

The machine's own browser comes first, then Debian's package (as root), then playwright's download.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEBIAN = (
    ("apt-get", "update", "-q"),
    ("apt-get", "install", "-qy", "--no-install-recommends", "chromium"),
)
PLAYWRIGHT = (sys.executable, "-m", "playwright", "install", "chromium")
HOW = "`apt-get install chromium` or `.venv/bin/python -m playwright install chromium`"


@cache
def find() -> str | None:
    """Path of the machine's Chromium or Chrome, else of playwright's; None without one."""
    if own := next(filter(None, map(shutil.which, NAMES)), None):
        return own
    with sync_playwright() as playwright:
        downloaded = playwright.chromium.executable_path
    return downloaded if Path(downloaded).exists() else None


def install() -> None:
    """Install a browser from the first source that has one; none is no error here."""
    if os.name == "posix" and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in DEBIAN:
            subprocess.run(command, env=environment, check=False)
    find.cache_clear()
    if find() is None:
        subprocess.run(PLAYWRIGHT, check=False)
        find.cache_clear()


if __name__ == "__main__":
    if find() is None:
        install()
    print(f"Chromium: {find() or f'none; install it with {HOW}'}")
