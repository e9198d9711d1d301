"""Through every adapter an episode is what it is in the bare environment.

The players of a library are in `players_LIBRARY.py`: `PLAYERS` maps a name to a function of a
script and a judge's name that plays the script through the adapter, with a fake in place of the
model only, and returns `Played`. `CALLS_ONLY` names the players whose library parses calls itself
and keeps malformed ones from the environment.
"""

from collections.abc import Callable
from importlib import import_module

import pytest
from scripts import MALFORMED, SCRIPTS, Played, Script, bare

Player = Callable[[Script, str], Played]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    players = import_module(f"players_{metafunc.config.getoption('--library')}")
    names = list(players.PLAYERS)
    if "malformed" in metafunc.fixturenames:
        names = [name for name in names if name not in getattr(players, "CALLS_ONLY", ())]
    metafunc.parametrize("player", [players.PLAYERS[name] for name in names], ids=names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_rewards_document_and_ledger_are_the_bare_environments(
    player: Player, script: Script
) -> None:
    assert player(script, "rubric") == bare(script)


@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda script: script.name)
def test_format_failures_cost_what_they_cost(player: Player, malformed: Script) -> None:
    assert player(malformed, "rubric") == bare(malformed)


def test_nothing_is_asked_of_the_agent_after_it_submits(player: Player) -> None:
    script = SCRIPTS[0]
    longer = script._replace(actions=(*script.actions, script.actions[0], script.actions[-1]))
    assert player(longer, "rubric") == bare(script)


def test_a_judge_that_fails_raises(player: Player) -> None:
    with pytest.raises(Exception, match="the judge is down"):
        player(SCRIPTS[0], "scripts:Down")
