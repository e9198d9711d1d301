"""What tokens cost, by the list prices of `prices.toml`."""

import re
import tomllib
from functools import cache
from importlib.resources import files

from resume_gym.llm import Answer


def dollars(model: str, answer: Answer) -> float | None:
    """The price of an answer; None if the model is not in the list."""
    price = _price(model)
    if price is None:
        return None
    return (answer.tokens_in * price[0] + answer.tokens_out * price[1]) / 1e6


def is_listed(model: str) -> bool:
    """Whether the model's price is known."""
    return _price(model) is not None


@cache
def _price(model: str) -> tuple[float, float] | None:
    # "gpt-5.2-2025-12-11" costs what "gpt-5.2" does, and "gpt-5.2-pro" does not
    name = re.sub(r"(-(preview|latest|exp|\d{2,8}))+$", "", model.removeprefix("models/"))
    listed = tomllib.loads((files("resume_gym.llm") / "prices.toml").read_text(encoding="utf-8"))
    found = listed["models"].get(name)
    return (found["in"], found["out"]) if found else None
