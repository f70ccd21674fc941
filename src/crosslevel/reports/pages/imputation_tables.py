"""Tables of imputed values, laid out for charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.charts.imputed import _score, _widest
from crosslevel.reports.pages.words import number
from crosslevel.results import Estimates
from crosslevel.typing import FloatArray

__all__ = ["baselines", "cluster_means", "group_means", "means", "profiles", "slopes", "stacked"]

Codes = Mapping[str, str]

OF_ESTIMATE = ("estimate", "conf_low", "conf_high")
NAMED = 24
"""Points that carry a name, on average over the choices; more would lie over one another."""
MOST_COLUMNS = 24
"""Known columns of a profile of clusters."""
LABELLED = ("feature", "cluster", "estimate", "std_error", "conf_low", "conf_high", "share")


def stacked(parts: Sequence[Estimates], columns: Sequence[str]) -> Estimates:
    """Put tables of means by one column each under one another: keys feature, column, value.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> def means(**of): return Estimates.build({"feature": ["ill"], **of, "estimate": [0.1], "naive": [0.2], "people": [9]},
    ...     keys=["feature", *of], method="m", level=None, interval="none", provenance=Provenance.of(call="m()"))
    >>> stacked([means(age=[30]), means(sex=["w"])], ["age", "sex"]).table.select(["column", "value"]).to_pylist()
    [{'column': 'age', 'value': '30'}, {'column': 'sex', 'value': 'w'}]
    """
    rows: list[dict[str, Any]] = []
    for column, part in zip(columns, parts, strict=True):
        keep = [n for n in part.table.column_names if n != column]
        for value, row in zip(part.table[column].to_pylist(), part.table.select(keep).to_pylist(), strict=True):
            rows.append({"column": column, "value": "missing" if value is None else str(value), **row})
    order = list(dict.fromkeys(row["feature"] for row in rows))
    rows.sort(key=lambda row: order.index(row["feature"]))
    first = parts[0]
    return Estimates.build(
        {n: [row[n] for row in rows] for n in rows[0]},
        keys=["feature", "column", "value"],
        method=first.method,
        level=first.level,
        interval=first.interval,
        provenance=first.provenance,
        diagnostics=first.diagnostics,
        warnings=first.warnings,
        title="Means of the hidden features by what is known of people",
    )


def means(found: Estimates, codes: Codes) -> tuple[list[str], pa.Table, pa.Table]:
    """Lay means of subgroups out: what they are by, in words; the rows; the ends of the line of equality.

    A table of several columns (keys ``column`` and ``value``) has a class for each; others have one.
    """
    names = list(found.keys)
    if names == ["feature", "column", "value"]:
        by = list(dict.fromkeys(str(v) for v in found["column"].tolist()))
        code = [f"b{by.index(str(v))}" for v in found["column"].tolist()]
        label = [str(v) for v in found["value"].tolist()]
    else:
        others = [k for k in names if k != "feature"]
        by, code = [", ".join(others)], ["b0"] * len(found)
        label = _words(found, others)
    columns: dict[str, Any] = {
        "feature": [codes[str(f)] for f in found["feature"].tolist()],
        "by": code,
        "label": label,
        "short": label if len(found) <= NAMED * len(codes) * len(by) else [""] * len(found),
        **{n: _numbers(found, n) for n in (*OF_ESTIMATE, "naive", "people")},
    }
    if "truth" in found.table.column_names:
        columns["truth"] = _numbers(found, "truth")
    naive = found["naive"].astype(np.float64)
    return by, pa.table(columns), _ends(columns["feature"], naive)


def _ends(feature: Sequence[str], values: FloatArray) -> pa.Table:
    """Give, for each feature, the least and the greatest value."""
    rows = []
    for f in dict.fromkeys(feature):
        own = values[np.array([g == f for g in feature])]
        own = own[np.isfinite(own)]
        if len(own):
            rows += [(f, float(own.min())), (f, float(own.max()))]
    return pa.table({"feature": [f for f, _ in rows], "end": [v for _, v in rows]})


def _words(found: Estimates, keys: Sequence[str]) -> list[str]:
    columns = [found.table[k].to_pylist() for k in keys]
    return [" · ".join("missing" if v is None else str(v) for v in row) for row in zip(*columns, strict=True)]


def _numbers(found: Estimates, name: str) -> pa.Array:
    return pa.array(found[name].astype(np.float64), from_pandas=True)


def profiles(found: Estimates) -> tuple[pa.Table, int]:
    """Lay clusters out as a table of colours: each cell's value, and how far it lies from all people in sds between clusters.

    Returns
    -------
    pyarrow.Table
        ``cluster, column, value, words, score, hidden, row, place``.
    int
        Known columns that are left out: those in which clusters differ least.
    """
    names = found["feature"].tolist()
    hidden = list(dict.fromkeys(names))
    first = np.array([i for i, f in enumerate(names) if f == hidden[0]])
    share = found["share"].astype(np.float64)[first]
    known = [n for n in found.table.column_names if n not in LABELLED]
    values: dict[tuple[bool, str], FloatArray] = {(False, n): found[n].astype(np.float64)[first] for n in known}
    shown = _widest(known, {n: values[False, n] for n in known}, share, MOST_COLUMNS)
    order = [(False, n) for n in shown]
    for f in hidden:
        values[True, str(f)] = found["estimate"].astype(np.float64)[[i for i, g in enumerate(names) if g == f]]
        order.append((True, str(f)))
    clusters = [f"{c} · {s:.0%}" for c, s in zip(found["cluster"][first].tolist(), share, strict=True)]
    rows = [
        {
            "cluster": clusters[i],
            "column": name,
            "value": float(v),
            "words": number(float(v)),
            "score": float(z),
            "hidden": "hidden mean" if is_hidden else "known column",
            "row": float(i),
            "place": float(j),
        }
        for j, (is_hidden, name) in enumerate(order)
        for i, (v, z) in enumerate(zip(values[is_hidden, name], _score(values[is_hidden, name], share), strict=True))
    ]
    return pa.table({n: [r[n] for r in rows] for n in rows[0]}), len(known) - len(shown)


def cluster_means(found: Estimates, codes: Codes) -> pa.Table:
    """Lay the hidden means of clusters out."""
    share = found["share"].astype(np.float64)
    return pa.table(
        {
            "feature": [codes[str(f)] for f in found["feature"].tolist()],
            "label": [f"{c} · {s:.0%} of people" for c, s in zip(found["cluster"].tolist(), share, strict=True)],
            **{n: _numbers(found, n) for n in OF_ESTIMATE},
            "share": share,
            "place": found["cluster"].astype(np.float64),
        }
    )


def group_means(found: Estimates, codes: Codes) -> tuple[pa.Table, pa.Table]:
    """Lay published means out beside what the other groups foretell, with whether the interval held."""
    t = found["published"].astype(np.float64)
    keep = np.flatnonzero(np.isfinite(t) & np.isfinite(found["estimate"].astype(np.float64)))
    low, high = found["conf_low"].astype(np.float64), found["conf_high"].astype(np.float64)
    sure = np.isfinite(low) & np.isfinite(high)
    held = np.where(~sure, "no interval", np.where((low <= t) & (t <= high), "held", "missed"))
    feature = [codes[str(f)] for f in found["feature"].tolist()]
    table = pa.table(
        {
            "feature": feature,
            "label": [str(v) for v in found["group"].tolist()],
            **{n: _numbers(found, n) for n in (*OF_ESTIMATE, "published")},
            "held": held.tolist(),
        }
    ).take(pa.array(keep))
    return table, _ends(feature, t)


def slopes(found: Estimates, codes: Codes) -> pa.Table:
    """Lay the slopes that means taught out."""
    return pa.table(
        {
            "feature": [codes[str(f)] for f in found["feature"].tolist()],
            "label": _words(found, ["column", "term"]),
            **{n: _numbers(found, n) for n in (*OF_ESTIMATE, "kept", "between_sd", "prior_sd")},
            "place": np.arange(len(found), dtype=np.float64),
        }
    )


def baselines(found: Estimates) -> pa.Table:
    """Lay methods out by what they gain on the naive answer, with the 95 % interval of that gain, and their calibration."""
    gain, error = found["gain"].astype(np.float64), found["gain_error"].astype(np.float64)
    uses = found["uses_truth"].astype(bool)
    return pa.table(
        {
            "label": [str(m) for m in found["method"].tolist()],
            "gain": gain,
            "gain_low": gain - 1.96 * error,
            "gain_high": gain + 1.96 * error,
            **{n: _numbers(found, n) for n in ("lift", "auc", "brier", "rmse_cells", "intercept", "slope")},
            "source": ["uses the truth" if u else "can be had without it" for u in uses],
            "place": np.arange(len(found), dtype=np.float64),
        }
    )
