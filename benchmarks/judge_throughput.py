"""Measure the overhead of the client that queries language models: time, CPU and memory.

    python benchmarks/judge_throughput.py [--quick]

A server in a separate process speaks the provider's protocol and answers each request after two
seconds. The client keeps 256 requests open at once, through the provider's SDK. Each prompt is as
long as a judge's (13,000 characters) and unique; each answer is 1,600 characters of JSON, which
pydantic checks. Each of 1,000 callers asks one prompt after the other, so three quarters of the
callers wait in a queue. The ideal time is answers / 256 x 2 s. The measured time excludes the
import of the SDK and the first connection. It includes the one or two seconds in which the first
256 requests are sent; with --quick, these seconds are a larger share of the measured time. With a
store, the client looks up each answer before it sends the request, and saves the answer afterwards.

CPU is the CPU time of the client's process. The target is 7.8 ms per answer, since the client has
one thread, and 256 requests at once mean 128 answers a second. Memory is the growth of the resident
set size from the thousandth answer to the last. `replay` reads the same answers from the store
alone.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from record import Figure, finish, parser, resident_kb

from resume_gym.llm import Prompt
from resume_gym.llm.client import Client, make_client

ROOT = Path(__file__).parents[1]
AT_ONCE = 256
CALLERS = 1_000
LATENCY_S = 2.0
TEXT = "Led the migration of twelve harbour booking systems to one event pipeline. " * 173


class Field(BaseModel):
    """One field of a verdict: which of two texts is better, and why."""

    model_config = ConfigDict(extra="forbid")
    reason: str
    better: Literal["first", "second", "same"]


class Reply(BaseModel):
    """A verdict."""

    model_config = ConfigDict(extra="forbid")
    clarity: Field
    quantification: Field
    jd_alignment: Field
    action_verbs: Field
    preference: Field


ONE = {
    "reason": "The second text says what was built, for whom and how much. " * 5,
    "better": "second",
}
REPLY = dict.fromkeys(Reply.model_fields, ONE)
SCHEMA = Reply.model_json_schema()


def prompt(number: int) -> Prompt:
    """Return a unique prompt with the length of a judge's prompt."""
    return Prompt("You compare resumes.", f"{number}\n{TEXT}", SCHEMA, "bench-1")


def serve(wire: str) -> None:
    """Answer requests until the standard input ends."""
    sys.path.insert(0, str(ROOT / "tests"))
    import loopback

    serving = {"gemini": loopback.gemini_server, "openai": loopback.openai_server}[wire]
    text = json.dumps(REPLY)
    with serving(lambda body: text, LATENCY_S) as server:
        server.requests = _Forgetful()
        print(server.url, flush=True)
        sys.stdin.read()


class _Forgetful(list[dict[str, Any]]):
    def append(self, one: dict[str, Any]) -> None:
        """Discard a request, so that the server's memory does not grow."""


@contextmanager
def server(wire: str) -> Iterator[str]:
    """Yield the address of a server in a separate process."""
    command = [sys.executable, __file__, "--serve", wire]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


async def ask_all(client: Client, answers: int) -> list[float]:
    """Request `answers` answers; return the client's memory in KB after 1,000 and at the end."""
    numbers, sizes, came = iter(range(answers)), [], count(1)

    async def caller() -> None:
        for number in numbers:
            reply = await client.ask(prompt(number), Reply.model_validate_json)
            assert reply.preference.better == "second"
            if next(came) in (CALLERS, answers):
                sizes.append(resident_kb())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return sizes


def measure(wire: str, answers: int, store: Path | None) -> dict[str, float]:
    """Return wall time, CPU time and memory growth of `answers` answers."""
    with server(wire) as url:
        options: dict[str, Any] = {"model": "bench", "base_url": url, "concurrency": AT_ONCE}
        client = make_client(wire, **options, store=store)
        client.ask_now(prompt(-1), Reply.model_validate_json)
        began, began_cpu = time.perf_counter(), time.process_time()
        first, last = asyncio.run(ask_all(client, answers))
        wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        assert client.usage.calls == answers + 1
        asyncio.run(client.close())
    replay = {"replay_cpu_ms": replay_ms(answers, store, url)} if store else {}
    return replay | {
        "wall_s": wall,
        "over_ideal": wall / (answers / AT_ONCE * LATENCY_S),
        "cpu_ms": 1000 * cpu / answers,
        "growth_mb": (last - first) / 1000,
    }


def replay_ms(answers: int, store: Path, url: str) -> float:
    """Return the CPU time in ms per answer, if all answers are read from the file `store`."""
    client = make_client("gemini", model="bench", base_url=url, store=store, replay=True)
    began = time.process_time()
    asyncio.run(ask_all(client, answers))
    spent = 1000 * (time.process_time() - began) / answers
    assert client.usage.stored == answers
    asyncio.run(client.close())
    return spent


def main() -> int:
    """Measure, print and record the figures; return 1 if one misses its target."""
    found = parser(__doc__ or "")
    found.add_argument("--serve", help=argparse.SUPPRESS)
    args = found.parse_args()
    if args.serve:
        serve(args.serve)
        return 0
    os.environ |= {"GOOGLE_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
    answers = 1_536 if args.quick else 10_000
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "answers.sqlite"
        for wire, path in (("gemini", store), ("openai", None), ("gemini", None)):
            if args.quick and wire == "gemini" and path is None:
                continue
            name = f"{wire} with store" if path else wire
            kept[name] = measure(wire, answers, path)
    kept["replay_cpu_ms"] = kept["gemini with store"].pop("replay_cpu_ms")
    figures = []
    for name, one in kept.items():
        if isinstance(one, dict):
            figures += [
                Figure(f"{name}, wall time / ideal", one["over_ideal"], at_most=1.15),
                Figure(f"{name}, CPU of an answer, ms", one["cpu_ms"], at_most=7.8),
                Figure(f"{name}, memory growth, MB", one["growth_mb"], at_most=10),
            ]
    figures.append(Figure("replay, CPU of an answer, ms", kept["replay_cpu_ms"]))
    return finish("judge_throughput", args, figures, kept, ("google-genai", "openai", "httpx2"))


if __name__ == "__main__":
    sys.exit(main())
