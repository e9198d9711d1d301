"""Build tasks from files with resumes, jobs and evidence; the core of `resume-gym data import`.

`import_resumes` reads the files, pairs resumes with jobs, diagnoses each resume and replaces its
header on request. Imported tasks have no fixes, since the files state neither the improved text of
a `Fix` nor the facts that support it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

from resume_gym.corpus.diagnosis import NO_BULLETS, Diagnosis, diagnose, fit
from resume_gym.corpus.document_error import DocumentError
from resume_gym.corpus.documents import ReadFile, read_document
from resume_gym.corpus.duplicates import bare_resume, heading, near_duplicates
from resume_gym.corpus.header import anonymise
from resume_gym.corpus.outline import CHECK
from resume_gym.corpus.recognition import TITLES
from resume_gym.episode.tasks import MOST_EVIDENCE, Evidence, Task
from resume_gym.text.lines import parse

PAIRINGS = ("best", "all", "random")
_EVAL_SHARE = 5  # one in this many candidates is put into the split eval
_LIKENESS = 0.8  # minimum similarity of resumes that count as versions of one resume
_KINDS = {"review": "performance_review", "apprais": "performance_review", "portfolio": "portfolio"}


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of an import.

    Attributes:
        pairing: how to pair resumes with jobs; one of `PAIRINGS`.
        seed: seed of the random pairing.
        weakness: weakness of every task; None to diagnose the weakness of each resume.
        split: split of every task; None puts about one in five candidates into eval, by a hash of
            the resume. Near-duplicates, and resumes with the same name or email, share a split.
        anonymous: whether to replace the header of each resume, see `header.anonymise`.
        evidence_kind: kind of every evidence document; None to infer it from the file name.
    """

    pairing: str = "best"
    seed: int = 0
    weakness: str | None = None
    split: str | None = None
    anonymous: bool = False
    evidence_kind: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """An imported task, its source files and its diagnosis.

    Attributes:
        task: the imported task.
        resume, job: source files of the task's resume and job.
        fit: share of the job's content that the resume covers, in [0, 1].
        diagnosis: weaknesses found in the resume.
    """

    task: Task
    resume: Path
    job: Path
    fit: float
    diagnosis: Diagnosis


@dataclass(slots=True)
class ImportReport:
    """Result of an import.

    Attributes:
        made: tasks with their source files, in the order of the resumes.
        failed: files that could not be used, each with the reason.
        notes: notes on files, e.g. on omitted content or a replaced header.
        formats: number of resumes by file format.
    """

    made: list[Made] = field(default_factory=list)
    failed: list[tuple[Path, str]] = field(default_factory=list)
    notes: list[tuple[Path, str]] = field(default_factory=list)
    formats: Counter[str] = field(default_factory=Counter)

    @property
    def tasks(self) -> list[Task]:
        """The imported tasks, without their source files."""
        return [made.task for made in self.made]


def import_resumes(
    resumes: Sequence[Path],
    jobs: Sequence[Path],
    evidence: Sequence[Path] = (),
    options: Options | None = None,
) -> ImportReport:
    """Build tasks from resume and job files, without writing any file.

    A task ID is a hash of the resume and job as read, so neither `Options.anonymous` nor the order
    of the files changes it.

    Args:
        resumes: resume files.
        jobs: job description files.
        evidence: documents about the candidates. If there are several resumes, a document belongs
            to the resume whose file name (without extension) is the beginning of the document's
            file name. If there is none, it belongs to the resume whose heading (the candidate's
            name) occurs in its text. Names match only as whole words. A document cannot be used if
            it matches no resume or several, or if its file name and text name different candidates.
        options: settings; defaults to `Options()`.

    Returns:
        A report with the tasks and, in `ImportReport.failed`, the unusable files.

    """
    options = options or Options()
    report = ImportReport()
    candidates = _read_all(resumes, report, outline=True)
    job_texts = {file: doc.text for file, doc in _read_all(jobs, report, outline=False).items()}
    documents = _read_all(evidence, report, outline=False)
    if not (candidates and job_texts):
        return report
    owned = _owners(documents, candidates, report)
    splits = {} if options.split else _splits(candidates)
    for path, document in candidates.items():
        text = resume = document.text
        if options.anonymous:
            try:
                resume, _, note = anonymise(text)
            except DocumentError as problem:
                report.failed.append((path, str(problem)))
                continue
            report.notes.append((path, note))
        report.formats[document.kind] += 1
        papers = _evidence(owned.get(path, {}), options.evidence_kind)
        fits = {file: fit(text, job) for file, job in job_texts.items()}
        for file in _choose(fits, options.pairing, f"{options.seed}:{text}"):
            job = job_texts[file]
            digest = sha256("\0".join((text, job)).encode()).hexdigest()
            diagnosis = diagnose(resume, job)
            task = Task(
                f"import-{digest[:12]}",
                job,
                resume,
                options.weakness or diagnosis.weakness,
                options.split or splits[path],
                evidence=papers,
            )
            report.made.append(Made(task, path, file, fits[file], diagnosis))
            if not diagnosis.bullets:
                report.notes.append((path, NO_BULLETS))
            if diagnosis.shares and not diagnosis.clear and not options.weakness:
                report.notes.append((path, "no weakness was found; wrong_emphasis is assumed"))
    report.notes.sort(key=lambda note: note[1] == CHECK)  # the last notes say what to do
    return report


