"""Through every adapter an episode is what it is in the bare environment.

The players of a library are in `players_LIBRARY.py`: `PLAYERS` maps a name to the function that
`check_adapter` takes, with a fake in place of the model only. `CALLS_ONLY` names the players whose
library parses calls itself and keeps malformed ones from the environment.
"""

from importlib import import_module

import pytest

from resume_gym.testing import check_adapter
from resume_gym.testing.adapters import Play


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    players = import_module(f"players_{metafunc.config.getoption('--library')}")
    calls_only = getattr(players, "CALLS_ONLY", ())
    values = [(play, name in calls_only) for name, play in players.PLAYERS.items()]
    metafunc.parametrize(("play", "calls_only"), values, ids=list(players.PLAYERS))


def test_episodes_are_those_of_the_bare_environment(play: Play, calls_only: bool) -> None:
    check_adapter(play, calls_only)
