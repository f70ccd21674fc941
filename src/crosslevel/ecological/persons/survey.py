"""A survey and the totals in one model: what totals say of effects is the prior, respondents are a regression within their places.

Kind of people c, place i, W_ic its share of the place, y_i the rate that was counted, x_c the levels (and pairs of levels) of c:

    eta_ic = x_c . theta + f_i,    f_i(theta) the root of sum_c W_ic sigmoid(eta_ic) = y_i
    theta = (e, h),   e ~ N(m, D V D + tau^2 R + distance^2 sum_col m_col m_col'),   h ~ N(0, pairs tau^2 I)

m = D e_hat and V are what the totals leave of the effects, shrunk by D; the rest is their confounding. Row r of a survey has n_r people
of whom k_r said yes; A_rj is the share of them that is of kind c_j and lives in place i_j:

    P_r = sum_j A_rj sigmoid(eta_j),   zeta_r = logit P_r + s + x_r . delta,   k_r ~ Binomial(n_r, sigmoid(zeta_r))
    s ~ N(0, .5^2), one for each survey;   delta ~ N(0, selection^2 R), the same for all of them; selection may differ by column

s takes up who answers at all, delta who answers among the people of a level. The mode takes half of that variance of delta: what it gives
back to the totals is lost where nobody is special. The covariance is that of its errors with all of it: with M = S A - I, S the
posterior covariance under the variance that is assumed and A the information, S + (1 - 1/2) selection^2 M_delta R M_delta'.
With J_i the mean of x_c in place i, weighted by p (1 - p),
d eta_ic / d theta = x_c - J_i: respondents are compared within their place, and the place's effect always follows from its total.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse, special, stats

from crosslevel.ecological.confounding import Confounding
from crosslevel.ecological.persons.model import (
    Effects,
    GroupRates,
    Kinds,
    cell_logits,
    parts_at,
    rates_over,
    symmetric_root,
)
from crosslevel.ecological.persons.sweeps import level_rates
from crosslevel.errors import ConvergenceError
from crosslevel.typing import AnyArray, FloatArray, Int64Array, IntArray

OFFSET_SD = 0.5
"""sd of a survey's offset: the odds of answering may differ 2.7 times either way between those who say yes and those who say no."""
SELECTION = 0.1
"""sd of the selection of a level where it was not measured: 2.5 points either way."""
ASSUMED = 0.5
"""Share of the variance of selection that the mode assumes; the covariance allows for all of it. One half is best on average if nobody is
special as often as selection is as stated, and the least at which no interval is wider than it is without the survey."""
MOST_LEVELS, MOST_PAIRS = 12, 600
"""Pairs of levels are learned from a survey for columns of so few levels, and so many in all."""
STEPS, HALVINGS, DECREMENT, ALLOWED = 400, 30, 1e-9, 1e-5
"""Steps, halvings of one, the gain in log posterior below which none is taken, and the most that a further one may promise at the end."""
BLOCK = 4_000
"""Rows whose slopes are held at a time."""
CLIPPED = 1e-9


@dataclass(frozen=True, eq=False)
class SurveyRows:
    """Counts of respondents who are alike, and of published subgroups.

    Attributes
    ----------
    levels : (n_kinds, n_columns) int32
        Kinds of people.
    start : (m + 1,) int64
        Row r is about the entries start[r] .. start[r + 1].
    kind, place : (n,) int
    share : (n,)
        Adds up to one in every row.
    successes, trials : (m,)
    source : (m,) int
        The survey of each row.
    """

    levels: AnyArray
    start: Int64Array
    kind: IntArray
    place: IntArray
    share: FloatArray
    successes: FloatArray
    trials: FloatArray
    source: IntArray

    def __len__(self) -> int:
        return len(self.trials)


@dataclass(frozen=True, eq=False)
class EffectPrior:
    """What is known of effects before the survey.

    Attributes
    ----------
    mean : (n_effects + n_pairs,)
    root : (n_effects + n_pairs, n_effects + n_pairs)
        Symmetric square root of the covariance.
    selection : (n_levels, n_levels)
        Symmetric square root of R, the correlation of the effects of levels.
    """

    mean: FloatArray
    root: FloatArray
    selection: FloatArray


