"""Adapter for Stable-Baselines3: discrete actions from a menu of edits, numeric observations.

    monitor = {"info_keywords": ("ledger",)}  # reward terms, in `model.ep_info_buffer`
    mini = {"env_id": "ResumeEditMini-v0"}
    env = make_vec_env(MenuEnv, n_envs=8, env_kwargs=mini, monitor_kwargs=monitor)
    PPO("MlpPolicy", env).learn(10_000)

DQN, bandits and MaskablePPO also work. Agents can make only the edits on the menu. The automatic
resets of a VecEnv draw random tasks; `env.set_options({"task_id": ...})` sets the task of the next
`env.reset()`. Tested with stable-baselines3 and sb3-contrib 2.9.2.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from resume_gym import TOOLS, Session, tool_call
from resume_gym.agents.careful import next_edit
from resume_gym.episode.document import wrapped_lines

_next_edit = lru_cache(maxsize=4096)(next_edit)  # cached: every turn plans the same edits again


def careful_menu(session: Session) -> list[str]:
    """Return calls of review and submit, the edits that the agent `careful` plans, and deletions.

    Deletions, each of one bullet, are offered only while the resume exceeds the page.
    """
    draft, rules, lines = session.resume, session.rules, session.state.document.lines
    bullets = [line for line in draft.split("\n") if line[:2] in ("- ", "* ", "+ ", "• ")]
    deletions = [(f"\n{line}", "") for line in bullets if lines > rules.page_lines]
    edits: list[tuple[str, str]] = []
    for left in range(rules.max_turns - session.state.turns, 0, -1):
        excess = max(0, wrapped_lines(draft, rules.page_width) - rules.page_lines)
        # without excess, this number only limits changes of dates: a constant saves cache entries
        most = max(1, left - 1) if excess else rules.max_turns
        edit = _next_edit(draft, session.task.job, excess, most, rules.page_width)
        if not edit:
            break
        edits.append(edit)
        draft = draft.replace(*edit)
    # a planned edit may depend on earlier edits of the plan, so keep only edits that apply now
    possible = [edit for edit in edits + deletions if session.resume.count(edit[0]) == 1]
    calls = [tool_call("str_replace", old=old, new=new) for old, new in possible]
    return list(dict.fromkeys((tool_call("review"), tool_call("submit"), *calls)))


class MenuEnv(gym.Env[NDArray[np.float32], np.int64]):
    """A text environment in which the agent chooses each action from a menu.

    An observation [5 + 5 * places] holds 5 features of the session, then 5 features of the action
    in each place of the menu, all in [-1, 1]. Choosing a place without an action has
    the same penalty as a text without a tool call. An episode's last info has the totals of the
    reward terms as "ledger".

    Args:
        env_id, kwargs: arguments of `gymnasium.make` for the text environment.
        menu: function that is called before each turn and returns the actions to choose from.
        places: number of places on the menu; unused places are empty.

    Raises:
        ValueError: `menu` is `careful_menu`, but the environment has other tools than `TOOLS`.
    """

    def __init__(
        self,
        env_id: str = "ResumeEdit-v0",
        menu: Callable[[Session], Sequence[str]] = careful_menu,
        places: int = 16,
        **kwargs: Any,
    ) -> None:
        env: Any = gym.make(env_id, **kwargs).unwrapped
        if menu is careful_menu and (tools := env.session_type.toolbox.schemas) != TOOLS:
            got = ", ".join(tool["function"]["name"] for tool in tools)
            raise ValueError(f"menu: expected a menu for the tools {got}, got careful_menu")
        self.text_env, self.metadata, self.render_mode = env, env.metadata, env.render_mode
        self.action_space = Discrete(places)
        self.observation_space = Box(-1, 1, (5 + 5 * places,), np.float32)
        self._menu, self._texts = menu, [""] * places

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode; see `reset` of the text environment."""
        super().reset(seed=seed)
        _, info = self.text_env.reset(seed=seed, options=options)
        return self._observe(), info

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, Any]:
        """Take the action in the chosen place; raise JudgeError if the judge gives no verdict."""
        _, reward, done, truncated, info = self.text_env.step(self._texts[action])
        if done:
            info["ledger"] = self.text_env.session.ledger
        return self._observe(), float(reward), done, truncated, info

    def render(self) -> Any:
        """Render the text environment."""
        return self.text_env.render()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return a mask [places] of the menu, true for each place that holds an action."""
        return np.array([text != "" for text in self._texts])

    def _observe(self) -> NDArray[np.float32]:
        """Fill the menu for the next turn; return the observation, trying each action on a fork."""
        session, places = self.text_env.session, len(self._texts)
        texts = [] if session.done else list(self._menu(session))[:places]
        self._texts = texts + [""] * (places - len(texts))
        rules, (doc, turns, edits, *_) = session.rules, session.state
        excess = (doc.lines - rules.page_lines) / 10
        last = turns + 1 == rules.max_turns
        row = [turns / rules.max_turns, last, session.state.reviewed, excess > 0, excess]
        for text in self._texts:
            twin = session.fork()
            if text:
                twin.step(text)
            after = twin.state.document
            sizes = after.lines - doc.lines, (len(after.text) - len(doc.text)) / rules.page_width
            row += [text != "", twin.done, twin.state.edits > edits, sizes[0] / 5, sizes[1]]
        return np.clip(np.array(row, np.float32), -1, 1)
