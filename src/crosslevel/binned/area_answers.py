"""Counts of large areas shared out to small ones, as the one table of crosslevel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.binned.areas import SharedOut, nested_rate, share_out
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.population import holders
from crosslevel.data.checks import check_level
from crosslevel.data.fingerprint import fingerprint
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates, Provenance

__all__ = ["shared_estimates"]


def shared_estimates(
    large: Polygons,
    totals: npt.ArrayLike,
    small: Polygons,
    population: npt.ArrayLike,
    *,
    level: float = 0.95,
    seed: int = 0,
    **options: Any,
) -> Estimates:
    """Estimate the counts of small areas inside large ones; ``options`` go to `crosslevel.binned.areas.share_out`.

    The diagnostic ``monte_carlo_share`` is the largest error that the number of draws leaves in an estimate, over its ``std_error``.

    Parameters
    ----------
    large : Polygons
    totals : (B,)
        Counts of the large areas, which are kept.
    small : Polygons
        Each inside one of the large.
    population : (A,)
        Everybody in each small area.

    Examples
    --------
    >>> def squares(n, w):
    ...     return Polygons([[[i * w, 0], [i * w + w, 0], [i * w + w, 1], [i * w, 1]] for i in range(n)])
    >>> found = shared_estimates(squares(2, 2), [40, 10], squares(4, 1), [100, 100, 50, 50], nodes=3, n_draws=200)
    >>> found.table.column_names[-2:], round(float(found["estimate"][:2].sum()), 6)
    (['nested_rate', 'population'], 40.0)
    """
    check_level(level)
    parent = holders(small, large)
    (key, names), *_ = small.labels().items()
    outside = [names[i] for i in np.flatnonzero(parent < 0)]
    if outside:
        raise InputError(
            f"{len(outside):,} small area(s) lie in none of the large ones ({listed(outside)}); leave them out, or check that both files "
            "cover the same ground."
        )
    shared = share_out(small, totals, population, parent, seed=seed, **options)
    half = 0.5 * (1.0 - level)
    std_error = np.sqrt(shared.draws.var(axis=0, ddof=1) + shared.spread.mean(axis=0))
    low, high = shared.quantiles([half, 1.0 - half], seed=seed)
    columns = {
        key: names,
        "estimate": shared.mean,
        "std_error": std_error,
        "conf_low": low,
        "conf_high": high,
        "nested_rate": nested_rate(totals, population, parent),
        "population": np.asarray(population, dtype=np.float64),
    }
    data = {
        "totals": fingerprint({"y": np.asarray(totals, dtype=np.float64)}),
        "population": fingerprint({"n": shared.population}),
    }
    return Estimates.build(
        columns,
        keys=[key],
        method="counts of large areas shared out to small ones by population and neighborhood",
        level=level,
        interval="predictive quantile of the count",
        provenance=Provenance.of(
            call=f"shared_estimates({len(large)} areas, {len(small)} areas)", seed=seed, data=data
        ),
        diagnostics={
            "converged": True,
            "basis_error": shared.basis_error,
            "candidates": _weights(shared),
            "monte_carlo_share": float((shared.monte_carlo_error / np.maximum(std_error, 1e-300)).max()),
        },
        title="Small areas from large ones",
    )


def _weights(shared: SharedOut) -> dict[str, float]:
    kernels = np.array([c[0] for c in shared.candidates])
    return {str(k): float(shared.weights[kernels == k].sum()) for k in dict.fromkeys(kernels.tolist())}
