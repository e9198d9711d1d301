"""What a release contains, and that its files agree."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import resume_gym

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("resume_gym", "learners")


def sources(package: str) -> set[Path]:
    """Files of a package, without what Python has compiled."""
    files = (ROOT / package).rglob("*")
    return {path for path in files if path.is_file() and path.suffix != ".pyc"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_data_file_is_declared(package: str) -> None:
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"][package]
    declared = {path for pattern in patterns for path in (ROOT / package).glob(pattern)}
    assert {path for path in sources(package) if path.suffix != ".py"} == declared
    assert ROOT / package / "py.typed" in declared


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_is_in_a_package(package: str) -> None:
    folders = {path.parent for path in sources(package) if path.suffix == ".py"}
    assert {folder for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    latest = re.search(r"^## \[(\d.*?)\]", changelog, re.MULTILINE)
    assert latest is not None
    assert latest[1] == resume_gym.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("\n")
    assert f"version: {resume_gym.__version__}" in citation
    assert f"license: {PYPROJECT['project']['license']}" in citation


@pytest.mark.slow
def test_the_wheel_holds_every_file(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    # setuptools is a dependency of torch; without isolation, nothing is downloaded
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        *options,
        "--wheel-dir",
        str(tmp_path),
        str(tree),
    ]
    subprocess.run(command, check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"resume_gym-{resume_gym.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    expected = {path.relative_to(ROOT).as_posix() for one in PACKAGES for path in sources(one)}
    assert names == expected
