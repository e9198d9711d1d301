"""Check a judge that counts words of the job: a job description hidden in the resume deceives it.

    python examples/check_your_judge.py

The example needs no model and no network, takes seconds, and prints

    keywords: mini-eval-0-000000: a hidden job description: expected no grade above 0;
      got {'jd_alignment': 1, 'preference': 1}
    rubric: all contracts hold
"""

from resume_gym import Task, Verdict
from resume_gym.judges import Judge, make_judge
from resume_gym.support.command_line import parse_nothing
from resume_gym.testing import check_judge


class Keywords:
    """Judge that counts how many words of the job the resume has before and after revision."""

    name = "keywords"

    def judge(self, task: Task, revised: str) -> Verdict:
        """Grade job fit and preference by counts of job words; all other grades are constant."""
        job, *resumes = (set(text.lower().split()) for text in (task.job, task.resume, revised))
        before, after = (len(job & words) for words in resumes)
        fit = (after > before + 5) - (after < before - 5)
        same = dict.fromkeys(("clarity", "quantification", "action_verbs"), 0)
        return Verdict(hallucination=1, jd_alignment=fit, preference=fit, **same)


def check(judge: Judge) -> None:
    try:
        check_judge(judge)
        print(f"{judge.name}: all contracts hold")
    except AssertionError as broken:
        print(f"{judge.name}: {broken}".replace("; ", ";\n  "))


if __name__ == "__main__":
    parse_nothing(__doc__)
    check(Keywords())
    check(make_judge("rubric"))
