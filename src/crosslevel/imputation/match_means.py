"""Make imputed values agree with the published mean of every group, exactly: expected values and each draw.

Two ways, by what the values can be: add a constant (a number), or add one to the logits (probabilities). Draws of yes and no keep
whole totals by conditional Bernoulli sampling.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from crosslevel.numerics.compiled import njit
from crosslevel.numerics.logit_shift import logit, shift_to_total
from crosslevel.typing import FloatArray, IntArray

TINY = 1e-300
NEVER = 745.0
"""A logit this low is a probability of zero."""
WHOLE = 1e-6
"""A total this near to a whole number, relative to its size, is one: published means carry rounding."""


def inside(p: FloatArray) -> FloatArray:
    """Keep probabilities where they have a logit."""
    return np.clip(p, TINY, 1.0 - 1e-16)


def match(
    f: FloatArray, group: IntArray, weight: FloatArray, mean: FloatArray, *, binary: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Shift the predictions of each group by one constant, so that their mean is the published one.

    Parameters
    ----------
    f : (M,)
        Logits, or numbers.
    group : (M,) int
    weight : (M,)
    mean : (P,)
        NaN where there is none and nothing is shifted.
    binary : bool

    Returns
    -------
    value : (M,)
    shift : (P,)
        0 where there is no mean or nobody; a group in which nobody or everybody is yes has one that says so.

    Examples
    --------
    >>> value, shift = match(np.array([0.0, 1.0]), np.array([0, 0]), np.ones(2), np.array([0.3]))
    >>> round(float(value.mean()), 12)
    0.3
    >>> match(np.array([1.0, 2.0]), np.array([0, 0]), np.ones(2), np.array([5.0]), binary=False)[0].tolist()
    [4.5, 5.5]
    """
    if binary:
        found = shift_to_total(f[None], weight, group, mean)
        edge = np.where(mean <= 0.0, -NEVER, np.where(mean >= 1.0, NEVER, 0.0))
        return found.rate[0], np.where(np.isnan(found.shift[0]), edge, found.shift[0])
    total = np.bincount(group, weight, len(mean))
    shift = np.nan_to_num(mean - np.bincount(group, weight * f, len(mean)) / np.maximum(total, TINY))
    return f + shift[group], shift


def inverse_link(f: FloatArray, *, binary: bool) -> FloatArray:
    """Give probabilities of logits; numbers are what they are."""
    return np.asarray(expit(f)) if binary else f


def draw_means(mean: FloatArray, error: FloatArray | None, rng: np.random.Generator, *, binary: bool) -> FloatArray:
    """Draw the true mean of each group around the published one, (P,): one normal deviate per group, by its standard error.

    Parameters
    ----------
    mean : (P,)
        Published; NaN stays NaN.
    error : (P,) or None
        Published standard errors; none where NaN, and random numbers are drawn only where there is one.
    rng : numpy.random.Generator
    binary : bool
        Shares move on the scale of the logit, numbers as they are. Shares of 0 and 1 have no logit and stay.

    Examples
    --------
    >>> draw_means(np.array([0.5, 0.2]), np.array([0.05, np.nan]), np.random.default_rng(0), binary=True).round(3).tolist()
    [0.506, 0.2]
    """
    sd = np.zeros(len(mean)) if error is None else np.nan_to_num(np.where(np.isnan(mean), 0.0, error))
    if not (sd > 0).any():
        return mean
    move = sd * rng.standard_normal(len(mean))
    if not binary:
        return np.asarray(mean + move)
    open_ = (mean > 0.0) & (mean < 1.0)
    m = np.where(open_, mean, 0.5)
    return np.asarray(np.where(open_ & (move != 0.0), expit(logit(m) + move / (m * (1.0 - m))), mean))


