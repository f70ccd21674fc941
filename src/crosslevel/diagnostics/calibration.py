"""Coverage, PIT and log score of normal forecasts by stratum.

Marginal coverage hides those who need the interval most: 95 % overall may be 99 % of large bags and 80 % of small ones. Everything
here is reported by stratum, such as a class of bag sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from crosslevel.data.checks import align_rows, check_finite, check_level, check_whole, row_keys
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import rmse, share_row
from crosslevel.typing import AnyArray, BoolArray, FloatArray

ALL = "all"


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
) -> Estimates:
    """Score forecasts by stratum: coverage of intervals, log score, error and uniformity of the PIT.

    Parameters
    ----------
    truth, mean, std : (n,)
    stratum : (n,), optional
        Any labels, such as those of `size_strata`; without them there is one row.
    level : float
        Level of the intervals.

    Returns
    -------
    Estimates
        Key ``stratum``, the first row "all"; ``estimate`` is the coverage with its 95 % Wilson interval, and further columns are
        ``n, nominal, nll, rmse, mean_width, mean_pit`` and ``pit_p_value``, of Kolmogorov and Smirnov's test that the transforms of
        the truths are uniform.

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
    labels = _labels(stratum, keys, len(t))
    made = [_row(name, t[keep], m[keep], s[keep], level) for name, keep in _strata(labels)]
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


def _strata(labels: AnyArray) -> list[tuple[str, BoolArray]]:
    """Name everybody and then each stratum, from small to large, with its members, (n,)."""
    rows = [(ALL, np.ones(len(labels), dtype=bool))]
    return rows + [(str(v), labels == v) for v in _in_order(labels) if str(v) != ALL]


def _row(name: str, t: FloatArray, m: FloatArray, s: FloatArray, level: float) -> dict[str, Any]:
    """Score the forecasts of a stratum."""
    z, half = (t - m) / s, float(special.ndtri(0.5 + level / 2.0)) * s
    pit = special.ndtr(z)
    return {
        "stratum": name,
        **share_row((m - half <= t) & (t <= m + half)),
        "nominal": level,
        "nll": float(np.mean(0.5 * np.log(2.0 * np.pi) + np.log(s) + 0.5 * z**2)),
        "rmse": rmse(m, t),
        "mean_width": float(np.mean(2.0 * half)),
        "mean_pit": float(pit.mean()),
        "pit_p_value": float(stats.kstest(pit, "uniform").pvalue),
    }


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
