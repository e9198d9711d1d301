"""GEM (checked with gem-llm 0.1.0): every environment of this package as a `gem.Env`.

    import gem
    import resume_gym.integrations.gem  # registers resume_gym:ResumeEdit-v0 and the others
    one = [{"seed": 7} for _ in range(4)]  # a group: the same seed gives the same tasks
    envs = gem.make_vec(["resume_gym:ResumeEdit-v0"] * 4, vec_kwargs=one, split="eval")
    observations, infos = envs.reset()

GEM's vectors reset an environment in the step that ends its episode and drop what that step said,
so the info of a reset has "final_obs" and "final_info" of the episode before. Environments of
your own: `gem.register("mine:My-v0", GemEnv, gym_id="My-v0")`.
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
    """The environment `gym_id`, made with `kwargs`, by GEM's interface.

    `seed` is that of the first reset if none is given there; `task_id` names the task of every
    episode. The first observation tells the tools. The last info has the "ledger". Attributes
    are private since GEM's wrappers would copy public ones, once and for all.
    """

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
        """Start an episode; unlike other environments' of GEM, no global generator is seeded."""
        seed, self._seed = self._seed if seed is None else seed, None
        prompt, info = self._env.reset(seed=seed, options=self._options)
        final, self._final = self._final, {}
        session = self._env.session
        tools = "\n".join(json.dumps(tool["function"]) for tool in session.tools)
        first = _FIRST.format(system=session.system_prompt, tools=tools, prompt=prompt)
        return first, info | final

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one action; raises JudgeError if no verdict could be had."""
        reply, reward, done, truncated, info = self._env.step(action)
        info["use_tool"] = True  # in GEM's chat templates the reply is a tool's
        if done:
            info["ledger"] = self._env.session.ledger
            self._final = {"final_obs": reply, "final_info": info}
        return reply, reward, done, truncated, info

    def spawn(self, same_state: bool = False, **kwargs: Any) -> "GemEnv":
        """Another one, made with the same arguments but `kwargs`; or in the same state, too."""
        child = GemEnv(**self._made | kwargs)
        if same_state and self._env.session:
            child._env.session = self._env.session.fork()
        return child

    def sample_random_action(self) -> str:
        """A random text."""
        return str(self._env.action_space.sample())


for _id, _spec in tuple(gym.registry.items()):
    if str(_spec.entry_point).startswith(f"{resume_gym.__name__}."):
        gem.register(f"resume_gym:{_id}", GemEnv, gym_id=_id)
