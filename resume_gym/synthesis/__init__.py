"""Synthetic tasks: `generate_task` and `generate_tasks` build them offline from a content bank."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resume_gym.synthesis.procedural import generate_task, generate_tasks

__all__ = ["generate_task", "generate_tasks"]


def __getattr__(name: str) -> Any:
    # Import lazily: the content bank is large.
    if name in __all__:
        from resume_gym.synthesis import procedural

        return getattr(procedural, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
