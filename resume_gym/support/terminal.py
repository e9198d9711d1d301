"""Console that keeps untrusted text from sending control codes to the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from resume_gym.support.printing import visible


class Terminal(Console):
    """A console that shows control characters as symbols and does not interpret markup.

    Args:
        stderr: whether to write to stderr.
        options: other options of Rich's console.
    """

    def __init__(self, stderr: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=False, **options)
        if self.width < 1:  # COLUMNS=0, in which Rich would print nothing
            self.width = 80

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object with its text's control characters as symbols; keep Rich's own codes."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
