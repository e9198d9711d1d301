"""Count the edits of each kind that models make on held-out mini tasks, and how many of them fail.

    python benchmarks/edit_kinds.py runs/imitation/model runs/imitation/checkpoints/step-001000
    python benchmarks/edit_kinds.py nano floor careful --env ResumeEditMini-v0 --temperature 0.7

Each model (a name, a folder or a checkpoint) or scripted agent plays each held-out task. The kinds
are those of `resume_gym.agents.edit_kinds`; a failed edit gets its kind from the call alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from resume_gym import ToolCall
from resume_gym.agents import AGENTS
from resume_gym.agents.edit_kinds import KINDS, kind_of
from resume_gym.env import make_edit_env


class Counts(NamedTuple):
    """Calls of an agent in all episodes: edits by kind, failed ones among them, and other calls.

    `places` and `failed_places` count the first edit of each episode, the second and so on.
    """

    edits: Counter[str]
    failed: Counter[str]
    calls: Counter[str]
    places: Counter[int]
    failed_places: Counter[int]


def count(rows: Iterable[Mapping[str, Any]], env: Any) -> Counts:
    """Count the calls in these episodes of an environment."""
    tasks = {task.task_id: task for task in env.tasks}
    found = Counts(Counter(), Counter(), Counter(), Counter(), Counter())
    for row in rows:
        session, place = env.session_type(tasks[row["task_id"]], env.rules), 0
        for text in row["actions"]:
            call, before = session.toolbox.read(text), session.resume
            error = session.step(text).error
            name = call.name if isinstance(call, ToolCall) else "malformed"
            found.calls[name] += 1
            if isinstance(call, ToolCall) and name == "str_replace":
                old, new = call.arguments["old"], call.arguments["new"]
                kind = kind_of(before, old, new, session.task) if old else "other"
                place += 1
                found.edits[kind] += 1
                found.failed[kind] += error != "none"
                found.places[place] += 1
                found.failed_places[place] += error != "none"
    return found


def table(found: Counts) -> str:
    """Return a line for each kind: edits tried, their share of all, the share that failed."""
    total, failed = found.edits.total(), found.failed.total()
    lines = [f"{'kind':8} {'tried':>6} {'share':>6} {'failed':>6}"]
    lines += [
        f"{kind:8} {n:6} {n / total:6.1%} {found.failed[kind] / n:6.1%}"
        for kind in KINDS
        if (n := found.edits[kind])
    ]
    if total:
        lines.append(f"{'all':8} {total:6} {1:6.0%} {failed / total:6.1%}")
    places = ", ".join(
        f"{found.failed_places[n]} of {tried}" for n, tried in sorted(found.places.items())
    )
    lines.append(f"failed first edits, second and so on: {places}")
    return "\n".join([*lines, f"calls: {dict(found.calls.most_common())}"])


def main() -> None:
    """Play the episodes and print a table for each model."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("models", nargs="+", metavar="MODEL")
    reader.add_argument("--env", default="ResumeEditNetMini-v0")
    reader.add_argument("--temperature", type=float, default=0.3)
    reader.add_argument("--rollouts", type=int, default=1)
    reader.add_argument("--tasks", type=int, default=0, help="number of tasks (default: all)")
    reader.add_argument("--threads", type=int, default=1)
    args = reader.parse_args()
    sampling = {"temperature": args.temperature, "threads": args.threads}
    specs = {
        name: name if name in AGENTS else json.dumps({"model": name, **sampling})
        for name in args.models
    }
    env: Any = make_edit_env(args.env, split="eval")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "played"
        command = [sys.executable, "-m", "resume_gym", "eval", "--env", args.env]
        command += [f"--agent={one}" for one in specs.values()]
        command += ["--rollouts", str(args.rollouts), "--out", str(out)]
        command += ["--limit", str(args.tasks)] if args.tasks else []
        subprocess.run(command, check=True)
        rows = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    for agent in dict.fromkeys(row["agent"] for row in rows):
        print(f"\n{agent}\n{table(count((row for row in rows if row['agent'] == agent), env))}")


if __name__ == "__main__":
    main()
