"""Results of the experiment that this project reproduces, as reference values in figures.

They cover 40 held-out tasks x 16 rollouts with another task set and judge: compare the shape, not
the second decimal.
"""

from collections.abc import Mapping

WEAKNESSES = (
    "too_long",
    "wrong_emphasis",
    "weak_verbs",
    "no_metrics",
    "vague_bullets",
    "formatting_inconsistent",
)
PARTS = ("reward", "tool_syntax", "layout", "content")

_PARTS = {
    "Qwen3-14B base": (2.73, 0.82, 0.54, 1.37),
    "Qwen3-32B": (3.07, 1.16, 0.52, 1.39),
    "GPT-5 Mini": (5.30, 1.94, 0.87, 2.48),
    "Qwen3-14B trained": (5.41, 3.16, 0.47, 1.78),
}
_WEAKNESSES = {
    "Qwen3-14B base": (-1.2, 1.7, 3.9, 4.0, 4.6, 4.6),
    "Qwen3-32B": (-0.8, 2.9, 4.3, 5.0, 3.8, 4.8),
    "GPT-5 Mini": (4.7, 5.3, 5.3, 5.6, 5.5, 5.6),
    "Qwen3-14B trained": (2.7, 5.4, 6.4, 5.8, 6.7, 6.5),
}

Figures = Mapping[str, Mapping[str, float]]
"""Values by agent of the reproduced experiment, then by name."""
COMPONENTS: Figures = {
    agent: dict(zip(PARTS, values, strict=True)) for agent, values in _PARTS.items()
}
"""Mean reward and its components."""
BY_WEAKNESS: Figures = {
    agent: dict(zip(WEAKNESSES, values, strict=True)) for agent, values in _WEAKNESSES.items()
}
"""Mean reward by weakness."""
