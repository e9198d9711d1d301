"""Stable-Baselines3 (checked: 2.9.2, sb3-contrib too): choose edits from a menu, see numbers.

    monitor = {"info_keywords": ("ledger",)}  # reward terms, in `model.ep_info_buffer`
    mini = {"env_id": "ResumeEditMini-v0"}
    env = make_vec_env(MenuEnv, n_envs=8, env_kwargs=mini, monitor_kwargs=monitor)
    PPO("MlpPolicy", env).learn(10_000)

Also for DQN, bandits, MaskablePPO. No agent can say what is not on its menu. A VecEnv's automatic
resets draw tasks; `env.set_options({"task_id": ...})` names those of the next `env.reset()`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from resume_gym import Session, tool_call
from resume_gym.careful import next_edit
from resume_gym.document import wrapped_lines

_next_edit = lru_cache(maxsize=4096)(next_edit)  # a turn's plan goes on in the next turn


def careful_menu(session: Session) -> list[str]:
    """Review, submit, a careful stranger's next edits, and the bullets of a long page to delete."""
    draft, rules, lines = session.resume, session.rules, session.state.document.lines
    bullets = [line for line in draft.split("\n") if line[:2] in ("- ", "* ", "+ ", "• ")]
    deletions = [(f"\n{line}", "") for line in bullets if lines > rules.page_lines]
    edits: list[tuple[str, str]] = []
    for left in range(rules.max_turns - session.state.turns, 0, -1):
        excess = max(0, wrapped_lines(draft, rules.page_width) - rules.page_lines)
        most = max(1, left - 1) if excess else 1  # edits left matter to long pages only
        edit = _next_edit(draft, session.task.job, excess, most, rules.page_width)
        if not edit:
            break
        edits.append(edit)
        draft = draft.replace(*edit)
    # some of the stranger's edits need those before them
    possible = [edit for edit in edits + deletions if session.resume.count(edit[0]) == 1]
    calls = [tool_call("str_replace", old=old, new=new) for old, new in possible]
    return list(dict.fromkeys((tool_call("review"), tool_call("submit"), *calls)))


class MenuEnv(gym.Env[NDArray[np.float32], np.int64]):
    """An environment of texts (`env_id`, `kwargs`) played by choosing places of a menu.

    `menu` says what there is before each turn; a place without a text costs what no call costs.
    Observations: 5 numbers on the session, 5 on each place. The last info has the "ledger".
    """

    def __init__(
        self,
        env_id: str = "ResumeEdit-v0",
        menu: Callable[[Session], Sequence[str]] = careful_menu,
        places: int = 16,
        **kwargs: Any,
    ) -> None:
        self.text_env: Any = gym.make(env_id, **kwargs).unwrapped
        self.metadata, self.render_mode = self.text_env.metadata, self.text_env.render_mode
        self.action_space = Discrete(places)
        self.observation_space = Box(-1, 1, (5 + 5 * places,), np.float32)
        self._menu, self._texts = menu, [""] * places

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode, as the environment of texts does."""
        super().reset(seed=seed)
        _, info = self.text_env.reset(seed=seed, options=options)
        return self._observe(), info

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, Any]:
        """Say what stands in a place; raises JudgeError as the environment of texts does."""
        _, reward, done, truncated, info = self.text_env.step(self._texts[action])
        if done:
            info["ledger"] = self.text_env.session.ledger
        return self._observe(), float(reward), done, truncated, info

    def render(self) -> Any:
        """What the environment of texts renders."""
        return self.text_env.render()

    def action_masks(self) -> NDArray[np.bool_]:
        """Which places have a text [places]."""
        return np.array([text != "" for text in self._texts])

    def _observe(self) -> NDArray[np.float32]:
        """Fill the menu for the next turn; describe each text by what it would do."""
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