def _choose(fits: dict[Path, float], pairing: str, seed: str) -> list[Path]:
    """Return the jobs for a resume: all, one at random (seeded by `seed`) or the best fit."""
    if pairing == "all":
        return [*fits]
    if pairing == "random":
        return [[*fits][Random(seed).randrange(len(fits))]]
    return [max(fits, key=lambda job: fits[job])]


def _read_all(
    paths: Sequence[Path], report: ImportReport, *, outline: bool
) -> dict[Path, ReadFile]:
    """Read files; leave out unreadable files and files with the same text as an earlier file."""
    documents: dict[Path, ReadFile] = {}
    first: dict[str, Path] = {}
    for path in paths:
        try:
            document = read_document(path, outline=outline)
        except (DocumentError, ModuleNotFoundError) as problem:
            report.failed.append((path, str(problem)))
            continue
        report.notes += [(path, note) for note in document.notes]
        same = first.setdefault(" ".join(document.text.split()), path)
        if same is path:
            documents[path] = document
        else:
            report.notes.append((path, f"left out: it has the same text as {same}"))
    return documents


def _owners(
    evidence: dict[Path, ReadFile], resumes: dict[Path, ReadFile], report: ImportReport
) -> dict[Path, dict[Path, str]]:
    """Map resumes to their evidence; report documents that match no resume or several."""
    owned: dict[Path, dict[Path, str]] = defaultdict(dict)
    headings = {path: heading(resume.text) for path, resume in resumes.items()}
    for file, document in evidence.items():
        by_file = [path for path in resumes if _begins(file.stem, path.stem)]
        # The longest file name wins: jane-doe-review.md belongs to jane-doe.md, not to jane.md.
        longest = max((len(path.stem) for path in by_file), default=0)
        by_file = [path for path in by_file if len(path.stem) == longest]
        by_text = [path for path, head in headings.items() if head and _names(document.text, head)]
        if by_file and by_text and not set(by_file) <= set(by_text):
            by_file += by_text
        owners = [*resumes] if len(resumes) == 1 else (by_file or by_text)
        if len(owners) != 1:
            why = f"it matches {len(owners) or 'none'} of the resumes; its file name must begin "
            why += "with the file name of a resume, or its text must name exactly one candidate"
            report.failed.append((file, why))
            continue
        papers = owned[owners[0]]
        size = sum(map(len, (*papers.values(), document.text)))
        if size > MOST_EVIDENCE:
            told = f"{size:,} characters, the limit is {MOST_EVIDENCE:,}"
            report.failed.append((file, f"with it, the evidence about the candidate has {told}"))
        else:
            papers[file] = document.text
    return owned


def _begins(name: str, word: str) -> bool:
    """Return whether a file name begins with `word`, and no letter or digit follows."""
    return bool(re.match(rf"{re.escape(word)}(?![^\W_])", name, re.IGNORECASE))


def _names(text: str, name: str) -> bool:
    """Return whether a text has a name as whole words; "Bo Lind-Berg" does not name Bo Lind."""
    return bool(re.search(rf"(?<![\w-]){re.escape(name)}(?!-?\w)", text))


def _evidence(papers: dict[Path, str], kind: str | None) -> tuple[Evidence, ...]:
    """Return the evidence of one candidate; `kind` None infers the kinds from the file names."""
    evidence = []
    for file, paper in papers.items():
        kinds = (known for word, known in _KINDS.items() if word in file.stem.lower())
        inferred = kind or next(kinds, "project_notes")
        # Do not use the file name as the title: it often contains the candidate's name.
        title = heading(paper) or inferred.replace("_", " ").capitalize()
        evidence.append(Evidence(inferred, title, paper))
    return tuple(evidence)


def _splits(resumes: dict[Path, ReadFile]) -> dict[Path, str]:
    """Assign each resume to train or eval, and all resumes of a candidate to the same split."""
    # `group` maps each resume to one resume that represents all resumes of the same candidate.
    group = {path: path for path in resumes}

    def join(path: Path, other: Path) -> None:
        old, new = group[other], group[path]
        group.update({member: new for member, root in group.items() if root == old})

    first: dict[str, Path] = {}
    for path, document in resumes.items():
        for sign in _identity(document.text):
            join(first.setdefault(sign, path), path)
    paths = {document.text: path for path, document in resumes.items()}
    for pair in near_duplicates({text: bare_resume(text) for text in paths}, {}, _LIKENESS)[0]:
        join(paths[pair.other_id], paths[pair.task_id])
    # A candidate's split depends on the smallest hash of their resumes, not on the file order.
    drawn: dict[Path, int] = {}
    for path, document in resumes.items():
        number = int.from_bytes(sha256(document.text.encode()).digest()[:8], "big")
        drawn[group[path]] = min(number, drawn.get(group[path], number))
    return {path: "train" if drawn[root] % _EVAL_SHARE else "eval" for path, root in group.items()}


def _identity(resume: str) -> set[str]:
    """Return strings that identify a candidate: the sorted words of the name, email addresses."""
    name = heading(resume).lower()
    words = [] if name in TITLES else sorted(re.findall(r"\w+", name))
    try:
        header = anonymise(resume).header
    except DocumentError:  # no section heading: all of it may be header
        header = resume
    links = (name.text.lower() for line in parse(header) for name in line.content.names)
    return {" ".join(words), *(link for link in links if "@" in link)} - {""}
