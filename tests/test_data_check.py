import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import make_task

from resume_gym import Fix, Task, load_tasks
from resume_gym.cli.data_check import add_command
from resume_gym.corpus.check import CheckReport, check, read_rows
from resume_gym.corpus.duplicates import near_duplicates
from resume_gym.episode.tasks import Evidence, write_jsonl
from resume_gym.support.command_line import Parser
from resume_gym.support.user_errors import TaskError
from resume_gym.synthesis.manifest import find_page_lines
from resume_gym.synthesis.task_file import Generation, generate

ROW = {"task_id": "a", "job": "A job", "resume": "# A\n- b\n", "weakness": "weak_verbs"}


def found(report: CheckReport, kind: str) -> list[str]:
    """The examples of a kind of finding; empty if there is none."""
    return [example for one in report.findings if one.kind == kind for example in one.examples]


def severity(report: CheckReport, kind: str) -> list[str]:
    return [one.severity for one in report.findings if one.kind == kind]


def command(*arguments: str) -> int:
    parser = Parser("resume-gym", ())
    add_command(parser.add_subparsers())
    options = parser.parse_args(["check", *arguments])
    status: int = options.run(options)
    return status


def words(start: int, count: int) -> str:
    """Words of letters, none of them twice but for those that make them English."""
    digits = str.maketrans("0123456789", "abcdefghij")
    numbers = range(start, start + count)
    return " ".join(f"w{n}".translate(digits) if n % 10 else "of" for n in numbers)


@pytest.mark.parametrize(("source", "page_lines"), [("default", 55), ("mini", 20)])
def test_bundled_tasks_are_fit(source: str, page_lines: int) -> None:
    report = check(load_tasks(source), page_lines=page_lines)
    assert report.fit
    assert report.tasks == 200
    assert {finding.kind for finding in report.findings} <= {"idle_repair"}
    assert sum(finding.count for finding in report.findings) <= 1


def test_every_bad_row_is_listed_and_the_others_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    rows: list[Any] = [
        ROW,
        {**ROW, "task_id": "b", "weakness": "typos"},
        "{",
        {**ROW, "task_id": "c", "fixes": [{"old": "nowhere", "new": "x"}]},
        {**ROW, "job": None},
        ROW,
    ]
    text = "\n\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    file.write_bytes(text.encode() + b'\n{"task_id": "\xff"}')
    report = check(*read_rows([file]))
    bad = found(report, "bad_row")
    assert [row.partition(": ")[0] for row in bad] == [f"{file}, line {n}" for n in (3, 5, 9, 12)]
    assert bad[0].startswith(f"{file}, line 3: weakness: expected one of")
    assert bad[2].endswith(": job: expected a string, got NoneType")
    assert found(report, "duplicate_id") == [f"{file}, line 11: 'a' is already in {file}, line 1"]
    assert report.tasks == 2
    assert "c: fixes[0].old" in found(report, "fix")[0]
    assert not report.fit


def test_a_file_of_another_format_does_not_flood_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b"\x93\n" * 3000)
    assert command(str(file)) == 1
    told = capsys.readouterr().out
    assert "rows that are not valid tasks: 3000\n" in told
    assert "and 2,980 more\n" in told
    assert told.count("line ") == 20


def test_an_empty_file_has_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n")
    assert command(str(file)) == 1
    told = capsys.readouterr().out
    assert "error   sources without a valid task: 1\n" in told
    assert told.endswith("not fit to train on; tasks: 0, kinds of errors: 1, of warnings: 0\n")


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.7, 1.0])
def test_no_near_duplicate_is_missed(threshold: float) -> None:
    draw = Random(3)
    texts = {f"t{n}": " ".join(draw.choices("abc", k=draw.randint(3, 9))) for n in range(60)}
    split = {key: text.split() for key, text in texts.items()}
    runs = {key: {*zip(w, w[1:], w[2:], strict=False)} for key, w in split.items()}
    near = {
        later
        for earlier, later in combinations(texts, 2)
        if len(runs[earlier] & runs[later]) / len(runs[earlier] | runs[later]) >= threshold
    }
    assert near
    assert {pair.task_id for pair in near_duplicates(texts, {}, threshold)[0]} == near


def many(count: int, split: str = "train") -> list[Task]:
    """Tasks that have nothing in common."""
    at = 0 if split == "train" else 300
    return [
        replace(
            make_task(at + n, split=split),
            resume=f"# {words(100 * (at + n), 2)}\n- {words(100 * (at + n) + 3, 30)}\n",
            job=words(100 * (at + n) + 40, 30),
        )
        for n in range(count)
    ]


