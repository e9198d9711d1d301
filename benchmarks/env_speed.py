"""Measure the environment's speed and memory, in comparison with a plain Python implementation.

    python benchmarks/env_speed.py [--quick]

An episode makes one `review` call, eight `str_replace` calls (two of them fail) and a `submit` call
on a resume of 50 lines and 3.9 KB. The benchmark measures the time from the agent's text to the
observation, the rewards and the layout, without a judge. Three implementations take turns in one
process: `Floor`, a plain class with textwrap and difflib; `resume_gym.Session`; and the environment
of `gymnasium.make`. Times are medians of CPU time.
"""

import difflib
import gc
import json
import re
import sys
import tempfile
import textwrap
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
from record import Figure, finish, options

from resume_gym import Rules, Session, Task, tool_call

RESUME = (Path(__file__).parent / "resume.md").read_text(encoding="utf-8")
JOB = "Senior backend engineer for parcel routing. Python, PostgreSQL, event streams, on-call."
TASK = Task("benchmark", JOB, RESUME, "weak_verbs")
EDITS = (
    ("Was responsible for the routing service", "Owned the routing service"),
    ("Helped move the order intake", "Moved the order intake"),
    ("Helped to lead", "Led"),  # this edit fails, since the text is not in the resume
    ("Participated in the on-call rota", "Shared the on-call rota"),
    ("Helped", "Supported"),  # this edit fails, since the text occurs several times
    ("- Did the review of most changes", "- Reviewed most changes"),
    ("- Was involved in a migration", "- Carried out a migration"),
    ("- Fixed bugs in the customer portal, answered", "- Repaired the portal\n- Answered"),
)
ACTIONS = (
    tool_call("review"),
    *(f"I improve this line.\n{tool_call('str_replace', old=old, new=new)}" for old, new in EDITS),
    tool_call("submit"),
)
Outcome = tuple[str, int, float]
"""Outcome of an episode: final resume, its number of page lines, reward."""


