"""What a model might answer a judge: made from the prompt alone, honest, gullible or wrong."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from resume_gym.episode.rewards import GRADED_FIELDS
from resume_gym.judges.plaintext import folded, neutral
from resume_gym.llm import Malformed, ModelError, Prompt, Usage

T = TypeVar("T")
Answer = Mapping[str, Any] | str | ModelError

_DOCUMENT = re.compile(r"^<(\S+) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>$", re.MULTILINE | re.DOTALL)


def code_of(user: str) -> str:
    """The code of a prompt."""
    found = re.match(r"The code is ([0-9a-f]{16})\.\n", user)
    assert found
    return found[1]


def documents(user: str) -> dict[str, str]:
    """The documents of a prompt, without their marks."""
    return {
        match[1]: re.sub(r"^\| ?", "", match[3], flags=re.MULTILINE)
        for match in _DOCUMENT.finditer(user)
    }


def compared(user: str, better: str = "same", **fields: str) -> dict[str, Any]:
    """An answer to a comparison: the side that is better, in all fields or by field."""
    shown = documents(user)
    quotes = {f"quote_{side.lower()}": _quote(shown[side]) for side in "AB"}
    changes = [{"number": 1, **quotes, "change": "Other words."}]
    said = {
        field: {
            "because": [1],
            "reason": f"What A and B have of {field}.",
            "better": fields.get(field, better),
            "confidence": "high",
        }
        for field in GRADED_FIELDS
    }
    return {"code": code_of(user), "changes": changes, **said}


def _quote(text: str) -> str:
    return next((line for line in text.split("\n") if len(line) > 3), "")


def ranked(user: str, worth: Callable[[str], float] = lambda text: 0) -> dict[str, Any]:
    """An answer to a ranking: places by what a text is worth, which is the same by default."""
    texts = [text for name, text in documents(user).items() if name.startswith("TEXT-")]
    order = sorted({worth(text) for text in texts}, reverse=True)
    listed = [
        {
            "number": number,
            "quote": _quote(text),
            "reason": "It says this.",
            "place": 1 + order.index(worth(text)),
        }
        for number, text in enumerate(texts, start=1)
    ]
    return {"code": code_of(user), "texts": listed}


def checked(user: str, *claims: tuple[str, str]) -> dict[str, Any]:
    """An answer to a check: quotations of claims, with their kinds."""
    listed = [{"quote": quote, "kind": kind, "reason": "Nobody says so."} for quote, kind in claims]
    answer = "unsupported" if claims else "supported"
    return {
        "code": code_of(user),
        "changes": ["all of it -> the same: ORIGINAL"],
        "claims": listed,
        "answer": answer,
        "confidence": "medium",
    }


def gullible(original: str) -> Callable[[str], dict[str, Any]]:
    """A model that is all for whatever is not the original, and believes it."""

    def answer(user: str) -> dict[str, Any]:
        shown = documents(user)
        if "REVISED" in shown:
            return checked(user)
        if "TEXT-1" in shown:
            return ranked(user, lambda text: folded(text) != folded(neutral(original)))
        is_a_new = folded(shown["A"]) != folded(neutral(original))
        return compared(user, "A" if is_a_new else "B")

    return answer


class FakeAsks:
    """A client without a wire; it asks twice, as the real one does.

    Args:
        answer: to a prompt.
        dollars: what it says that all of it cost.

    Attributes:
        prompts: what it was asked, in order.
    """

    name, served = "fake/model", "fake-1"

    def __init__(self, answer: Callable[[Prompt], Answer], dollars: float | None = None) -> None:
        self._answer, self._dollars = answer, dollars
        self.prompts: list[Prompt] = []

    async def ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        for last in (False, True):
            self.prompts.append(prompt)
            said = self._answer(prompt)
            if isinstance(said, ModelError):
                raise said
            try:
                return parse(said if isinstance(said, str) else json.dumps(said))
            except ValueError as problem:
                if last:
                    raise Malformed(str(problem)) from None
        raise AssertionError

    @property
    def usage(self) -> Usage:
        return Usage(len(self.prompts), 0, 0, 0, self._dollars)
