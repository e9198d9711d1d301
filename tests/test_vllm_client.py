"""The client of vLLM servers and the process beside the trainer, against servers that are scripts.

tests/test_vllm.py has the real one.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal
from unittest.mock import AsyncMock

import psutil
import pytest
import requests
import torch
from fake_vllm import FakeVLLM

from learners import aipo
from learners.build import make_distant_orchestrator
from learners.command_line import parse
from learners.config import Config
from learners.engines import Completion, EngineError, RefusedError, Sampling
from learners.engines.api_key import KEY, KeyRequired
from learners.engines.command import ServerSettings, command, environment
from learners.engines.server import Server
from learners.engines.vllm import VLLMEngine, unreachable
from learners.rollouts.batch import Batch
from learners.rollouts.rollout import NOT_SAMPLED
from learners.rollouts.rollout_source import RolloutSource
from learners.rollouts.sampler import BackgroundSampler
from learners.rollouts.tokens import ChatTokens
from learners.rollouts.trajectories import Trajectories
from learners.training import models, ranks
from resume_gym import TOOLS, tool_call

SAMPLING = Sampling(0.7, 8, {5}, (1,))
SERVER = ServerSettings("nano", "float32", 1, gpus=1, colocated=False, threads=0)


def speak(ids: Sequence[int]) -> Sequence[int]:
    return [7, 8, 5]


@pytest.fixture
def two() -> Iterator[list[FakeVLLM]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(FakeVLLM(speak, 0.05)) for _ in range(2)]
        for one in servers:
            one.version = "3"
        yield servers


def engine(servers: Sequence[FakeVLLM], timeout_s: float = 5.0) -> VLLMEngine:
    return VLLMEngine([one.url for one in servers], "nano", "float32", timeout_s)


def talk(one: VLLMEngine, keys: Sequence[int], turns: int = 1) -> list[Completion]:
    async def converse(key: int) -> Completion:
        ids = [key] * 3
        for _ in range(turns):
            said = await one.generate(key, ids, SAMPLING)
            ids = [*ids, *said.ids]
        return said

    async def every() -> list[Completion]:
        try:
            return list(await asyncio.gather(*map(converse, keys)))
        finally:
            await one.leave()

    return asyncio.run(every())


def test_conversations_spread_and_stay(two: list[FakeVLLM]) -> None:
    every = talk(engine(two), range(10), turns=4)
    assert every == [Completion([7, 8, 5], [-0.5] * 3, [3] * 3)] * 10
    first, second = (one.conversations for one in two)
    assert len(first) == len(second) == 5
    assert not first.keys() & second.keys(), "a conversation stays where its prefix is"
    assert set(first.values()) == set(second.values()) == {4}


def test_a_failed_request_goes_to_another_server(two: list[FakeVLLM]) -> None:
    one = engine(two)
    talk(one, range(4))
    two[0].status = 500
    assert all(said.ids == [7, 8, 5] for said in talk(one, range(4)))
    assert len(two[1].conversations) == 4


def test_a_restarted_server_is_used_again(two: list[FakeVLLM]) -> None:
    alone = two[:1]
    one = engine(alone, timeout_s=20.0)
    alone[0].__exit__()

    async def late() -> Completion:
        asked = asyncio.create_task(one.generate(1, [1, 2, 3], SAMPLING))
        await asyncio.sleep(0.4)
        assert not asked.done()
        alone[0].__enter__()  # at the same address, with the weights of its files
        alone[0].version = "default"
        await asyncio.sleep(0.4)
        assert not asked.done(), "which are not the trained ones"
        alone[0].version = "4"
        try:
            return await asked
        finally:
            await one.leave()

    assert asyncio.run(late()).versions == [4, 4, 4]


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        (400, RefusedError, "prompt too long"),
        (503, EngineError, r"no completion within 1 s; http://127\.0\.0\.1.*503"),
    ],
)
def test_only_a_failed_request_is_retried_until_a_timeout_that_names_the_server(
    status: int, error: type[EngineError], told: str, two: list[FakeVLLM]
) -> None:
    for one in two:
        one.status = status
    with pytest.raises(error, match=told):
        talk(engine(two, timeout_s=1.0), [1])


def test_weights_go_to_all_servers_while_they_pause(two: list[FakeVLLM]) -> None:
    one = engine(two)
    weights = {f"layer.{i}": torch.randn(300, 300) for i in range(5)}
    one.load_weights(4, weights.items)
    for server in two:
        updated = "start_weight_update update_weights finish_weight_update"
        assert server.calls == ["pause", *updated.split(), "resume"]
        assert server.version == "4"
        assert server.weights.keys() == weights.keys()
        assert all(torch.equal(server.weights[name], weights[name]) for name in weights)
    assert one.behind(4) == []
    one.load_weights(4, weights.items)
    assert len(two[0].calls) == 5, "who has them already is left alone"
    two[1].version = "default"  # it was restarted
    assert one.behind(4) == [two[1].url]
    one.load_weights(4, weights.items)
    assert [len(server.calls) for server in two] == [5, 10]
    halves = VLLMEngine([two[0].url], "nano", "bfloat16", 5.0)
    halves.load_weights(5, weights.items)
    assert two[0].weights["layer.0"].dtype == torch.bfloat16


def test_weights_travel_in_parts_and_leave_nothing(
    two: list[FakeVLLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learners.engines.vllm._CHUNK_BYTES", 50_000)
    weights = {f"layer.{i}": torch.randn(100, 100) for i in range(7)}

    def files() -> int:
        return sum("memfd:weights" in os.path.realpath(f"/proc/self/fd/{n}") for n in range(999))

    one, before = engine(two), files()
    for version in (4, 5, 6):
        one.load_weights(version, weights.items)
        assert files() == before + 4, "those of the version before are gone"
    assert two[0].weights.keys() == weights.keys()
    one.close()
    assert files() == before


def test_weights_are_asked_for_once_a_server_is_there(two: list[FakeVLLM]) -> None:
    """All trainer ranks take part in passing them, and must not wait for nothing."""
    one, asked = engine(two, timeout_s=1.0), []
    for server in two:
        server.__exit__()

    def source() -> list[tuple[str, torch.Tensor]]:
        asked.append(1)
        return [("a", torch.zeros(2))]

    with pytest.raises(EngineError, match="did not load the weights of step 4"):
        one.load_weights(4, source)
    assert asked == []
    for server in two:
        server.__enter__()
    one.load_weights(4, source)
    assert asked == [1]


def test_a_server_that_cannot_take_weights_is_an_error(two: list[FakeVLLM]) -> None:
    two[1].broken = "update_weights"
    with pytest.raises(EngineError, match=rf"{two[1].url} did not load .* step 4: .*it broke"):
        engine(two, timeout_s=1.0).load_weights(4, {"a": torch.zeros(2)}.items)
    assert "resume" not in two[1].calls, "half updated, it must not sample"


def test_addresses_without_a_server(two: list[FakeVLLM]) -> None:
    two[0].__exit__()
    assert unreachable([server.url for server in two]) == [two[0].url]
    assert unreachable(["http://nowhere.invalid:1"]) == [], "that may pass"
    two[0].__enter__()


class BrokenSender:
    """Takes one tensor, and fails: first as a server does that may come back, then for good."""

    made: ClassVar[list["BrokenSender"]] = []
    errors: ClassVar[list[Exception]] = [
        requests.HTTPError("the engine is dead"),
        RuntimeError("NCCL error: remote process exited"),
    ]

    def __init__(self, *_: object) -> None:
        self.closed = threading.Event()
        self.error = self.errors[len(self.made)]
        self.made.append(self)

    def send(self, control: Any, tensors: Iterator[object]) -> None:
        next(tensors)
        raise self.error

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> list[BrokenSender]:
    monkeypatch.setitem(
        sys.modules, "learners.engines.nccl", SimpleNamespace(NCCLSender=BrokenSender)
    )
    monkeypatch.setattr(BrokenSender, "made", [])
    return BrokenSender.made


def test_a_transfer_that_fails_leaves_no_rank_in_the_gathering(
    two: list[FakeVLLM], senders: list[BrokenSender]
) -> None:
    """Each tensor is gathered on all ranks together: rank 0 has to take all, or the others hang."""
    one = VLLMEngine([server.url for server in two], "nano", "float32", 60.0, by_nccl=True)
    gathered: list[str] = []

    def source() -> Iterator[tuple[str, torch.Tensor]]:
        assert len(gathered) % 4 == 0, "the other ranks are still in the gathering before"
        for name in "abcd":
            gathered.append(name)
            yield name, torch.zeros(2)

    with pytest.raises(EngineError, match="step 4: weights could not be sent: NCCL error: remote"):
        one.load_weights(4, source)
    assert gathered == list("abcdabcd")
    assert [sender.closed.is_set() for sender in senders] == [True, True], "a new group each time"
    assert "resume" not in two[0].calls, "it may have half of the weights"


def test_a_server_that_fails_ends_the_transfer_to_the_others(
    two: list[FakeVLLM], senders: list[BrokenSender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL waits for a server that has failed, without end."""

    def send(self: BrokenSender, control: Any, tensors: Iterator[object]) -> None:
        if self is not senders[0]:
            raise self.error
        with ThreadPoolExecutor(1) as threads:
            update = threads.submit(control.update_weights, {"paths": []})
            assert self.closed.wait(60)
            update.result()

    monkeypatch.setattr(BrokenSender, "send", send)
    two[1].broken = "update_weights"
    one = VLLMEngine([server.url for server in two], "nano", "float32", 60.0, by_nccl=True)
    with pytest.raises(EngineError, match="step 4: weights could not be sent: NCCL error"):
        one.load_weights(4, {"a": torch.zeros(2)}.items)
    assert [sender.closed.is_set() for sender in senders] == [True, True]