class Floor:
    """Plain Python environment, which processes the whole document in each turn."""

    def __init__(self, resume: str, page_lines: int = 55, width: int = 165) -> None:
        self.original = self.text = resume
        self.page_lines, self.width = page_lines, width
        self.turns = self.edits = self.lines = 0
        self.reviewed = self.done = False
        self.reward = 0.0

    def step(self, action: str) -> tuple[str, float, bool, dict[str, float]]:
        """Take a turn; return observation, reward, done and reward terms."""
        self.turns += 1
        ledger: dict[str, float] = {}
        calls = re.findall(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", action, re.DOTALL)
        call: dict[str, Any] = json.loads(calls[0]) if len(calls) == 1 else {"name": ""}
        if call["name"] == "str_replace":
            reply = self._replace(ledger, **call["arguments"])
        elif call["name"] == "review":
            reply = f"{self._page()}\n{self._layout()}"
            ledger["review"] = 0.0 if self.reviewed else 1.0
            self.reviewed = True
        elif call["name"] == "submit":
            reply = "submitted"
            ledger["submit"] = 1.0
            self.done = True
        else:
            reply = "error: expected one call"
            ledger["malformed"] = -0.25
        if self.turns == 10 and not self.done:
            ledger["no_submit"] = -1.0
            self.done = True
        if self.done:
            self._layout()
            ledger["layout"] = 1.0 if self.lines <= self.page_lines else -1.0
            if self.text == self.original:
                ledger.update(hallucination=-1.0, action_verbs=-0.25)
        reply = f"{reply}\nturns left: {10 - self.turns}/10 | edits: {self.edits}"
        reward = sum(ledger.values())
        self.reward += reward
        return reply, reward, self.done, ledger

    def _replace(self, ledger: dict[str, float], old: str, new: str, count: int = 1) -> str:
        found = self.text.count(old)
        if found != count:
            ledger["failed_edit"] = -0.25
            return f"error: found {found} times, expected {count}"
        before, self.text = self.text, self.text.replace(old, new)
        rows = difflib.unified_diff(before.splitlines(), self.text.splitlines(), n=0, lineterm="")
        ledger["edit"] = 0.25
        self.edits += 1
        return "\n".join([*rows, self._layout()])

    def _wrapped(self) -> list[str]:
        rows = []
        for line in self.text.splitlines():
            if len(line) <= self.width:
                rows.append(line)
            else:
                rows += textwrap.wrap(line, self.width, break_on_hyphens=False)
        return rows

    def _layout(self) -> str:
        self.lines = len(self._wrapped())
        longest = max(map(len, self.text.splitlines()))
        return f"lines: {self.lines}/{self.page_lines} | longest line: {longest}"

    def _page(self) -> str:
        rows = self._wrapped()
        if len(rows) > self.page_lines:
            rows.insert(self.page_lines, "===== the page ends here =====")
        return "\n".join(rows)


def floor_episode() -> Outcome:
    floor = Floor(RESUME)
    for action in ACTIONS:
        floor.step(action)
    return floor.text, floor.lines, floor.reward


def session_episode() -> Outcome:
    session = Session(TASK)
    # also call `info()`, because an environment of `gymnasium.make` returns it in each step
    seen: tuple[str, dict[str, Any]] = session.prompt, session.info()
    for action in ACTIONS:
        seen = session.step(action).observation, session.info()
    info = seen[1]
    return info["resume"], info["lines"], info["episode_reward"]


def gym_episode(env: gym.Env[str, str]) -> Outcome:
    env.reset()
    for action in ACTIONS:
        info = env.step(action)[4]
    return info["resume"], info["lines"], info["episode_reward"]


def cpu_s(work: Callable[[], Any], times: int) -> float:
    """Return the mean CPU seconds of one call of `work`."""
    gc.collect()
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


Ways = dict[str, tuple[Callable[[], Any], int]]
"""Functions to time, each with its number of calls per round."""


def interleave(ways: Ways, rounds: int) -> dict[str, list[float]]:
    """Time each function once per round, since machine speed varies; return the CPU seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (work, times) in ways.items():
            seconds[name].append(cpu_s(work, times))
    return seconds


def edit_seconds(resume: str, earlier: int, edits: int) -> Callable[[], Any]:
    """Return a function that restores a session with `earlier` edits and makes `edits` more."""
    session = Session(Task("edits", JOB, resume, "weak_verbs"), Rules(max_turns=100_000))
    words = ["Thesis on incremental route planning", "Thesis: incremental planning of routes"]
    there = tool_call("str_replace", old=words[0], new=words[1])
    back = tool_call("str_replace", old=words[1], new=words[0])
    for _ in range(earlier // 2):
        session.step(there)
        session.step(back)
    start = session.snapshot()

    def work() -> None:
        session.restore(start)
        for _ in range(edits // 2):
            session.step(there)
            session.step(back)

    return work


def memory_mb(count: int, actions: tuple[str, ...]) -> float:
    """Return the memory in MB of `count` sessions on one task, each after the turns `actions`."""
    gc.collect()
    tracemalloc.start()
    sessions = [Session(TASK) for _ in range(count)]
    for session in sessions:
        for action in actions:
            session.step(action)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / 1e6


def episodes(rounds: int, scale: int) -> tuple[list[Figure], dict[str, list[float]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.jsonl"
        path.write_text(json.dumps(TASK.to_row()), encoding="utf-8")
        env = gym.make("resume_gym:ResumeEdit-v0", tasks=str(path), judge=None)
        env.reset()
    outcomes = [floor_episode(), session_episode(), gym_episode(env)]
    assert outcomes[0] == outcomes[1] == outcomes[2], "the three ways must agree"
    seconds = interleave(
        {
            "floor_episode_s": (floor_episode, scale),
            "session_episode_s": (session_episode, 8 * scale),
            "gym_make_episode_s": (lambda: gym_episode(env), 8 * scale),
        },
        rounds,
    )
    floor, session, made = (median(times) for times in seconds.values())
    turns = len(ACTIONS)
    return [
        Figure("floor, steps/s", turns / floor),
        Figure("Session, steps/s", turns / session),
        Figure("gym.make, steps/s", turns / made),
        Figure("Session / floor, speed", floor / session, at_least=6),
        Figure("gym.make / Session, time", made / session, at_most=1.1),
    ], seconds


def growth(rounds: int, scale: int) -> tuple[list[Figure], dict[str, list[float]]]:
    others = RESUME.replace("Thesis", "Essay")
    ways = {
        "edit_s": edit_seconds(RESUME, 0, 20),
        "edit_after_1000_edits_s": edit_seconds(RESUME, 1000, 20),
        "edit_in_97_kb_s": edit_seconds(f"{others * 12}{RESUME}{others * 12}", 0, 20),
    }
    seconds = interleave({name: (work, scale) for name, work in ways.items()}, rounds)
    seconds = {name: [one / 20 for one in times] for name, times in seconds.items()}
    edit, late, long = (median(times) for times in seconds.values())
    return [
        Figure("an edit, us", 1e6 * edit),
        Figure("an edit after 1,000 edits / the first, time", late / edit, at_most=1.5),
        Figure("an edit in 97 KB / in 4 KB, time", long / edit, at_most=5),
    ], seconds


def main() -> int:
    """Measure, print and record the figures; return 1 if one misses its target."""
    args = options(__doc__ or "")
    rounds, scale = (25, 5) if args.quick else (50, 20)
    speed, speed_s = episodes(rounds, scale)
    edits, edits_s = growth(rounds, scale)
    count = 10_000
    fresh, used = memory_mb(count, ()), memory_mb(count // 10, ACTIONS[:5])
    memory = [
        Figure("memory of 10,000 live sessions, MB", fresh, at_most=40),
        Figure("memory of 1,000 sessions after five turns, MB", used),
    ]
    repetitions = {**speed_s, **edits_s, "memory_mb": [fresh, used]}
    return finish("env_speed", args, [*speed, *edits, *memory], repetitions)


if __name__ == "__main__":
    sys.exit(main())
