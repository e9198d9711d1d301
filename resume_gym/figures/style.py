"""Common style of all figures. Image files are reproducible: equal data yield equal bytes.

A README shows figures at 100 pixels per inch: a width of 8.3 inches takes 830 pixels, and a font
size of 8 points takes 11 pixels.
"""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from resume_gym.support.atomic_write import replacing
from resume_gym.support.user_errors import missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#555555")
"""Colour-blind safe palette of Okabe and Ito, and a grey."""
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = COLOURS
FORMATS = ("png", "svg")

WIDTH = 8.3
"""Width of every figure, in inches."""
_RESOLUTION = 200  # dots per inch; twice the resolution that a README shows
_NAME = 60  # maximum number of characters of a displayed name
# leave dates and versions out of image files, so that equal figures have equal bytes
_METADATA = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


@contextmanager
def styled() -> Iterator[None]:
    """Context manager for drawing and saving figures; overrides the user's matplotlib settings.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; the message names the extra to install.
    """
    try:
        import matplotlib.style
    except ModuleNotFoundError:
        raise missing("drawing needs", "matplotlib", "plot") from None
    with matplotlib.style.context(["default", Path(__file__).with_name("figures.mplstyle")]):
        yield


def new_figure(height: float, title: str) -> "Figure":
    """Return a new figure, `height` inches high plus 0.2 inches per title line after the first."""
    from matplotlib.figure import Figure

    lines = textwrap.wrap(title, 80)
    figure = Figure(figsize=(WIDTH, height + 0.2 * (len(lines) - 1)), layout="constrained")
    figure.suptitle("\n".join(lines), x=0.01, ha="left", parse_math=False)
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure atomically, in the format of the path's extension."""
    kind = path.suffix.removeprefix(".")
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format=kind, dpi=_RESOLUTION, metadata=_METADATA[kind])


def caption(figure: "Figure", text: str) -> None:
    """Write a caption below the figure."""
    lines = "\n".join(textwrap.wrap(text, 135))
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=7.5, color=GREY, parse_math=False)


def step_panels(
    title: str, names: Sequence[str], columns: int, legend: bool = False
) -> "tuple[Figure, list[Axes]]":
    """Return a figure and a panel per name, with steps as x axis; `legend` adds an empty panel."""
    from matplotlib.ticker import MaxNLocator

    count = len(names) + legend
    rows = -(-count // columns)
    figure = new_figure(0.7 + 2.1 * rows, title)
    panels = [figure.add_subplot(rows, columns, number) for number in range(1, count + 1)]
    for number, (axes, name) in enumerate(zip(panels, names, strict=False)):
        axes.set_title(name)
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        if number >= len(names) - columns:
            axes.set_xlabel("step")
    return figure, panels


def legend_above(figure: "Figure", axes: "Axes") -> None:
    """Place a legend above the axes, in at most 4 columns, or in fewer if its names are long.

    Each row of the legend after the third adds to the height of the figure.
    """
    from matplotlib.lines import Line2D

    entries = zip(*axes.get_legend_handles_labels(), strict=True)
    order = sorted(entries, key=lambda entry: isinstance(entry[0], Line2D))  # bars before points
    handles = [handle for handle, _ in order]
    names = [short(name) for _, name in order]
    # a row holds about 130 characters; an entry takes its name, and 8 characters for the marker
    columns = max(1, min(4, len(names), 130 // (max(map(len, names)) + 8)))
    rows = -(-len(names) // columns)
    legend = axes.legend(
        handles, names, loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, ncols=columns
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    figure.set_figheight(figure.get_figheight() + 0.17 * max(0, rows - 3))


def short(name: str) -> str:
    """Shorten a long name to its end, since names of models usually differ at the end."""
    return name if len(name) <= _NAME else f"…{name[1 - _NAME :]}"


def ink(colour: str) -> tuple[float, float, float]:
    """Return a colour darkened for small text on white, as RGB in [0, 1]."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return 0.72 * red, 0.72 * green, 0.72 * blue
