"""Components of tests that are not Python packages; `python tests/components.py` installs them.

Chromium comes from the machine, from Debian's package, or from playwright. vLLM's build for CPUs
needs libnuma, also a Debian package. Only root can install Debian packages.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLAYWRIGHT = (sys.executable, "-m", "playwright", "install", "chromium")


@cache
def chromium() -> str | None:
    """Path of Chromium or Chrome, the machine's or else playwright's; None without one."""
    if own := next(filter(None, map(shutil.which, BROWSERS)), None):
        return own
    with sync_playwright() as playwright:
        downloaded = playwright.chromium.executable_path
    return downloaded if Path(downloaded).exists() else None


def libnuma() -> bool:
    """Whether libnuma can be loaded."""
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        return False
    return True


@cache
def missing() -> dict[str, str]:
    """For each marker whose tests cannot run, the missing component and how to install it."""
    found = {}
    if chromium() is None:
        download = "`.venv/bin/python -m playwright install chromium`"
        found["browser"] = f"no Chromium, try `apt-get install chromium` or {download}"
    if find_spec("vllm") is None:
        found["vllm"] = "no vLLM, `make vllm` installs it on Linux (x86-64, ARM)"
    elif not libnuma():
        found["vllm"] = "no libnuma for vLLM, try `apt-get install libnuma1`"
    return found


def install() -> None:
    """Install missing components from the first source that has them."""
    lacks_library = find_spec("vllm") is not None and not libnuma()
    packages = ["chromium"] * (chromium() is None) + ["libnuma1"] * lacks_library
    if packages and os.name == "posix" and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(("apt-get", "update", "-q"), env=environment, check=False)
        for package in packages:
            command = ("apt-get", "install", "-qy", "--no-install-recommends", package)
            subprocess.run(command, env=environment, check=False)
    chromium.cache_clear()
    if chromium() is None:
        subprocess.run(PLAYWRIGHT, check=False)
        chromium.cache_clear()


if __name__ == "__main__":
    install()
    for marker, reason in missing().items():
        print(f"The {marker} tests will be skipped: {reason}.")
