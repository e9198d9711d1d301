"""The command `card`: the committed cards can be reproduced, and a card reports faults."""

import json
import re
import tomllib
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from conftest import make_task

from resume_gym import Verdict
from resume_gym.cli import card as command
from resume_gym.cli import main
from resume_gym.episode.tasks import Task, write_jsonl
from resume_gym.evaluation.quality_page import page
from resume_gym.judges import JudgeError
from resume_gym.judges.rubric import RubricJudge

DOCS = Path(__file__).parents[1] / "docs"
CARDS = {path.stem: path for path in sorted((DOCS / "cards").glob("*.json"))}


def made(folder: Path, env: str, *arguments: str, status: int = 0) -> tuple[dict[str, Any], str]:
    """Return the JSON and the page of a quick card."""
    assert main(["card", env, "--quick", "--out", str(folder), *arguments]) == status
    name = env.rpartition(":")[2]
    texts = ((folder / f"{name}{end}").read_text(encoding="utf-8") for end in (".json", ".md"))
    return json.loads(next(texts)), next(texts)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with two held-out tasks; the job of one has no phrase that attacks could use."""
    path = tmp_path_factory.mktemp("tasks") / "hand.jsonl"
    pair = make_task(0, split="eval"), replace(make_task(1, split="eval"), job="Clerk")
    write_jsonl(path, pair)
    return str(path)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(name, marks=() if name == "ResumeEditMini-v0" else pytest.mark.slow)
        for name in CARDS
    ],
)
def test_a_quick_card_agrees_with_the_committed_one(env: str, tmp_path: Path) -> None:
    quick, _ = made(tmp_path, env)
    full = json.loads(CARDS[env].read_text(encoding="utf-8"))
    assert quick.keys() == full.keys()
    same = ("env", "rules", "tasks", "split", "judge", "seed", "edition", "task_count")
    for key in (*same, "tasks_digest", "holes"):
        assert quick[key] == full[key], key
    assert quick["skipped"].items() >= full["skipped"].items()
    models = full["equal_groups"].keys()  # only the committed cards of mini pages have one
    assert quick["difficulty"].keys() == full["difficulty"].keys() - models
    for agent, found in quick["difficulty"].items():
        whole = full["difficulty"][agent]["by_task"]
        assert len(found["by_task"]) == 6 < len(whole) == full["task_count"]
        assert found["by_task"] == {task: whole[task] for task in found["by_task"]}, agent
    statuses = [{k: one["status"] for k, one in card["checks"].items()} for card in (quick, full)]
    assert statuses[0] == statuses[1]
    assert quick["attack"]["above"].keys() == full["attack"]["above"].keys()


def test_the_committed_cards_are_whole_and_listed() -> None:
    ours = [name for name in gym.registry if name.startswith("ResumeEdit")]
    assert sorted(ours) == list(CARDS)
    index = (DOCS / "cards" / "index.md").read_text(encoding="utf-8")
    for env, path in CARDS.items():
        card = json.loads(path.read_text(encoding="utf-8"))
        assert (card["env"], card["limit"]) == (env, None)
        assert path.with_suffix(".md").read_text(encoding="utf-8") == page(card)
        rewards = (card["difficulty"][name]["reward"] for name in ("noop", "floor", "careful"))
        best = card["attack"]["best"]
        cells = [f"{reward:.2f}" for reward in (*rewards, card["difficulty"]["oracle"]["reward"])]
        row = " | ".join([f"[{env}]({env}.md)", *cells, f"{best['policy']}, {best['above']:+.2f}"])
        assert f"| {row} |" in index


def test_the_same_command_writes_the_same_card(tasks: str, tmp_path: Path) -> None:
    arguments = ("ResumeEditMini-v0", "--tasks", tasks, "--model", "swaps=random")
    (first, shown), (second, _) = (made(tmp_path / name, *arguments) for name in "ab")
    assert set(first.pop("seconds")["episode"]) == set(first["cost"])
    second.pop("seconds")
    assert first == second
    assert first["equal_groups"]["swaps"] < 1
    assert first["difficulty"]["swaps"]["by_task"].keys() == {"hand-0", "hand-1"}
    assert "`swaps` plays each task 8 times. On " in shown
    costs = first["cost"]
    assert (costs["noop"]["turns"], costs["noop"]["verdicts"]) == (1, 0)
    assert costs["floor"]["verdicts"] == 1
    assert costs["floor"]["tokens"]["read"] > costs["noop"]["tokens"]["read"] > 100


class PrefersWords:
    """A judge that prefers more words, and never twice: `--judge test_card:PrefersWords`."""

    name = "prefers words"

    def __init__(self) -> None:
        self.turn = cycle((-1, 1, 1))

    def judge(self, task: Task, revised: str) -> Verdict:
        grade = int(len(revised.split()) > len(task.resume.split()))
        return Verdict(next(self.turn), *[grade] * 5)


def test_a_card_tells_what_is_wrong(tasks: str, tmp_path: Path) -> None:
    judge = ("--tasks", tasks, "--judge", "test_card:PrefersWords")
    card, shown = made(tmp_path, "ResumeEditMini-v0", *judge)
    replay = card["checks"]["semantic.replayability"]
    assert replay["status"] == "fail"
    assert replay["largest_difference"] == 2
    assert card["attack"]["best"]["above"] > 0
    assert "**Not sound:**" in shown
    assert card["agreement"]["accuracy"]["hallucination"]["value"] < 0.9
    assert card["holes"] == []  # those of the rubric judge
    assert "Known holes" not in shown


class Moody(RubricJudge):
    """A judge that does not answer on texts that have grown."""

    def judge(self, task: Task, revised: str) -> Verdict:
        if len(revised) > len(task.resume):
            raise JudgeError("no answer")
        return super().judge(task, revised)


def test_what_was_not_graded_is_told(tasks: str, tmp_path: Path) -> None:
    judge = ("--tasks", tasks, "--judge", "test_card:Moody")
    card, shown = made(tmp_path, "ResumeEditMini-v0", *judge, status=1)
    assert card["skipped"]["attack"] == "no answer"
    assert card["attack"] == {}
    assert "statistical.adversarial_floor" not in card["checks"]
    assert 0 < card["agreement"]["failures"]["JudgeError"] < card["agreement"]["pairs"]
    assert re.search(r"\n- \d episodes? of \w+: JudgeError: no answer\n", shown)


def test_other_domains_have_cards_without_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as if the library that counts tokens were not installed
    monkeypatch.setattr(command, "find_spec", lambda name: name != "tokenizers" or None)
    card, shown = made(tmp_path, "examples.release_notes:ReleaseNotes-v0")
    assert list(card["difficulty"]) == ["noop", "random"]
    assert card["skipped"]["attack"] == "only in environments for resumes"
    assert card["skipped"]["agreement"] == "only in environments for resumes"
    assert card["checks"]["structural conformance"] == {"status": "pass"}
    assert "| characters read |" in shown
    assert "tokenizer" not in shown


def test_a_model_with_the_name_of_an_agent_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["card", "ResumeEditMini-v0", "--model", "floor"]) == 2
    assert "--model: the card has 'floor' anyway; use NAME=SPEC" in capsys.readouterr().err


def test_known_holes_cost_what_the_documentation_says() -> None:
    text = (DOCS.parent / "resume_gym" / "judges" / "holes.toml").read_text(encoding="utf-8")
    for hole in tomllib.loads(text)["holes"]:
        path, _, anchor = hole["see"].partition("#")
        source = (DOCS.parent / path).read_text(encoding="utf-8")
        assert anchor.replace("-", " ") in source.lower()
        for figure in re.findall(r"[\d.]+ %", hole["costs"]):
            assert figure in source, hole["costs"]


def test_names_with_marks_of_a_table_stay_in_their_cells() -> None:
    card = json.loads(CARDS["ResumeEditMini-v0"].read_text(encoding="utf-8"))
    plain = page(card)
    card["difficulty"]["a|b\nc"] = card["difficulty"].pop("careful")
    card["judge"] = '{"model": "m",\n "url": "x|y"}'
    found = page(card)
    assert found.count("\n") == plain.count("\n")
    assert "| a\\|b c |" in found
    assert '| judge | {"model": "m", "url": "x\\|y"} |' in found