@dataclass(frozen=True, eq=False)
class SurveyPosterior:
    """Effects given totals and survey.

    Attributes
    ----------
    theta : (n_effects + n_pairs,)
        At the mode.
    covariance : (n_effects + n_pairs, n_effects + n_pairs)
    pairs : tuple of (int, int)
        Columns of the pairs of levels, in their order behind the other effects.
    offset, offset_sd : (n_surveys,)
        How far the respondents of each survey are above the totals: s, and the mean selection of their levels.
    delta : (n_levels,)
        Selection of levels at the mode.
    selection : (n_levels,)
        Its standard deviation.
    by_delta : (n_effects + n_pairs, n_levels)
        How far selection beyond what the mode assumes would move the effects, d theta / d delta.
    steps : int
    decrement : float
        Gain in log posterior that a further step promises.
    """

    theta: FloatArray
    covariance: FloatArray
    pairs: tuple[tuple[int, int], ...]
    offset: FloatArray
    offset_sd: FloatArray
    delta: FloatArray
    selection: FloatArray
    by_delta: FloatArray
    steps: int
    decrement: float


def pairs_of(effects: Effects) -> tuple[tuple[int, int], ...]:
    """Choose the pairs of columns whose levels have effects together: those of fewest levels, as many as can be learned."""
    sizes, chosen, held = effects.sizes, [], 0
    small = [j for j, size in enumerate(sizes) if size <= MOST_LEVELS]
    for a, b in sorted(itertools.combinations(small, 2), key=lambda pair: (sizes[pair[0]] * sizes[pair[1]], pair)):
        if held + sizes[a] * sizes[b] <= MOST_PAIRS:
            chosen.append((a, b))
            held += sizes[a] * sizes[b]
    return tuple(sorted(chosen))


def effect_prior(
    effects: Effects,
    found: FloatArray,
    spread: FloatArray,
    keep: FloatArray,
    confounding: Confounding | None,
    columns: Sequence[tuple[int, int]],
) -> EffectPrior:
    """Give the prior of effects that the totals and their confounding make.

    Parameters
    ----------
    effects : Effects
    found, spread : (n_effects,), (n_effects, n_effects)
        What the totals say of effects: e_hat and V.
    keep : (n_effects,)
        D, what shrinkage keeps of each effect.
    confounding : Confounding or None
        None where the model alone counts: neither confounding nor pairs.
    columns : sequence of (int, int)
        Columns whose pairs of levels have effects.
    """
    n_levels = sum(effects.sizes)
    R = np.zeros((n_levels, n_levels))
    for number, (a, b) in enumerate(effects.columns):
        R[a:b, a:b] = effects.correlation(number)
    mean, covariance = keep * found, np.outer(keep, keep) * spread
    n_pairs = sum(effects.sizes[a] * effects.sizes[b] for a, b in columns)
    root = np.zeros((len(mean) + n_pairs, len(mean) + n_pairs))
    if confounding is not None:
        tau = confounding.tau
        if confounding.degrees is not None:  # few columns were hidden: as wide as Student's interval
            tau *= float(stats.t.ppf(0.975, confounding.degrees) / stats.norm.ppf(0.975))
        covariance[:n_levels, :n_levels] += tau**2 * R
        ends = np.cumsum(effects.widths)
        for a, b in zip(effects.first, ends, strict=True):
            covariance[a:b, a:b] += confounding.distance**2 * np.outer(mean[a:b], mean[a:b])
        root[len(mean) :, len(mean) :] = np.sqrt(confounding.pairs) * tau * np.eye(n_pairs)
    root[: len(mean), : len(mean)] = symmetric_root(covariance)
    return EffectPrior(np.append(mean, np.zeros(n_pairs)), root, symmetric_root(R))


