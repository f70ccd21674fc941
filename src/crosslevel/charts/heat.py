"""Tables of colors with their numbers: groups by outcomes, and clusters of people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.charts.chart import Axis, Chart, Mark, Panel, Shade
from crosslevel.charts.matplotlib import draw, scheme
from crosslevel.charts.style import INK
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates, display
from crosslevel.results.table import midpoints
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRONGEST = 2.0
"""Standard deviations between clusters at which the color of a profile is full."""
MOST_COLUMNS = 24
"""Known columns of a profile of clusters."""
OF_CLUSTERS = ("feature", "cluster", "estimate", "std_error", "conf_low", "conf_high", "share")
DARK = 0.016
"""Luminance of the ink."""


@checked
def transfers(
    result: Estimates, ax: Axes | None = None, *, counts: bool = False, intervals: bool = True, cmap: str = "Blues"
) -> Axes:
    """Draw the table of groups (rows) by outcomes (columns), each cell colored by its share and with its numbers.

    Parameters
    ----------
    result : Estimates
        With the keys ``group`` and ``outcome``; other keys must have one value (``result.select(district="north")``).
    ax : matplotlib.axes.Axes, optional
    counts : bool
        Write the column ``count`` instead of the share. Colors always show shares, so that small groups can be seen.
    intervals : bool
        Write the interval below the share, where there is one.
    cmap : str
        A matplotlib color map, from 0 to 1. Numbers are dark or white, whichever contrasts more with their cell.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> est = Estimates.build(
    ...     {"group": ["young", "young", "old", "old"], "outcome": ["yes", "no"] * 2, "estimate": [0.6, 0.4, 0.25, 0.75]},
    ...     keys=["group", "outcome"], method="example", level=None, interval="none",
    ...     provenance=Provenance.of(call="example()"),
    ... )
    >>> [t.get_text() for t in transfers(est).texts][:4]
    ['0.60', '0.40', '0.25', '0.75']
    """
    check_one_table(result)
    if counts and "count" not in result.table.column_names:
        raise InputError("result has no column 'count'; draw the shares, counts=False.")
    drawn = draw(transfers_chart(result, counts=counts, intervals=intervals, cmap=cmap), ax)
    drawn.xaxis.set_ticks_position("top")
    drawn.tick_params(length=0)
    return drawn


def transfers_chart(result: Estimates, *, counts: bool = False, intervals: bool = True, cmap: str = "blues") -> Chart:
    """Describe the table of groups by outcomes, each cell colored by its share and with its numbers."""
    groups, outcomes = ([str(v) for v in result.table[k].to_pylist()] for k in ("group", "outcome"))
    only = midpoints(result)  # bounds alone: nothing between them is more probable
    share = np.where(only, np.nan, np.asarray(result["estimate"], dtype=np.float64))
    values = np.where(only, np.nan, np.asarray(result["count"], dtype=np.float64)) if counts else share
    low, high = result["conf_low"], result["conf_high"]
    said = []
    for i, value in enumerate(values):
        if only[i] and not counts:
            said.append(f"{result['lower'][i]:.2f} to\n{result['upper'][i]:.2f}")
            continue
        words = "–" if np.isnan(value) else f"{value:,.0f}" if counts else f"{value:.2f}"
        if intervals and not counts and np.isfinite(value) and np.isfinite(low[i]) and np.isfinite(high[i]):
            words += f"\n[{low[i]:.2f}, {high[i]:.2f}]"
        said.append(words)
    absent = [(g, o) for g in dict.fromkeys(groups) for o in dict.fromkeys(outcomes)]
    absent = [pair for pair in absent if pair not in set(zip(groups, outcomes, strict=True))]
    share = np.append(share, np.full(len(absent), np.nan))
    of = "share of the group's voters" if "voters" in result.table.column_names else "share of the group"
    ends = "" if counts or not (intervals or result.level is None) else f", {display.describe_level(result.level)}"
    table = {
        "group": [*groups, *(g for g, _ in absent)],
        "outcome": [*outcomes, *(o for _, o in absent)],
        "share": pa.array(share, from_pandas=True),
        "words": [*said, *["–"] * len(absent)],
        "ink": _inks(share, cmap),
    }
    marks = [
        Mark("cell", color=Shade("share", of, scheme=cmap, domain=(0.0, 1.0))),
        Mark("text", text="words", by="ink"),
    ]
    n_groups, n_outcomes = len(set(groups)), len(set(outcomes))
    return Chart(
        name="transfers",
        title=result.title or result.method,
        caption=f"Numbers and colors: {of}{ends}; each row is a group, each column an outcome.",
        panels=[Panel(marks, Axis(names="outcome"), Axis(names="group"))],
        tables={"rows": pa.table(table)},
        tips={"group": "group", "outcome": "outcome", "words": "estimate"},
        note=f"people; color: {of}" if counts else f"{of}{ends}",
        inches=(2.4 + 1.15 * n_outcomes, 1.5 + 0.62 * n_groups),
    )


def check_one_table(result: Estimates) -> None:
    """Refuse a result that is not one table of groups by outcomes."""
    for key in ("group", "outcome"):
        if key not in result.keys:
            raise InputError(
                f"result has no key {key!r}, only {listed(result.keys)}; draw a table of groups by outcomes."
            )
    for key in result.keys:
        values = list(dict.fromkeys(result.table[key].to_pylist()))
        if key not in ("group", "outcome") and len(values) > 1:
            raise InputError(
                f"result holds {len(values):,} tables, by {key!r}; draw one of them, result.select({key}={values[0]!r})."
            )
    if not len(result):
        raise InputError("result has no rows; there is nothing to draw.")


def _inks(share: FloatArray, cmap: str) -> list[str]:
    """Choose dark or white for each cell, whichever has the larger contrast by WCAG's relative luminance."""
    import matplotlib as mpl

    rgb = mpl.colormaps[scheme(cmap)](np.nan_to_num(share))[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    light = (1.05 / (luminance + 0.05) > (luminance + 0.05) / (DARK + 0.05)) & np.isfinite(share)
    return ["white" if w else INK for w in light]


@checked
def cluster_profiles(result: Estimates, ax: Axes | None = None, *, max_columns: int = MOST_COLUMNS) -> Axes:
    """Draw the clusters of CUDIA as a table of colors: what is known of their people, and their hidden means.

    Parameters
    ----------
    result : Estimates
        Of ``CUDIA.clusters()``.
    ax : matplotlib.axes.Axes, optional
    max_columns : int
        Draw at most this many known columns, those in which clusters differ most relative to their mean; it is said below.

    Returns
    -------
    matplotlib.axes.Axes
        A row for each cluster, with its share of the people. Numbers are the cluster's; colors say how far they lie above (blue)
        or below (red) those of all clusters, in standard deviations between clusters. Hidden means stand at the right.

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
    if not len(result):
        raise InputError("there is nothing to draw: result has no rows.")
    return draw(clusters_chart(result, max_columns=max_columns), ax)


def clusters_chart(result: Estimates, *, max_columns: int = MOST_COLUMNS) -> Chart:
    """Describe clusters as a table of colors: each cell's value, and how far it lies from all people."""
    names = result.table["feature"].to_pylist()
    hidden = list(dict.fromkeys(names))
    rows = {f: np.array([i for i, g in enumerate(names) if g == f]) for f in hidden}
    first = rows[hidden[0]]
    share = np.asarray(result["share"], dtype=np.float64)[first]
    known = [n for n in result.table.column_names if n not in OF_CLUSTERS]
    values = {n: np.asarray(result[n], dtype=np.float64)[first] for n in known}
    shown = _widest(known, values, share, max_columns)
    columns = [(n, values[n]) for n in shown]
    columns += [(str(f), np.asarray(result["estimate"], dtype=np.float64)[rows[f]]) for f in hidden]
    titles = _distinct([n for n, _ in columns])
    clusters = [f"{c} · {s:.0%}" for c, s in zip(result["cluster"][first].tolist(), share, strict=True)]
    parts: list[dict[str, Any]] = []
    for j, (title, (_, v)) in enumerate(zip(titles, columns, strict=True)):
        for i, (value, score) in enumerate(zip(v, _score(v, share), strict=True)):
            said = {"cluster": clusters[i], "column": title, "words": _number(value), "score": float(score)}
            kind = "known of people" if j < len(shown) else "hidden mean"
            parts.append(said | {"kind": kind, "row": float(i), "place": float(j)})
    rest = ""
    if len(shown) < len(known):
        rest = f"the {len(shown):,} of {len(known):,} columns in which clusters differ most"
    color = Shade("score", "standard deviations between clusters", scheme="blueorange", domain=(-STRONGEST, STRONGEST))
    return Chart(
        name="profiles",
        title=result.title or result.method,
        caption="What is known of each cluster's people and, at the right, its hidden means "
        f"({listed([str(f) for f in hidden])}). Numbers are the cluster's; colors say how far they lie above (blue) or below (orange or "
        f"red) those of all people, in standard deviations between clusters.{f' Shown: {rest}.' if rest else ''}",
        panels=[
            Panel(
                [Mark("cell", color=color, alpha=0.75), Mark("text", text="words")],
                Axis(names="column", order="place"),
                Axis("cluster · share of people", names="cluster", order="row"),
            )
        ],
        tables={"rows": pa.Table.from_pylist(parts)},
        tips={
            "cluster": "cluster",
            "column": "column",
            "kind": "what",
            "words": "mean",
            "score": "standard deviations",
        },
        note=rest,
        inches=(2.2 + 0.62 * len(columns), 1.6 + 0.42 * len(share)),
    )


def _distinct(names: list[str]) -> list[str]:
    """Tell columns of one name apart: a hidden feature may be called as a known column is."""
    return [f"{n} (hidden)" if n in names[:i] else n for i, n in enumerate(names)]


def _score(values: FloatArray, share: FloatArray) -> FloatArray:
    """Say how far each cluster lies from the mean of all people, in sds between clusters; 0 where clusters are alike."""
    weight = share / share.sum()
    away = values - weight @ values
    sd = np.sqrt(weight @ away**2)
    return away / sd if sd > 1e-12 * max(1.0, float(np.abs(values).max())) else np.zeros(len(values))


def _widest(known: list[str], columns: dict[str, FloatArray], share: FloatArray, most: int) -> list[str]:
    """Choose the columns in which clusters differ most, relative to their size; in their own order."""
    weight = share / share.sum()
    spread = {}
    for name in known:
        center = float(weight @ columns[name])
        spread[name] = float(np.sqrt(weight @ (columns[name] - center) ** 2)) / max(abs(center), 1e-12)
    kept = sorted(known, key=lambda n: -spread[n])[:most]
    return [n for n in known if n in kept]


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"
