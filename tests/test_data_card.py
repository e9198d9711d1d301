import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from conftest import make_task
from huggingface_hub import DatasetCard

from resume_gym.cli import main
from resume_gym.corpus.card import is_of_others, make_card, write_card
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import Evidence, Task, write_jsonl
from resume_gym.judges.audit import load_pairs

TASKS = [make_task(0), make_task(1), make_task(2, split="eval")]


def front_matter(card: str) -> dict[str, Any]:
    _, block, _ = card.split("---\n", 2)
    data: dict[str, Any] = yaml.safe_load(block)
    return data


def section(card: str, heading: str) -> str:
    return card.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_a_card_lies_beside_its_tasks_and_is_always_the_same(tmp_path: Path) -> None:
    path = write_card(tmp_path / "mine.v2.jsonl", TASKS, {"seed": 3})
    assert path == tmp_path / "mine.v2.card.md"
    first = path.read_bytes()
    assert write_card(tmp_path / "mine.v2.jsonl", TASKS, {"seed": 3}).read_bytes() == first
    assert str(tmp_path).encode() not in first


def test_front_matter_is_that_of_a_dataset_card() -> None:
    origin = {"license": "cc-by-4.0", "pretty_name": 'Mine: "the" best', "language": "de"}
    data = front_matter(make_card("mine", TASKS, origin))
    assert data["license"] == "cc-by-4.0"
    assert data["pretty_name"] == 'Mine: "the" best'
    assert data["language"] == ["de"]
    assert data["size_categories"] == ["n<1K"]
    card = DatasetCard(make_card("mine", TASKS, {}))
    assert card.data.license == "unknown"
    assert card.data.pretty_name == "mine"
    assert card.data.task_categories == ["text-generation"]
    assert card.text.strip().startswith("# mine")


def test_content_is_counted() -> None:
    tasks = [*TASKS]
    document = Evidence("portfolio", "Work", "I did it.")
    tasks[0] = replace(tasks[0], evidence=(document, document))
    content = section(make_card("mine", tasks, {}), "What is in it")
    assert "| weak_verbs | 2 | 1 |" in content
    assert "| all | 2 | 1 |" in content
    assert "| fixes | 0 | 0 | 0 |" in content
    assert "| evidence documents | 0 | 0 | 2 |" in content
    assert "Tasks with evidence: 1 of 3." in content


def test_a_card_says_which_file_it_is_of(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    write_jsonl(file, TASKS)
    card = make_card("mine", TASKS, {})
    assert hashlib.sha256(file.read_bytes()).hexdigest() in card
    assert not is_of_others(card, TASKS)
    assert is_of_others(card, TASKS[:2])
    assert is_of_others(card, [*TASKS[:2], replace(TASKS[2], job="Another")])
    assert not is_of_others("# By hand", TASKS)


def test_a_card_states_the_origin_and_its_limits() -> None:
    origin = {
        "generator": "model",
        "cost": {"dollars": 1.5},
        "roles": ["cook"],
        "license": "mit",
        "limits": ["English only."],
    }
    card = make_card("mine", TASKS, origin)
    made = section(card, "How it was made")
    assert '| generator | model |\n| cost | {"dollars": 1.5} |\n| roles | ["cook"] |' in made
    assert "mit" not in made
    assert "- English only." in section(card, "Known limits")
    assert section(make_card("mine", TASKS, {}), "How it was made").strip() == "Not known."


def test_a_card_lists_the_findings_of_the_check() -> None:
    checks = section(make_card("mine", TASKS, {}), "Checks")
    assert "**not fit** to train on" in checks
    assert "Error: resumes of eval that are near-duplicates of a resume of train: 1\n" in checks
    assert "hand-2 and hand-0 (1.00)" in checks


def pushed(name: str, folder: Path) -> datasets.DatasetDict:
    """The bundled data that the command writes, with the card of the documentation."""
    assert main(["data", "push", name, "--to", str(folder)]) == 0
    card = Path(__file__).parents[1] / "docs" / "cards" / f"data-{name}.md"
    assert (folder / "README.md").read_text("utf-8") == card.read_text("utf-8")
    assert DatasetCard.load(card).data.license == "apache-2.0"
    return datasets.load_from_disk(str(folder))


def test_the_labelled_pairs_are_a_data_set_with_a_card(tmp_path: Path) -> None:
    data = pushed("pairs", tmp_path / "pairs")
    rows = {row["id"]: (half, row) for half, rows in data.items() for row in rows}
    for pair in load_pairs():
        half, row = rows.pop(pair.pair_id)
        assert (half, row["revised"], row["labels"]) == (pair.half, pair.revised, pair.labels)
        own = {key: row[key] for key in ("task_id", "job", "resume", "fixes", "evidence")}
        assert Task.from_row({**own, "weakness": pair.task.weakness, "split": "eval"}) == pair.task
    assert not rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "mini"])
def test_the_bundled_tasks_are_a_data_set_with_a_card(name: str, tmp_path: Path) -> None:
    data = pushed(name, tmp_path / name)
    found = [row["task_id"] for rows in data.values() for row in rows]
    assert found == [task.task_id for task in load_tasks(name)]
