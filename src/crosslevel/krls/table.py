"""Average effects as text: the fit, the kind of interval, plug-in and debiased effect side by side."""

from __future__ import annotations

import math

from crosslevel.results import Estimates
from crosslevel.results.display import describe_level

RESERVED = (
    *("term", "estimate", "std_error", "conf_low", "conf_high", "plug_in", "correction", "flagged", "statistic"),
    *("p_value", "kind", "contrast", "rows", "p_equal", "versus"),
)
"""Columns of the table of effects, which no subgroup may be called."""
MOST_DECIMALS = 10


def effects_summary(estimates: Estimates) -> str:
    """Write average effects as text: the fit, the kind of interval, plug-in and debiased effect side by side.

    Parameters
    ----------
    estimates : Estimates
        Of `KRLS.effects`.
    """
    d = estimates.diagnostics
    lines = [
        f"{estimates.title} ({estimates.method})",
        f"{d['rows']:,.0f} rows ({d['path']}), R² {d['r2']:.3f}, {d['r2_ame']:.3f} by average effects alone",
        f"Intervals: {estimates.interval}; target: average over the {d['target']}; penalty {d['penalty']:.4g} "
        f"({d['rule']}), effective degrees of freedom {d['edf']:.1f}",
        "",
        *_aligned(estimates),
    ]
    if estimates["flagged"].any():
        lines.append("* shrinkage moved this effect by more than one standard error")
    lines += [f"Note: {w}" for w in estimates.warnings if not w.startswith("shrinkage moved")]
    return "\n".join(lines)


def _aligned(estimates: Estimates) -> list[str]:
    debiased = estimates.interval.startswith("debiased")
    heads = [*estimates.keys, "AME (KRLS)"]
    heads += ["AME (debiased)"] if debiased else []
    heads += ["SE", describe_level(estimates.level), "p"]
    heads += ["correction/SE"] if debiased else []
    rows = [heads]
    for row in estimates.table.to_pylist():
        decimals = _decimals(row["std_error"])

        def number(value: float | None, decimals: int = decimals) -> str:
            return "–" if value is None else f"{value:,.{decimals}f}"

        cells = [str(row[k]) for k in estimates.keys] + [number(row["plug_in"])]
        cells += [number(row["estimate"])] if debiased else []
        cells += [
            number(row["std_error"]),
            f"[{number(row['conf_low'])}, {number(row['conf_high'])}]",
            _p(row["p_value"]),
        ]
        if debiased:
            moved = row["correction"]
            cells.append("–" if moved is None else f"{moved:.1f} {'*' if row['flagged'] else ' '}")
        rows.append(cells)
    n_keys = len(estimates.keys)
    widths = [max(len(r[j]) for r in rows) for j in range(len(heads))]
    return [
        "  ".join(
            c.ljust(w) if j < n_keys else c.rjust(w) for j, (c, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in rows
    ]


def _decimals(error: float | None) -> int:
    """Show two digits of the error, whatever the unit of the row."""
    if not error:
        return 4
    return min(max(1 - math.floor(math.log10(error)), 0), MOST_DECIMALS)


def _p(value: float | None) -> str:
    return "–" if value is None else "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")
