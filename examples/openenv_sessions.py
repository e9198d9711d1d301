"""Play 32 episodes at once on a server in a separate process: eight tasks with four agents each.

    pip install -e . openenv==0.10.0
    python examples/openenv_sessions.py  # prints the table below

The server is that of `packages/openenv`. In each group of four episodes, the first draws a random
task, and the others reset to the same task by its id. The agents know how to fix the faults of the
task: the first agent fixes none, the last agent fixes three. Each row shows a task and its rewards.

mini-train-0-000101 +1.75 +5.50 +6.00 +6.25
mini-train-0-000081 +1.75 +5.75 +6.00 +6.25
mini-train-0-000041 +1.75 +5.75 +6.00 +6.25
mini-train-0-000013 -0.25 +3.50 +3.75 +6.25
mini-train-0-000150 +1.75 +5.75 +6.00 +6.25
mini-train-0-000128 +1.75 +5.50 +5.75 +6.00
mini-train-0-000086 +1.75 +5.50 +5.75 +6.00
mini-train-0-000100 +1.75 +5.75 +6.00 +6.25
"""

import asyncio
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from resume_gym import load_tasks, tool_call
from resume_gym.integrations.openenv_client import ResumeGymAction, ResumeGymEnv
from resume_gym.support.command_line import parse_nothing

APP = Path(__file__).parent / "packages" / "openenv" / "server" / "app.py"
TASKS = {task.task_id: task for task in load_tasks("mini", "train")}


@contextmanager
def server(**settings: str) -> Iterator[str]:
    """Yield the address of a running server; `settings` are its environment variables."""
    command = [sys.executable, APP, "--port", "0"]
    env = {**os.environ, "RESUME_GYM_ENV": "ResumeEditMini-v0", **settings}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            said, log = process.stderr or (), []
            for line in said:
                log.append(line)
                if found := re.search(r"http://[\d.:]+", line):
                    break
            else:
                raise RuntimeError(f"the server did not start:\n{''.join(log)}")
            # an unread pipe fills up and blocks the server
            Thread(target=deque, args=(said, 0), daemon=True).start()
            yield found[0]
        finally:
            process.kill()


async def play(env: ResumeGymEnv, task_id: str, repairs: int) -> list[float]:
    """Review, apply a task's first `repairs` fixes and submit; return the reward of each turn."""
    fixes = TASKS[task_id].fixes[:repairs]
    edits = [tool_call("str_replace", old=fix.old, new=fix.new) for fix in fixes]
    actions = [tool_call("review"), *edits, tool_call("submit")]
    return [(await env.step(ResumeGymAction(text=text))).reward for text in actions]


async def group(url: str, seed: int, members: int) -> tuple[str, list[float]]:
    """Play a group of episodes; return the task's id and the reward of each episode."""
    envs = [ResumeGymEnv(url) for _ in range(members)]
    first = await envs[0].reset(seed=seed)
    task_id = first.observation.task_id
    await asyncio.gather(*(env.reset(task_id=task_id) for env in envs[1:]))
    episodes = await asyncio.gather(*(play(env, task_id, n) for n, env in enumerate(envs)))
    states = await asyncio.gather(*(env.state() for env in envs))
    assert {state.task_id for state in states} == {task_id}
    await asyncio.gather(*(env.close() for env in envs))
    return task_id, [sum(rewards) for rewards in episodes]


async def main() -> None:
    with server() as url:
        for task_id, rewards in await asyncio.gather(*(group(url, seed, 4) for seed in range(8))):
            print(task_id, *(f"{reward:+.2f}" for reward in rewards))


if __name__ == "__main__":
    parse_nothing(__doc__)
    asyncio.run(main())
