"""Put the answers from several completed data sets together: Rubin's rules.

With m completed data sets, estimates Q_l and squared standard errors U_l:

    estimate = mean Q,    T = mean U + (1 + 1/m) B,    B = variance of Q between data sets
    df = (m - 1) (1 + 1/r)^2,    r = (1 + 1/m) B / mean U        (Rubin 1987; with ``n_complete`` Barnard & Rubin 1999)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from crosslevel.data.checks import as_numbers, check_level
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

__all__ = ["Pooled", "pool", "pool_statistic", "rubin"]


@dataclass(frozen=True, eq=False)
class Pooled:
    """Statistics pooled over completed data sets; every array is (k,).

    Attributes
    ----------
    estimate, std_error : (k,)
    df : (k,)
        Degrees of freedom of Student's t.
    within, between : (k,)
        mean U, and B.
    missing_information : (k,)
        Share of the variance that is there because values were imputed.
    """

    estimate: FloatArray
    std_error: FloatArray
    df: FloatArray
    within: FloatArray
    between: FloatArray
    missing_information: FloatArray


def rubin(Q: FloatArray, U: FloatArray, n_complete: float = np.inf) -> Pooled:
    """Pool estimates by Rubin's rules.

    Parameters
    ----------
    Q, U : (m, k)
        Estimates and squared standard errors of each completed data set.
    n_complete : float
        Degrees of freedom the statistic would have with complete data.

    Examples
    --------
    >>> found = rubin(np.array([[1.0], [2.0], [3.0]]), np.full((3, 1), 0.5))
    >>> found.estimate, (found.std_error**2).round(4), found.df.round(3)
    (array([2.]), array([1.8333]), array([3.781]))
    """
    m = len(Q)
    within, between = U.mean(axis=0), Q.var(axis=0, ddof=1)
    extra = (1.0 + 1.0 / m) * between
    total = within + extra
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, extra / total, 0.0)
        df = np.where(share > 0, (m - 1) / share**2, np.inf)
    if np.isfinite(n_complete):
        observed = (n_complete + 1.0) / (n_complete + 3.0) * n_complete * (1.0 - share)
        df = 1.0 / (1.0 / df + 1.0 / np.maximum(observed, 1e-12))
    r = np.where(within > 0, extra / np.maximum(within, 1e-300), np.inf)
    with np.errstate(invalid="ignore"):
        missing = np.where(np.isfinite(r), (r + 2.0 / (df + 3.0)) / (r + 1.0), 1.0)
    return Pooled(Q.mean(axis=0), np.sqrt(total), df, within, between, missing)


def pool(
    estimates: Any,
    std_errors: Any,
    *,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    n_complete: float = np.inf,
) -> Estimates:
    """Pool the estimates of m completed data sets into one table.

    Parameters
    ----------
    estimates, std_errors : array of shape (m,) or (m, k)
    names : sequence of str, optional
        Of the k statistics.
    level : float
    n_complete : float
        Degrees of freedom with complete data.

    Examples
    --------
    >>> est = pool([1.0, 2.0, 3.0], [0.7, 0.7, 0.7], names=["difference"])
    >>> est["statistic"].tolist(), est["estimate"].tolist()
    (['difference'], [2.0])
    """
    level = check_level(level)
    Q, U = (_two(v, n) for v, n in ((estimates, "estimates"), (std_errors, "std_errors")))
    if Q.shape != U.shape:
        raise InputError(f"estimates has shape {Q.shape} and std_errors {U.shape}; pass one error per estimate.")
    if len(Q) < 2:
        raise InputError(
            "estimates has one completed data set; how much imputation matters shows from two on, better twenty."
        )
    if (U < 0).any():
        raise InputError("std_errors has a negative value; pass standard errors, which are >= 0.")
    labels = [f"statistic {j}" for j in range(Q.shape[1])] if names is None else list(names)
    if len(labels) != Q.shape[1]:
        raise InputError(f"names has {len(labels)} entries for {Q.shape[1]} statistics; pass one each.")
    found = rubin(Q, U**2, n_complete)
    half = stats.t.ppf(0.5 + 0.5 * level, found.df) * found.std_error
    return Estimates.build(
        {
            "statistic": labels,
            "estimate": found.estimate,
            "std_error": found.std_error,
            "conf_low": found.estimate - half,
            "conf_high": found.estimate + half,
            "df": np.where(np.isfinite(found.df), found.df, np.nan),
            "missing_information": found.missing_information,
        },
        keys=["statistic"],
        method=f"multiple imputation, {len(Q)} completed data sets",
        level=level,
        interval="Rubin's rules, Student",
        provenance=Provenance.of(call="pool(estimates, std_errors)"),
    )


def pool_statistic(
    draws: Any,
    statistic: Callable[[FloatArray], tuple[Any, Any]],
    *,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    n_complete: float = np.inf,
) -> Estimates:
    """Compute a statistic on every completed data set and pool.

    Parameters
    ----------
    draws : array of shape (m, n, d_u)
        From ``sample``.
    statistic : callable
        Takes the imputed columns of one draw, (n, d_u), and gives estimates and standard errors, numbers or (k,).

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(5, 100, 1))
    >>> est = pool_statistic(draws, lambda u: (u.mean(), u.std() / 10), names=["mean"])
    >>> bool(abs(est["estimate"][0]) < 0.2)
    True
    """
    array = as_numbers(draws, "draws", 3)
    pairs = [statistic(one) for one in array]
    Q, U = (np.array([np.atleast_1d(np.asarray(p[i], dtype=np.float64)) for p in pairs]) for i in (0, 1))
    return pool(Q, U, names=names, level=level, n_complete=n_complete)


def _two(values: Any, argument: str) -> FloatArray:
    array = as_numbers(values, argument)
    if array.ndim not in (1, 2):
        raise InputError(
            f"{argument} has {array.ndim} dimensions; pass (m,) or (m, k), one row per completed data set."
        )
    if not np.isfinite(array).all():
        raise InputError(f"{argument} has a missing or infinite value; a completed data set gave no answer.")
    return array[:, None] if array.ndim == 1 else array