def test_a_few_like_resumes_are_a_warning_and_many_an_error() -> None:
    tasks = many(6)
    other = tasks[0].resume.replace(words(0, 2), "Bo Li")
    again = replace(tasks[0], task_id="again", job="Another job", resume=other)
    assert severity(check([*tasks, again]), "near_resume_train") == ["error"]
    more = [replace(task, task_id=f"x{n}") for n, task in enumerate(many(26)[6:])]
    few = check([*tasks, *more, again])
    assert severity(few, "near_resume_train") == ["warning"]
    assert found(few, "near_resume_train") == ["again and hand-0 (1.00)"]
    assert not found(few, "same_task")


def test_one_resume_for_many_jobs_is_no_near_duplicate() -> None:
    tasks = many(3)
    pairs = [
        replace(task, task_id=f"{task.task_id}-{n}", job=words(5000 + 40 * n, 30))
        for task in tasks
        for n in range(2)
    ]
    report = check(pairs)
    assert report.fit
    assert not found(report, "near_resume_train")
    assert severity(report, "repeated_resume") == ["warning"]
    assert found(report, "repeated_resume") == ["hand-0-1", "hand-1-1", "hand-2-1"]


def test_what_leaks_between_the_splits() -> None:
    train, held_out = many(2), many(2, "eval")
    again = check([*train, replace(train[1], task_id="again")])
    assert found(again, "same_task") == ["again and hand-1"]
    assert {one.kind for one in check([*train, *held_out]).findings} == {"no_fixes"}
    same = replace(held_out[0], resume=train[1].resume)
    report = check([*train, same, held_out[1]])
    assert found(report, "leaked_resume") == ["hand-300 and hand-1 (1.00)"]
    assert severity(report, "shared_bullet") == ["error"]


def test_one_shared_bullet_of_many_is_a_warning_and_standard_lines_are_none() -> None:
    train, held_out = many(1)[0], many(1, "eval")[0]
    own = "".join(f"- {words(9000 + 10 * n, 8)}\n" for n in range(20))
    train = replace(train, resume=f"{train.resume}- Kept the books of the ferry\n")
    held_out = replace(held_out, resume=f"{held_out.resume}{own}- Kept the books of the ferry\n")
    report = check([train, held_out])
    assert severity(report, "shared_bullet") == ["warning"]
    assert report.fit
    line = "## Languages\n- English: Native or bilingual proficiency\n"
    told = [replace(task, resume=task.resume + line) for task in (many(1)[0], many(1, "eval")[0])]
    assert not found(check(told), "shared_bullet")


def test_the_repaired_bullet_leaks_too() -> None:
    train, held_out = many(1)[0], many(1, "eval")[0]
    strong = "Cut the cost of parcels by 12%"
    line = train.resume.split("\n")[1].removeprefix("- ")
    report = check(
        [
            replace(train, fixes=(Fix(line, strong, (strong,)),)),
            replace(held_out, resume=f"{held_out.resume}- Cut the cost of parcels by 40%\n"),
        ]
    )
    assert found(report, "shared_bullet") == [
        '"cut the cost of parcels by 0" in hand-0 and hand-300'
    ]


def test_pages_suit_their_weakness() -> None:
    short, long = many(2)
    short = replace(short, weakness="too_long")
    report = check([short, long], page_lines=2)
    assert report.findings
    assert not found(report, "overflows")
    assert found(report, "fits") == ["hand-0: 2"]
    report = check([short, long], page_lines=1)
    assert found(report, "overflows") == ["hand-1: 2"]
    assert not found(report, "fits")


@pytest.mark.parametrize(
    ("fixes", "says"),
    [
        ((Fix("Helped", "Led"),), "fixes[0].old: expected once, found 2 times: 'Helped'"),
        ((Fix("Helped build", "Built"), Fix("Helped", "Led")), ""),
        ((Fix("Helped build", "Built"), Fix("Helped build", "Led")), "fixes[1].old"),
        ((Fix("", "Led"),), "fixes[0].old: expected once, found 0 times: ''"),
    ],
)
def test_fixes_apply_in_their_order(fixes: tuple[Fix, ...], says: str) -> None:
    said = found(check([replace(make_task(), fixes=fixes)]), "fix")
    assert bool(said) == bool(says)
    assert says in "".join(said)


def test_fixes_change_something_and_suffice_for_a_long_page() -> None:
    idle = check([replace(make_task(), fixes=(Fix("Helped build", "Helped build"),))])
    assert found(idle, "no_op_fix") == ["hand-0: fixes[0]: 'Helped build'"]
    assert not idle.fit
    task = replace(make_task(), weakness="too_long", fixes=(Fix("\n## Skills\nPython, SQL", ""),))
    assert found(check([task], page_lines=9), "fixed_overflows") == []
    assert found(check([task], page_lines=8), "fixed_overflows") == ["hand-0: 9"]


