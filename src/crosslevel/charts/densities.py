"""Distributions one below the other: effects over rows, and draws of leads and differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.charts.chart import Axis, Chart, Mark, Panel
from crosslevel.charts.matplotlib import draw
from crosslevel.charts.style import GRAY, INK, PALE, VERMILION
from crosslevel.data.checks import as_numbers, check_weights
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError
from crosslevel.results import Estimates, display
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 41
POINTS = 256
"""Of a density of draws."""


@checked
def effect_distributions(
    effects: npt.ArrayLike,
    names: Sequence[str],
    ax: Axes | None = None,
    *,
    weights: npt.ArrayLike | None = None,
    scaled: bool = True,
) -> Axes:
    """Draw how each effect is distributed over the rows, one below the other.

    Parameters
    ----------
    effects : array of shape (n, n_effects)
    names : sequence of str
    ax : matplotlib.axes.Axes, optional
    weights : array of shape (n,), optional
    scaled : bool
        Divide each effect by its largest absolute value, so that effects in different units can be seen together; the range
        is then written at the right.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = effect_distributions(np.array([[0.1, 5.0], [0.3, -2.0], [0.2, 1.0]]), ["age", "treated"])
    >>> [t.get_text() for t in ax.get_yticklabels()]
    ['age', 'treated']
    """
    D = as_numbers(effects, "effects", 2)
    if D.shape[1] != len(names):
        raise InputError(f"effects has the shape {D.shape} for {len(names)} names; pass a column per name.")
    if not D.size:
        raise InputError("effects has no values; there is nothing to draw.")
    return draw(distributions_chart(D, names, weights=weights, scaled=scaled), ax)


def distributions_chart(
    D: FloatArray, names: Sequence[str], *, weights: npt.ArrayLike | None = None, scaled: bool = True
) -> Chart:
    """Describe the distribution of each column of D, one below the other, a dot at its mean."""
    w = np.ones(len(D)) if weights is None else check_weights(weights, "weights", len(D))
    whole = ~np.isnan(D).any(axis=1)
    D, w = D[whole], w[whole]
    largest = np.abs(D).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0) if scaled else np.ones(len(names))
    S = D / scale
    edges = np.linspace(S.min(), S.max(), BINS) if np.ptp(S) > 0 else np.array([S.min() - 0.5, S.max() + 0.5])
    middles = (edges[1:] + edges[:-1]) / 2
    parts = []
    for e, name in enumerate(names):
        heights, _ = np.histogram(S[:, e], bins=edges, weights=w)
        words = f"{D[:, e].min():.3g} to {D[:, e].max():.3g}" if scaled else ""
        parts.append(
            _ridge(str(name), middles, height=heights / heights.max(), mean=float(w @ S[:, e] / w.sum()), words=words)
        )
    kind = ", relative to the largest of its kind" if scaled else ""
    marks = [
        Mark("rule", 0.0, color=GRAY),
        Mark("ridge", "x", "height", alpha=0.55),
        Mark("dot", "mean", color=INK, size=20.0),
    ]
    return Chart(
        name="distribution",
        title="Distribution of effects",
        caption="The effects of the fit at the rows (shrunken, so that their spread is too small rather than too large), each divided by "
        "the largest of its kind; the dot is their average. There is no interval here.",
        panels=[Panel(marks, Axis(f"effect at each row{kind}"), Axis(names="label", notes="words" if scaled else ""))],
        tables={"rows": pa.concat_tables(parts)},
        tips={"label": "term", "words": "range", "mean": "average, on this scale"},
        inches=(6.8, 1.1 + 0.55 * len(names)),
    )


def _ridge(label: str, x: FloatArray, *, words: str, **columns: float | FloatArray) -> pa.Table:
    """Lay out one density: outlines at x, single numbers and the words in the first row only."""
    n = len(x)
    table: dict[str, Any] = {"label": [label] * n, "x": x, "words": [words, *[""] * (n - 1)]}
    for name, value in columns.items():
        full = (
            np.asarray(value, dtype=np.float64) if np.ndim(value) else np.append(float(value), np.full(n - 1, np.nan))
        )
        table[name] = pa.array(full, pa.float64(), from_pandas=True)
    return pa.table(table)


@checked
def margins(
    result: Estimates, ax: Axes | None = None, *, threshold: float = 0.0, bounds: bool = False, max_rows: int = 24
) -> Axes:
    """Draw the draws of each row as a density, the part beyond the threshold in another color and as a number.

    Parameters
    ----------
    result : Estimates
        With draws: of ``margin``, ``polarization``, or any other.
    ax : matplotlib.axes.Axes, optional
    threshold : float
        Where the colors change; the number at the right is the share of the draws above it.
    bounds : bool
        Draw the columns ``lower`` and ``upper``, if they are there, as a light bar. They are often much wider than the
        densities.
    max_rows : int
        Draw at most this many rows, and say so below.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"group": ["young"], "estimate": [0.1], "conf_low": [-0.1], "conf_high": [0.2]}, keys=["group"],
    ...     method="example", level=0.95, interval="quantiles of 4 draws", provenance=Provenance.of(call="example()"),
    ...     draws=[[-0.1], [0.1], [0.15], [0.2]],
    ... )
    >>> [t.get_text() for t in margins(est).texts]
    ['0.75 above 0']
    """
    if result.draws is None:
        raise InputError(
            f"result has no draws ({result.method}); rxc, king and multinomial_dirichlet have. Draw result.plot() instead."
        )
    if not len(result) or max_rows < 1:
        raise InputError("there is nothing to draw: result has no rows, or max_rows is below 1.")
    return draw(margins_chart(result, threshold=threshold, bounds=bounds, max_rows=max_rows), ax)


def margins_chart(result: Estimates, *, threshold: float = 0.0, bounds: bool = False, max_rows: int = 24) -> Chart:
    """Describe the draws of each row as a density, split at the threshold."""
    assert result.draws is not None
    rows = range(min(len(result), max_rows))
    keys = [result.table[k].to_pylist() for k in result.keys]
    has_bounds = bounds and {"lower", "upper"} <= set(result.table.column_names)
    if bounds and not has_bounds:
        raise InputError("bounds=True needs the columns lower and upper, which result does not have; leave bounds out.")
    parts = []
    for i in rows:
        draws = result.draws[np.isfinite(result.draws[:, i]), i]
        x, height = _density(draws)
        split = [np.where(side, height, np.nan) for side in (x >= threshold, x <= threshold)]
        numbers = {n: float(result[n][i]) for n in ("estimate", "conf_low", "conf_high")}
        numbers |= {n: float(result[n][i]) for n in ("lower", "upper")} if has_bounds else {}
        chance = f"{np.mean(draws > threshold):.2f} above {threshold:g}" if len(draws) else "–"
        label = " · ".join(str(k[i]) for k in keys)
        parts.append(_ridge(label, x, words=chance, above=split[0], below=split[1], **numbers))
    marks = [
        *([Mark("bar", "lower", x2="upper", color=PALE, label="possible at all (bounds)")] if has_bounds else []),
        Mark("rule", threshold, color=GRAY),
        Mark("ridge", "x", "above", alpha=0.45),
        Mark("ridge", "x", "below", color=VERMILION, alpha=0.45),
        Mark("interval", "conf_low", x2="conf_high", color=INK, width=1.6),
        Mark("dot", "estimate", color=INK, size=21.0),
    ]
    head, colon, tail = (result.title or result.method).partition(": ")
    long = colon and len(head) + len(tail) > 68
    said = f"estimate, {display.describe_level(result.level)} and density of {len(result.draws):,} draws"
    return Chart(
        name="margins",
        title=f"{head}:\n{tail}" if long else result.title or result.method,
        caption=f"The {said} of each row; the number is the share of the draws above {threshold:g}.",
        panels=[Panel(marks, Axis(said), Axis(names="label", notes="words"))],
        tables={"rows": pa.concat_tables(parts)},
        tips={
            "label": " · ".join(result.keys),
            "estimate": "estimate",
            "conf_low": "from",
            "conf_high": "to",
            "words": "draws",
        },
        note=f"the first {len(rows):,} of {len(result):,} rows" if len(rows) < len(result) else "",
        inches=(7.2, 1.3 + 0.52 * len(rows)),
    )


def _density(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smooth the draws by a normal kernel of Silverman's width, to a height of one; nothing where all are the same."""
    if len(draws) < 2 or np.ptp(draws) < 1e-12:
        return np.full(1, draws[0] if len(draws) else np.nan), np.full(1, np.nan)
    spread = min(float(draws.std()), float(np.subtract(*np.quantile(draws, [0.75, 0.25]))) / 1.349 or np.inf)
    width = 0.9 * spread * len(draws) ** -0.2
    x = np.linspace(draws.min() - 3 * width, draws.max() + 3 * width, POINTS)
    density = np.exp(-0.5 * ((x[:, None] - draws) / width) ** 2).mean(axis=1)
    return x, density / density.max()
