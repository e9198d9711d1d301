"""`resume-gym data import`: files in, tasks and a report out."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import RESUME
from document_files import TEXT, pdf, put, word_file

from resume_gym import TaskError, load_tasks
from resume_gym.cli.data_import import Incomplete, add_command
from resume_gym.corpus.assembling import Options, import_resumes
from resume_gym.corpus.check import check
from resume_gym.corpus.diagnosis import diagnose, fit
from resume_gym.support.command_line import Parser

ANALYST = "Data Analyst\n\n- SQL, Python, dashboards in Tableau, ETL, reports for retail\n"
ENGINEER = "Data Engineer\n\n- Booking pipelines for ferry lines and harbours, audits, on-call\n"


def run(*arguments: object) -> int:
    parser = Parser("resume-gym", ())
    add_command(parser.add_subparsers())
    options = parser.parse_args(["import", *map(str, arguments)])
    status: int = options.run(options)
    return status


@pytest.fixture
def files(tmp_path: Path) -> Path:
    put(tmp_path, "jane.txt", TEXT)
    put(tmp_path, "ada.md", RESUME)
    put(tmp_path, "jo.docx", word_file())
    put(tmp_path, "analyst.txt", ANALYST)
    put(tmp_path, "engineer.md", ENGINEER)
    return tmp_path


def some(folder: Path, *names: str) -> list[Path]:
    return [folder / name for name in names]


RESUMES = ("jane.txt", "ada.md", "jo.docx")
JOBS = ("analyst.txt", "engineer.md")


def test_resumes_are_paired_with_the_job_they_tell_most_of(files: Path) -> None:
    report = import_resumes(some(files, *RESUMES), some(files, *JOBS))
    assert [(one.resume.name, one.job.name) for one in report.made] == [
        ("jane.txt", "analyst.txt"),
        ("ada.md", "engineer.md"),
        ("jo.docx", "engineer.md"),
    ]
    assert not report.failed
    first, second = report.tasks[:2]
    assert first.resume.startswith("# JANE Q. PUBLIC\n\nSpringfield, IL")
    assert (second.resume, second.job) == (RESUME, ENGINEER)
    assert (second.fixes, second.facts, second.evidence) == ((), (), ())


def test_all_and_random_pairs(files: Path) -> None:
    def pairs(pairing: str, seed: int = 0, names: Sequence[str] = RESUMES) -> set[tuple[str, str]]:
        options = Options(pairing, seed)
        report = import_resumes(some(files, *names), some(files, *JOBS), options=options)
        return {(one.resume.name, one.job.name) for one in report.made}

    assert len(pairs("all")) == 6
    assert pairs("random") == pairs("random")
    assert pairs("random", names=RESUMES[:1]) <= pairs("random")
    assert len({frozenset(pairs("random", seed)) for seed in range(8)}) > 1


def test_ids_and_splits_depend_on_the_texts_alone(files: Path) -> None:
    jobs = some(files, *JOBS)
    told = import_resumes(some(files, *RESUMES), jobs).tasks
    options = Options(anonymous=True)
    again = import_resumes(some(files, *reversed(RESUMES)), jobs[::-1], options=options).tasks
    assert {(one.task_id, one.split) for one in told} == {(one.task_id, one.split) for one in again}
    assert len({one.task_id for one in told}) == 3
    held_out = import_resumes(some(files, *RESUMES), jobs, options=Options(split="eval")).tasks
    assert {one.split for one in held_out} == {"eval"}


def test_one_resume_in_five_is_for_eval(tmp_path: Path) -> None:
    marks = ["".join(chr(97 + int(digit)) for digit in f"{n:03}") for n in range(200)]
    texts = [f"# Ada {m.title()}\n\n- Built {m} of {m}{m}\n- Led x{m} by y{m}\n" for m in marks]
    resumes = [put(tmp_path, f"{n}.md", text) for n, text in enumerate(texts)]
    tasks = import_resumes(resumes, [put(tmp_path, "job.txt", ANALYST)]).tasks
    assert 25 <= sum(task.split == "eval" for task in tasks) <= 55


BODY = "\n".join(f"- Moved {word} by night and by day" for word in ENGINEER.split())


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (
            "# Ada Moreno\n\n## Jobs\n\n- Built {} ships\n",
            "# MORENO, ADA\n\nada.moreno@example.com",
        ),
        ("# Resume\n\nada@example.com\n\n- Built {}\n", "# Resume\n\nLisbon | Ada@Example.com\n"),
        (f"## Jobs\n\n{BODY}\n- Saved {{}} ships\n", f"## Jobs\n\n{BODY}\n- Cut costs\n"),
    ],
    ids=["name", "mail", "versions"],
)
def test_a_candidate_is_in_one_split(tmp_path: Path, text: str, other: str) -> None:
    job = put(tmp_path, "job.txt", ANALYST)
    for n in range(12):
        files = [put(tmp_path, "a.md", text.format(n)), put(tmp_path, "b.md", other)]
        assert len({task.split for task in import_resumes(files, [job]).tasks}) == 1


def test_a_text_is_taken_once(files: Path) -> None:
    same = put(files, "again.txt", TEXT.replace("\n", "\r\n"))
    report = import_resumes([files / "jane.txt", same], some(files, *JOBS))
    assert len(report.made) == 1
    note, *others = report.notes
    assert note == (same, f"left out: it has the same text as {files / 'jane.txt'}")
    assert all(text.endswith("check the Markdown") for _, text in others)


def test_evidence_goes_to_the_candidate_that_it_is_about(files: Path) -> None:
    papers = [
        put(files, "jane-review.md", "# Review\n\nShe built dashboards for 4 regions.\n"),
        put(files, "notes.txt", "Ada Moreno moved 12 harbours.\n"),
        put(files, "whose.md", "Somebody did something.\n"),
    ]
    report = import_resumes(some(files, *RESUMES), some(files, *JOBS), papers)
    found = {one.resume.name: one.task.evidence for one in report.made}
    assert [(one.kind, one.title) for one in found["jane.txt"]] == [
        ("performance_review", "Review")
    ]
    assert [(one.kind, one.title) for one in found["ada.md"]] == [
        ("project_notes", "Project notes")
    ]
    assert found["ada.md"][0].text == "Ada Moreno moved 12 harbours.\n"
    assert [path.name for path, _ in report.failed] == ["whose.md"]
    assert "matches none of the resumes" in report.failed[0][1]
    names = [put(files, f"{n}.md", f"# {n}\n\n- Built it\n") for n in ("smith", "smith-jones")]
    paper = put(files, "smith-jones-review.md", "Good.\n")
    report = import_resumes(names, some(files, *JOBS), [paper])
    assert [len(task.evidence) for task in report.tasks] == [0, 1], "the longest name counts"

    lone = import_resumes(
        [files / "ada.md"], some(files, *JOBS), papers[2:], Options(evidence_kind="portfolio")
    )
    assert [one.kind for one in lone.tasks[0].evidence] == ["portfolio"]


@pytest.mark.parametrize(
    ("name", "text", "owner"),
    [
        ("annabel-frost-review.md", "Annabel Frost cut costs.\n", ""),
        ("notes.md", "Bo Lindqvist won a prize.\n", ""),
        ("notes.md", "Bo Lind-Berg won a prize.\n", ""),
        ("ann-review.md", "Bo Lind won a prize.\n", ""),
        ("ann-review.md", "She won a prize with Bo Lindqvist.\n", "ann.md"),
        ("ann_2.md", "Ann Lee and Bo Lind won a prize.\n", "ann.md"),
        ("ann2.md", "Ann Lee and Bo Lind won a prize.\n", ""),
        ("ann2-review.md", "She won a prize.\n", ""),
        ("notes.md", "They gave Bo Lind's team a prize.\n", "bo.md"),
    ],
)
def test_evidence_is_matched_by_whole_names(
    tmp_path: Path, name: str, text: str, owner: str
) -> None:
    people = {"ann.md": "Ann Lee", "bo.md": "Bo Lind"}
    resumes = [put(tmp_path, file, f"# {who}\n\n- Built it\n") for file, who in people.items()]
    paper = put(tmp_path, name, text)
    report = import_resumes(resumes, [put(tmp_path, "job.txt", ANALYST)], [paper])
    owners = [made.resume.name for made in report.made if made.task.evidence]
    assert owners == ([owner] if owner else [])
    assert [path for path, _ in report.failed] == ([] if owner else [paper])


def test_evidence_has_a_limit(tmp_path: Path) -> None:
    resume = put(tmp_path, "ann.md", "# Ann Lee\n\n- Built it\n")
    papers = [put(tmp_path, f"{n}.md", f"Ann built {n}. " * 4000) for n in range(3)]
    report = import_resumes([resume], [put(tmp_path, "job.txt", ANALYST)], papers)
    assert len(report.tasks[0].evidence) == 1
    assert [path for path, _ in report.failed] == papers[1:]
    assert report.failed[0][1].endswith("104,002 characters, the limit is 100,000")


def test_an_anonymous_import_replaces_headers_alone(files: Path) -> None:
    paper = put(files, "notes.md", "# Notes on Ada Moreno\n\nAda Moreno moved 12 harbours.\n")
    resumes = some(files, *RESUMES)
    anonymous = Options(anonymous=True)
    report = import_resumes(resumes, some(files, *JOBS), [paper], anonymous)
    assert not report.failed
    for task in report.tasks:
        assert task.resume.startswith("# Candidate\n\n## ")
    task = report.tasks[1]
    assert task.resume == RESUME.replace(RESUME.partition("## ")[0], "# Candidate\n\n")
    # the evidence is matched by the name in the header that is replaced
    assert task.evidence[0].text == "# Notes on Ada Moreno\n\nAda Moreno moved 12 harbours.\n"
    note = '2 lines above "Experience" replaced by "# Candidate"; the rest is as it was'
    assert report.notes.count((files / "ada.md", note)) == 1


def test_a_resume_without_a_section_is_left_out_of_an_anonymous_import(files: Path) -> None:
    bare = put(files, "bare.md", "# Bo\nbo@example.com\n\n- Built it\n")
    resumes = [bare, files / "ada.md"]
    report = import_resumes(resumes, some(files, *JOBS), options=Options(anonymous=True))
    assert [one.resume.name for one in report.made] == ["ada.md"]
    ((file, why),) = report.failed
    assert file == bare
    assert why.startswith("expected a section heading")


def test_diagnosis_finds_what_was_planted() -> None:
    tasks = load_tasks("default")
    found = [diagnose(task.resume, task.job).weakness for task in tasks]
    right = sum(task.weakness == one for task, one in zip(tasks, found, strict=True))
    assert right / len(tasks) > 0.75
    assert all(
        (a.weakness == "too_long") == (b == "too_long") for a, b in zip(tasks, found, strict=True)
    )


def test_diagnosis_of_a_resume_without_faults_or_bullets() -> None:
    found = diagnose("# Ada Moreno\n\nLisbon\n", ENGINEER)
    assert (found.weakness, found.clear, found.bullets) == ("wrong_emphasis", False, 0)
    long = diagnose("# Ada Moreno\n" + "- Helped with it\n" * 60, ENGINEER)
    assert (long.weakness, long.lines) == ("too_long", 61)


def test_the_fit_weighs_rare_words_more() -> None:
    resume = "- Kubernetes\n- Pipelines"
    jobs = ["Kubernetes and pipelines", "Kubernetes and gardening", "Gardening"]
    whole, part, nothing = (fit(resume, job) for job in jobs)
    assert whole == 1.0 > part > nothing == 0.0


def test_a_lone_candidate_in_eval_is_pointed_out(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = files / "engineer.md"
    for number, split in ((0, "eval"), (1, "train")):
        out = files / f"{split}.jsonl"
        resume = put(files, "one.md", f"# Ada Moreno\n\n- Helped with {number} ships\n")
        run(resume, "--jobs", job, "--out", out)
        assert [task.split for task in load_tasks(str(out))] == [split]
        assert ("All tasks are in eval" in capsys.readouterr().out) == (split == "eval")
    run(resume, "--jobs", job, "--out", out, "--split", "eval")
    assert "All tasks are in eval" not in capsys.readouterr().out


def test_one_bad_file_does_not_lose_the_others(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = files / "tasks.jsonl"
    bad = put(files, "bad.txt", b"Ada\nCaf\xe9\n")
    scan = put(files, "scan.pdf", pdf([]))
    (files / "l.md").symlink_to("l.md")
    bad_files = [bad, scan, *some(files, "nowhere.md", "l.md")]
    arguments = [*some(files, "ada.md", "jane.txt"), *bad_files]
    with pytest.raises(
        Incomplete, match=f"could not be used: 4; the tasks of the others are in {out}"
    ):
        run(*arguments, "--jobs", files / "engineer.md", "--out", out)
    assert len(load_tasks(str(out))) == 2
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "bad.txt: it is not in UTF-8",
        "scan.pdf: there is no text",
        "nowhere.md: No such",
    ):
        assert words.split(": ")[1] in said


def test_no_file_is_written_without_tasks(files: Path) -> None:
    out = files / "tasks.jsonl"
    run(files / "ada.md", "--jobs", files / "engineer.md", "--out", out)
    before = out.read_bytes()
    with pytest.raises(Incomplete, match="nothing is written"):
        run(files / "ada.md", "--jobs", put(files, "empty.md", b""), "--out", out)
    for absent, says in (("nowhere.pdf", "No such file"), ("https://a.org/cv.pdf", "an address")):
        with pytest.raises(TaskError, match=rf"{Path(absent).name}: .*{says}"):
            run(absent, "--jobs", files / "engineer.md", "--out", out)
    assert out.read_bytes() == before
    assert not list(files.glob(".*"))


def test_the_command_writes_tasks_and_never_shows_a_header(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = files / "tasks.jsonl"
    command = ["--jobs", *some(files, *JOBS), "--out", out, "--anonymous"]
    run(*some(files, *RESUMES), *command, "--weakness", "too_long", "--split", "train")
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {(row["weakness"], row["split"]) for row in rows} == {("too_long", "train")}
    assert len(load_tasks(str(out))) == 3
    card = (files / "tasks.card.md").read_text(encoding="utf-8")
    assert "| headers of the resumes | replaced |" in card
    said = capsys.readouterr().out + card
    assert "3 tasks (3 train)" in " ".join(said.split())
    run(files / "ada.md", *command)  # an import may be made again
    assert out.read_bytes().count(b"\n") == 1
    for secret in ("Moreno", "PUBLIC", "@"):
        assert secret not in said
        assert not any(secret in row["resume"] for row in rows)


def test_an_import_that_was_killed_can_be_repeated(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = files / "tasks.jsonl"
    command = [files / "ada.md", "--jobs", files / "engineer.md", "--out", out]
    run(*command)
    before = out.read_bytes(), (files / "tasks.card.md").read_bytes()

    def killed(path: Path, text: str, **_: str) -> int:
        path.write_bytes(b"")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            run(*command, "--split", "eval")
    assert (out.read_bytes(), (files / "tasks.card.md").read_bytes()) == before
    run(*command, "--split", "eval")
    assert load_tasks(str(out), "eval")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "missing/tasks.jsonl"], "--out: there is no folder"),
        (["--out", "."], "--out: expected a file, but '.' is a folder"),
        (["--out", "ada.md"], "is one of the files to read"),
        (["--out", "jane.txt"], "--out: 'jane.txt' exists but is not from data import"),
        (["--out", "mine.jsonl"], "--out: 'mine.card.md' exists but is not from data import"),
        (
            ["--evidence", "mine.card.md", "--out", "mine.jsonl"],
            "--out: 'mine.card.md' is one of the files to read",
        ),
    ],
)
def test_invalid_imports_are_errors(
    files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(files)
    put(files, "mine.card.md", "A card of mine\n")
    with pytest.raises(TaskError, match=says):
        run("ada.md", "--jobs", "engineer.md", *arguments)
    assert (files / "ada.md").read_text() == RESUME
    assert (files / "mine.card.md").read_text() == "A card of mine\n"


def test_a_page_that_the_rubric_judge_cannot_read_is_not_fit(files: Path) -> None:
    pages = {
        "bare.md": "# Ada\n\nShe built the pipeline of the harbour\n",
        "luc.md": "# Luc\n\n- Participation à la création\n- Responsable de la file\n",
    }
    for name, text in pages.items():
        report = import_resumes([put(files, name, text)], [files / "engineer.md"])
        assert any("not fit for the rubric judge" in note for _, note in report.notes)
        checked = check(report.tasks)
        assert not checked.fit
        assert any("not fit for the rubric judge" in one.text for one in checked.findings)
    assert not diagnose(pages["luc.md"], ENGINEER).shares


def test_all_bullets_without_figures_are_shown_as_bare(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# Ada\n\n- Helped with it and that\n- Was responsible for the team\n- Cut costs by 9%\n"
    resume = put(files, "bare.md", text)
    run(resume, "--jobs", files / "engineer.md", "--out", files / "t.jsonl", "--json")
    assert json.loads(capsys.readouterr().out)["tasks"][0]["bare"] == pytest.approx(2 / 3)
    run(resume, "--jobs", files / "engineer.md", "--out", files / "t.jsonl")
    assert capsys.readouterr().out.split("\n")[1].split()[5].rstrip("*") == "67"