def whole_totals(group: IntArray, target: FloatArray, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Say how many of each group are yes: N_p s_p, rounded up or down at random where it is not whole; -1 where s_p is missing.

    Examples
    --------
    >>> whole_totals(np.zeros(8, int), np.array([0.25]), np.random.default_rng(0)).tolist()
    [2]
    """
    n = np.bincount(group, minlength=len(target))
    wanted = np.where(np.isnan(target), 0.0, target) * n
    near = np.rint(wanted)
    up = rng.random(len(target)) < wanted - np.floor(wanted)
    total = np.where(np.abs(wanted - near) <= WHOLE * np.maximum(wanted, 1.0), near, np.floor(wanted) + up)
    return np.where(np.isnan(target), -1, np.clip(total, 0, n)).astype(np.int64)


def draw_bernoulli(
    f: FloatArray, group: IntArray, target: FloatArray, rng: np.random.Generator, weight: FloatArray | None = None
) -> FloatArray:
    """Draw yes or no for every person, so that the mean of each group is the target.

    Without weights this is conditional Bernoulli sampling, exactly: independent draws given that they add up to N_p s_p (a
    total that is not whole is rounded up or down at random). With weights no choice of people hits a weighted mean exactly;
    the pivotal method keeps every person's probability and comes within one person's weight of the total.

    Parameters
    ----------
    f : (n,)
        Logits; they are shifted to the target first, which leaves the conditional law as it is.
    group : (n,) int
    target : (P,)
        In [0, 1]; NaN draws independently.
    rng : numpy.random.Generator
    weight : (n,), optional

    Returns
    -------
    (n,)
        0.0 and 1.0.

    Examples
    --------
    >>> f, group = logit(np.array([0.2, 0.6, 0.7, 0.5])), np.zeros(4, int)
    >>> draw_bernoulli(f, group, np.array([0.5]), np.random.default_rng(0)).mean()
    np.float64(0.5)
    """
    n, free = len(group), np.isnan(target)
    p = match(f, group, np.ones(n) if weight is None else weight, target)[0]
    out, seed = np.empty(n), int(rng.integers(2**31))
    order = np.arange(n) if weight is None else rng.permutation(n)
    order = order[np.argsort(group[order], kind="stable")]
    starts = np.searchsorted(group[order], np.arange(len(target) + 1)).astype(np.intp)
    if weight is None:
        _draw_conditional(p, order, starts, whole_totals(group, target, rng), seed, out)
    else:
        _draw_pivotal(p, np.asarray(weight, dtype=np.float64), order, starts, free, seed, out)
    return out


@njit(nogil=True)
def _draw_conditional(p, order, starts, total, seed, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Draw all but one person until the last can make the total, and take that with the probability of what it has to be.

    The last is the most uncertain person. Expected tries are about sqrt(2 pi V), V = sum p (1 - p).
    """
    np.random.seed(seed)  # noqa: NPY002  # numba's own generator, not NumPy's
    for i in range(len(total)):
        first, last = starts[i], starts[i + 1]
        if last == first:
            continue
        if total[i] <= 0 or total[i] >= last - first:
            for j in range(first, last):
                person = order[j]
                out[person] = 1.0 if total[i] > 0 else 0.0
                if total[i] < 0:
                    out[person] = 1.0 if np.random.random() < p[person] else 0.0  # noqa: NPY002
            continue
        free, best = first, -1.0
        for j in range(first, last):
            q = p[order[j]] * (1.0 - p[order[j]])
            if q > best:
                free, best = j, q
        mine = p[order[free]]
        most = max(mine, 1.0 - mine)
        while True:
            yes = 0
            for j in range(first, last):
                if j != free:
                    hit = np.random.random() < p[order[j]]  # noqa: NPY002
                    out[order[j]] = 1.0 if hit else 0.0
                    yes += hit
            needed = total[i] - yes
            if needed == 0 or needed == 1:
                chance = mine if needed == 1 else 1.0 - mine
                if np.random.random() * most < chance:  # noqa: NPY002
                    out[order[free]] = float(needed)
                    break


@njit(nogil=True)
def _draw_pivotal(p, w, order, starts, free, seed, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Let people meet two by two in random order and decide one of each pair, keeping w_i p_i + w_j p_j (Deville & Tillé 1998)."""
    np.random.seed(seed)  # noqa: NPY002
    for i in range(len(starts) - 1):
        first, last = starts[i], starts[i + 1]
        a, pa = -1, 0.0
        for j in range(first, last):
            b = order[j]
            if free[i] or w[b] <= 0.0 or p[b] <= 0.0 or p[b] >= 1.0:
                out[b] = 1.0 if np.random.random() < p[b] else 0.0  # noqa: NPY002
                continue
            if a < 0:
                a, pa = b, p[b]
                continue
            pb = p[b]
            # one way raises a and lowers b, the other the reverse; each as far as the first of the two is decided
            up = min((1.0 - pa) * w[a], pb * w[b])
            down = min(pa * w[a], (1.0 - pb) * w[b])
            step = up if np.random.random() * (up + down) < down else -down  # noqa: NPY002
            decides_a = step == (1.0 - pa) * w[a] or step == -pa * w[a]
            pa, pb = pa + step / w[a], pb - step / w[b]
            if decides_a:
                out[a] = 1.0 if step > 0 else 0.0
                a, pa = b, min(max(pb, 0.0), 1.0)
            else:
                out[b] = 0.0 if step > 0 else 1.0
                pa = min(max(pa, 0.0), 1.0)
        if a >= 0:
            out[a] = 1.0 if np.random.random() < pa else 0.0  # noqa: NPY002
