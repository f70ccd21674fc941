"""What will a fit of these very rows take? Equal rows are counted, and the rank of their kernel is probed."""

from __future__ import annotations

from typing import Any

import numpy as np

from crosslevel.data import frames
from crosslevel.krls.costs import Cost, cost
from crosslevel.krls.inputs import Options, read_fit
from crosslevel.krls.kernel import GaussianKernel, standardise
from crosslevel.krls.paths import EXACT_ROWS, partial_rank

__all__ = ["cost_of_rows"]


def cost_of_rows(
    estimator: Any, X: Any, options: Options, method: str, rank: int | None, bandwidth: str | float, seed: int
) -> Cost:
    """Estimate the cost of a fit from its covariates.

    Parameters
    ----------
    estimator : object
        An unfitted copy; reading X sets names on it.
    X : dataframe or array
    options, method, rank, bandwidth, seed
        Of the fit.
    """
    given = frames.to_arrow(X, "X") if frames.is_frame(X) else X
    placeholder = np.arange(len(given), dtype=np.float64)
    rows = read_fit(estimator, given, placeholder, None, None, options).X
    n, p = rows.shape
    if method == "exact":
        return cost(n, p, method)
    distinct = np.unique(rows + 0.0, axis=0)
    low = None
    if method in ("auto", "partial") and len(distinct) > EXACT_ROWS:
        Z = standardise(distinct, np.ones(len(distinct))).apply(distinct)
        s = float(p) if isinstance(bandwidth, str) else float(bandwidth)  # near enough for "maxvar"
        low = partial_rank(GaussianKernel(Z, s), seed)
    return cost(n, p, method, distinct=len(distinct), rank=rank, low_rank=low)
