"""Functions that read and check the figures in a file `evaluation.json`."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from resume_gym.evaluation.estimator import ByTask
from resume_gym.support.json_lines import is_finite

FORMAT = 3
"""Format of `evaluation.json`."""


def stored(evaluation: Mapping[str, object], part: str) -> dict[str, Mapping[str, Any]]:
    """Return one part of each agent's results, such as "summary", by agent; skip agents without it.

    Raises:
        ValueError: the agents, an agent or the part is not a JSON object.
    """
    agents = _object(evaluation.get("agents") or {}, "agents")
    found = {}
    for name, agent in agents.items():
        # in `settings.json`, an agent may be a mere string (its spec), which has no parts
        if not isinstance(agent, str) and (value := _object(agent, f"agents.{name}").get(part)):
            found[name] = _object(value, f"agents.{name}.{part}")
    return found


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: expected an object, got {value!r:.40}")
    return value


def outdated(evaluation: Mapping[str, object], rewards: Mapping[str, ByTask]) -> Iterator[str]:
    """Yield a sentence on each agent whose stored figures disagree with its episodes.

    Args:
        evaluation: content of an `evaluation.json`; may be empty.
        rewards: rewards of the graded episodes that can be read, by agent and task.

    Raises:
        ValueError: an agent or its summary is not a JSON object.
    """
    for name, summary in stored(evaluation, "summary").items():
        tasks, reward, episodes = (
            rewards.get(name, {}),
            summary.get("reward"),
            summary.get("episodes"),
        )
        own = [(value, len(values)) for values in tasks.values() for value in values]
        # divide before summing, since the sum of large rewards could overflow
        mean = math.fsum(value / count / len(tasks) for value, count in own)
        if episodes == len(own) and _is_close(reward, mean):
            continue
        stated = f"a mean reward of {reward!r:.40} in {episodes!r:.40} episodes"
        yield f"{name} has {stated}, but {mean:.6g} in the {len(own)} that can be read"


def _is_close(stated: object, mean: float) -> bool:
    return is_finite(stated) and math.isclose(stated, mean, rel_tol=0, abs_tol=1e-5)
