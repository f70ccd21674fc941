"""Compiled moves of the Multinomial-Dirichlet sampler, and inner tables drawn between their margins.

Arguments, everywhere: ``m`` (n, R, C) = x beta, the share of a unit's people in each cell; ``x`` (n, R) shares of the groups;
``T`` (n, C) counts of the outcomes; ``alpha`` (R, C); ``factor`` (K, C) and ``of`` (n,): beta_ir ~ Dirichlet(alpha_r * factor[of[i]]), so
that units of one composition share a row of ``factor`` (one row of ones without a contextual effect), and ``people`` (R, K)
counts the units of each in which a group lives; ``units`` is (m, x, T) and ``kinds`` (factor, of, people); ``rng`` a generator of
numpy, one to a chain.

Given alpha the units are independent, and two kinds of exact slice moves mix them within a few sweeps however many people a
unit has. A *swap* moves people of two groups between two outcomes in opposite directions: the unit's expected outcomes stay,
so the thin likelihood is not felt at all. A *shift* moves one group between two outcomes. The slow direction is between alpha
and the betas, where a small beta is all but free in its logarithm and yet ties alpha down; ``interweave`` moves both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crosslevel.ecological.tables.raking import JIT, rake
from crosslevel.numerics.compiled import njit
from crosslevel.typing import FloatArray, Int64Array

A = FloatArray
Two = tuple[float, float]
Four = tuple[float, float, float, float]
Units = tuple[A, A, A]  # m, x, T
Kinds = tuple[A, Int64Array, A]  # factor, of, people

TINY = 1e-290  # below it the logarithm of a cell is no longer safe
SHRINKS = 1100  # halvings of (0, 1) down to the smallest number: a slice not met by then never will be
TRIES = 4  # proposals of one interweaving move, which share its preparation
ACCEPT = 0.4  # aimed at in warm-up: near the best for one dimension


@njit(**JIT)
def _place(odds: float) -> float:
    """Give v in (0, 1) with v^4 / (1 - v)^4 = odds: in v the density of a cell has no pole unless alpha < 1/4."""
    q = math.sqrt(math.sqrt(odds))
    return q / (1.0 + q)


@njit(**JIT)
def _slice(e: float, f: float, power: Four, other: Four, rng: Any) -> tuple[float, float]:
    """Draw anew how e + f is divided, by an exact slice move; a negative first number where the slice was lost.

    The log density is p0 log(o0 + e) + p1 log(o1 + e) + p2 log(o2 + f) + p3 log(o3 + f), for powers p and others o.
    """
    room = e + f
    e, f = max(e, TINY), max(f, TINY)
    here = _place(e / f)
    v, low, high, level = here, 0.0, 1.0, -np.inf
    for turn in range(SHRINKS):
        if turn > 0:
            v = low + (high - low) * rng.random()
            fourth, rest = v**4, (1.0 - v) ** 4
            e, f = room * fourth / (fourth + rest), room * rest / (fourth + rest)
        if e >= TINY and f >= TINY:
            h = power[0] * math.log(other[0] + e) + power[1] * math.log(other[1] + e)
            h += power[2] * math.log(other[2] + f) + power[3] * math.log(other[3] + f)
            h += 3.0 * math.log(v * (1.0 - v)) - 2.0 * math.log(v**4 + (1.0 - v) ** 4)
            if turn == 0:
                level = h + math.log(rng.random())
                continue
            if h >= level:
                return e, f
        if v < here:
            low = v
        else:
            high = v
    return -1.0, -1.0


@njit(**JIT)
def _swap(m: A, alpha: A, r: int, s: int, c: int, d: int, rng: Any) -> int:
    """Draw how much of r moves from d to c while s moves from c to d; tell whether the slice was lost."""
    down, up = min(m[r, c], m[s, d]), min(m[r, d], m[s, c])
    if down > up:  # seen from the nearer end, the place keeps its precision
        c, d, down, up = d, c, up, down
    if not down + up > 0.0:
        return 0
    # distances from the ends of the interval keep their precision next to zero, differences of cells would not
    rc, sd, rd, sc = m[r, c] - down, m[s, d] - down, m[r, d] - up, m[s, c] - up
    power = (alpha[r, c] - 1.0, alpha[s, d] - 1.0, alpha[r, d] - 1.0, alpha[s, c] - 1.0)
    e, f = _slice(down, up, power, (rc, sd, rd, sc), rng)
    if e < 0.0:
        return 1
    m[r, c], m[s, d], m[r, d], m[s, c] = rc + e, sd + e, rd + f, sc + f
    return 0


@njit(**JIT)
def _shift(m: A, theta: A, t: A, alpha: A, r: int, c: int, d: int, rng: Any) -> int:
    """Draw how group r divides over c and d, given the rest; tell whether the slice was lost."""
    if m[r, c] > m[r, d]:  # seen from the nearer end, the place keeps its precision
        c, d = d, c
    e, f = max(m[r, c], TINY), max(m[r, d], TINY)
    others_c, others_d = max(theta[c] - e, 0.0), max(theta[d] - f, 0.0)
    power = (alpha[r, c] - 1.0, t[c], alpha[r, d] - 1.0, t[d])
    e, f = _slice(e, f, power, (0.0, others_c, 0.0, others_d), rng)
    if e < 0.0:
        return 1
    m[r, c], m[r, d] = e, f
    theta[c], theta[d] = others_c + e, others_d + f
    return 0


@njit(**JIT)
def sweep_units(m: A, x: A, T: A, alpha: A, factor: A, of: Int64Array, rng: Any, S: A) -> int:
    """Renew every unit given alpha; fill S (R, C) with sums of factor * log beta and give the number of slices lost."""
    n, R = x.shape
    C = T.shape[1]
    theta, here, own = np.empty(C), np.empty(R, np.int64), np.empty((R, C))
    lost = 0
    S[:, :] = 0.0
    for i in range(n):
        k = 0
        for r in range(R):
            if x[i, r] > 0.0:
                here[k] = r
                k += 1
        for c in range(C):
            theta[c] = 0.0
            for r in range(R):
                theta[c] += m[i, r, c]
                own[r, c] = alpha[r, c] * factor[of[i], c]
        for c in range(C):
            for a in range(k if k > 1 else 0):
                b = (a + 1 + int(rng.random() * (k - 1))) % k
                d = (c + 1 + int(rng.random() * (C - 1))) % C
                lost += _swap(m[i], own, here[a], here[b], c, d, rng)
            d = (c + 1 + int(rng.random() * (C - 1))) % C
            lost += _shift(m[i], theta, T[i], own, here[int(rng.random() * k)], c, d, rng)
        for a in range(k):
            r = here[a]
            total = 0.0
            for c in range(C):
                total += m[i, r, c]
            for c in range(C):
                m[i, r, c] = max(m[i, r, c] * x[i, r] / total, TINY)
                S[r, c] += factor[of[i], c] * math.log(m[i, r, c] / x[i, r])
    return lost


@njit(**JIT)
def _row_density(a: A, k: int, factor: A, people: A, S: A, prior: Two) -> float:
    """Give the log density of log alpha_r given its betas, leaving out what only other entries than the k-th change.

    ``people`` (K,) and ``S`` (C,) are the rows of this group: units of each composition, and sums of factor * log beta.
    """
    shape, rate = prior
    C = len(a)
    h = 0.0
    for c in range(C):
        if k < 0 or c == k:
            h += a[c] * (S[c] - rate) + shape * math.log(a[c])
    for j in range(len(people)):
        if people[j] > 0.0:
            total, parts = 0.0, 0.0
            for c in range(C):
                total += a[c] * factor[j, c]
                if k < 0 or c == k:
                    parts += math.lgamma(a[c] * factor[j, c])
            h += people[j] * (math.lgamma(total) - parts)
    return h


@njit(**JIT)
def _scaled(a: A, k: int, z: float, new: A) -> None:
    """Fill new with a, its k-th entry (all when k is negative) times e^z."""
    for c in range(len(a)):
        new[c] = a[c] * math.exp(z) if k < 0 or c == k else a[c]


@njit(**JIT)
def slice_alpha(a: A, k: int, factor: A, people: A, S: A, prior: Two, rng: Any, new: A) -> int:
    """Renew one entry of alpha_r, or its scale, given the betas, by slice sampling with stepping out."""
    level = _row_density(a, k, factor, people, S, prior) + math.log(rng.random())
    width = 2.0 / math.sqrt(people.sum() + 1.0)
    low = -width * rng.random()
    high = low + width
    for _ in range(SHRINKS):
        _scaled(a, k, low, new)
        if _row_density(new, k, factor, people, S, prior) < level:
            break
        low -= width
    for _ in range(SHRINKS):
        _scaled(a, k, high, new)
        if _row_density(new, k, factor, people, S, prior) < level:
            break
        high += width
    for _ in range(SHRINKS):
        z = low + (high - low) * rng.random()
        _scaled(a, k, z, new)
        if _row_density(new, k, factor, people, S, prior) >= level:
            for c in range(len(a)):
                a[c] = new[c]
            return 0
        if z < 0.0:
            low = z
        else:
            high = z
    return 1


@njit(**JIT)
def _norm(a: float, factor: A, others: A, people: A) -> float:
    """Give the log normalizer of all betas' densities, up to what does not change with alpha_rc = a."""
    h = 0.0
    for j in range(len(people)):
        if people[j] > 0.0:
            own = a * factor[j]
            h += people[j] * (math.lgamma(own + others[j]) - math.lgamma(own))
    return h


