"""One look for all pictures, in colors that color-blind readers tell apart.

The colors are those of Okabe and Ito (2008), which people with any common color vision can distinguish.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crosslevel.data.checks import check_kind
from crosslevel.errors import InputError, listed
from crosslevel.results.wide import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
SKY = "#56B4E9"
INK = "#222222"
GRAY = "#8A8A8A"
PALE = "#DCE4EA"
CYCLE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY)
"""Colors for categories, in order of use."""

_SETTINGS: dict[str, Any] = {
    "axes.edgecolor": "#9A9A9A",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 9.0,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "figure.dpi": 110,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "text.color": INK,
    "xtick.color": "#555555",
    "xtick.labelsize": 9.0,
    "ytick.color": "#9A9A9A",
    "ytick.labelcolor": INK,
    "ytick.labelsize": 9.0,
}


GRIDS = ("x", "y", "both")


@contextmanager
def style(grid: str = "x") -> Iterator[None]:
    """Draw in the look of crosslevel while the block lasts; the reader's own settings come back after it.

    Parameters
    ----------
    grid : {"x", "y", "both"}
        Which way to rule light lines.

    Examples
    --------
    >>> import matplotlib
    >>> before = matplotlib.rcParams["axes.spines.top"]
    >>> with style():
    ...     matplotlib.rcParams["axes.spines.top"]
    False
    >>> matplotlib.rcParams["axes.spines.top"] == before
    True
    """
    import matplotlib as mpl
    from cycler import cycler

    if not isinstance(grid, str) or grid not in GRIDS:
        raise InputError(f"grid={grid!r} is none of {listed(GRIDS)}; pass one of them.")
    with mpl.rc_context({**_SETTINGS, "axes.grid.axis": grid, "axes.prop_cycle": cycler(color=list(CYCLE))}):
        yield


def new_axes(ax: Axes | None, width: float = 6.4, height: float = 4.0) -> Axes:
    """Give the caller's axes, or new ones of this size in inches. Call it inside :func:`style`."""
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if ax is not None:
        check_kind(ax, Axes, "ax", "pass axes of matplotlib, such as those of plt.subplots()")
        return ax
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def check_color(color: str) -> None:
    """Refuse what is no color of matplotlib."""
    from matplotlib.colors import is_color_like

    if not is_color_like(color):
        raise InputError(f"color={color!r} is no color of matplotlib; pass one, such as 'tab:blue' or '#0072B2'.")


def plain(text: str) -> str:
    r"""Keep matplotlib from reading dollar signs in a label as mathematics; leave out characters that turn the text.

    Examples
    --------
    >>> print(plain("$10k to $20k"))
    \$10k to \$20k
    """
    lines = map(
        printable, text.encode("utf-8", "replace").decode().split("\n")
    )  # half a pair of surrogates is no letter
    return "\n".join(lines).replace("$", r"\$")


def note(ax: Axes, text: str) -> None:
    """Write a small gray remark at the lower right, under the axis."""
    ax.annotate(
        text,
        xy=(1.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -34),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=8,
        color=GRAY,
    )
