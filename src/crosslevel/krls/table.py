"""Lay effects out as the one table of crosslevel, and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from crosslevel.errors import listed
from crosslevel.krls.effects import Effect
from crosslevel.krls.inference import Inference
from crosslevel.krls.model import Fit
from crosslevel.results import Estimates
from crosslevel.results.display import level_words

__all__ = [
    "RESERVED",
    "SKEWED",
    "describe_covariates",
    "effects_summary",
    "effects_table",
]


SKEWED = 1.5
"""Skewness beyond which the average derivative of a curved effect is hard for every method."""
COLLINEAR = 1e-10
RESERVED = (
    *("term", "estimate", "std_error", "conf_low", "conf_high", "plug_in", "correction", "flagged", "statistic"),
    *("p_value", "kind", "contrast", "rows", "p_equal", "versus"),
)
"""Columns of the table of effects, which no subgroup may be called."""
MOST_DECIMALS = 10


def effects_table(
    effects: Sequence[Effect],
    found: Inference,
    *,
    level: float,
    warnings: Sequence[str],
    diagnostics: dict[str, Any],
    target: str = "sample",
    title: str = "Average marginal effects",
    keys: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    **heading: Any,
) -> Estimates:
    """Make the table of average effects: a row per term, or per term and further keys (then ``effects`` repeat).

    ``extra`` are further columns; ``heading`` (method, provenance, frame) is passed on to `Estimates.build`.
    """
    variance = np.diag(found.covariance) + (np.diag(found.spread) if target == "population" else 0.0)
    error = np.sqrt(variance)
    half = float(stats.t.ppf((1 + level) / 2, found.dof)) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(error > 0, found.estimate / error, np.nan)
        correction = np.where(error > 0, (found.estimate - found.plug_in) / error, np.nan)
    moved = np.nan_to_num(np.abs(correction)) > 1.0
    said = [*warnings, *found.warnings]
    if moved.any():
        names = list(dict.fromkeys(e.term for e, m in zip(effects, moved, strict=True) if m))
        said.append(f"shrinkage moved {int(moved.sum())} effect(s) by more than one standard error ({listed(names)}).")
    return Estimates.build(
        {
            "term": [e.term for e in effects],
            **(keys or {}),
            "estimate": found.estimate,
            "std_error": error,
            "conf_low": found.estimate - half,
            "conf_high": found.estimate + half,
            "plug_in": found.plug_in,
            "correction": correction,
            "flagged": moved,
            "statistic": statistic,
            "p_value": 2.0 * stats.t.sf(np.abs(statistic), found.dof),
            "kind": [e.kind for e in effects],
            "contrast": [e.contrast for e in effects],
            **(extra or {}),
        },
        keys=("term", *(keys or {})),
        kind="effects",
        title=title,
        level=level,
        interval=found.interval if target == "sample" else f"{found.interval}, population",
        diagnostics={**diagnostics, "target": target},
        warnings=said,
        **heading,
    )


def describe_covariates(fit: Fit, effects: Sequence[Effect], names: Sequence[str]) -> tuple[str, ...]:
    """Say what in the covariates makes effects hard to estimate: skewness, columns that repeat one another."""
    m, Z = fit.cells.m, fit.kernel.Z
    said = []
    slopes = [e.column for e in effects if e.switch is None]
    skewness = m @ Z**3 / fit.cells.N
    skewed = [names[p] for p in slopes if abs(skewness[p]) > SKEWED]
    if skewed:
        said.append(
            f"{len(skewed)} column(s) are strongly skewed ({listed(skewed)}); where the effect is curved, the interval of its "
            "average can fall short. Take logarithms or ranks before fitting."
        )
    correlation = (m[:, None] * Z).T @ Z / (fit.cells.N - 1.0)
    values, vectors = np.linalg.eigh(correlation)
    involved = np.abs(vectors[:, values < COLLINEAR]).max(axis=1, initial=0.0) > 1e-6
    if involved.any():
        same = [n for n, i in zip(names, involved, strict=True) if i]
        said.append(
            f"the columns {listed(same)} determine one another, so their effects cannot be told apart; each got a share. "
            "Leave one out."
        )
    return tuple(said)


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
    heads += ["SE", level_words(estimates.level), "p"]
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
