"""An episode through an adapter equals the episode in the bare environment, variants included.

The players of a library are in `players_LIBRARY.py`: `PLAYERS` maps a name to the function that
`check_adapter` takes, with a fake in place of the model only. `CALLS_ONLY` names the players whose
library parses calls itself, and keeps malformed ones from the environment.
"""

from importlib import import_module

import pytest
from scripts import VARIANTS

from resume_gym.testing import Play, check_adapter, play_bare


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    players = import_module(f"players_{metafunc.config.getoption('--library')}")
    calls_only = getattr(players, "CALLS_ONLY", ())
    values = [(play, name in calls_only) for name, play in players.PLAYERS.items()]
    ids = list(players.PLAYERS)
    if "calls_only" in metafunc.fixturenames:
        metafunc.parametrize(("play", "calls_only"), values, ids=ids)
    else:
        metafunc.parametrize("play", players.PLAYERS.values(), ids=ids)


def test_episodes_are_those_of_the_bare_environment(play: Play, calls_only: bool) -> None:
    check_adapter(play, calls_only)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_the_environment_are_played(play: Play, variant: str) -> None:
    term, script = VARIANTS[variant]
    wanted = play_bare(script)
    assert wanted.ledger[term] != 0
    assert not {"malformed", "failed_edit"} & {
        name for name, value in wanted.ledger.items() if value
    }
    assert play(script, "rubric") == wanted