def fuse(
    kinds: Kinds, prior: EffectPrior, rate: FloatArray, rows: SurveyRows, selection: float | FloatArray
) -> SurveyPosterior:
    """Find effects given totals and survey: the mode by Fisher scoring, each step halved until it gains, and Laplace's covariance.

    The covariance is widened by the selection that the mode does not assume.

    Parameters
    ----------
    kinds : Kinds
        Who lives where, with the pairs of levels of the prior.
    prior : EffectPrior
    rate : (q,)
        Rates that were counted.
    rows : SurveyRows
    selection : float or (n_levels,)
        sd of the selection of levels; those of a column have the same.

    Raises
    ------
    ConvergenceError
        When a further step still promises something.
    """
    problem = Likelihood(kinds, rate, rows)
    n_theta, n_levels, n_surveys = kinds.n_effects, len(prior.selection), problem.n_surveys
    mean = np.concatenate([prior.mean, np.zeros(n_levels + n_surveys)])
    selected = selection * prior.selection
    L = linalg.block_diag(prior.root, np.sqrt(ASSUMED) * selected, OFFSET_SD * np.eye(n_surveys))
    u = np.zeros(len(mean))
    at = problem.at(mean)
    now, steps = at.value, 0
    while True:
        slope, A = problem.slopes(at)
        H = np.eye(len(u)) + L.T @ A @ L
        gradient = L.T @ slope - u
        move = linalg.solve(H, gradient, assume_a="pos", check_finite=False)
        promised = 0.5 * float(gradient @ move)
        if promised <= DECREMENT or steps == STEPS:
            break
        steps, length = steps + 1, 1.0
        for _ in range(HALVINGS):
            new = u + length * move
            tried = problem.at(mean + L @ new, at.f)
            value = tried.value - 0.5 * float(new @ new)
            if value >= now + 1e-4 * length * promised:
                break
            length *= 0.5
        else:  # rounding: no length gains
            break
        u, at, now = new, tried, value
    if not promised <= ALLOWED:
        raise ConvergenceError(
            f"the effects did not come to rest with the survey in {steps} steps (a further one promises {promised:.1e}, allowed "
            f"{ALLOWED:.0e}); check that the survey asked what the totals count, or leave out columns of many levels."
        )
    phi, spread = mean + L @ u, L @ linalg.inv(H) @ L.T
    theta, overall = slice(0, n_theta), np.zeros((n_surveys, len(mean)))
    weight = sparse.csr_array((np.maximum(rows.trials, 1e-12), (rows.source, np.arange(len(rows)))))
    overall[:, n_theta : n_theta + n_levels] = (weight @ problem.mean_levels).toarray() / weight.sum(axis=1)[:, None]
    overall[:, n_theta + n_levels :] = np.eye(n_surveys)
    # selection beyond that of the mode moves phi by spread A, and is itself an error of delta
    unmet = (spread @ A - np.eye(len(mean)))[:, n_theta : n_theta + n_levels]
    bias = unmet @ selected
    spread = 0.5 * (spread + spread.T) + (1.0 - ASSUMED) * bias @ bias.T
    return SurveyPosterior(
        phi[theta],
        spread[theta, theta],
        tuple(kinds.crossed),
        overall @ phi,
        np.sqrt(np.einsum("ij,jk,ik->i", overall, spread, overall)),
        phi[n_theta : n_theta + n_levels],
        np.broadcast_to(selection, n_levels).astype(np.float64),
        unmet[theta],
        steps,
        promised,
    )


@dataclass(frozen=True, eq=False)
class At:
    """The likelihood of a survey at given effects.

    Attributes
    ----------
    value : float
        Log likelihood.
    theta : (n_effects + n_pairs,)
    f : (q,)
        Place effects that meet the totals.
    chance, p : (n,), (m,)
        Rates of the entries, and of the rows, as the population has them.
    zeta : (m,)
        Logits of the rows as the survey has them.
    """

    value: float
    theta: FloatArray
    f: FloatArray
    chance: FloatArray
    p: FloatArray
    zeta: FloatArray


def onehot(codes: AnyArray, width: int) -> sparse.csr_array:
    """Mark the effects of every row, (n, width), from their numbers, (n, n_terms)."""
    n, terms = codes.shape
    start = np.arange(n + 1) * terms
    return sparse.csr_array((np.ones(n * terms), codes.ravel().astype(np.int64), start), shape=(n, width))


