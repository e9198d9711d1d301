"""Tests of one library's adapters, in an environment that has the library: `--library trl`."""

import os
import sys
from pathlib import Path

import pytest

# examples are imported as the modules that they are
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--library", required=True, help="whose adapters are tested")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The other libraries are not installed here."""
    wanted = ("test_conformance.py", f"test_{config.getoption('--library')}.py")
    if collection_path.suffix == ".py" and collection_path.name not in wanted:
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out slow tests in six of seven runs with the variable PART (0 to 6)."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    for place, item in enumerate(slow):
        if os.environ.get("PART", str(place)) != str(place):
            items.remove(item)
