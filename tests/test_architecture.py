"""Which module may import which, read off the source."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

import resume_gym

ROOT = Path(__file__).parents[1]
PACKAGES = ("resume_gym", "learners")
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}

# From the bottom up: a package may import those before it, also lazily
_LAYOUT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Layout")[2]
ORDER = [line.split()[0] for line in _LAYOUT.split("```")[1].splitlines()[1:]]
# What reads the configuration; all else takes the values that it uses
BUILDERS = {
    "learners.aipo",
    "learners.build",
    "learners.command_line",
    "learners.imitation",
    "learners.launch",
    "learners.planning.plan",
    "learners.rollouts.model_player",
    "learners.run.folder",
    "learners.run.model_card",
    "learners.run.report",
    "learners.supervisor",
}
# Where a heavy package may be imported
HEAVY = {
    "torch": ["learners*"],
    "transformers": ["learners*"],
    "vllm": ["learners.engines.nccl", "learners.engines.vllm_*"],
    "deepspeed": ["learners.training.backends.deepspeed"],
    "peft": ["learners.training.lora"],
    "wandb": ["learners.run.loggers"],
    "trackio": ["learners.run.loggers"],
    "google": ["resume_gym*.gemini*"],
    "openai": ["resume_gym*.openai*", "resume_gym.integrations.verifiers"],
    "httpx2": ["resume_gym.llm.*"],
    "datasets": ["resume_gym.corpus.hub", "resume_gym.integrations.*"],
    "mammoth": ["resume_gym.corpus.word"],
    "pdfplumber": ["resume_gym.corpus.pdf"],
    "matplotlib": ["resume_gym.apps.plot*", "resume_gym.figures.*"],
    "PIL": ["resume_gym.episode.render"],
    "pyarrow": ["resume_gym.integrations.verl"],
    "scipy": ["resume_gym.evaluation.comparison"],
    "tokenizers": ["learners*", "resume_gym.cli.card"],
    "art": ["resume_gym.integrations.art"],
    "gem": ["resume_gym.integrations.gem"],
    "openenv": ["resume_gym.integrations.openenv*"],
    "fastapi": ["resume_gym.integrations.nemo_gym", "resume_gym.integrations.openenv"],
    "nemo_gym": ["resume_gym.integrations.nemo_gym"],
    "skyrl_gym": ["resume_gym.integrations.skyrl"],
    "verifiers": ["resume_gym.integrations.verifiers"],
    "verl": ["resume_gym.integrations.verl"],
    "pytest": [],
    "hypothesis": [],
}


class Import(NamedTuple):
    module: str
    name: str
    """What is taken from it; empty for the module itself."""
    lazy: bool


def imports(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_import = set()
    stack: list[ast.AST] = [tree]
    while stack:
        for node in ast.iter_child_nodes(stack.pop()):
            checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            if not checking and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                at_import.add(node)
                stack.append(node)
    for node in ast.walk(tree):
        lazy = node not in at_import
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, "", lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                if module in FILES:
                    yield Import(module, "", lazy)
                else:
                    yield Import(node.module or "", alias.name, lazy)


IMPORTS = {module: list(imports(path)) for module, path in FILES.items()}


def top(module: str) -> str:
    return module.partition(".")[0]


def package(module: str) -> str:
    """The entry of `ORDER` that holds a module; an unknown package is an error."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in (3, 2) if len(parts) >= length] or parts
    listed = [name for name in names if name in ORDER]
    assert listed, f"{module}: expected a package that CONTRIBUTING.md lists"
    return listed[0]


def test_imports_point_down() -> None:
    for module, found in IMPORTS.items():
        for one in found:
            if top(one.module) in PACKAGES:
                below = ORDER.index(package(one.module)) <= ORDER.index(package(module))
                assert below, f"{module} imports {one.module}"


PROMISES = {
    module: {
        name
        for names in re.findall(
            r"does not import\s((?:`[\w.]+`[\s,or]*)+)", ast.get_docstring(tree) or ""
        )
        for name in re.findall(r"`([\w.]+)`", names)
    }
    for module, path in FILES.items()
    if path.name == "__init__.py"
    for tree in [ast.parse(path.read_text(encoding="utf-8"))]
}


@pytest.mark.parametrize("package", [name for name, promised in PROMISES.items() if promised])
def test_packages_do_not_import_what_their_docstrings_exclude(package: str) -> None:
    for module, found in IMPORTS.items():
        if f"{module}.".startswith(f"{package}."):
            for one in found:
                broken = [x for x in PROMISES[package] if f"{one.module}.".startswith(f"{x}.")]
                assert not broken, f"{module} imports {one.module}"


def test_there_are_no_import_cycles() -> None:
    """Lazy imports count, too."""
    graph = {
        module: {one.module for one in found if one.module in FILES}
        for module, found in IMPORTS.items()
    }
    list(TopologicalSorter(graph).static_order())


def test_only_the_command_line_reaches_for_learners_and_lazily() -> None:
    for module, found in IMPORTS.items():
        for one in found:
            if top(module) == "resume_gym" and top(one.module) == "learners":
                assert module.startswith("resume_gym.cli."), module
                assert one.lazy, module


@pytest.mark.parametrize("package", HEAVY)
def test_heavy_packages_are_imported_only_where_they_are_used(package: str) -> None:
    users = {
        module for module, found in IMPORTS.items() for one in found if top(one.module) == package
    }
    strangers = {
        user for user in users if not any(fnmatch(user, place) for place in HEAVY[package])
    }
    assert not strangers


def test_only_builders_read_the_configuration() -> None:
    readers = {
        module
        for module, found in IMPORTS.items()
        for one in found
        if one.module == "learners.config"
    }
    assert {module for module in readers if top(module) == "learners"} == BUILDERS


def test_learners_use_public_names_only() -> None:
    for module, found in IMPORTS.items():
        for one in found:
            if top(module) != "learners" or top(one.module) != "resume_gym":
                continue
            assert "._" not in f".{one.module}.{one.name}", module
            if one.module == "resume_gym" and one.name:
                assert one.name in resume_gym.__all__, f"{module}: {one.name}"


def dependencies() -> set[str]:
    """Names by which the dependencies, installed or not, are imported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = {
        re.split(r"[^\w-]", requirement)[0].lower()
        for requirement in sum(extras, project["dependencies"])
    }
    installed = {
        module
        for module, distributions in packages_distributions().items()
        if wanted & {distribution.lower() for distribution in distributions}
    }
    return installed | {name.replace("-", "_") for name in wanted}


def test_no_module_of_learners_hides_another() -> None:
    """`python learners/aipo.py` puts the folder first on the module path."""
    taken = set(sys.stdlib_module_names) | dependencies()
    names = {path.stem for path in (ROOT / "learners").iterdir() if path.suffix in ("", ".py")} - {
        "__init__"
    }
    assert not names & taken


def test_all_names_of_the_public_interface_exist() -> None:
    assert len(set(resume_gym.__all__)) == len(resume_gym.__all__)
    assert all(hasattr(resume_gym, name) for name in resume_gym.__all__)


@pytest.mark.parametrize("name", ["document", "editing", "rewards", "session", "tasks", "tools"])
def test_modules_of_an_episode_can_be_imported_as_before(name: str) -> None:
    """`from resume_gym.tasks import Task` and the like stand in code that others have written."""
    assert import_module(f"resume_gym.{name}") is import_module(f"resume_gym.episode.{name}")
