"""Adversarial edits that try to raise a judge's verdict without improving the resume.

`attacks.jsonl` holds them as data; each applies to any resume.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from resume_gym.episode.tasks import Task

Op = Literal["append", "prepend", "insert", "replace", "first_bullet", "each_bullet", "title"]

_BULLET = re.compile(r"^([-*+] )(.+)$", re.MULTILINE)
_TITLE = re.compile(r"\A.*")


@dataclass(frozen=True, slots=True)
class Attack:
    """An adversarial edit.

    Attributes:
        id: unique id.
        kind: family, such as "instruction" or "hidden".
        op: operation on the resume: "append" and "prepend" add the text at the end or the start,
            "insert" adds it after the first bullet, "replace" replaces the whole resume,
            "first_bullet" and "each_bullet" replace bullets, and "title" the first line.
        text: the text to insert. Placeholders: `{bullet}` is the replaced bullet or title,
            `{bullets}` all bullets, `{resume}` the whole text, `{original}` the task's resume,
            `{job}` the job description, `{job_lines}` its sentences as bullets, and `{job_words}`
            its words separated by commas.
        times: number of repetitions of the text.
        vetoed: whether `resume_gym.judges.vetoes` stops it before any judge is asked.
    """

    id: str
    kind: str
    op: Op
    text: str
    times: int = 1
    vetoed: bool = False

    def apply(self, task: Task, resume: str) -> str:
        """Return the task's resume, original or revised, with the attack applied."""
        bullets = [match[0] for match in _BULLET.finditer(resume)]
        text = self.text * self.times
        filled = {
            "{bullets}": "\n".join(bullets),
            "{resume}": resume,
            "{original}": task.resume,
            "{job}": task.job,
            "{job_lines}": "\n".join(f"- {sentence}" for sentence in _sentences(task.job)),
            "{job_words}": ", ".join(dict.fromkeys(re.findall(r"[A-Za-z]{4,}", task.job))),
        }
        # A single pass, so that braces in the job or the resume are not taken for placeholders.
        names = "|".join(map(re.escape, filled))
        text = re.sub(names, lambda match: filled[match[0]], text)
        body = resume.removesuffix("\n")
        if self.op == "append":
            return f"{body}\n{text}\n"
        if self.op == "prepend":
            return f"{text}\n{resume}"
        if self.op == "replace":
            return text
        if self.op == "title":
            return _TITLE.sub(lambda match: text.replace("{bullet}", match[0]), resume, count=1)
        if self.op == "insert":
            return _BULLET.sub(lambda match: f"{match[0]}\n{text}", resume, count=1)
        count = 1 if self.op == "first_bullet" else 0
        return _BULLET.sub(
            lambda match: match[1] + text.replace("{bullet}", match[2]), resume, count=count
        )


def _sentences(job: str) -> list[str]:
    parts = (part.strip(" -#*\t") for part in re.split(r"\n|(?<=[.;!?]) ", job))
    return [part for part in parts if len(part.split()) > 4]


@lru_cache(maxsize=1)
def load_attacks() -> tuple[Attack, ...]:
    """Load all attacks of `attacks.jsonl`."""
    path = Path(__file__).with_name("attacks.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(Attack(**json.loads(line)) for line in lines)
