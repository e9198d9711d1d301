"""Adapter for GEM: every environment of this package as a `gem.Env`.

    import gem
    import resume_gym.integrations.gem  # registers resume_gym:ResumeEdit-v0 and all others
    one = [{"seed": 7} for _ in range(4)]  # a group: the same seed gives the same tasks
    envs = gem.make_vec(["resume_gym:ResumeEdit-v0"] * 4, vec_kwargs=one, split="eval")
    observations, infos = envs.reset()

When an episode ends, GEM's vector environments reset the environment in the same step and drop the
output of the last turn, so the info of such a reset holds "final_obs" and "final_info" of the
previous episode. Register environments of other packages with `gem.register("mine:My-v0", GemEnv,
gym_id="My-v0")`. Tested with gem-llm 0.1.0.
"""

import json
from typing import Any

import gem
import gymnasium as gym

import resume_gym

_FIRST = """\
{system}

# Tools
{tools}

Call one a turn:
<tool_call>
{{"name": ..., "arguments": {{...}}}}
</tool_call>

{prompt}"""


class GemEnv(gem.Env):  # type: ignore[misc]
    """An environment of this package with GEM's interface.

    The first observation also describes the tools. An episode's last info has the totals of the
    reward terms as "ledger".

    Args:
        gym_id, kwargs: arguments of `gymnasium.make`.
        seed: seed of the first reset, unless `reset` is called with a seed.
        task_id: task of every episode; None draws a task for each episode.
    """

    # Attributes are private: GEM's wrappers copy public attributes once and never update the copies

    def __init__(
        self,
        gym_id: str = "ResumeEdit-v0",
        seed: int | None = None,
        task_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._made = {"gym_id": gym_id, "seed": seed, "task_id": task_id, **kwargs}
        self._env: Any = gym.make(gym_id, **kwargs).unwrapped
        self._seed, self._options = seed, {"task_id": task_id}
        self._final: dict[str, Any] = {}

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; unlike GEM's own environments, do not seed global random generators."""
        seed, self._seed = self._seed if seed is None else seed, None
        prompt, info = self._env.reset(seed=seed, options=self._options)
        final, self._final = self._final, {}
        session = self._env.session
        tools = "\n".join(json.dumps(tool["function"]) for tool in session.tools)
        first = _FIRST.format(system=session.system_prompt, tools=tools, prompt=prompt)
        return first, info | final

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one action; raise JudgeError if the judge gives no verdict."""
        reply, reward, done, truncated, info = self._env.step(action)
        info["use_tool"] = True  # GEM then renders the reply as a tool message
        if done:
            info["ledger"] = self._env.session.ledger
            self._final = {"final_obs": reply, "final_info": info}
        return reply, reward, done, truncated, info

    def spawn(self, same_state: bool = False, **kwargs: object) -> "GemEnv":
        """Create a copy with `kwargs` changed; `same_state` also copies the running episode."""
        child = GemEnv(**self._made | kwargs)
        if same_state and self._env.session:
            child._env.session = self._env.session.fork()
        return child

    def sample_random_action(self) -> str:
        """Return a random text."""
        return str(self._env.action_space.sample())


for _id, _spec in tuple(gym.registry.items()):
    if str(_spec.entry_point).startswith(f"{resume_gym.__name__}."):
        gem.register(f"resume_gym:{_id}", GemEnv, gym_id=_id)
