"""`resume-gym data import`: make tasks from real resumes and jobs."""

import argparse
import os
from pathlib import Path
from typing import Any

from resume_gym.cli.arguments import Commands, add_options, print_json
from resume_gym.corpus.assembling import PAIRINGS, ImportReport, Options, import_resumes
from resume_gym.episode.tasks import EVIDENCE_KINDS, WEAKNESSES, write_jsonl
from resume_gym.support.atomic_write import check_new_file, replacing, through_links
from resume_gym.support.printing import say
from resume_gym.support.user_errors import TaskError

_COMMAND = "resume-gym data import"


class Incomplete(OSError):  # noqa: N818
    """Raised if input files could not be used; an OSError, so that `main` returns exit status 1."""


def add_command(commands: Commands) -> None:
    """Add the parser of the command `data import`."""
    command = commands.add_parser(
        "import",
        help="make tasks from your own resumes and job descriptions",
        description="Make tasks from resumes and job descriptions in Markdown, plain text, Word or "
        "PDF.",
        examples=["data import cv.pdf --jobs job.md --anonymous --out mine.jsonl"],
        failed="some files could not be used",
    )
    add = command.add_argument
    add("resumes", nargs="+", type=Path, metavar="FILE", help="resumes")
    add("--jobs", nargs="+", type=Path, required=True, metavar="FILE", help="job descriptions")
    add("--out", type=Path, required=True, metavar="FILE", help="the JSONL file to write")
    add(
        "--pair",
        default="best",
        choices=PAIRINGS,
        help="pair each resume with the most similar job, with all jobs, or with a random job "
        "(default: %(default)s)",
    )
    add_options(add, "--seed", help="seed of --pair random (default: %(default)s)")
    add(
        "--weakness",
        choices=WEAKNESSES,
        metavar="NAME",
        help="weakness of all tasks: %(choices)s (default: the most obvious in each resume)",
    )
    add_options(add, "--split", help="split of all tasks (default: eval for one candidate in five)")
    add(
        "--evidence",
        nargs="+",
        default=[],
        type=Path,
        metavar="FILE",
        help="documents about the candidates; with several resumes, the file name of a document "
        "must begin with that of a resume, or its text must name one candidate",
    )
    add(
        "--evidence-kind",
        choices=EVIDENCE_KINDS,
        metavar="KIND",
        help="kind of the evidence: %(choices)s (default: inferred from each file name)",
    )
    add_options(
        add,
        "--anonymous",
        help="replace everything above the first section heading of each resume by '# Candidate'; "
        "the rest, and the evidence, stay as they are",
    )
    add_options(add, "--json")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from resume_gym.corpus.card import card_path, write_card
    from resume_gym.corpus.import_table import print_report, to_json

    out: Path = options.out
    check_new_file("--out", out)
    files = [*options.resumes, *options.jobs, *options.evidence]
    for target in (out, card_path(out)):
        # `Path.resolve` would raise an error on a link that leads to itself
        if any(os.path.realpath(target) == os.path.realpath(file) for file in files):
            raise TaskError(f"--out: {str(target)!r} is one of the files to read")
        if target.exists() and not _is_import(out):
            told = f"{str(target)!r} exists but is not from data import"
            raise TaskError(f"--out: {told}; name another file")
    settings = Options(
        options.pair,
        options.seed,
        options.weakness,
        options.split,
        options.anonymous,
        options.evidence_kind,
    )
    report = import_resumes(options.resumes, options.jobs, options.evidence, settings)
    if report.made:
        with replacing(through_links(out)) as draft:
            write_jsonl(draft, report.tasks)
            write_card(out, report.tasks, _origin(report, settings))
    absent = next((file for file in files if not os.path.lexists(file)), None)
    if absent and not report.made:
        raise TaskError(f"{absent}: {dict(report.failed)[absent]}")
    if options.json:
        print_json(to_json(report))
    else:
        print_report(report, out)
        if report.made and not options.anonymous:
            say("The tasks contain personal data; --anonymous replaces the headers of the resumes.")
        if not options.split and {task.split for task in report.tasks} == {"eval"}:
            say("All tasks are in eval, but environments play train by default; see --split.")
    if report.failed or not report.made:
        outcome = f"the tasks of the others are in {out}" if report.made else "nothing is written"
        raise Incomplete(f"files that could not be used: {len(report.failed)}; {outcome}")
    return 0


def _is_import(out: Path) -> bool:
    """Return whether the data card of `out` names this command, so `out` may be overwritten."""
    from resume_gym.corpus.card import card_path

    card = card_path(out)
    return card.is_file() and _COMMAND in card.read_text(encoding="utf-8", errors="replace")


def _origin(report: ImportReport, options: Options) -> dict[str, Any]:
    """Return the provenance for the data card, without file names, which may name people."""
    limits = ["The weaknesses were not planted: rules diagnosed them, and no fixes are known."]
    if options.anonymous:
        limits.append("Personal data was removed only above the first section of each resume.")
    else:
        limits.append("The tasks contain personal data of the candidates.")
    return {
        "command": _COMMAND,
        "resumes": ", ".join(f"{count} {kind}" for kind, count in report.formats.items()),
        "jobs": len({made.job for made in report.made}),
        "pairing": options.pairing + f", seed {options.seed}" * (options.pairing == "random"),
        "weakness": options.weakness or "the most obvious one",
        "headers of the resumes": "replaced" if options.anonymous else "kept",
        "limits": limits,
    }
