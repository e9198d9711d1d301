"""Models of the Hugging Face Hub, from a cache that stands for it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import RepositoryNotFoundError

from learners import aipo
from learners.command_line import parse
from learners.rollouts.model_player import FoundModel
from learners.rollouts.tokens import ChatTokens
from learners.run import model_card
from learners.training import models
from resume_gym import TOOLS
from resume_gym.cli import main

NAME = "Org/tiny"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The nano policy as a downloaded model, on a machine without a network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model, commit = tmp_path / "hub" / "models--Org--tiny", "0" * 40
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(commit)
    shutil.copytree(models.NANO, model / "snapshots" / commit)
    return model / "snapshots" / commit


def test_a_downloaded_model_needs_no_network(cached: Path) -> None:
    models.download(NAME)
    assert models.folder(NAME) == cached
    assert models.is_here(NAME)
    assert models.load_tokenizer(NAME).eos_token == models.load_tokenizer("nano").eos_token
    found = FoundModel.of({"model": NAME}).record
    assert found["weights"] == FoundModel.of({"model": "nano"}).record["weights"]
    assert model_card._base(NAME)["hub"] == NAME


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("command", ["train", "eval"])
def test_a_model_that_is_not_here_is_one_line_with_the_command_that_gets_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not models.is_here("Org/other")
    if command == "train":
        with pytest.raises(SystemExit, match="2"):
            aipo.main(parse(["--model", "Org/other", "--runs", str(tmp_path / "runs")]))
    else:
        assert main(["eval", "--agent", "Org/other"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("got 'Org/other'; to download it: hf download Org/other")
    assert not (tmp_path / "runs").exists()


def test_a_job_downloads_its_model_once_before_it_starts(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def download(name: str, allow_patterns: list[str], local_files_only: bool) -> str:
        asked.append((name, local_files_only))
        return str(cached)

    monkeypatch.setattr(models, "snapshot_download", download)
    monkeypatch.setattr("learners.launch.ranks.launch", lambda count, command: asked.append(count))
    with pytest.raises(SystemExit):
        aipo.main(parse(["--model", NAME, "--backend", "fsdp2", "--trainer-procs", "2"]))
    assert asked == [(NAME, False), (NAME, True), 2]


def test_the_reason_of_the_hub_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        error = RepositoryNotFoundError.__new__(RepositoryNotFoundError)
        error.args = ("401 Client Error.\n\nRepository Not Found for url: ...",)
        raise error

    monkeypatch.setattr(models, "snapshot_download", refuse)
    with pytest.raises(FileNotFoundError, match=r"got 'Org/typo' \(401 Client Error\.\)"):
        models.download("Org/typo")


def test_all_end_tokens_of_a_generation_config_end_a_turn(cached: Path) -> None:
    file = cached / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": [2, 0, 7]}))
    assert models.end_tokens(NAME) == {0, 2, 7}
    assert ChatTokens.of(NAME, TOOLS).ends == {0, 2, 7}
