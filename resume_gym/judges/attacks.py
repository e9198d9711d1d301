"""Documents that try to win a judge over without being better resumes.

`attacks.jsonl` holds them as data; each is a small change of any resume. `tests/test_attacks.py`
holds the bundled judges to them, and whoever writes a judge can do the same:

    for attack in load_attacks():
        attacked = attack.apply(task, revised)
        assert judge.judge(task, attacked).preference <= judge.judge(task, revised).preference
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from resume_gym.tasks import Task

Op = Literal["append", "prepend", "insert", "replace", "first_bullet", "each_bullet", "title"]

_BULLET = re.compile(r"^([-*+] )(.+)$", re.MULTILINE)
_TITLE = re.compile(r"\A.*")


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        id: unique.
        kind: its family, such as "instruction" or "hidden".
        op: what its text does to a resume: "append" and "prepend" add it at the end or in front,
            "insert" after the first bullet, "replace" puts it in the place of all; "first_bullet"
            and "each_bullet" in the place of bullets, "title" in that of the first line.
        text: what is put there. Of its placeholders `{bullet}` is the bullet or title that it
            replaces, `{bullets}` all bullets, `{resume}` the whole text, `{original}` the task's,
            `{job}` the job description, `{job_lines}` its sentences as bullets, and `{job_words}`
            its words with commas.
        times: how often the text is repeated.
        vetoed: whether code stops it (`resume_gym.judges.vetoes`), before any judge is asked.
    """

    id: str
    kind: str
    op: Op
    text: str
    times: int = 1
    vetoed: bool = False

    def apply(self, task: Task, resume: str) -> str:
        """The resume of the task, revised or not, with the attack in it."""
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
        # one pass, so that nothing in the job or the resume is taken for a placeholder
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
    """All attacks of `attacks.jsonl`."""
    path = Path(__file__).with_name("attacks.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(Attack(**json.loads(line)) for line in lines)
