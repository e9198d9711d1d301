"""Measure what reinforcement learning adds to its start, beside controls of the same compute.

    python benchmarks/main_job.py --keep F --best-of            # the whole matrix, many hours
    python benchmarks/main_job.py --keep F --arms aipo raft --seeds 1
    python benchmarks/main_job.py --quick                       # to see that it works

Every arm begins with the same weights (`--start`) and has `--seeds` runs, which are kept in F and
reused. The arms of imitation train on as many tokens as the run `aipo` of the same seed samples,
reads while it samples, and trains on. That is more compute than the run has, since a token that is
only sampled or read costs a third, and since these arms also play episodes, as the imitation that
made the start did; those tokens are not counted. All models then play the same held-out pages, at
the same temperature, with the rules of pay by the line; the same episodes are also graded by the
default table. Intervals are of the mean over pages and runs, from a bootstrap that draws both. A
paired test over pages compares each arm with `aipo`.

The result file has, for each arm and each kind of page: the reward on both tables and its parts,
best of k, the share of each kind of edit, failed edits and submits; and the edits of each kind in
each step of training. Lines of the start, of `aipo` and of the best control are written to a file
for readers, whose labels `readers.py` counts.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import readers
from edit_kinds import Counts, count
from record import Figure, finish, parser

from learners.errors import STOPPED
from learners.run.folder import RunFolder
from resume_gym.agents.edit_kinds import HARMFUL, KINDS
from resume_gym.env import make_edit_env
from resume_gym.episode.rewards import components
from resume_gym.episode.tasks import write_jsonl
from resume_gym.evaluation.comparison import signed_rank
from resume_gym.evaluation.estimator import best_of
from resume_gym.synthesis.procedural import task_of

ROOT = Path(__file__).parents[1]
ENV = "ResumeEditNetMini-v0"
PAGES: Mapping[str, tuple[str, str]] = {
    "mini": (ENV, "ResumeEditMini-v0"),
    "known": (ENV, "ResumeEditMini-v0"),
    "full": ("ResumeEditNet-v0", "ResumeEdit-v0"),
    "strangers": ("ResumeEditNet-v0", "ResumeEdit-v0"),
}
"""Kinds of pages that no model has seen: the environment that pays by the line, and the one of the
default table. The phrases of training occur in "known" only; strangers wrote their pages."""
LARGE = ("full", "strangers")
"""Kinds of pages that only the start and first runs of `aipo` and its controls play: a page takes
several times as long."""
KNOWN = "procedural-mini:4242:40"
"""Source of the pages "known": new combinations of the phrases of training."""
STRANGERS = 5
"""Number of strangers' pages."""
LINES = 100
"""Number of changed lines of each arm that readers label."""
SCRIPTED = ("noop", "floor", "careful", "oracle")
BEST_OF = (1, 4, 16, 64)
RESAMPLES = 9_999
SAMPLING = {"temperature": 0.3, "max_tokens": 96}


class Arm(NamedTuple):
    """What an arm does with its start.

    Attributes:
        flags: flags of `aipo.py`; unused if the arm imitates.
        editor: editor that is imitated, instead of training on rewards.
        start: arm whose result of the same seed is the start; empty for the common start.
    """

    flags: tuple[str, ...] = ()
    editor: str = ""
    start: str = ""


ARMS: Mapping[str, Arm] = {
    "aipo": Arm(),
    "imitation": Arm(editor="apprentice"),
    "raft": Arm(("--loss=raft",)),
    "repairs": Arm(editor="repairs"),
    "repairs, aipo": Arm(start="repairs"),
    "credit by episode": Arm(("--credit=episode",)),
    "default table": Arm(("--env=ResumeEditMini-v0",)),
    "careful imitated": Arm(editor="careful"),
    "fixes imitated": Arm(editor="fixes"),
}
"""Arms by name. The last two are not controls, since their editors know the repairs."""
CONTROLS = ("start", "imitation", "raft", "noop")
QUICK = ("--steps=2", "--groups=2", "--group-size=4", "--eval-tasks=2")


