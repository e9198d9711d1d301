"""What feedback on a draft must not say: an agent that reads how it is paid writes for the pay."""

import re

from resume_gym.episode.rewards import VERDICT_FIELDS
from resume_gym.episode.tasks import WEAKNESSES
from resume_gym.judges.plaintext import clean, stands_in
from resume_gym.text.lines import any_of

BEGINNINGS = re.compile(
    r"\b(?:align|assess|clarity|criteri|evaluat|fabricat|grading|hallucinat|judg|penal|prefer|"
    r"quantif|reward|rubric|scor|verdict|weakness)\w*"
)
WORDS = ["action verb", "grade", "graded", "grader", "grades", "jd", "metric", "metrics", "rated"]
NAMES = [name.replace("_", " ") for name in (*VERDICT_FIELDS, *WEAKNESSES)]
WHOLE = any_of([*WORDS, "rating", "ratings", "verb", "verbs", *NAMES])
QUOTED = re.compile('["\u201c]([^"\u201c\u201d]*)["\u201d]')
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


def faults(feedback: str, draft: str) -> list[str]:
    """Return quotations and figures that are not in the draft, and words on how it is judged."""
    quotes = [quote.strip().removesuffix("...").strip() for quote in QUOTED.findall(feedback)]
    rest = " ".join(re.sub(r"[_-]+", " ", clean(QUOTED.sub(" ", feedback)).lower()).split())
    words = [match[0] for pattern in (WHOLE, BEGINNINGS) for match in pattern.finditer(rest)]
    figures = set(FIGURE.findall(rest)) - set(FIGURE.findall(clean(draft)))
    return [*(quote for quote in quotes if not stands_in(quote, draft)), *words, *figures]
