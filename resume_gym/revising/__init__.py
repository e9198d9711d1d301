"""`resume-gym revise`: an agent revises a user's own resume for a job.

`files.py` reads what the user has and writes beside it, `revision.py` plays and finds out what
each edit did, `report.py` and `summary.py` tell it, `command.py` puts them together. What they
need, judges above all, is imported when the command runs.
"""

import argparse
from functools import partial
from pathlib import Path

from resume_gym.arguments import add_json, add_parser
from resume_gym.evaluation.command import FindModel

_ABOUT = """\
An agent revises your resume for a job. Beside it are written

  RESUME.revised.md        the revision
  RESUME.revised.diff.md   each edit with its reason, every new claim that your
                           resume does not support, and what a judge says

Your resume is Markdown or plain text, and stays in that format, with its line ends; of Word, PDF \
and JSON Resume the revision is in Markdown. It is only read, as the job description is. The agent \
is one that `resume-gym eval --agent` takes:

  runs/NAME, FOLDER, nano      a model of your own, or one of its checkpoints
  MODEL@http://HOST:PORT/v1    a server, which is sent both documents
  MODEL@openai                 OpenAI's own
  careful                      a scripted agent, which gives no reasons
  {"model": ..., ...}          a model or a server with options, as JSON

Flagged is a revision with a claim that has no support, one that the agent did not hand in, and \
one to which the judge objects or gives no verdict.
"""
_EXAMPLES = (
    "revise ada.md --job job.txt --model careful",
    "revise ada.md --job job.txt --model runs/qwen --out second.md",
    "revise ada.docx --job job.pdf --model gpt-5-mini@openai",
)


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", find_model: FindModel
) -> None:
    """Add `revise`.

    Args:
        commands: of the command line.
        find_model: for models of one's own.
    """
    command = add_parser(
        commands,
        "revise",
        "have an agent revise your own resume",
        _ABOUT,
        _EXAMPLES,
        done="it is revised, and nothing is flagged",
        failed="nothing is written: the agent failed, or changed nothing",
        flagged="it is revised, and flagged: see above",
    )
    add = command.add_argument
    add("resume", type=Path, metavar="RESUME", help="your resume: .md, .txt, .docx, .pdf, .json")
    add("--job", type=Path, required=True, metavar="FILE", help="the job description")
    add("--model", required=True, metavar="SPEC", help="the agent: see above")
    add(
        "--env",
        default="ResumeEdit-v0",
        metavar="ID",
        help="whose turns, page and judge, or module:ID (default: %(default)s)",
    )
    add("--judge", metavar="SPEC", help="who grades, as in eval (default: the environment's)")
    add("--seed", default=0, type=int, metavar="N", help="of what is drawn (default: 0)")
    add("--out", type=Path, metavar="FILE", help="the revision (default: RESUME.revised.md)")
    add("--report", type=Path, metavar="FILE", help="the changes (default: OUT.diff.md)")
    add("--force", action="store_true", help="replace these two if they exist; never the resume")
    add_json(add)
    command.set_defaults(run=partial(_run, find_model=find_model))


def _run(options: argparse.Namespace, find_model: FindModel) -> int:
    from resume_gym.revising.command import run

    return run(options, find_model)
