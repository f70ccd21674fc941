"""Loops over the kinds of people of every place, the only ones that see them all.

People of one place and one covariate cell are one *pair* (place, cell) with a weight. Pairs are sorted by place; places are shared
out among threads, each place summed by one thread in one order, so the sums do not depend on their number.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from crosslevel.data.checks import count_jobs
from crosslevel.data.place_cells import Pairs
from crosslevel.numerics.compiled import njit
from crosslevel.typing import AnyArray, FloatArray, IntArray

STEPS = 100
RESIDUAL = 1e-13
CLOSE = 1e-8
"""A Newton step this short leaves an error of its square."""
FAR = 300.0
"""Logits of cells beyond this are as good as certain."""
MANY_PIECES, FEW_PIECES, MANY_LEVELS = 16, 4, 500
"""A sum over all places is made in pieces, added up in their order whatever the threads; fewer where a piece is a large matrix."""
FEW_PAIRS = 20_000
"""Pairs that one thread sums in the time it takes to start another."""
_ALL_THREADS = threading.Lock()


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of places and their slopes.

    Attributes
    ----------
    rate : (q,)
        P_i = sum_c W_ic sigmoid(eta_c + f_i).
    slope : (q,)
        dP_i / df_i.
    by_level : (q, n_levels)
        dP_i / d(effect of each level).
    """

    rate: FloatArray
    slope: FloatArray
    by_level: FloatArray


def place_effects(pairs: Pairs, eta: FloatArray, target: FloatArray, guess: FloatArray) -> FloatArray:
    """Find f_i such that the place's rate is its target, (q,).

    Parameters
    ----------
    eta : (n_cells,)
        Logit of each cell but for its place.
    target : (q,)
        Strictly between 0 and 1.
    guess : (q,)
    """
    f, odds = np.array(guess, dtype=np.float64), _odds(eta)
    people = _people(pairs)
    _shared(lambda a, b: _place_effects(people, odds, target, f, a, b), pairs)
    return f


def level_rates(pairs: Pairs, eta: FloatArray, f: FloatArray, codes: npt.NDArray[np.int32], n_levels: int) -> Rates:
    """Give rates and slopes at f.

    Parameters
    ----------
    codes : (n_cells, n_terms) int32
        Levels of each cell, numbered over all terms.
    """
    q = pairs.n_places
    found, odds, people = Rates(np.zeros(q), np.zeros(q), np.zeros((q, n_levels))), _odds(eta), _people(pairs)
    sums = (found.rate, found.slope, found.by_level)
    _shared(lambda a, b: _levels(people, odds, f, codes, sums, a, b), pairs)
    return found


def hessian(
    pairs: Pairs, eta: FloatArray, f: FloatArray, codes: npt.NDArray[np.int32], n_levels: int, factor: FloatArray
) -> FloatArray:
    """Sum W_ic p (1 - p) (1 - 2 p) factor_i x_c x_c' over pairs, (n_levels, n_levels).

    Parameters
    ----------
    factor : (q,)
    """
    parts: dict[int, FloatArray] = {}
    odds, people = _odds(eta), _people(pairs)

    def run(a: int, b: int) -> None:
        whole = np.zeros((n_levels, n_levels))
        _hessian(people, odds, f, codes, factor, whole, a, b)
        parts[a] = np.triu(whole) + np.triu(whole, 1).T

    _shared(run, pairs, MANY_PIECES if n_levels <= MANY_LEVELS else FEW_PIECES)
    return np.asarray(sum(parts[a] for a in sorted(parts)))


def probabilities(pairs: Pairs, eta: FloatArray, f: FloatArray) -> FloatArray:
    """Give the probability of every pair, (n,) or (n_draws, n); f is infinite where everybody or nobody did."""
    return np.asarray(special.expit(eta[..., pairs.cell] + f[..., pairs.place]))


