"""Player of two models behind servers; a rule selects the model of each turn.

The rule uses only the cost so far and what the agent sees. Both servers receive the same episode,
each in a form that it accepts; see `players.Endpoint.translated`.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from resume_gym.agents import bullets
from resume_gym.episode.editing import AnySession, measure
from resume_gym.evaluation.players import Endpoint, converse, endpoint
from resume_gym.llm import Misconfigured, Usage
from resume_gym.llm.settings import check

TIERS = ("local", "frontier")
"""Names of the two models (tiers): options of the agent spec, and labels in the results."""


class Route(NamedTuple):
    """Rule that selects the turns of the model `frontier`; the model `local` plays all others.

    Attributes:
        after_failures: number of consecutive failed calls after which frontier plays all turns.
        difficulty: minimum value of `difficulty_of` for which frontier plays every turn.
        budget_dollars: cost of frontier's answers in all episodes, in dollars, after which local
            plays every turn. Requests that are then in flight may exceed the budget. A server that
            reports no tokens ends the evaluation.
    """

    after_failures: int | None = None
    difficulty: int | None = None
    budget_dollars: float | None = None

    def is_frontier(self, session: AnySession, spent: float) -> bool:
        """Return whether frontier plays the next turn; it has cost `spent` dollars so far."""
        if self.budget_dollars is not None and spent >= self.budget_dollars:
            return False
        if self.difficulty is not None and difficulty_of(session) >= self.difficulty:
            return True
        return self.after_failures is not None and failed_streak(session) >= self.after_failures


def difficulty_of(session: AnySession) -> int:
    """Count the original's unique bullets and its lines beyond the page; return the sum."""
    rules, text = session.rules, session.original
    excess = measure(text, rules.page_width).lines - rules.page_lines
    return len(bullets(text)) + max(0, excess)


def failed_streak(session: AnySession) -> int:
    """Return the largest number of consecutive failed calls so far, by either model."""
    runs = groupby(step.error != "none" for _, step in session.state.transcript)
    return max((len(list(run)) for failed, run in runs if failed), default=0)


class TieredPlayer:
    """Player that routes turns between two endpoints; see `players.Player`.

    If the model of a turn fails, the episode fails: the other model does not replace it.

    Args:
        local: endpoint of the model that plays the turns not selected by the rule.
        frontier: endpoint of the model that plays the turns selected by the rule.
        route: rule that selects the model of each turn.

    Raises:
        ValueError: the rule has a budget, but the frontier model has no known price.
    """

    def __init__(self, local: Endpoint, frontier: Endpoint, route: Route) -> None:
        self._tiers, self._route = (local, frontier), route
        self.max_concurrency = local.max_concurrency
        if route.budget_dollars is not None and frontier.client.usage.dollars is None:
            name = frontier.client.name
            raise ValueError(f"budget_dollars: expected a price of {name} in prices.toml, got none")

    @property
    def usage(self) -> dict[str, Usage]:
        """Requests, tokens and cost so far of "local", of "frontier", and of both as "agent"."""
        local, frontier = (tier.client.usage for tier in self._tiers)
        return {"agent": local + frontier, "local": local, "frontier": frontier}

    async def play(self, session: AnySession, seed: int) -> None:
        """See `Player.play`.

        Raises:
            Misconfigured: the rule has a budget, but the frontier's server reports no tokens.
        """
        local, frontier = self._tiers

        def choose() -> Endpoint:
            spent = frontier.client.usage.dollars
            if spent is None and self._route.budget_dollars is not None:
                name = frontier.client.name
                raise Misconfigured(f"budget_dollars: expected token counts of {name}, got none")
            return frontier if self._route.is_frontier(session, spent or 0.0) else local

        await converse(session, seed, self._tiers, choose)

    async def close(self) -> None:
        """See `Player.close`."""
        for tier in self._tiers:
            await tier.close()


def make_tiers(options: Mapping[str, Any], max_concurrency: int) -> TieredPlayer:
    """Make a `TieredPlayer` from the options of an agent spec.

    Args:
        options: `local` and `frontier`, each with options of an `endpoint`; and fields of `Route`.
        max_concurrency: maximum number of concurrent episodes, and of requests to each server.

    Raises:
        ValueError: an option is unknown or out of range, or no option selects frontier turns.
    """
    rule = {name: value for name, value in options.items() if name not in TIERS}
    for name, value in rule.items():
        if name not in Route._fields:
            names = ", ".join((*TIERS, *Route._fields))
            raise ValueError(f"expected options among {names}; got {name!r}")
        check(name, value)
    if not {"after_failures", "difficulty"} & rule.keys():
        raise ValueError(
            f"expected 'after_failures' or 'difficulty', got {', '.join(rule) or '{}'}"
        )

    def made(tier: str) -> Endpoint:
        try:
            return endpoint(options[tier], max_concurrency)
        except ValueError as problem:
            raise ValueError(f"{tier}: {problem}") from None

    return TieredPlayer(made("local"), made("frontier"), Route(**rule))