@pytest.mark.parametrize("name", ["task_id", "job", "resume"])
def test_a_blank_text_is_an_error(name: str) -> None:
    report = check([replace(make_task(), **{name: " \n"})])  # type: ignore[arg-type]
    assert severity(report, "blank") == ["error"]
    assert found(report, "blank")[0].endswith(f": {name}")


@pytest.mark.parametrize(
    "task",
    [
        replace(make_task(), job="Planted weakness: vague_bullets. Data engineer."),
        replace(make_task(), evidence=(Evidence("portfolio", "Weak_Verbs", "Text."),)),
    ],
)
def test_the_name_of_a_weakness_is_an_error(task: Task) -> None:
    assert severity(check([task]), "named_weakness") == ["error"]
    plain = replace(make_task(), job="No metrics, too-long pages and weak verbs: we mind them.")
    assert not found(check([plain]), "named_weakness")


def test_fixes_that_do_not_improve_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = [task for task in load_tasks("default") if task.weakness == "weak_verbs"][:12]
    assert not found(check(verbs), "idle_repair")
    monkeypatch.setattr("resume_gym.corpus.check.JUDGED", 4)
    report = check([replace(task, weakness="no_metrics") for task in verbs])
    assert severity(report, "idle_repair") == ["warning"]
    (told,) = (one for one in report.findings if one.kind == "idle_repair")
    assert told.text.endswith(", among 4 graded tasks")
    assert told.examples[0].endswith(": no_metrics, quantification")


@pytest.mark.parametrize(
    ("facts", "evidence", "kind"),
    [
        ((), "", "invented_figure"),
        (("It had 13 harbours.",), "", "invented_figure"),
        (("It took 40%.",), "", "no_evidence"),
        (("It took 40%.",), "Nothing of note.", "evidence_figure"),
        ((), "It went down by 40 percent.", ""),
    ],
)
def test_figures_of_fixes_have_a_source(facts: tuple[str, ...], evidence: str, kind: str) -> None:
    fix = Fix("for 12 harbours", "for 12 harbours, 40% cheaper", facts)
    documents = (Evidence("portfolio", "Work", evidence),) if evidence else ()
    report = check([replace(make_task(), fixes=(fix,), evidence=documents)])
    kinds = ("invented_figure", "evidence_figure", "no_evidence")
    assert [one for one in kinds if found(report, one)] == [kind] * bool(kind)
    if kind:
        assert found(report, kind) == ["hand-0: 40%"]


def test_the_command_prints_findings_and_sets_its_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, held_out = tmp_path / "train.jsonl", tmp_path / "eval.jsonl"
    write_jsonl(train, many(3))
    write_jsonl(held_out, [replace(many(1)[0], task_id="leak", split="eval")])
    assert command(str(train)) == 0
    assert "fit to train on; tasks: 3, kinds of errors: 0" in capsys.readouterr().out
    assert command(str(train), str(held_out)) == 1
    shown = capsys.readouterr().out
    leaked = "error   resumes of eval that are near-duplicates of a resume of train: 1\n"
    assert f"{leaked}          leak and hand-0 (1.00)" in shown
    assert command(str(train), str(held_out), "--json") == 1
    written = json.loads(capsys.readouterr().out)
    assert written["fit"] is False
    assert "leaked_resume" in [one["kind"] for one in written["findings"]]


@pytest.mark.parametrize(
    ("source", "height"),
    [
        *((f"{name}-mini:1", 20) for name in ("procedural", "omission", "ladder")),
        *((name, 55) for name in ("default", "procedural:1:2", "ladder:1", "corpus-mini")),
    ],
)
def test_the_name_of_a_source_has_its_page_height(source: str, height: int) -> None:
    assert find_page_lines(source) == height


def test_the_manifest_beside_a_file_has_its_page_height(tmp_path: Path) -> None:
    mini, full = tmp_path / "mini.jsonl", tmp_path / "full.jsonl"
    for file, size in ((mini, "mini"), (full, "full")):
        generate(Generation(generator="procedural", count=12, seed=3, out=file, size=size))
    assert command(str(mini)) == command(str(full)) == 0
    with pytest.raises(TaskError, match="differ in page height; choose one with --page-lines"):
        command(str(mini), str(full))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.jsonl"], "there is no file 'missing.jsonl'"),
        (["default", "missing.jsonl"], "there is no file 'default'"),
        (["default", "--threshold", "2"], "--threshold: expected a number > 0 and <= 1, got 2"),
    ],
)
def test_user_errors_are_one_line(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match=says):
        command(*arguments)