@njit(**JIT)
def interweave(
    units: Units, alpha: A, kinds: Kinds, at: tuple[int, int], edge: A, prior: Two, step: float, rng: Any
) -> int:
    """Move alpha_rc together with every beta_irc below its edge, (beta / edge)^alpha being held; give the acceptances.

    Below the edge a beta changes the expected outcomes by less than their standard error, and its prior is nearly
    beta^(alpha - 1): the held quantity is nearly uniform whatever alpha, so that alpha moves as if these betas were
    integrated out (the ancillary half of Yu and Meng's 2011 interweaving). The other cells of the row are scaled to make
    room. With k = alpha / alpha', log beta' = log edge + k (log beta - log edge); its Jacobian cancels all but the terms
    below.
    """
    m, x, T = units
    factor, of, people = kinds
    shape, rate = prior
    r, c = at
    n, R = x.shape
    C = T.shape[1]
    others = np.zeros(len(factor))
    for j in range(len(factor)):
        for d in range(C):
            if d != c:
                others[j] += alpha[r, d] * factor[j, d]
    small, depth, beta, theta = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty((n, C))
    S, count = 0.0, 0
    for i in range(n):
        if x[i, r] <= 0.0:
            continue
        b = m[i, r, c] / x[i, r]
        if b >= edge[i]:
            S += factor[of[i], c] * math.log(b)
            continue
        S += factor[of[i], c] * math.log(edge[i])
        small[count], depth[count], beta[count] = i, math.log(b / edge[i]), b
        for d in range(C):
            theta[count, d] = 0.0
            for q in range(R):
                theta[count, d] += m[i, q, d]
        count += 1
    a, k, accepted = alpha[r, c], 1.0, 0
    norm = _norm(a, factor[:, c], others, people[r])
    for _ in range(TRIES):
        z = step * rng.standard_normal()
        a_new, k_new = a * math.exp(z), k * math.exp(-z)
        norm_new = _norm(a_new, factor[:, c], others, people[r])
        h = norm_new - norm + shape * z + (a_new - a) * (S - rate) - count * z
        level = math.log(rng.random())
        for j in range(count):
            i = small[j]
            b, b_new = beta[j], edge[i] * math.exp(k_new * depth[j])
            if not (b_new * x[i, r] > TINY and b_new < 1.0 - 1e-12):
                h = -np.inf
                break
            if max(b, b_new) < 1e-14:
                continue  # moves no sum by a rounding error
            start = m[i, r, c] / x[i, r]
            f, f_new = (1.0 - b) / (1.0 - start), (1.0 - b_new) / (1.0 - start)
            h += (others[of[i]] - 1.0) * math.log(f_new / f)
            for d in range(C):
                if T[i, d] > 0.0:
                    if d == c:
                        now, then = x[i, r] * (b - start), x[i, r] * (b_new - start)
                    else:
                        now, then = m[i, r, d] * (f - 1.0), m[i, r, d] * (f_new - 1.0)
                    h += T[i, d] * math.log(max(theta[j, d] + then, TINY) / max(theta[j, d] + now, TINY))
        if h >= level:
            accepted += 1
            a, k, norm = a_new, k_new, norm_new
            for j in range(count):
                beta[j] = edge[small[j]] * math.exp(k * depth[j])
    if accepted > 0:
        alpha[r, c] = a
        for j in range(count):
            i = small[j]
            f = (1.0 - beta[j]) / (1.0 - m[i, r, c] / x[i, r])
            for d in range(C):
                m[i, r, d] = x[i, r] * beta[j] if d == c else max(m[i, r, d] * f, TINY)
    return accepted


