"""Modules that the command line names are imported; those that only a file names are not."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import gymnasium
import pytest

from learners import launch
from learners.command_line import parse
from learners.config import Config, ConfigError, read_toml, to_dict, to_toml
from learners.rollouts.model_player import FoundModel
from learners.run.folder import RunFolder
from learners.training import models
from resume_gym.cli import main
from resume_gym.judges import make_judge, named_modules, named_servers
from resume_gym.support import trust

Capsys = pytest.CaptureFixture[str]
ENV = "smuggled:Smuggled-v0"
_CODE = """
import gymnasium
gymnasium.register("Smuggled-v0", "resume_gym.env:ResumeEditEnv")
open("imported.txt", "w").close()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change to a folder with a module, and with a run whose configuration names it."""
    (tmp_path / "smuggled.py").write_text(_CODE)
    write(env=ENV, runs=tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield tmp_path
    sys.modules.pop("smuggled", None)
    gymnasium.registry.pop("Smuggled-v0", None)


def write(runs: Path = Path(), **values: Any) -> None:
    """Write the configuration of `runs`/run."""
    (runs / "run").mkdir(exist_ok=True)
    (runs / "run" / "config.toml").write_text(to_toml(Config(name="run", **values)))


def told(argv: list[str], capsys: Capsys) -> str:
    with pytest.raises(SystemExit) as stop:
        parse(argv)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_module_that_only_a_file_names_is_not_imported(here: Path, capsys: Capsys) -> None:
    argv = ["--config", "run/config.toml"]
    said = "env: run/config.toml names a module to import, 'smuggled:Smuggled-v0'"
    assert told(argv, capsys) == f"resume-gym: {said}; if you trust it, add --trust-remote-code\n"
    assert said in told([*argv, "--dry-run"], capsys)
    assert not (here / "imported.txt").exists()
    assert parse([*argv, "--trust-remote-code"]).config.env == ENV
    assert (here / "imported.txt").exists()


@pytest.mark.parametrize("flags", [["--env", ENV], [f"--env={ENV}"]])
def test_a_module_that_the_command_line_names_is_imported(flags: list[str], here: Path) -> None:
    assert parse(["--config", "run/config.toml", *flags]).config.env == ENV
    assert (here / "imported.txt").exists()


@pytest.mark.parametrize(
    "judge",
    [
        "smuggled:judge",
        {"name": "smuggled:judge"},
        {"name": "votes", "judge": "smuggled:judge"},
        {"name": "votes", "judge": json.dumps({"name": "smuggled:judge"})},
        {"name": "tiers", "locals": ["rubric", {"name": "smuggled:judge"}], "frontier": "gemini"},
    ],
)
def test_a_judge_that_only_a_file_names_is_refused(judge: Any, capsys: Capsys) -> None:
    spec = judge if isinstance(judge, str) else json.dumps(judge)
    write(judge=spec)
    argv = ["--config", "run/config.toml"]
    assert "judge: run/config.toml names a module to import, 'smuggled:judge'" in told(argv, capsys)
    assert parse([*argv, "--trust-remote-code"]).config.judge == spec
    assert parse([*argv, "--judge", spec]).config.judge == spec


@pytest.mark.parametrize(
    "judge",
    [
        "rubric",
        {"name": "openai", "model": "qwen3:8b", "base_url": "http://localhost:8000/v1"},
        {"name": "votes", "judge": {"name": "gemini"}, "votes": 3},
        "{",
    ],
)
def test_judges_of_this_package_need_no_trust(judge: Any) -> None:
    assert named_modules(judge) == named_servers(judge) == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"key_name": "GITHUB_TOKEN"}, "key_name"),
        ({"base_url": "http://evil/v1"}, "base_url"),
        ({"base_url": "http://evil\\@localhost/v1"}, "base_url"),
        ({"base_url": "http://localhost@evil/v1"}, "base_url"),
    ],
)
def test_keys_and_servers_that_only_a_file_names_are_refused(
    setting: dict[str, str], said: str, capsys: Capsys
) -> None:
    judge = {"name": "votes", "judge": {"name": "openai", "model": "m", **setting}}
    write(judge=json.dumps(judge))
    argv = ["--config", "run/config.toml"]
    refused = told(argv, capsys)
    assert refused.startswith(
        f"resume-gym: judge: run/config.toml names a server or its key, '{said}'"
    )
    assert refused.endswith("; if you trust it, add --trust-remote-code\n")
    assert parse([*argv, "--trust-remote-code"]).config.judge == json.dumps(judge)
    assert parse([*argv, "--judge", json.dumps(judge)]).config.judge == json.dumps(judge)


def test_engine_servers_of_others_that_only_a_file_names_are_refused(capsys: Capsys) -> None:
    argv = ["--config", "run/config.toml"]
    write(engine="vllm", engine_urls=("http://127.0.0.1:8000", "http://evil:8000"))
    said = "engine_urls: run/config.toml names a server, 'http://evil:8000'; if you trust it"
    assert said in told(argv, capsys)
    assert parse([*argv, "--trust-remote-code"]).config.engine_urls[1] == "http://evil:8000"
    assert parse([*argv, "--engine-urls", "http://evil:8000"]).config.engine_urls == (
        "http://evil:8000",
    )
    write(engine="vllm", engine_urls=("http://localhost:8000", "http://[::1]:8000/"))
    parse(argv)


def test_a_teacher_server_that_only_a_file_names_is_refused(capsys: Capsys) -> None:
    argv = ["--config", "run/config.toml"]
    served: dict[str, Any] = {"feedback_form": "sampled", "temperature": 1.0}
    write(teacher="http://evil:8000", **served)
    said = "teacher: run/config.toml names a server, 'http://evil:8000'; if you trust it"
    assert said in told(argv, capsys)
    for flags in (["--trust-remote-code"], ["--teacher", "http://evil:8000"]):
        assert parse([*argv, *flags]).config.teacher == "http://evil:8000"
    for teacher in ("http://localhost:8000", "Qwen/Qwen3-4B"):
        write(teacher=teacher, **served)
        parse(argv)


def test_only_a_module_and_a_name_are_a_custom_judge(here: Path) -> None:
    spec = '[{"model":"a"}]'
    (here / '[{"model".py').write_text(_CODE)
    assert named_modules(spec) == [spec]
    with pytest.raises(ValueError, match="expected module:name or one of"):
        make_judge(spec)
    assert not (here / "imported.txt").exists()


def test_the_current_folder_is_searched_for_custom_judges_only(here: Path) -> None:
    make_judge("rubric")
    assert "" not in sys.path
    with pytest.raises(ValueError, match="no attribute 'judge'"):
        make_judge("smuggled:judge")
    assert (here / "imported.txt").exists()
    assert "" not in sys.path


def test_a_run_that_was_started_here_is_trusted_but_no_copy_and_no_other_one(
    here: Path, capsys: Capsys
) -> None:
    trust.remember(here / "run", to_dict(read_toml(here / "run" / "config.toml")))
    assert parse(["--config", "run/config.toml"]).config.env == ENV
    shutil.copytree("run", "copy")
    assert "--trust-remote-code" in told(["--config", "copy/config.toml"], capsys)
    shutil.move("run", "away")
    write(env=ENV)
    assert "--trust-remote-code" in told(["--config", "run/config.toml"], capsys)
    write(env="other:Smuggled-v0")
    assert "'other:Smuggled-v0'" in told(["--config", "run/config.toml"], capsys)


def test_agents_are_read_without_the_modules_of_their_runs(here: Path) -> None:
    shutil.copytree(models.NANO, "run/model")
    assert FoundModel.of({"model": "run"}).config.max_tokens == Config().max_tokens
    assert FoundModel.of({"model": "run/model"}).config.env == Config().env
    assert not (here / "imported.txt").exists()


def test_commands_import_what_their_options_name(here: Path) -> None:
    argv = ["eval", "--agent", "noop", "--env", ENV, "--tasks", "procedural-mini:1:2", "--out"]
    assert main([*argv, "out"]) == 0
    assert (here / "imported.txt").exists()
    settings = json.loads(Path("out/settings.json").read_text())
    assert trust.is_remembered(Path("out"), settings)
    shutil.copytree("out", "copy")
    assert main([*argv, "copy"]) == 0
    assert not trust.is_remembered(Path("copy"), settings)
    assert main([*argv, "out"]) == 0
    assert trust.is_remembered(Path("out"), settings)


def test_a_run_of_a_stranger_that_is_resumed_here_is_not_remembered(here: Path) -> None:
    assert not RunFolder(here / "run").configure(read_toml(here / "run" / "config.toml"))
    assert RunFolder(here / "new").configure(Config())


def test_the_id_of_a_folder_is_written_to_no_other_file(here: Path) -> None:
    (here / "run" / trust.STARTED).symlink_to(here / "smuggled.py")
    trust.remember(here / "run", {})
    assert (here / "smuggled.py").read_text() == _CODE
    assert trust.is_remembered(here / "run", {})


@pytest.mark.parametrize(
    ("module", "flag", "status"),
    [
        ("resume_gym", "--help", 0),
        ("learners.aipo", "--steps=1", 7),
        ("learners.imitation", "--help", 7),
    ],
)
def test_files_in_the_current_folder_take_no_part(
    module: str, flag: str, status: int, here: Path
) -> None:
    imported_first = ("gymnasium", "numpy", "difflib") if module == "resume_gym" else ()
    for name in ("cuda", "rich", "torch", "pydantic", *imported_first):
        (here / f"{name}.py").write_text("raise SystemExit('planted')\n")
    # the right torch, which takes seconds to import, ends at once here
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "torch.py").write_text("raise SystemExit(7)\n")
    path = os.pathsep.join([str(here / "elsewhere"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", module, flag],
        env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device", "runs/a/x"), None])
def test_a_folder_that_cannot_be_written_is_one_line(
    failure: OSError | None, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    if failure:
        monkeypatch.setattr("learners.launch.Workload.of", Mock(side_effect=failure))
    else:
        Path("runs").touch()
    with pytest.raises(SystemExit) as stop:
        launch.main(Mock(), "aipo.py", parse([]))
    told = "runs/a/x: No space left on device" if failure else "runs/nano/trajectories: Not a dir"
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(f"resume-gym: {told}")
    assert said.count("\n") == 1


def test_a_key_in_a_judges_address_is_written_nowhere(capsys: Capsys) -> None:
    judge = {"name": "openai", "model": "m", "base_url": "http://me:secret@host/v1"}
    spec = {"name": "votes", "judge": judge}
    with pytest.raises(SystemExit) as stop:
        launch.main(Mock(), "aipo.py", parse(["--judge", json.dumps(spec)]))
    assert stop.value.code == 2
    assert "base_url: expected no key in the address" in capsys.readouterr().err
    assert not list(Path("runs").rglob("*.*"))


def test_code_beside_the_weights_of_a_model_is_never_run(here: Path) -> None:
    shutil.copytree(models.NANO, "model")
    for name, changes in (
        ("config.json", {"model_type": "own", "auto_map": {"AutoConfig": "planted.Own"}}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["planted.Own", None]}}),
    ):
        file = here / "model" / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(ConfigError, match="expected a model that transformers supports without"):
        models.load("model")
    assert not (here / "imported.txt").exists()


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_a_model_cannot_choose_native_code_for_its_attention(key: str, here: Path) -> None:
    shutil.copytree(models.NANO, "model")
    file = here / "model" / "config.json"
    kernel = {key: "kernels-community/flash-attn2"}
    file.write_text(json.dumps({**json.loads(file.read_text()), **kernel}))
    for model in (models.load("model"), models.skeleton("model")):
        assert model.config._attn_implementation == "sdpa"