class Likelihood:
    """Log likelihood of a survey by phi = (theta, delta, s), with its gradient and its information."""

    def __init__(self, kinds: Kinds, rate: FloatArray, rows: SurveyRows) -> None:
        self.kinds, self.rows, self.of_rows = kinds, rows, kinds.numbered(rows.levels)
        n_columns = len(kinds.effects.sizes)
        self.n_levels, self.n_surveys = sum(kinds.effects.sizes), int(rows.source.max(initial=-1)) + 1
        self.rate = np.clip(rate, CLIPPED, 1.0 - CLIPPED)
        self.marks = onehot(self.of_rows, kinds.n_effects)
        self.at_row = np.repeat(np.arange(len(rows)), np.diff(rows.start))
        own = onehot(self.of_rows[:, :n_columns], self.n_levels)
        self.mean_levels = self._sum_kinds(rows.share, slice(0, len(rows)), own)

    def _sum_kinds(self, weight: FloatArray, some: slice, marks: sparse.csr_array) -> sparse.csr_array:
        """Sum the marks of the kinds of every row, weighted, (rows, width)."""
        rows = self.rows
        start = rows.start[some.start : some.stop + 1]
        inside = slice(int(start[0]), int(start[-1]))
        shape = (some.stop - some.start, len(rows.levels))
        summed = sparse.csr_array((weight[inside].copy(), rows.kind[inside].copy(), start - start[0]), shape=shape)
        summed.sum_duplicates()
        return summed @ marks

    def at(self, phi: FloatArray, guess: FloatArray | None = None) -> At:
        """Give the log likelihood at phi; ``guess`` are place effects to begin with."""
        n, rows = self.kinds.n_effects, self.rows
        theta, delta, offset = np.split(phi, [n, n + self.n_levels])
        f = self.kinds.at(theta, self.rate, guess)[1]
        chance = special.expit(cell_logits(theta, self.of_rows)[rows.kind] + f[rows.place])
        summed = np.asarray(np.bincount(self.at_row, rows.share * chance, len(rows)), dtype=np.float64)
        p = np.clip(summed, 1e-12, 1.0 - 1e-12)
        zeta = special.logit(p) + offset[rows.source] + self.mean_levels @ delta
        value = float(rows.successes @ zeta - rows.trials @ np.logaddexp(0.0, zeta))
        return At(value, theta, f, chance, p, zeta)

    def slopes(self, at: At) -> tuple[FloatArray, FloatArray]:
        """Give the gradient of the log likelihood, (n_phi,), and the information X' W X, (n_phi, n_phi)."""
        rows, pi = self.rows, special.expit(at.zeta)
        size = self.kinds.n_effects + self.n_levels + self.n_surveys
        gradient, A = np.zeros(size), np.zeros((size, size))
        J = self.place_slopes(at)
        for first in range(0, len(rows), BLOCK):
            some = slice(first, min(first + BLOCK, len(rows)))
            X = self.design(at, J, some)
            gradient += X.T @ (rows.successes[some] - rows.trials[some] * pi[some])
            X *= np.sqrt(rows.trials[some] * pi[some] * (1.0 - pi[some]))[:, None]
            A += X.T @ X  # of one array with itself: half the work
        return gradient, A

    def place_slopes(self, at: At) -> FloatArray:
        """Give J, the mean of the marks of each place's people, weighted by p (1 - p), (q, n_theta)."""
        kinds = self.kinds
        eta = cell_logits(at.theta, kinds.codes)
        found = level_rates(kinds.pairs, eta, at.f, kinds.codes, kinds.n_effects)
        return np.asarray(found.by_level / np.maximum(found.slope, 1e-300)[:, None])

    def design(self, at: At, J: FloatArray, some: slice) -> FloatArray:
        """Give X = d zeta / d phi of some rows, (rows, n_phi)."""
        rows, n = self.rows, some.stop - some.start
        v = rows.share * at.chance * (1.0 - at.chance) / (at.p * (1.0 - at.p))[self.at_row]
        start = rows.start[some.start : some.stop + 1]
        inside = slice(int(start[0]), int(start[-1]))
        where = sparse.csr_array((v[inside], rows.place[inside], start - start[0]), shape=(n, len(J)))
        n_theta = self.kinds.n_effects
        X = np.zeros((n, n_theta + self.n_levels + self.n_surveys))
        X[:, :n_theta] = self._sum_kinds(v, some, self.marks).toarray() - where @ J
        X[:, n_theta : n_theta + self.n_levels] = self.mean_levels[some].toarray()
        X[np.arange(n), n_theta + self.n_levels + rows.source[some]] = 1.0
        return X

    def plain(self, theta: FloatArray) -> At:
        """Give the likelihood at effects, nobody selected."""
        return self.at(np.concatenate([theta, np.zeros(self.n_levels + self.n_surveys)]))

    def groups(self, at: At, people: FloatArray, group: IntArray, n: int) -> GroupRates:
        """Give the rates of n groups over all places, and the slopes of their logits by theta; ``group`` is that of every pair."""
        eta = cell_logits(at.theta, self.kinds.codes)
        return rates_over(parts_at(self.kinds, eta, at.f, group, n), people, n)