def _people(pairs: Pairs) -> tuple[AnyArray, ...]:
    """Give who lives where as the loops take it."""
    return pairs.start, pairs.cell, pairs.weight


def _shared(run: Callable[[int, int], None], pairs: Pairs, pieces: int | None = None) -> None:
    """Share places out among threads, by equal numbers of pairs; in so many pieces whatever the threads, where that is given.

    One sweep at a time has all threads; those beside it, and those of few pairs, run where they are.
    """
    q = pairs.n_places
    few = len(pairs.cell) < FEW_PAIRS or q < 2
    held = not few and _ALL_THREADS.acquire(blocking=False)
    try:
        n_threads = count_jobs(None) if held else 1
        if pieces is None and n_threads == 1:
            run(0, q)
            return
        cuts = np.searchsorted(pairs.start, np.linspace(0, pairs.start[-1], (pieces or 4 * n_threads) + 1))
        cuts[0], cuts[-1] = 0, q
        spans = [(a, b) for a, b in itertools.pairwise(cuts.tolist()) if b > a]
        if n_threads == 1:
            for a, b in spans:
                run(a, b)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            for done in [pool.submit(run, a, b) for a, b in spans]:
                done.result()
    finally:
        if held:
            _ALL_THREADS.release()


def _odds(eta: FloatArray) -> FloatArray:
    """Give the odds against of every cell: with them a pair costs a product and a quotient, and exponentials are those of cells only."""
    return np.exp(-np.clip(eta, -FAR, FAR))


@njit(nogil=True)
def _place_effects(people, odds, target, f, first, last):  # type: ignore[no-untyped-def]  # pragma: no cover
    start, cell, weight = people
    for i in range(first, last):
        y = target[i]
        if y <= 0.0 or y >= 1.0:
            f[i] = -np.inf if y <= 0.0 else np.inf
            continue
        logit = np.log(y) - np.log1p(-y)
        smallest, largest = np.inf, 0.0
        for j in range(start[i], start[i + 1]):
            smallest, largest = min(smallest, odds[cell[j]]), max(largest, odds[cell[j]])
        low, high = logit + np.log(smallest), logit + np.log(largest)
        x = min(max(f[i], low), high)
        for _ in range(STEPS):
            gap, slope, here = -y, 0.0, np.exp(-x)
            for j in range(start[i], start[i + 1]):
                p = 1.0 / (1.0 + odds[cell[j]] * here)
                v = weight[j] * p
                gap += v
                slope += v * (1.0 - p)
            if abs(gap) <= RESIDUAL * min(y, 1.0 - y) + 1e-16 or not high > low:
                break
            if gap > 0.0:
                high = x
            else:
                low = x
            new = x - gap / slope if slope > 0.0 else np.nan
            inside = low < new < high
            if not inside:
                new = 0.5 * (low + high)
            done = new == x or (inside and abs(new - x) <= CLOSE)
            x = new
            if done:
                break
        f[i] = x


@njit(nogil=True)
def _levels(people, odds, f, codes, sums, first, last):  # type: ignore[no-untyped-def]  # pragma: no cover
    start, cell, weight = people
    rate, slope, by_level = sums
    n_terms = codes.shape[1]
    for i in range(first, last):
        here = np.exp(-f[i])
        for j in range(start[i], start[i + 1]):
            c = cell[j]
            p = 1.0 / (1.0 + odds[c] * here)
            rate[i] += weight[j] * p
            v = weight[j] * p * (1.0 - p)
            slope[i] += v
            for t in range(n_terms):
                by_level[i, codes[c, t]] += v


