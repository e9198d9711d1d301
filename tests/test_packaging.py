"""What a release contains, and that its files agree."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import resume_gym

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("resume_gym", "learners")
ABOUT = ("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")


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
    script = (ROOT / "examples" / "one_file.py").read_text(encoding="utf-8")
    assert f'/dist/resume_gym-{resume_gym.__version__}-py3-none-any.whl"' in script
    packages = ROOT / "examples" / "packages"
    for path in packages.glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        assert project["version"] == resume_gym.__version__
    manifest = (packages / "openenv" / "openenv.yaml").read_text(encoding="utf-8").split("\n")
    assert f"version: {resume_gym.__version__}" in manifest


def test_the_entry_for_gymnasiums_list_follows_its_template() -> None:
    page = (ROOT / "docs" / "gymnasium_list.md").read_text(encoding="utf-8")
    entry = page.partition("```markdown\n")[2].partition("```")[0]
    (needed,) = re.findall(r"gymnasium>=([\d.]+)", " ".join(PYPROJECT["project"]["dependencies"]))
    assert f"/Gymnasium-v{needed}.0-blue)" in entry
    assert 2 <= len(re.findall(r"[.] |[.]$", entry.strip().splitlines()[-1])) <= 5


@pytest.mark.slow
def test_the_wheel_of_the_source_distribution_holds_every_file(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    for name in ("pyproject.toml", "MANIFEST.in", *ABOUT):
        shutil.copy(ROOT / name, tree)
    # setuptools is a dependency of torch; without isolation, nothing is downloaded
    build = "import setuptools.build_meta as backend; backend.build_sdist('..')"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, timeout=300)
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert inside >= set(ABOUT)

    options = "--no-deps --no-build-isolation --disable-pip-version-check --quiet --wheel-dir"
    pip = [sys.executable, "-m", "pip", "wheel", *options.split(), str(tmp_path)]
    subprocess.run([*pip, str(source)], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"resume_gym-{resume_gym.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as opened:
        names = [name for name in opened.namelist() if ".dist-info/" not in name]
        built = {name: opened.read(name) for name in names}
    files = [path for package in PACKAGES for path in sources(package)]
    assert built == {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in files}