def command(*arguments: str, **settings: Any) -> None:
    """Run a script or module of this project with this interpreter, in the project's folder.

    Raises:
        subprocess.CalledProcessError: its exit status is not 0, and not 3, at the end of a budget.
    """
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folders = [ROOT, ROOT / "benchmarks", *(Path(one).resolve() for one in given)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, **settings)
    if done.returncode != STOPPED:
        done.check_returncode()


def main() -> int:
    """Train, play, then print and record the figures; return 1 if a figure misses its target."""
    reader = parser(__doc__ or "")
    reader.add_argument("--keep", type=Path, help="folder of the runs (default: a temporary one)")
    reader.add_argument("--start", default="nano", help="model of the start (default: nano)")
    reader.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    reader.add_argument("--seeds", type=int, default=5, help="number of runs of each arm")
    reader.add_argument("--ended", action="store_true", help="play the ended runs, train none")
    reader.add_argument("--rollouts", type=int, default=4, help="episodes per page")
    reader.add_argument("--pages", nargs="+", choices=PAGES, default=list(PAGES))
    reader.add_argument("--best-of", action="store_true", help="also play 64 episodes per page")
    reader.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    args = reader.parse_args()
    if args.quick:
        args.arms, args.seeds, args.rollouts, args.pages = ["aipo", "imitation"], 1, 1, ["mini"]
    with tempfile.TemporaryDirectory() as temporary:
        matrix = Matrix(args, (args.keep or Path(temporary)).resolve(), ARMS)
        models = {"start": [args.start]}
        arms = ["aipo", *(one for one in args.arms if one != "aipo")]
        models |= {arm: found for arm in arms if (found := matrix.models(arm))}
        if "aipo" not in models:
            reader.error(f"--ended: expected an ended run of aipo in {args.keep}, found none")
        few = {arm: models[arm][:1] for arm in ("aipo", *CONTROLS) if arm in models}
        tables = {
            kind: matrix.table(kind, few if kind in LARGE else models)
            for kind in dict.fromkeys(["mini", *args.pages])
        }
        repetitions = {
            "arms": tables,
            "best of": matrix.best_of(models) if args.best_of else {},
            "steps": {arm: matrix.steps(arm, 1) for arm in ("aipo", "raft") if arm in models},
            "minutes": matrix.minutes(models),
        }
        controls = [arm for arm in ("imitation", "raft") if arm in models]
        if controls and not args.quick:
            best = max(controls, key=lambda arm: tables["mini"][arm]["net"])
            matrix.lines("main", "mini", dict.fromkeys(["start", "aipo", best], LINES))
            if "known" in tables:
                matrix.lines("known", "known", dict.fromkeys(["start", "aipo"], LINES))
    return finish(
        "main_job", args, list(figures(repetitions)), repetitions, ("torch", "transformers")
    )