@njit(nogil=True)
def _hessian(people, odds, f, codes, factor, whole, begin, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    start, cell, weight = people
    n_terms = codes.shape[1]
    for i in range(begin, end):
        here = np.exp(-f[i])
        for j in range(start[i], start[i + 1]):
            c = cell[j]
            p = 1.0 / (1.0 + odds[c] * here)
            v = p * (1.0 - p)
            v *= weight[j] * (factor[i] * (1.0 - 2.0 * p))
            for t in range(n_terms):
                for u in range(t, n_terms):  # levels grow with the term: the upper triangle
                    whole[codes[c, t], codes[c, u]] += v


@dataclass(frozen=True, eq=False)
class PartSlopes:
    """Parts of places at the effects found.

    Attributes
    ----------
    logit : (m,)
    G : (m, n_effects)
        Derivative of each logit by the effects, the places' totals held.
    within : (m,)
        Variance of a rate between the people of a part, with one person of the place's usual spread added.
    share : (m,)
        Of the people of its place.
    """

    logit: FloatArray
    G: FloatArray
    within: FloatArray
    share: FloatArray


def part_slopes(
    pairs: Pairs,
    eta: FloatArray,
    f: FloatArray,
    codes: AnyArray,
    n_effects: int,
    part: AnyArray,
    place: IntArray,
    effective: FloatArray,
) -> PartSlopes:
    """Sum people to the parts of their places, with slopes.

    Parameters
    ----------
    pairs : Pairs
    eta : (n_cells,)
        Logit of each kind of people but for its place.
    f : (q,)
        Place effects that meet the totals.
    codes : (n_cells, n_terms)
        Effects of each kind of people.
    n_effects : int
    part : (n,) int
        Part of each pair, -1 for none; the parts of a place are all its people.
    place : (m,) int
        Place of each part.
    effective : (m,)
        Kish's number of people behind each.
    """
    m, q = len(place), pairs.n_places
    weight, rate, square, slope = sums = tuple(np.zeros((4, m)))
    by_level = np.zeros((m, n_effects))
    _sum_parts(_people(pairs), eta, f, codes, part, sums, by_level)
    whole = np.maximum(np.bincount(place, slope, q), 1e-300)
    of_place = sparse.csr_array((np.ones(m), (place, np.arange(m))), shape=(q, m))
    J = (of_place @ by_level) / whole[:, None]
    by_level -= slope[:, None] * J[place]
    safe = np.maximum(weight, 1e-300)
    P = np.clip(rate / safe, 1e-12, 1.0 - 1e-12)
    by_level /= (safe * P * (1.0 - P))[:, None]
    usual = np.maximum(np.bincount(place, square, q) - np.bincount(place, rate, q) ** 2, 0.0)
    within = np.maximum(square / safe - P**2, 0.0) + usual[place] / np.maximum(effective, 1.0)
    return PartSlopes(special.logit(P), by_level, within, weight)


@njit(nogil=True)
def _sum_parts(people, eta, f, codes, part, sums, by_level):  # type: ignore[no-untyped-def]  # pragma: no cover
    start, cell, weight = people
    whole, rate, square, slope = sums
    n_terms = codes.shape[1]
    for i in range(len(start) - 1):
        for j in range(start[i], start[i + 1]):
            g, c = part[j], cell[j]
            if g < 0:
                continue
            p = 1.0 / (1.0 + np.exp(-(eta[c] + f[i])))
            v = weight[j] * p * (1.0 - p)
            whole[g] += weight[j]
            rate[g] += weight[j] * p
            square[g] += weight[j] * p * p
            slope[g] += v
            for t in range(n_terms):
                by_level[g, codes[c, t]] += v


def part_shares(
    cell: AnyArray, weight: FloatArray, codes: AnyArray, part: AnyArray, shape: tuple[int, int]
) -> FloatArray:
    """Sum the weights of people to the levels of their parts, (m, n_levels)."""
    out = np.zeros(shape)
    _sum_levels(cell, weight, codes, part, out)
    return out


@njit(nogil=True)
def _sum_levels(cell, weight, codes, part, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    for j in range(len(cell)):
        for t in range(codes.shape[1]):
            out[part[j], codes[cell[j], t]] += weight[j]
