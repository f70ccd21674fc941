"""Imputed means before what the group means alone would say, and clusters of people as profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from crosslevel.charts.style import BLUE, GREY, INK, VERMILION, new_axes, note, plain, style
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.results.display import level_words
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cluster_profiles", "imputed_means"]


_LONGEST_LABEL = 30
_NAMED = 24
"""Most points that carry a name; more would lie over one another."""
_STRONGEST = 2.0
"""Sds between clusters at which the colour of a profile is full."""


def imputed_means(
    result: Estimates, ax: Axes | None = None, *, feature: str | None = None, label: bool | None = None
) -> Axes:
    """Draw the imputed mean of each subgroup against what it would be if everybody were as the group's mean.

    Parameters
    ----------
    result : Estimates
        Of ``CrossLevelImputer.estimates`` or ``CUDIA.estimates``: with the columns ``naive`` and ``people``, and ``truth`` where it was
        added with ``with_truth``.
    ax : matplotlib.axes.Axes, optional
    feature : str, optional
        The hidden feature, where there are several.
    label : bool, optional
        Name the points; by default up to 24 of them are.

    Returns
    -------
    matplotlib.axes.Axes
        Dots with intervals, their area the number of people. On the diagonal nothing was learnt about a subgroup; crosses are
        the truth.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"feature": ["ill", "ill"], "age": [30, 60], "estimate": [0.1, 0.3], "conf_low": [0.05, 0.2],
    ...      "conf_high": [0.2, 0.4], "naive": [0.18, 0.22], "people": [100, 50]},
    ...     keys=["feature", "age"], method="example", level=0.95, interval="posterior",
    ...     provenance=Provenance.of(call="link.estimate(by='age')"),
    ... )
    >>> [text.get_text() for text in imputed_means(est).texts]
    ['30', '60']
    """
    if not isinstance(result, Estimates) or not {"naive", "people", "feature"} <= set(result.table.column_names):
        raise InputError(
            "result has no columns 'feature', 'naive' and 'people'; pass the estimate(by=...) of CrossLevelImputer or CUDIA."
        )
    feature, rows = _rows(result, feature)
    values = {n: np.asarray(result[n], dtype=np.float64)[rows] for n in ("naive", "estimate", "conf_low", "conf_high")}
    people = np.asarray(result["people"], dtype=np.float64)[rows]
    words = _words(result, rows)
    with style("both"):
        ax = new_axes(ax, 5.8, 5.2)
        x, y = values["naive"], values["estimate"]
        ends = [np.nanmin(x), np.nanmax(x)]
        ax.plot(ends, ends, color=GREY, lw=1.1, ls="--", zorder=2, label="as the group means")
        there = np.isfinite(values["conf_low"]) & np.isfinite(values["conf_high"])
        ax.vlines(
            x[there], values["conf_low"][there], values["conf_high"][there], color=BLUE, lw=1.6, alpha=0.45, zorder=3
        )
        area = 16.0 + 120.0 * people / max(float(np.nanmax(people)), 1e-300)
        ax.scatter(x, y, s=area, color=BLUE, edgecolor="white", lw=0.6, zorder=4, label="imputed")
        if "truth" in result.table.column_names:
            truth = np.asarray(result["truth"], dtype=np.float64)[rows]
            ax.scatter(x, truth, marker="x", s=34, color=VERMILION, lw=1.6, zorder=5, label="truth")
        if label or (label is None and len(rows) <= _NAMED):
            for at, height, word in zip(x, y, words, strict=True):
                ax.annotate(word, (at, height), xytext=(5, 3), textcoords="offset points", fontsize=8.0, color=INK)
        ax.set_xlabel("mean of the group means of the same people (naive)")
        ax.set_ylabel(plain(f"imputed mean and {level_words(result.level)}"))
        ax.set_title(plain(f"{feature} by {', '.join(k for k in result.keys if k != 'feature')}"), loc="left")
        ax.legend(loc="upper left")
    return ax


def cluster_profiles(result: Estimates, ax: Axes | None = None, *, max_columns: int = 24) -> Axes:
    """Draw the clusters of CUDIA as a table of colours: what is known of their people, and their hidden means.

    Parameters
    ----------
    result : Estimates
        Of ``CUDIA.clusters()``.
    ax : matplotlib.axes.Axes, optional
    max_columns : int
        Draw at most so many known columns, those in which clusters differ most relative to their mean; it is said below.

    Returns
    -------
    matplotlib.axes.Axes
        A row for each cluster, with its share of the people. Numbers are the cluster's; colours say how far they lie above (blue)
        or below (red) those of all clusters, in sds between clusters. Hidden means stand at the right of the line.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"feature": ["ill", "ill"], "cluster": [1, 2], "estimate": [0.1, 0.4], "conf_low": [0.0, 0.3],
    ...      "conf_high": [0.2, 0.5], "share": [0.6, 0.4], "age": [35.0, 61.0]},
    ...     keys=["feature", "cluster"], method="example", level=0.95, interval="normal",
    ...     provenance=Provenance.of(call="model.clusters()"),
    ... )
    >>> [tick.get_text() for tick in cluster_profiles(est).get_xticklabels()]
    ['age', 'ill']
    """
    if not isinstance(result, Estimates) or not {"feature", "cluster", "share"} <= set(result.table.column_names):
        raise InputError("result is not a table of clusters; pass CUDIA(...).fit(...).clusters().")
    if max_columns < 1:
        raise InputError(f"max_columns={max_columns} leaves nothing to draw; pass at least 1.")
    hidden = list(dict.fromkeys(result.table["feature"].to_pylist()))
    _, first = _rows(result, hidden[0])
    share = np.asarray(result["share"], dtype=np.float64)[first]
    apart = {"feature", "cluster", "estimate", "std_error", "conf_low", "conf_high", "share"}
    known = [n for n in result.table.column_names if n not in apart]
    columns = {n: np.asarray(result[n], dtype=np.float64)[first] for n in known}
    for name in hidden:
        columns[f"\0{name}"] = np.asarray(result["estimate"], dtype=np.float64)[_rows(result, name)[1]]
    scores = {n: _score(v, share) for n, v in columns.items()}
    shown = _widest(known, columns, share, max_columns)
    order = [*shown, *(f"\0{n}" for n in hidden)]
    with style():
        ax = new_axes(ax, 2.2 + 0.62 * len(order), 1.6 + 0.42 * len(share))
        image = np.column_stack([scores[n] for n in order])
        ax.imshow(image, cmap="RdBu", vmin=-_STRONGEST, vmax=_STRONGEST, aspect="auto", alpha=0.75)
        for j, name in enumerate(order):
            for i, value in enumerate(columns[name]):
                ax.text(j, i, _number(value), ha="center", va="center", fontsize=8.0, color=INK)
        ax.axvline(len(shown) - 0.5, color=INK, lw=1.4)
        ax.set_xticks(range(len(order)), [_short(n.lstrip("\0")) for n in order], rotation=35, ha="right")
        names = np.asarray(result["cluster"])[first]
        ax.set_yticks(range(len(share)), [f"{c} · {s:.0%}" for c, s in zip(names, share, strict=True)])
        ax.grid(visible=False)
        ax.set_ylabel("cluster · share of people")
        ax.set_title(plain(result.title or result.method), loc="left")
        if len(shown) < len(known):
            note(ax, f"the {len(shown):,} of {len(known):,} columns in which clusters differ most")
    return ax


def _rows(result: Estimates, feature: str | None) -> tuple[str, npt.NDArray[np.intp]]:
    """Find the rows of one hidden feature."""
    known = list(dict.fromkeys(result.table["feature"].to_pylist()))
    if not known:
        raise InputError("there is nothing to draw: result has no rows.")
    if feature is None:
        if len(known) > 1:
            raise InputError(
                f"result has {len(known)} hidden features ({', '.join(map(str, known))}); say which with feature=."
            )
        feature = known[0]
    if feature not in known:
        raise unknown_name("feature", feature, known, "hidden feature")
    at = np.flatnonzero([v == feature for v in result.table["feature"].to_pylist()])
    return str(feature), at.astype(np.intp)


def _words(result: Estimates, rows: npt.NDArray[np.intp]) -> list[str]:
    keys = [result.table[k].to_pylist() for k in result.keys if k != "feature"]
    return [_short(" · ".join(str(k[i]) for k in keys)) for i in rows]


def _score(values: FloatArray, share: FloatArray) -> FloatArray:
    """Say how far each cluster lies from the mean of all people, in sds between clusters; 0 where clusters are alike."""
    weight = share / share.sum()
    away = values - weight @ values
    sd = np.sqrt(weight @ away**2)
    return away / sd if sd > 1e-12 * max(1.0, float(np.abs(values).max())) else np.zeros(len(values))


def _widest(known: list[str], columns: dict[str, FloatArray], share: FloatArray, most: int) -> list[str]:
    """Choose the columns in which clusters differ most, relative to their size; in their own order."""
    if len(known) <= most:
        return known
    weight = share / share.sum()
    spread = {}
    for name in known:
        centre = float(weight @ columns[name])
        spread[name] = float(np.sqrt(weight @ (columns[name] - centre) ** 2)) / max(abs(centre), 1e-12)
    kept = sorted(known, key=lambda n: -spread[n])[:most]
    return [n for n in known if n in kept]


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"


def _short(text: str) -> str:
    return plain(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")