class Matrix:
    """Runs and evaluations in a folder; what is there already is reused.

    Args:
        args: arguments of the command.
        folder: folder of the runs and of the played episodes.
        arms: arms by name.
        sampling: settings of the models that play, where they differ from `SAMPLING`.
    """

    def __init__(
        self,
        args: Any,
        folder: Path,
        arms: Mapping[str, Arm],
        sampling: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._args, self._folder, self._arms = args, folder, arms
        self._sampling = {**SAMPLING, "threads": args.threads, **sampling}
        self.rollouts: int = args.rollouts
        if Path(args.start).exists():  # a name stays as it is
            args.start = str(Path(args.start).resolve())
        folder.mkdir(parents=True, exist_ok=True)
        self._strangers = folder / "strangers.jsonl"
        write_jsonl(self._strangers, readers.strangers()[:STRANGERS])
        self._envs: dict[str, list[Any]] = {
            kind: [make_edit_env(env, split=_split(kind), tasks=self._source(kind)) for env in pair]
            for kind, pair in PAGES.items()
        }
        self._verdicts: dict[tuple[str, str], Any] = {}

    def models(self, arm: str) -> list[str]:
        """Return the models of an arm, one for each seed; with `--ended`, those of ended runs."""
        seeds = [*range(1, self._args.seeds + 1)]
        if self._args.ended:
            seeds = [one for one in seeds if (self._run(arm, one) / "ended").exists()]
        return [self.model(arm, seed) for seed in seeds]

    def _run(self, arm: str, seed: int) -> Path:
        return self._folder / f"{_slug(arm)}-{seed}"

    def model(self, arm: str, seed: int) -> str:
        """Train the run of an arm with a seed, unless it has ended, and return its model."""
        run = self._run(arm, seed)
        flags, editor, start = self._arms[arm]
        begins = self.model(start, seed) if start else self._args.start
        common = [f"--model={begins}", f"--seed={seed}", f"--name={run.name}"]
        common += [f"--runs={self._folder}", f"--threads={self._args.threads}"]
        if not (run / "ended").exists():
            began = time.monotonic()
            if editor:
                budget = [f"--tokens={self._computed(seed)}", f"--editor={editor}", "--pages=0"]
                settings = ["--optimizer=muon", "--learning-rate=1e-3", "--eval-tasks=1"]
                command("learners/imitation.py", *common, *budget, f"--env={ENV}", *settings)
            else:
                quick = QUICK if self._args.quick else ()
                command("learners/aipo.py", *common, *flags, *quick)
            (run / "ended").write_text(f"{(time.monotonic() - began) / 60:.2f}\n")
        return str(run / "model")

    def minutes(self, models: Mapping[str, Sequence[str]]) -> dict[str, list[float]]:
        """Return the minutes that each run took, evaluations included."""
        return {
            arm: [float((Path(one).parent / "ended").read_text()) for one in found]
            for arm, found in models.items()
            if arm != "start"
        }

    def _computed(self, seed: int) -> int:
        """Return the tokens that the run `aipo` with this seed sampled, read and trained on."""
        rows = RunFolder(self._folder / f"aipo-{seed}").metrics()
        return int(sum(row["tokens"] + row["trained_tokens"] for row in rows))

    def table(
        self,
        kind: str,
        models: Mapping[str, Sequence[str]],
        bases: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, dict[str, Any]]:
        """Let all models and the scripted agents play pages of a kind; return figures by arm.

        Args:
            kind: kind of the pages, a key of `PAGES`.
            models: models by arm.
            bases: for each arm, the arm that it is compared with; by default `aipo`.
        """
        agents = {name: one for arm, found in models.items() for name, one in named(arm, found)}
        episodes = defaultdict(list)
        for row in self.played(kind, agents, self.rollouts, SCRIPTED):
            episodes[row["agent"]].append(row)
        arms = {arm: [name for name, _ in named(arm, found)] for arm, found in models.items()}
        arms |= {name: [name] for name in SCRIPTED}
        scored = {
            arm: [[self._scores(kind, row) for row in episodes[one]] for one in names]
            for arm, names in arms.items()
        }
        table = {}
        for arm, names in arms.items():
            means = {
                name: float(by_page(scored[arm], name).mean())
                for name in scored[arm][0][0]
                if name != "task_id"
            }
            rows = [row for one in names for row in episodes[one]]
            table[arm] = {
                **means,
                "runs": by_page(scored[arm], "net").mean(1).tolist(),
                "interval": interval(by_page(scored[arm], "net")),
                **compared(scored, arm, bases.get(arm, "aipo")),
                **edits_of(count(rows, self._envs[kind][0]), len(rows)),
            }
        return table

    def _scores(self, kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an episode earned on both tables, and how it was played."""
        env = self._envs[kind][1]
        task = next(task for task in env.tasks if task.task_id == row["task_id"])
        session = env.session_type(task, env.rules)
        for action in row["actions"]:
            session.step(action)
        if session.needs_verdict:
            key = task.task_id, session.resume
            if key not in self._verdicts:
                self._verdicts[key] = env.judge.judge(task, session.resume)
            session.grade(self._verdicts[key])
        net, default = components(row["ledger"]), components(session.ledger)
        return {
            "task_id": row["task_id"],
            "net": row["reward"],
            **{f"net {name}": value for name, value in net.items()},
            **{name: row["ledger"].get(name, 0.0) for name in ("improved", "worse")},
            "default": session.reward,
            **{f"default {name}": value for name, value in default.items()},
            "submitted": float(row["submitted"]),
            "failed calls": float(sum(error != "none" for error in row["errors"])),
            "edits": float(row["edits"] + row["failed_edits"]),
        }

    def _source(self, kind: str) -> str | None:
        return {"strangers": str(self._strangers), "known": KNOWN}.get(kind)

    def lines(self, name: str, kind: str, counts: Mapping[str, int]) -> None:
        """Draw lines that agents changed on pages of a kind, and mix them for a round of readers.

        Args:
            name: name of the round.
            kind: kind of the pages, a key of `PAGES`.
            counts: number of lines by arm or scripted agent.
        """
        env = self._envs[kind][0]
        tasks = {task.task_id: task for task in env.tasks}
        folder = self._folder / f"played-{kind}-{self.rollouts}"
        changed = [
            line
            for agent in counts
            for played in (folder / agent, *sorted(folder.glob(f"{_slug(agent)}-[0-9]*")))
            if (played / "episodes.jsonl").exists()
            for row in readers.read(played / "episodes.jsonl")
            for line in readers.edited(agent, env.session_type.replay(tasks[row["task_id"]], row))
        ]
        rules = {task_id: (task, env.rules) for task_id, task in tasks.items()}
        readers.mix(name, changed, counts, rules, 0)

    def best_of(self, models: Mapping[str, Sequence[str]]) -> dict[str, dict[int, float]]:
        """Return the mean best of k of the start, of rejection sampling and of AIPO, one run."""
        agents = {arm: models[arm][0] for arm in ("start", "raft", "aipo") if arm in models}
        rewards: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in self.played("mini", agents, max(BEST_OF), (), {"temperature": 0.7}):
            rewards[row["agent"]][row["task_id"]].append(row["reward"])
        return {
            arm: {k: fmean(best_of(one, k) for one in pages.values()) for k in BEST_OF}
            for arm, pages in rewards.items()
        }

    def played(
        self,
        kind: str,
        agents: Mapping[str, str],
        rollouts: int,
        scripted: Sequence[str],
        more: Mapping[str, Any] | None = None,
        env: str = "",
    ) -> Iterator[dict[str, Any]]:
        """Yield the records of all episodes of these agents on pages of a kind.

        Args:
            kind: kind of the pages, a key of `PAGES`.
            agents: models by the name of the agent.
            rollouts: episodes per page.
            scripted: names of scripted agents that play, too.
            more: further sampling settings of the models.
            env: environment; by default the one of the pages that pays by the line.
        """
        settings = {**self._sampling, **(more or {})}
        specs = {one: json.dumps({"model": model, **settings}) for one, model in agents.items()}
        specs |= {name: name for name in scripted}
        for name, spec in specs.items():
            # a folder for each agent: `eval` would compare every pair of agents, which takes long
            folder = f"played-{kind}-{rollouts}" + _slug(f" {env.rpartition(':')[2]}") * bool(env)
            out = self._folder / folder / _slug(name)
            flags = ["--env", env or PAGES[kind][0], f"--agent={name}={spec}"]
            flags += ["--rollouts", str(rollouts), "--out", str(out), "--split", _split(kind)]
            flags += ["--tasks", source] if (source := self._source(kind)) else []
            flags += ["--limit", "2"] if self._args.quick else []
            command("-m", "resume_gym", "eval", *flags, stdout=subprocess.DEVNULL)
            with (out / "episodes.jsonl").open() as lines:
                yield from map(json.loads, lines)

    def steps(self, arm: str, seed: int) -> list[dict[str, Any]]:
        """Return the reward and the edits of each kind an episode, for each step of a run."""
        run = RunFolder(self._folder / f"{arm}-{seed}")
        found = []
        for row in run.metrics():
            records = list(run.trajectories.graded(int(row["step"])))
            seen = count(records, _Known(tuple(one["task_id"] for one in records)))
            found.append({"reward": row["reward"], **edits_of(seen, len(records))})
        return found


def named(arm: str, models: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield an agent's name, which ends with the seed of its run, and the model, for each model."""
    for model in models:
        seed = Path(model).parent.name.rpartition("-")[2]
        yield f"{arm} {seed if seed.isdigit() else 0}", model


def _split(kind: str) -> str:
    return "train" if kind == "known" else "eval"


def _slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


class _Known:
    """What `count` needs of an environment, for the generated tasks of a step of training."""

    def __init__(self, ids: tuple[str, ...]) -> None:
        env: Any = make_edit_env(ENV)
        self.tasks = [task_of(one) for one in dict.fromkeys(ids)]
        self.session_type, self.rules = env.session_type, env.rules


def by_page(runs: Sequence[Sequence[Mapping[str, Any]]], name: str) -> np.ndarray:
    """Return the mean of a score for each run and page [runs, pages]."""
    found = []
    for run in runs:
        values = defaultdict(list)
        for one in run:
            values[one["task_id"]].append(one[name])
        found.append([fmean(values[page]) for page in sorted(values)])
    return np.asarray(found)


def interval(values: np.ndarray, less: np.ndarray | None = None) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean, or of the difference of two means.

    Args:
        values: scores [runs, pages]; runs and pages are drawn.
        less: scores to subtract, of as many pages and of any number of runs.
    """
    rng = np.random.default_rng(0)
    means = []
    for _ in range(RESAMPLES):
        pages = rng.integers(values.shape[1], size=values.shape[1])
        drawn = (
            one[rng.integers(len(one), size=len(one))][:, pages].mean()
            for one in (values, less)
            if one is not None
        )
        means.append(next(drawn) - next(drawn, 0.0))
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def compared(
    scored: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], arm: str, base: str
) -> dict[str, Any]:
    """Return what an arm earns more than another: mean, interval and p-value over pages."""
    if arm == base or base not in scored:
        return {}
    ours, theirs = (by_page(scored[one], "net") for one in (arm, base))
    more = ours.mean(0) - theirs.mean(0)
    return {
        "base": base,
        "more": float(more.mean()),
        "interval of more": interval(ours, theirs),
        "p": signed_rank(more.round(9).tolist()),
    }


def edits_of(found: Counts, episodes: int) -> dict[str, Any]:
    """Return successful edits an episode by kind, and the share of edits that failed."""
    tried, failed = found.edits.total(), found.failed.total()
    made: Counter[str] = found.edits - found.failed
    return {
        "edits by kind": {kind: made[kind] / episodes for kind in KINDS if made[kind]},
        "harmful share": sum(made[kind] for kind in HARMFUL) / max(1, made.total()),
        "failed share": failed / max(1, tried),
    }


def ways(table: Mapping[str, Mapping[str, Any]], arm: str) -> Iterator[Figure]:
    """Yield how far an arm is on the way from doing nothing useful to `careful`, on both tables."""
    net = {name: table[name]["net"] for name in (arm, "noop", "careful")}
    way = (net[arm] - net["noop"]) / (net["careful"] - net["noop"])
    yield Figure("share of the way from a page left alone to careful", way, at_least=0.8)
    parts = ("default layout", "default content")
    content = {name: sum(table[name][one] for one in parts) for name in (arm, "floor", "careful")}
    way = (content[arm] - content["floor"]) / (content["careful"] - content["floor"])
    yield Figure("share of the way from the floor to careful, content", way, at_least=0.7)


def figures(found: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures that have targets, and the rewards of all arms."""
    for kind, table in found["arms"].items():
        for arm, row in table.items():
            yield Figure(f"{kind}: {arm}: reward, pay by the line", row["net"])
            yield Figure(f"{kind}: {arm}: reward, default table", row["default"])
    table = found["arms"]["mini"]
    for arm in CONTROLS:
        if arm in table:
            lower = -table[arm]["interval of more"][1]
            yield Figure(f"aipo above {arm}, lower bound", lower, at_least=0)
    yield from ways(table, "aipo")
    yield Figure("harmful share of the start's edits", table["start"]["harmful share"])
    yield Figure("harmful share of aipo's edits", table["aipo"]["harmful share"], at_most=0.1)
    # other runs may share the machine with other work
    yield Figure("minutes, the fastest run", min(found["minutes"]["aipo"]), at_most=10)


if __name__ == "__main__":
    sys.exit(main())
