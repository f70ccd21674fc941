"""Coverage, PIT and log score of forecasts by stratum, and conformal intervals where coverage falls short.

Marginal coverage hides those who need the interval most: 95 % overall may be 99 % of large bags and 80 % of small ones. Everything
here is reported by stratum, such as a class of bag sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from crosslevel.data.checks import align_rows, check_finite, check_kind, check_level, check_whole, row_keys
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import rmse, share_row
from crosslevel.typing import AnyArray, BoolArray, FloatArray

ALL = "all"


def gaussian_pit(truth: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> FloatArray:
    """Give the probability integral transform of each truth under its normal forecast; uniform when calibrated.

    Examples
    --------
    >>> gaussian_pit([0.0, 1.96], [0.0, 0.0], [1.0, 1.0]).round(3).tolist()
    [0.5, 0.975]
    """
    t, m, s = _forecast(truth, mean, std)
    return np.asarray(special.ndtr((t - m) / s))


def gaussian_nll(truth: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> FloatArray:
    """Give minus the log density of each truth under its normal forecast.

    Examples
    --------
    >>> gaussian_nll([0.0], [0.0], [1.0]).round(4).tolist()
    [0.9189]
    """
    t, m, s = _forecast(truth, mean, std)
    return np.asarray(0.5 * np.log(2.0 * np.pi) + np.log(s) + 0.5 * ((t - m) / s) ** 2)


def pit_uniformity(pit: npt.ArrayLike) -> float:
    """Give the p-value of Kolmogorov and Smirnov's test that the transforms are uniform.

    Examples
    --------
    >>> pit_uniformity(np.linspace(0.005, 0.995, 100)) > 0.99, pit_uniformity(np.full(50, 0.5)) < 1e-6
    (True, True)
    """
    values = check_finite(pit, "pit", 1)
    if len(values) == 0:
        raise InputError("pit is empty; pass at least one transform.")
    return float(stats.kstest(values, "uniform").pvalue)


@checked
def size_strata(sizes: npt.ArrayLike, edges: Sequence[float] | int | None = None) -> npt.NDArray[np.str_]:
    """Name the class of sizes each bag belongs to.

    Parameters
    ----------
    sizes : (n_bags,)
        Sizes, or effective sizes.
    edges : sequence of float, int or None
        Upper ends of the classes, the last class being open; a number of classes that hold about equally many bags; by
        default every size is its own class when there are at most six, and otherwise four classes.

    Returns
    -------
    (n_bags,) text
        Such as "5", "2 to 10" or "over 100".

    Examples
    --------
    >>> size_strata([1, 5, 700], edges=[4, 100]).tolist()
    ['up to 4', 'over 4 to 100', 'over 100']
    >>> size_strata([5, 20, 5]).tolist()
    ['5', '20', '5']
    """
    N = check_finite(sizes, "sizes", 1)
    distinct = np.unique(N)
    if edges is None:
        if len(distinct) <= 6:
            return np.array([f"{v:g}" for v in N])
        edges = 4
    if isinstance(edges, int | np.integer):
        edges = check_whole(edges, "edges", 1, 1000)
        ends = np.unique(np.quantile(N, np.arange(1, edges) / edges, method="inverted_cdf"))
    else:
        ends = np.unique(check_finite(list(edges), "edges", 1))
    place = np.searchsorted(ends, N, side="left")
    names = [f"up to {ends[0]:g}" if len(ends) else ALL]
    names += [f"over {a:g} to {b:g}" for a, b in pairwise(ends)]
    names += [f"over {ends[-1]:g}"] if len(ends) else []
    return np.array(names)[place]


@checked
def calibration_table(
    truth: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    interval: npt.ArrayLike | None = None,
    log_density: npt.ArrayLike | None = None,
    pit: npt.ArrayLike | None = None,
) -> Estimates:
    """Score forecasts by stratum: coverage of intervals, log score, error and uniformity of the PIT.

    Parameters
    ----------
    truth, mean, std : (n,)
    stratum : (n,), optional
        Any labels, such as those of `size_strata`; without them there is one row.
    level : float
        Level of the intervals.
    interval : (n, 2), optional
        Their ends; those of normal forecasts when not given.
    log_density, pit : (n,), optional
        Of the truths, where the forecasts are not normal.

    Returns
    -------
    Estimates
        Key ``stratum``, the first row "all"; ``estimate`` is the coverage with its 95 % Wilson interval, and further columns are
        ``n, nominal, nll, rmse, mean_width, mean_pit, pit_p_value``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, sizes = rng.normal(size=400), rng.choice([5, 20], 400)
    >>> found = calibration_table(y, np.zeros(400), np.ones(400), size_strata(sizes))
    >>> found["stratum"].tolist(), bool(abs(found["estimate"][0] - 0.95) < 0.03)
    (['all', '5', '20'], True)
    """
    check_level(level)
    keys, (t, m, s) = _keys(truth, mean, std), _forecast(truth, mean, std)
    n = len(t)
    half = float(special.ndtri(0.5 + level / 2.0)) * s
    given = align_rows(interval, keys, "interval")
    ends = np.column_stack([m - half, m + half]) if interval is None else check_finite(given, "interval", 2)
    if ends.shape != (n, 2) or (ends[:, 0] > ends[:, 1]).any():
        raise InputError(f"interval has shape {ends.shape}; pass {n:,} rows of two ends, the lower first.")
    nll = gaussian_nll(t, m, s) if log_density is None else -_like("log_density", log_density, keys, n)
    u = gaussian_pit(t, m, s) if pit is None else _like("pit", pit, keys, n)
    labels = _labels(stratum, keys, n)
    made = [_row(name, keep, t, m, ends, nll, u, level) for name, keep in strata_of(labels)]
    columns = {name: [r[name] for r in made] for name in made[0]}
    return Estimates.build(
        columns,
        keys=("stratum",),
        kind="coverage",
        method=f"coverage of {level:.0%} intervals by stratum",
        level=0.95,
        interval="Wilson, of the coverage",
        provenance=Provenance.of(call=f"calibration_table(truth, mean, std, stratum, level={level!r})"),
        title="Calibration",
    )


def strata_of(labels: AnyArray) -> list[tuple[str, BoolArray]]:
    """Name everybody and then each stratum, from small to large, with its members, (n,).

    Examples
    --------
    >>> [(name, keep.tolist()) for name, keep in strata_of(np.array(["20", "5"]))]
    [('all', [True, True]), ('5', [False, True]), ('20', [True, False])]
    """
    rows = [(ALL, np.ones(len(labels), dtype=bool))]
    return rows + [(str(v), labels == v) for v in _in_order(labels) if str(v) != ALL]


def _row(
    name: str,
    keep: BoolArray,
    t: FloatArray,
    m: FloatArray,
    ends: FloatArray,
    nll: FloatArray,
    u: FloatArray,
    level: float,
) -> dict[str, Any]:
    low, high, truth = ends[keep, 0], ends[keep, 1], t[keep]
    return {
        "stratum": name,
        **share_row((low <= truth) & (truth <= high)),
        "nominal": level,
        "nll": float(nll[keep].mean()),
        "rmse": rmse(m[keep], truth),
        "mean_width": float((high - low).mean()),
        "mean_pit": float(u[keep].mean()),
        "pit_p_value": pit_uniformity(u[keep]),
    }


@dataclass(frozen=True)
class ConformalScale:
    """By what to stretch the standard deviation of each stratum; see `fit_conformal`.

    Attributes
    ----------
    level : float
    factors : dict of str to float
        Stratum to factor, in standard deviations.
    counts : dict of str to int
        Calibration bags of each.
    overall : float
        The factor without strata.
    """

    level: float
    factors: dict[str, float]
    counts: dict[str, int]
    overall: float


@checked
def fit_conformal(
    truth: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> ConformalScale:
    """Learn the half-width of intervals, in standard deviations, from bags that were not used to fit (split conformal).

    Within each stratum (Mondrian; Vovk et al. 2005) the factor is the ceil((n + 1) level)-th smallest of ``|truth - mean| / std``, so
    that a new bag of the stratum is covered with at least the level whatever the model. A stratum with too few bags for that is
    refused.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = 3.0 * rng.normal(size=999)
    >>> round(fit_conformal(y, np.zeros(999), np.ones(999)).overall, 1)
    5.7
    """
    check_level(level)
    t, m, s = _forecast(truth, mean, std)
    score = np.abs(t - m) / s
    labels = _labels(stratum, _keys(truth, mean, std), len(t)).astype(str)
    factors = {str(v): _conformal_quantile(score[labels == v], level, str(v)) for v in np.unique(labels)}
    counts = {str(v): int((labels == v).sum()) for v in np.unique(labels)}
    return ConformalScale(level, factors, counts, _conformal_quantile(score, level, ALL))


@checked
def conformal_interval(
    scale: ConformalScale, mean: npt.ArrayLike, std: npt.ArrayLike, stratum: npt.ArrayLike | None = None
) -> FloatArray:
    """Give the conformal intervals of new bags, (n, 2).

    Examples
    --------
    >>> conformal_interval(ConformalScale(0.95, {"5": 2.0}, {"5": 99}, 2.0), [1.0], [0.5], ["5"]).tolist()
    [[0.0, 2.0]]
    """
    check_kind(scale, ConformalScale, "scale", "pass what fit_conformal gave")
    keys = _keys(mean, std)
    m, s = (check_finite(align_rows(v, keys, name), name, 1) for name, v in (("mean", mean), ("std", std)))
    if len(m) != len(s) or (s < 0).any():
        raise InputError(
            f"std has {len(s):,} values for {len(m):,} of mean, {int((s < 0).sum()):,} of them negative; pass one spread per bag."
        )
    if stratum is None:
        factor = np.full(len(m), scale.overall)
    else:
        labels = _labels(stratum, keys, len(m)).astype(str)
        unseen = sorted(set(labels.tolist()) - set(scale.factors))
        if unseen:
            raise InputError(
                f"stratum holds {listed(unseen)}, which the calibration bags did not; it has {listed(scale.factors)}. Use wider "
                "classes, or leave stratum out."
            )
        factor = np.array([scale.factors[v] for v in labels.tolist()])
    return np.column_stack([m - factor * s, m + factor * s])


def _keys(*given: Any) -> list[Any] | None:
    """Give the names of the bags: the index of the first that has one."""
    return next((keys for keys in map(row_keys, given) if keys is not None), None)


def _labels(stratum: npt.ArrayLike | None, keys: list[Any] | None, n: int) -> AnyArray:
    labels = np.full(n, ALL) if stratum is None else np.asarray(align_rows(stratum, keys, "stratum"))
    if labels.shape != (n,):
        raise InputError(f"stratum has shape {labels.shape}; pass one label for each of the {n:,} forecasts.")
    missing = [i for i, label in enumerate(labels.tolist()) if label is None or label != label]
    if missing:
        raise InputError(f"stratum is missing in {len(missing):,} row(s), first in row {missing[0]:,}; name it there.")
    return labels


def _conformal_quantile(score: FloatArray, level: float, name: str) -> float:
    rank = int(np.ceil((len(score) + 1) * level - 1e-9))
    if rank > len(score):
        raise InputError(
            f"stratum {name!r} has {len(score):,} calibration bag(s); {level:.0%} intervals need at least "
            f"{int(np.ceil(level / (1.0 - level) - 1e-9)):,}. Use wider classes or more bags."
        )
    return float(np.sort(score)[rank - 1])


def _in_order(labels: AnyArray) -> list[Any]:
    """List the labels, numbers by value and names by their first number, then as text."""
    distinct = np.unique(labels).tolist()

    def key(label: object) -> tuple[float, int, str]:
        words = str(label).split()
        numbers = [float(w) for w in words if _is_number(w)]
        after = {"up": 0, "over": 1}.get(words[0] if words else "", 0)
        return (numbers[0] if numbers else np.inf, after, str(label))

    return sorted(distinct, key=key)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _forecast(
    truth: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    keys, named = _keys(truth, mean, std), (("truth", truth), ("mean", mean), ("std", std))
    t, m, s = (check_finite(align_rows(v, keys, name), name, 1) for name, v in named)
    if not len(t) == len(m) == len(s) or len(t) == 0:
        raise InputError(
            f"truth, mean and std have {len(t):,}, {len(m):,} and {len(s):,} values; pass one of each per bag, at least one."
        )
    if not (s > 0).all():
        raise InputError(f"std has {int((s <= 0).sum()):,} value(s) that are not positive; a forecast needs a spread.")
    return t, m, s


def _like(name: str, values: npt.ArrayLike, keys: list[Any] | None, n: int) -> FloatArray:
    array = check_finite(align_rows(values, keys, name), name, 1)
    if len(array) != n:
        raise InputError(f"{name} has {len(array):,} values for {n:,} forecasts; pass one for each.")
    return array
