"""Cost of answers, by the list prices of `prices.toml`."""

import re
import tomllib
from functools import cache
from importlib.resources import files

from resume_gym.llm import Answer


def dollars(model: str, answer: Answer) -> float | None:
    """Return the cost of an answer in dollars; None if the model is not listed."""
    price = _price(model)
    if price is None:
        return None
    return (answer.tokens_in * price[0] + answer.tokens_out * price[1]) / 1e6


@cache
def _price(model: str) -> tuple[float, float] | None:
    # "gpt-5.2-2025-12-11" has the price of "gpt-5.2"; "gpt-5.2-pro" has not
    name = re.sub(r"(-(preview|latest|exp|\d{2,8}))+$", "", model.removeprefix("models/"))
    prices = tomllib.loads((files("resume_gym.llm") / "prices.toml").read_text(encoding="utf-8"))
    price = prices["models"].get(name)
    return (price["in"], price["out"]) if price else None
