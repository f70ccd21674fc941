"""Lay effects out as the one table of crosslevel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from crosslevel.data.frames import FrameKind
from crosslevel.errors import InputError, listed
from crosslevel.krls.effects import Effect
from crosslevel.krls.model import Fit
from crosslevel.krls.prediction import bias_allowance, effect_band
from crosslevel.krls.variants import Inference, scales
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["RESERVED", "SKEWED", "band_table", "effects_table", "reader_notes"]


SKEWED = 1.5
"""Skewness beyond which the average derivative of a curved effect is hard for every method."""
COLLINEAR = 1e-10
RESERVED = (
    *("term", "estimate", "std_error", "conf_low", "conf_high", "plug_in", "correction", "flagged", "statistic"),
    *("p_value", "kind", "contrast", "rows", "p_equal", "versus"),
)
"""Columns of the table of effects, which no subgroup may be called."""
MOST_JOINT = 4000
"""Rows of a simultaneous band: its memory and time are those of a second fit of that size."""


def effects_table(
    effects: Sequence[Effect],
    found: Inference,
    *,
    level: float,
    target: str,
    frame: FrameKind,
    provenance: Provenance,
    diagnostics: dict[str, Any],
    notes: Sequence[str],
    method: str = "kernel regularised least squares",
    keys: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    title: str = "Average marginal effects",
) -> Estimates:
    """Make the table of average effects: a row per term, or per term and further keys (then ``effects`` repeat)."""
    variance = np.diag(found.covariance) + (np.diag(found.spread) if target == "population" else 0.0)
    error = np.sqrt(variance)
    half = float(stats.t.ppf((1 + level) / 2, found.dof)) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(error > 0, found.estimate / error, np.nan)
        correction = np.where(error > 0, (found.estimate - found.plug_in) / error, np.nan)
    moved = np.nan_to_num(np.abs(correction)) > 1.0
    said = [*notes, *found.notes]
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
        method=method,
        level=level,
        interval=found.words if target == "sample" else f"{found.words}, population",
        provenance=provenance,
        diagnostics={**diagnostics, "target": target},
        warnings=said,
        frame=frame,
        title=title,
    )


def reader_notes(fit: Fit, effects: Sequence[Effect], names: Sequence[str]) -> tuple[str, ...]:
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


def band_table(
    fit: Fit,
    effects: Sequence[Effect],
    X: FloatArray,
    *,
    level: float,
    simultaneous: bool,
    draws: int,
    seed: int,
    frame: FrameKind,
    provenance: Provenance,
) -> Estimates:
    """Make the table of effects at rows, with bands: a row per term and row of X."""
    if simultaneous and len(X) > MOST_JOINT:
        raise InputError(
            f"X has {len(X):,} rows; a simultaneous band is simulated for at most {MOST_JOINT:,}. Pass fewer rows, such as a "
            "grid, as X."
        )
    Z = fit.scaling.apply(X)
    normal = float(stats.norm.ppf((1 + level) / 2))
    parts: dict[str, list[FloatArray]] = {"estimate": [], "std_error": [], "conf_low": [], "conf_high": []}
    scale_of, allowances = scales(fit, effects), bias_allowance(fit, effects)
    for effect, scale, allowance in zip(effects, scale_of, allowances, strict=True):
        band = effect_band(fit, effect, Z, level if simultaneous else None, draws, seed, float(allowance))
        half = (normal if band.critical is None else band.critical) * band.sd
        for name, values in (
            ("estimate", band.mean),
            ("std_error", band.sd),
            ("conf_low", band.mean - half),
            ("conf_high", band.mean + half),
        ):
            parts[name].append(values * scale)
    words = "simultaneous over the rows" if simultaneous else "on average over the rows"
    return Estimates.build(
        {
            "term": np.repeat([e.term for e in effects], len(X)),
            "row": np.tile(np.arange(len(X)), len(effects)),
            **{name: np.concatenate(values) for name, values in parts.items()},
            "value": np.concatenate([X[:, e.column] for e in effects]),
        },
        keys=("term", "row"),
        method="kernel regularised least squares, Gaussian process posterior with unpenalised linear part and measured bias",
        level=level,
        interval=f"posterior, {words}",
        provenance=provenance,
        diagnostics={
            "path": fit.path,
            "penalty": fit.penalty,
            "bandwidth": fit.kernel.s,
            "bias": {e.term: float(b) for e, b in zip(effects, np.sqrt(allowances) * np.abs(scale_of), strict=True)},
        },
        frame=frame,
        title="Effects at rows",
    )
