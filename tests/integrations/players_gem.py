"""Through GEM: `gem.make`, and vectors of `gem.make_vec`, in one thread and in several."""

from collections.abc import Callable
from functools import partial

import gem

import resume_gym.integrations.gem  # noqa: F401 (registers the environments)
from resume_gym.testing import ENV, Played, Script

NAME = f"resume_gym:{ENV}"


def single(script: Script, judge: str) -> Played:
    """In an environment of its own."""
    name, options = f"resume_gym:{script.env_id}", script.options
    env = gem.make(name, judge=judge, task_id=script.task_id, **options)
    env.reset()
    rewards: list[float] = []
    said = iter(script.actions)
    ended = False
    while not ended:
        _, reward, ended, truncated, info = env.step(next(said))
        assert not truncated
        rewards.append(reward)
    return Played(info["task_id"], rewards, sum(rewards), info["resume"], info["ledger"])


def vector(script: Script, judge: str, threads: bool) -> Played:
    """In a vector of two, of which the other is left alone."""
    names, options = [f"resume_gym:{script.env_id}"] * 2, script.options
    envs = gem.make_vec(names, async_mode=threads, judge=judge, task_id=script.task_id, **options)
    envs.reset()
    rewards: list[float] = []
    said = iter(script.actions)
    ended = False
    while not ended:
        observations, (reward,), (ended,), _, (info,) = envs.step({1: next(said)})
        rewards.append(float(reward))
    final = info["final_info"]
    assert info["final_obs"] != observations[0]
    return Played(final["task_id"], rewards, sum(rewards), final["resume"], final["ledger"])


PLAYERS: dict[str, Callable[[Script, str], Played]] = {
    "make": single,
    "vector": partial(vector, threads=False),
    "vector of threads": partial(vector, threads=True),
}