def test_a_server_that_does_not_sleep_is_asked_again(two: list[FakeVLLM]) -> None:
    two[1].broken = "sleep"
    with pytest.raises(EngineError, match=rf"sleep.*: {two[1].url}.*it broke"):
        engine(two, timeout_s=0.1).sleep()
    threading.Timer(0.5, setattr, (two[1], "broken", "")).start()
    engine(two, timeout_s=60.0).sleep()
    assert two[1].broken == ""
    assert two[1].calls.count("sleep") > 2


def test_every_request_carries_the_key(
    two: list[FakeVLLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in two:
        one.key = "secret"
    monkeypatch.setenv(KEY, "secret")
    one = engine(two)
    one.load_weights(4, {"a": torch.zeros(2)}.items)
    assert {said.versions[0] for said in talk(one, range(4))} == {4}
    one.sleep()
    one.wake()
    assert two[0].calls[-2:] == ["sleep", "wake_up"]


@pytest.mark.parametrize("key", ["", "another"])
def test_a_wrong_key_is_an_error_at_once(
    key: str, two: list[FakeVLLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in two:
        one.key = "secret"
    monkeypatch.setenv(KEY, key)
    one = engine(two, timeout_s=600.0)
    expected = rf"{two[0].url}: expected the server's API key in the variable VLLM_API_KEY"
    with pytest.raises(EngineError, match=expected):
        talk(one, [1])
    with pytest.raises(EngineError, match=expected):
        one.load_weights(4, {"a": torch.zeros(2)}.items)


@pytest.mark.parametrize(
    ("kind", "answers"),
    [("http", ["http.response.start", "http.response.body"]), ("websocket", ["websocket.close"])],
)
def test_a_server_rejects_what_comes_without_the_key(
    kind: str, answers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "secret")
    app, send = AsyncMock(), AsyncMock()
    asyncio.run(KeyRequired(app)({"type": kind, "path": "/v1"}, AsyncMock(), send))
    assert [call.args[0]["type"] for call in send.await_args_list] == answers
    app.assert_not_awaited()


def test_servers_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shadow = tmp_path / "colorsys.py"
    shadow.write_text("open('imported.txt', 'w').close()\n")
    words = command(SERVER, 0, "127.0.0.1", 8000)
    python = words[: words.index("-c") + 1]
    for options, safe in ((python, {}), ([sys.executable, "-c"], environment(SERVER, 0))):
        subprocess.run([*options, "import colorsys"], env={**os.environ, **safe}, check=False)
        assert not (tmp_path / "imported.txt").exists()


@pytest.mark.parametrize(
    ("given", "trainer", "server"),
    [({}, dict([ranks.ALLOCATOR]), {}), ({"PYTORCH_CUDA_ALLOC_CONF": "backend:native"},) * 3],
)
def test_trainers_have_expandable_segments_unless_the_user_configured_the_allocator(
    given: dict[str, str],
    trainer: dict[str, str],
    server: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", dict(given))
    ranks.start()
    assert os.environ == trainer
    found = environment(SERVER, 0)
    assert {name: value for name, value in found.items() if "ALLOC_CONF" in name} == server


@pytest.mark.vllm
def test_a_server_listens_where_rank_0_reaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on every interface, although there are several machines."""
    monkeypatch.setattr("learners.engines.server.own_address", lambda urls: f"facing {urls[0]}")
    monkeypatch.setattr(Server, "_spawn", lambda self: SimpleNamespace(poll=lambda: None))
    monkeypatch.setattr(Server, "_watch", lambda self: None)
    monkeypatch.setenv("MASTER_ADDR", "node-1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    for rank, address in ((0, "127.0.0.1"), (8, "facing http://node-1:29500")):
        monkeypatch.setattr("learners.training.ranks.rank", lambda rank=rank: rank)
        server = Server(SERVER, 0, tmp_path / "engine.log", print)
        assert server.url.startswith(f"http://{address}:")
        assert server._command[server._command.index("--host") + 1] == address


CHAT = ChatTokens(models.load_tokenizer("nano"), TOOLS)
SAID = [CHAT.write(tool_call(name)) for name in ("review", "submit")]


def review_and_submit(ids: Sequence[int]) -> Sequence[int]:
    return SAID[list(ids).count(CHAT.end) // 2 - 1]


@pytest.fixture
def server() -> Iterator[FakeVLLM]:
    with FakeVLLM(review_and_submit, 0.02) as one:
        one.version = "0"
        yield one


def beside(server: FakeVLLM, folder: Path, done: int = 0, **changes: object) -> BackgroundSampler:
    settings = {"engine_urls": (server.url,), "groups": 2, "group_size": 3, "eval_tasks": 2}
    config = Config(
        **{"engine": "vllm", "eval_rollouts": 2, "steps": 9, **settings, **changes}  # type: ignore[arg-type]
    )
    build = partial(make_distant_orchestrator, config, [server.url], Trajectories(folder))
    made = BackgroundSampler(build, config.steps, config.max_staleness, print)
    made.published(done)
    return made


def played(folder: Path, step: int, count: int = 6) -> bool:
    """Whether all episodes of a step end, on a busy machine as well."""
    file = Trajectories(folder).path(step)
    for _ in range(3000):
        if file.exists() and len(file.read_bytes().splitlines()) == count:
            return True
        time.sleep(0.1)
    return False


def versions(one: Batch) -> set[int]:
    return {v for rollout in one.rollouts for v in rollout.versions} - {NOT_SAMPLED}


@pytest.mark.parametrize("limit", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_nothing_becomes_too_stale(limit: int, server: FakeVLLM, tmp_path: Path) -> None:
    one = beside(server, tmp_path, max_staleness=limit)
    try:
        for step in range(1, 4):
            # the trainer has been slow: all is played that may be
            assert played(tmp_path, step + limit)
            assert not Trajectories(tmp_path).path(step + limit + 1).exists()
            batch = one.batch(step)
            assert len(batch.rollouts) == 6
            assert all(step - 1 - version <= limit for version in versions(batch))
            server.version = str(step)
            one.published(step)
    finally:
        one.close()


@pytest.mark.slow
def test_evaluations_run_during_steps_and_a_process_that_was_killed_is_an_error(
    server: FakeVLLM, tmp_path: Path
) -> None:
    one = beside(server, tmp_path)
    try:
        server._delay_s = 1.5  # longer than between two reports
        one.evaluate(0)
        while not one.evaluation:
            one._listen()
        assert one.evaluation.startswith("evaluation: 0 of 4 episodes, ")
        server._delay_s = 0.02
        assert len(one.batch(1).rollouts) == 6
        ((step, evaluation),) = one.evaluations(wait=True)
        assert step == 0
        assert (evaluation.summary.episodes, evaluation.summary.submit_rate) == (4, 1.0)
        assert evaluation.versions == (0, 0)
        assert one.evaluation == ""
        assert one.evaluations(wait=True) == []
        one._process.kill()
        with pytest.raises(EngineError, match="the rollout process ended with status -9"):
            one.batch(9)
    finally:
        one.close()


@pytest.mark.slow
def test_an_error_of_the_rollout_process_is_raised(server: FakeVLLM, tmp_path: Path) -> None:
    server.status = 400
    one = beside(server, tmp_path)
    one._process.join()
    one.published(1)  # it cannot be told any more, but the reason is still read
    with pytest.raises(RefusedError, match="prompt too long"):
        one.batch(1)
    one.close()


def test_an_engine_that_samples_with_something_else_stops_the_run(
    server: FakeVLLM, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes the weights, says so, and gives log-probabilities of its own."""
    server.version = "default"
    flags = {"engine": "vllm", "engine-urls": server.url, "runs": tmp_path, "threads": 1}
    argv = [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
    with pytest.raises(SystemExit, match="1"):
        aipo.main(parse(argv))
    told = capsys.readouterr().err
    assert "weights of step 0: sampler and trainer differ by" in told
    assert server.version == "0"
    assert server.weights.keys() == dict(models.load("nano").named_parameters()).keys()


@pytest.mark.parametrize(
    ("precision", "temperature", "limit"), [("float32", 0.7, 1e-3), ("bfloat16", 1.0, 0.07)]
)
def test_a_difference_beyond_rounding_stops_the_run(
    precision: Literal["float32", "bfloat16"],
    temperature: float,
    limit: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer: Any = SimpleNamespace(gaps=lambda probes: torch.tensor(probes))
    lead: Any = SimpleNamespace(sampler=SimpleNamespace(published=lambda version: None))
    source = RolloutSource(trainer, temperature, precision, torch.float32, False, lead)
    monkeypatch.setattr(source, "_update", lambda version: [0.0, 1.98 * limit])
    assert source.publish(1) == pytest.approx(0.99 * limit)
    monkeypatch.setattr(source, "_update", lambda version: [0.0, 2.02 * limit])
    with pytest.raises(EngineError, match=f"differ by .*, more than {limit:.3g}"):
        source.publish(2)


@pytest.mark.vllm
def test_a_missing_library_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", none)
    with pytest.raises(EngineError, match=r"Debian package libnuma1\): libnuma\.so\.1"):
        Server(SERVER, 0, tmp_path / "engine.log", print)


def fake_server(
    does: str, log: Path, note: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> Server:
    """A server whose process runs Python code instead of vLLM."""
    monkeypatch.setattr("learners.engines.server._require_libnuma", lambda: None)
    words = [sys.executable, "-c", does]
    monkeypatch.setattr("learners.engines.server.command", lambda *_: words)
    return Server(SERVER, 0, log, note)


def test_a_server_ends_with_all_its_processes_and_its_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    does = (
        "import os, subprocess, time;"
        "child = subprocess.Popen(['sleep', '600']);"
        "print(os.environ['VLLM_RPC_BASE_PATH'], child.pid, flush=True); time.sleep(600)"
    )
    log = tmp_path / "engine.log"
    server = fake_server(does, log, print, monkeypatch)
    while not (words := log.read_text().split()):
        time.sleep(0.05)
    sockets, child = Path(words[0]), psutil.Process(int(words[1]))
    (sockets / "socket").touch()
    server.close()
    assert not sockets.exists()
    # the signal has been sent, but a process takes a moment to end, and is then a zombie without
    # a parent that waits for it
    with contextlib.suppress(psutil.NoSuchProcess):
        for _ in range(600):
            if child.status() == psutil.STATUS_ZOMBIE:
                return
            time.sleep(0.05)
        pytest.fail("the server's child still runs")


def test_a_server_that_ends_is_restarted_until_it_has_ended_too_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("learners.engines.server._POLL_S", 0.01)
    told: list[str] = []
    server = fake_server("raise SystemExit(3)", tmp_path / "engine.log", told.append, monkeypatch)
    with pytest.raises(EngineError, match=r"it ended with status 3, even after 5 restarts; see "):
        server.ready(60)
    assert told == [f"The engine at {server.url} is restarted: it ended with status 3."] * 5
    server.close()
