"""The real vLLM, its build for CPUs: it samples with the weights of the trainer."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest
import requests
import torch
from tiny import plain_logprobs
from transformers import PreTrainedModel

from learners.build import server_settings
from learners.config import Config
from learners.engines import Completion, Sampling
from learners.engines.api_key import headers, make_key
from learners.engines.server import Server
from learners.engines.vllm import VLLMEngine
from learners.rollouts import teacher
from learners.rollouts.rollout import Rollout
from learners.rollouts.tokens import ChatTokens
from learners.training import models
from resume_gym import TOOLS, Rules, Session, load_tasks

pytestmark = pytest.mark.vllm

TEMPERATURE = 0.7
STOP = 1
UNLIKELY = 4095
"""A token that is never sampled, so that a completion goes on to its limit."""
UPDATES = 3
PROMPT = [(7 * i) % 900 + 20 for i in range(150)]
HEADS = ("tied", "untied")


def save(head: str, folder: Path) -> Path:
    """Save the bundled policy as a run exports it, or with an untied head."""
    model = models.load("nano")
    if head == "tied":
        models.export("nano", model.named_parameters(), folder)
        return folder
    config = type(model.config)(**{**model.config.to_dict(), "tie_word_embeddings": False})
    apart = type(model)(config)
    apart.load_state_dict(model.state_dict())
    with torch.no_grad():
        apart.lm_head.weight.mul_(1.1)
    apart.save_pretrained(folder)
    models.load_tokenizer("nano").save_pretrained(folder)
    return folder


def changed(model: PreTrainedModel, version: int) -> None:
    """Change all weights a little, deterministically for each version."""
    generator = torch.Generator().manual_seed(version)
    with torch.no_grad():
        for one in model.parameters():
            noise = torch.randn(one.shape, generator=generator)
            one += 0.05 * one.std().nan_to_num(0.1) * noise


def gap(model: PreTrainedModel, prompt: list[int], ids: list[int], logprobs: list[float]) -> float:
    with torch.no_grad():
        every = plain_logprobs(model, prompt + ids, TEMPERATURE)[len(prompt) - 1 : -1]
    return float((every[torch.arange(len(ids)), ids] - torch.tensor(logprobs)).abs().max())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {head: save(head, tmp_path_factory.mktemp(head)) for head in HEADS}


@pytest.fixture(scope="module")
def server(
    folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Server]]:
    """The server of a head, started at its first use; it samples with what it reads then."""
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        # as on a fresh machine, where vLLM starts a command to inspect the model
        cache_folder = {"VLLM_CACHE_ROOT": str(tmp_path_factory.mktemp("cache"))}
        stack.enter_context(patch.dict(os.environ, cache_folder))

        @cache
        def started(head: str) -> Server:
            config = Config(model=str(folders[head]), engine="vllm", threads=1)
            made = Server(server_settings(config), 0, logs / f"{head}.log", print)
            stack.callback(made.close)
            made.ready(300)
            # here, since a test may give it other weights before the next one
            model = models.load(str(folders[head]))
            engine = VLLMEngine([made.url], str(folders[head]), "float32", 300.0, as_read=True)
            (said,) = ask(engine, [PROMPT])
            assert gap(model, PROMPT, said.ids, said.logprobs) < 1e-4
            assert set(said.versions) == {0}
            return made

        yield started


def ask(engine: VLLMEngine, prompts: list[list[int]], max_tokens: int = 24) -> list[Completion]:
    async def every() -> list[Completion]:
        sampling = Sampling(TEMPERATURE, max_tokens, {STOP}, (5,))
        try:
            asked = (engine.generate(key, one, sampling) for key, one in enumerate(prompts))
            return list(await asyncio.gather(*asked))
        finally:
            await engine.leave()

    return asyncio.run(every())


def sampled(url: str) -> float:
    """The number of tokens that a server has sampled, by its own metrics."""
    told = requests.get(f"{url}/metrics", headers=headers(), timeout=30).text
    found = re.search(r"^vllm:generation_tokens_total.* (\S+)$", told, re.MULTILINE)
    assert found, told
    return float(found[1])


@pytest.mark.slow
def test_only_the_run_can_use_its_server(
    server: Callable[[str], Server], folders: dict[str, Path]
) -> None:
    url = server("tied").url
    completion = {"model": str(folders["tied"]), "prompt": [20, 21], "max_tokens": 1}
    requested = {
        **{"v1/completions": completion, "inference/v1/generate": {"token_ids": [20]}},
        **{"invocations": completion, "update_weights": {"update_info": {"paths": ["/any"]}}},
        **{"collective_rpc": {"method": "get_model"}, "pause": {}, "resume": {}, "sleep": {}},
    }
    for path, body in requested.items():
        for given in ({}, {"Authorization": "Bearer guessed"}, {"X-Api-Key": make_key()}):
            answer = requests.post(f"{url}/{path}", json=body, headers=given, timeout=30)
            assert answer.status_code == 401, path
    assert requests.get(f"{url}/metrics", timeout=30).status_code == 401
    assert requests.get(f"{url}/health", timeout=30).ok
    answer = requests.post(f"{url}/v1/completions", json=completion, headers=headers(), timeout=60)
    assert answer.ok, answer.text
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it may have ended meanwhile
            assert make_key() not in " ".join(process.cmdline())
    assert make_key() not in server("tied")._log.read_text()


@pytest.mark.parametrize("head", ["tied", pytest.param("untied", marks=pytest.mark.slow)])
def test_a_server_samples_with_what_it_was_given(
    head: str, server: Callable[[str], Server], folders: dict[str, Path]
) -> None:
    model = models.load(str(folders[head]))
    engine = VLLMEngine([server(head).url], str(folders[head]), "float32", 300.0)
    seen = set()
    for version in range(UPDATES + 1):
        if version:
            changed(model, version)
        engine.load_weights(version, model.named_parameters)
        prompts = [PROMPT] * 4 + [[*PROMPT, 30, 31, 32]]
        for prompt, said in zip(prompts, ask(engine, prompts), strict=True):
            assert gap(model, prompt, said.ids, said.logprobs) < 1e-4, version
            assert set(said.versions) == {version}
            assert len(said.ids) == 24 or said.ids[-1] == STOP
            seen.add(tuple(said.ids))
    assert len(seen) > 4 * UPDATES, "members of a group and versions are drawn apart"
    engine.close()


@pytest.mark.slow
def test_a_server_scores_the_tokens_of_others_as_a_teacher(
    server: Callable[[str], Server], folders: dict[str, Path]
) -> None:
    """With weights that it gets here, since other tests may have changed them."""
    model = models.load(str(folders["tied"]))
    url, chat = server("tied").url, ChatTokens.of("nano", TOOLS)
    engine = VLLMEngine([url], str(folders["tied"]), "float32", 300.0)
    engine.load_weights(7, model.named_parameters)
    session = Session(next(iter(load_tasks("mini", "train"))), Rules())
    prompt = chat.prompt(session.system_prompt, session.prompt)
    rollouts = [Rollout(0, n, session, prompt, chat.write(f"Hello {n}")) for n in range(3)]
    asyncio.run(teacher.ask(rollouts, url, chat, 300.0))
    for one in rollouts:
        with torch.no_grad():
            every = plain_logprobs(model, prompt + one.response, 1.0)[len(prompt) - 1 : -1]
        wanted = every[torch.arange(len(one.response)), one.response]
        assert one.teacher == pytest.approx(wanted.tolist(), abs=1e-4)
    engine.close()


def test_an_update_that_was_left_open_is_followed_by_another(
    server: Callable[[str], Server], folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server refuses to begin an update before the last one has ended."""

    def lose(*_: object) -> None:
        monkeypatch.undo()
        raise requests.ConnectionError("the connection is lost")

    monkeypatch.setattr("learners.engines.control.Control.finish_weight_update", lose)
    model = models.load(str(folders["tied"]))
    changed(model, 9)
    named = list(model.named_parameters())
    tries = iter([named[:9], named])
    engine = VLLMEngine([server("tied").url], str(folders["tied"]), "float32", 300.0)
    engine.load_weights(9, lambda: next(tries))
    (said,) = ask(engine, [PROMPT])
    assert gap(model, PROMPT, said.ids, said.logprobs) < 1e-4
    assert set(said.versions) == {9}
    engine.close()