@njit(**JIT)
def advance(
    units: Units, alpha: A, kinds: Kinds, moves: tuple[A, A], prior: Two, sweeps: int, adapt: bool, rng: Any
) -> tuple[float, int]:
    """Run sweeps over units and alpha in place; give the acceptance of interweaving and the number of slices lost.

    ``moves`` are the edge (R, C, n) and the step (R, C) of :func:`interweave`; with ``adapt`` the steps are tuned on the way.
    """
    edge, step = moves
    m, x, T = units
    factor, of, people = kinds
    R, C = alpha.shape
    S, new = np.empty((R, C)), np.empty(C)
    accepted, lost = 0, 0
    for _ in range(sweeps):
        lost += sweep_units(m, x, T, alpha, factor, of, rng, S)
        for r in range(R):
            for k in range(-1, C):
                lost += slice_alpha(alpha[r], k, factor, people[r], S[r], prior, rng, new)
            for c in range(C):
                times = interweave(units, alpha, kinds, (r, c), edge[r, c], prior, step[r, c], rng)
                accepted += times
                if adapt:
                    step[r, c] = min(step[r, c] * math.exp(0.05 * (times - ACCEPT * TRIES)), 3.0)
    return accepted / (sweeps * R * C * TRIES), lost


@njit(**JIT)
def draw_tables(m: A, X: A, y: A, rng: Any, tables: A) -> None:
    """Fill tables (n, R, C), in counts, with inner tables drawn given their rates and both margins.

    People who have cell (r, c) with chance m_rc, given how many are in each row and column, follow the multivariate
    noncentral hypergeometric law. Raking a draw of independent cells of that mean and variance gives it in the limit of
    large counts: to first order raking is the projection by which normal variables are conditioned on their sums. The
    independent cells are gamma variables, so that weighted counts, which are no integers, need no other treatment.
    """
    n, R, C = tables.shape
    for i in range(n):
        total = 0.0
        for r in range(R):
            total += X[i, r]
        for r in range(R):
            for c in range(C):
                tables[i, r, c] = m[i, r, c] * total
    rake(tables, X, y, tables[0], 0)
    for i in range(n):
        for r in range(R):
            for c in range(C):
                if tables[i, r, c] > 0.0:
                    tables[i, r, c] = rng.standard_gamma(tables[i, r, c])
    rake(tables, X, y, tables[0], 0)
