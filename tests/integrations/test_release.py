"""The release outside of the checkout: the bare package, a script under uv, OpenEnv's image."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "one_file.py"
IMAGE = ROOT / "examples" / "packages" / "openenv"
WHEEL = Path(os.environ["TOX_PACKAGE"])
"""The wheel that tox has built from the source distribution."""
BIN = Path(sys.executable).parent


def told(folder: Path, *command: object, **variables: str) -> str:
    """What a command prints; the checkout would hide the installed package."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown() -> list[str]:
    """The lines that the header of the example shows."""
    return re.findall(r"^    (\w+: .*)$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_package_alone_has_its_command(tmp_path: Path) -> None:
    assert "resume-gym eval" in told(tmp_path, BIN / "resume-gym", "--help")
    home = told(tmp_path, sys.executable, "-c", "print(__import__('resume_gym').__file__)")
    assert Path(home).is_relative_to(sys.prefix)


def test_the_package_alone_plays_an_episode(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    play = "import one_file; print(f'careful: reward {one_file.play():.2f}')"
    assert told(tmp_path, sys.executable, "-c", play).strip() == shown()[0]
    with pytest.raises(AssertionError, match="No module named 'torch'"):
        told(tmp_path, sys.executable, "-c", "import torch")


@pytest.mark.slow
def test_uv_runs_the_script_with_the_wheel(tmp_path: Path) -> None:
    for file, folder in ((EXAMPLE, "examples"), (WHEEL, "dist")):
        (tmp_path / folder).mkdir()
        shutil.copy(file, tmp_path / folder)
    # pip's setting names the folder of the wheel for CPUs, where there is one
    links = {"UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
    uv = (BIN / "uv", "run", "--python", sys.executable, f"examples/{EXAMPLE.name}")
    first, *_, last = told(tmp_path, *uv, **links).splitlines()
    played, trained = shown()
    assert first == played
    for line in (trained, last):
        assert re.fullmatch(r"nano: 10 steps, mean reward of the last -?\d+\.\d\d", line)
    assert (tmp_path / "runs" / "one_file" / "model").is_dir()


@pytest.mark.slow
def test_the_steps_of_the_image_install_a_server_that_is_valid(tmp_path: Path) -> None:
    """In a plain folder with a separate environment, since Docker may be missing."""
    dockerfile = (IMAGE / "Dockerfile").read_text(encoding="utf-8")
    told(IMAGE, BIN / "hadolint", "Dockerfile")
    folder = tmp_path / "env"
    shutil.copytree(IMAGE, folder, ignore=shutil.ignore_patterns("wheels", "__pycache__"))
    (folder / "wheels").mkdir()
    shutil.copy(WHEEL, folder / "wheels")
    told(tmp_path, sys.executable, "-m", "venv", "usr")
    # the image has no compiler; what pip has downloaded before may serve again
    variables = {
        "PATH": f"{tmp_path / 'usr' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_ONLY_BINARY": ":all:",
    }
    steps = re.findall(r"^RUN ((?:.*\\\n)*.*)$", dockerfile, re.MULTILINE)
    for step in (step for step in steps if not step.startswith("useradd")):
        told(folder, "sh", "-c", step.replace("--no-cache-dir", ""), **variables)
    told(folder, "pip", "check", **variables)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    health, start = (
        json.loads(words.replace("8000", port).replace("0.0.0.0", "127.0.0.1"))
        for words in re.findall(r"^\s*CMD (\[.*\])$", dockerfile, re.MULTILINE)
    )
    environment = {**os.environ, **variables}
    with subprocess.Popen(start, cwd=folder, env=environment) as server:
        try:
            for _ in range(240):
                assert server.poll() is None, "the server did not start"
                asked = subprocess.run(health, env=environment, capture_output=True)
                if not asked.returncode:
                    break
                time.sleep(0.5)
            told(folder, "openenv", "validate", "--url", f"http://127.0.0.1:{port}", **variables)
        finally:
            server.terminate()