@pytest.mark.slow
def test_an_update_during_a_completion_shows_in_its_versions(
    server: Callable[[str], Server],
) -> None:
    """Tokens before the update are from the old weights, tokens after it from the new ones."""
    old, new = models.load("nano"), models.load("nano")
    changed(new, 5)
    url = server("tied").url
    engine = VLLMEngine([url], "nano", "float32", 300.0)

    async def both(version: int) -> Completion:
        before = sampled(url)
        sampling = Sampling(TEMPERATURE, 3000, {UNLIKELY}, (5,))
        asked = asyncio.create_task(engine.generate(0, PROMPT, sampling))
        async with asyncio.timeout(300):
            while await asyncio.to_thread(sampled, url) == before:
                pass
        await asyncio.to_thread(engine.load_weights, version, new.named_parameters)
        try:
            return await asked
        finally:
            await engine.leave()

    # on a busy machine, a completion may end before the update arrives, so try more than once
    for version in range(20, 40, 2):
        engine.load_weights(version, old.named_parameters)
        said = asyncio.run(both(version + 1))
        if version + 1 in said.versions:
            break
    assert said.versions == sorted(said.versions)
    assert set(said.versions) == {version, version + 1}
    switch = said.versions.index(version + 1)
    assert gap(old, PROMPT, said.ids[:switch], said.logprobs[:switch]) < 1e-4
    after = PROMPT + said.ids[:switch]
    assert gap(new, after, said.ids[switch:], said.logprobs[switch:]) < 1e-4
    engine.close()
