"""The collapsed log posterior (eq 7 corrected): z summed out, every parameter free, with its gradient; and the mixture of x alone.

    sum_i log sum_k pi_{p(i)k} f(x_i | theta_k)  +  log p(s | .)  +  log priors of theta, pi, eta and tau^2

Without the published means it is the mixture of the two-stage method: EM to get near, L-BFGS to arrive, several starts because there
are several modes. With them it is what ``map`` maximizes.

The hidden features' cluster means eta have a prior of their own and, given shares of clusters, a regression:

    H = 1c' + ( sum_p w_p E[nbar_p nbar_p'] + lambda I )^{-1} sum_p w_p E[nbar_p] (s_p - c)',   w_p = 1 / Var(s_p)

E[nbar nbar'] holds the uncertainty of the clusters that the paper's eq 18 drops; c = 0 and w_p = N_p give that equation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear, minimize
from scipy.special import digamma, expit, logit, polygamma, softmax

from crosslevel.imputation.cudia.model import TAU_SHAPE, Fit, Parameters, Prior, Problem, moments, slopes_of_means
from crosslevel.numerics.compiled import njit
from crosslevel.typing import BoolArray, FloatArray, Int64Array, Step

EDGE = 1e-6
"""Cluster means of shares are kept this far from 0 and 1, so that no variance vanishes and no person is certain."""
LEAST = 1e-300
"""A mix is never less: a step too far can bring the only cluster that a row fits to nothing, and then nothing could be divided."""
SMALLEST_ALPHA, LARGEST_ALPHA = 1e-2, 1e4
EM_STEPS = 60
"""Steps of EM from each start before the better starts are taken to the end by L-BFGS."""
FIRST_CLIMB, LAST_CLIMB = 150, 2000
"""Steps of L-BFGS from every start; the FINISHED best go on to the end."""
FINISHED = 2
SAME_MODE = 0.1
"""Two starts have found the same mode when their log posteriors are this near."""
ALPHA_ROUNDS = 5
TOLERANCE = 1e-6
"""A climb has converged when no entry of the gradient per person, in scaled coordinates, is larger."""


def to_free(H: FloatArray, binary: BoolArray, scale: FloatArray) -> FloatArray:
    """Unbounded coordinates of the cluster means: logits, or units of the feature's spread."""
    return np.where(binary, logit(np.clip(np.where(binary, H, 0.5), EDGE, 1.0 - EDGE)), H / np.sqrt(scale))


def from_free(free: FloatArray, binary: BoolArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cluster means, and their derivative in the free coordinates."""
    p, root = expit(free), np.sqrt(scale)
    H = np.where(binary, EDGE + (1 - 2 * EDGE) * p, free * root)
    return H, np.where(binary, (1 - 2 * EDGE) * p * (1 - p), root * np.ones(p.shape))


def update_mix(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """Most probable mixes given expected people by place and cluster, (A, K)."""
    n = np.maximum(counts + np.maximum(alpha - 1.0, 0.0), 1e-12)
    return np.asarray(n / n.sum(axis=1, keepdims=True))


def expected_log(counts: FloatArray, alpha: FloatArray) -> FloatArray:
    """E[log pi] under Dirichlet(alpha + counts), (A, K)."""
    shape = counts + alpha
    return np.asarray(digamma(shape) - digamma(shape.sum(axis=1, keepdims=True)))


def learn_alpha(mean_log: FloatArray, alpha: FloatArray, steps: int = 100) -> FloatArray:
    """Exponents of the Dirichlet that maximize P[lnG(sum a) - sum lnG(a)] + sum (a - 1) E[log pi] (Minka's Newton).

    Parameters
    ----------
    mean_log : (K,)
        Mean over places of E[log pi].
    alpha : (K,)
        Start.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> draws = np.log(rng.dirichlet([2.0, 5.0], 20000)).mean(axis=0)
    >>> learn_alpha(draws, np.ones(2)).round(1).tolist()
    [2.0, 5.0]
    """
    a = np.clip(np.asarray(alpha, dtype=np.float64), SMALLEST_ALPHA, LARGEST_ALPHA)
    for _ in range(steps):
        slope = digamma(a.sum()) - digamma(a) + mean_log
        q, z = -polygamma(1, a), polygamma(1, a.sum())
        step = (slope - (slope / q).sum() / (1.0 / z + (1.0 / q).sum())) / q
        new = np.clip(np.where(a - step > 0, a - step, a / 2), SMALLEST_ALPHA, LARGEST_ALPHA)
        if np.max(np.abs(new - a) / a) < 1e-8:
            return new
        a = new
    return a


@njit(fastmath={"contract", "reassoc"})
def add_responsibilities(f, pi, cell, atom, weight):  # type: ignore[no-untyped-def]
    """Log likelihood of x, and weighted responsibilities added up by row (C, K) and by place (A, K)."""
    C, K = f.shape
    by_cell, by_atom = np.zeros((C, K)), np.zeros(pi.shape)
    r = np.empty(K)
    value = 0.0
    for i in range(len(cell)):
        c, a, w = cell[i], atom[i], weight[i]
        total = 0.0
        for k in range(K):
            r[k] = max(pi[a, k], LEAST) * f[c, k]
            total += r[k]
        value += w * np.log(total)
        scale = w / total
        for k in range(K):
            by_cell[c, k] += scale * r[k]
            by_atom[a, k] += scale * r[k]
    return value, by_cell, by_atom


def weigh(problem: Problem, at: Parameters) -> tuple[float, FloatArray, FloatArray]:
    """Log likelihood of x (eq 7 corrected), and expected people by row and by place.

    Returns
    -------
    log_likelihood : float
        ``sum weight log sum_k pi_k f_k``.
    by_cell : (C, K)
        Sums of weight times responsibility; the gradient in the log densities.
    by_atom : (A, K)
        The same by place; the gradient in ``log pi``.
    """
    log_f = problem.log_density(at.theta)
    top = log_f.max(axis=1)
    cell, weight = problem.cell, problem.weight
    value, by_cell, by_atom = add_responsibilities(np.exp(log_f - top[:, None]), at.pi, cell, problem.atom, weight)
    return value + float((weight * top[cell]).sum()), by_cell, by_atom


def responsibilities(log_f: FloatArray, pi: FloatArray, cell: Int64Array, atom: Int64Array) -> FloatArray:
    """Probability of each cluster for each pair (eq 26 corrected: weigh first, then normalize), (R, K)."""
    f = np.exp(log_f - log_f.max(axis=1, keepdims=True))
    r = np.maximum(pi, LEAST)[atom] * f[cell]
    return np.asarray(r / r.sum(axis=1, keepdims=True))


def log_posterior(
    problem: Problem, prior: Prior, at: Parameters, *, means: bool
) -> tuple[float, tuple[FloatArray, ...], FloatArray, FloatArray, FloatArray]:
    """Value, and gradient in theta (free), the logits of pi, eta and tau^2; without ``means`` the published means are left out."""
    value, by_cell, by_log_pi = weigh(problem, at)
    by_H, by_tau2 = np.zeros_like(at.H), np.zeros_like(at.tau2)
    if means:
        found, by_pi, by_H, by_tau2 = slopes_of_means(problem, at)
        more, more_H, more_tau2 = prior.of_means(at.H, at.tau2, ~problem.binary)
        value += found + more
        by_log_pi = by_log_pi + by_pi * at.pi
        by_H, by_tau2 = by_H + more_H, by_tau2 + more_tau2
    by_theta = []
    for family, t, sums in zip(problem.families, at.theta, problem.sums(by_cell), strict=True):
        value += float((family.natural(t) @ family.prior).sum())
        by_theta.append(family.slopes(sums, t))
    # log pi_k = logit_k - log sum exp: every gradient in log pi becomes one in the logits
    by_logits = by_log_pi - by_log_pi.sum(axis=1, keepdims=True) * at.pi
    more, slope = prior.of_mix(np.log(np.maximum(at.pi, 1e-300)))
    return value + more, tuple(by_theta), by_logits + slope, by_H, by_tau2


def ascend(
    problem: Problem, prior: Prior, start: Parameters, *, means: bool = False, max_steps: int = LAST_CLIMB
) -> tuple[Parameters, dict[str, Any]]:
    """Climb the log posterior by L-BFGS, with the published means or without; also gives what the search says of itself.

    The gradient is its largest entry, per person; the log posterior is up to a constant.
    """
    n, A = float(problem.weight.sum()), len(problem.size)
    K, real, scale = start.pi.shape[1], ~problem.binary, problem.spreads
    root = np.sqrt(problem.size / n * A)[:, None]
    shapes = [t.shape for t in start.theta]
    sizes = [*(q * k for k, q in shapes), A * K, start.H.size if means else 0]
    cuts = np.cumsum(sizes)

    def unpack(x: FloatArray) -> tuple[Parameters, FloatArray]:
        *theta, logits, free, log_tau2 = np.split(x, cuts)
        at = replace(
            start,
            theta=tuple(p.reshape(s) for p, s in zip(theta, shapes, strict=True)),
            pi=softmax(logits.reshape(A, K) / root, axis=1),
        )
        if not means:
            return at, np.zeros(0)
        H, slope = from_free(free.reshape(K, -1), problem.binary, scale)
        tau2 = start.tau2.copy()
        tau2[real] = scale[real] * np.exp(log_tau2)
        return replace(at, H=H, tau2=tau2), slope

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        at, slope = unpack(x)
        value, by_theta, by_logits, by_H, by_tau2 = log_posterior(problem, prior, at, means=means)
        parts = [*(t.ravel() for t in by_theta), (by_logits / root).ravel()]
        if means:
            parts += [(by_H * slope).ravel(), (by_tau2 * at.tau2)[real]]
        return -value / n, -np.concatenate(parts) / n

    logits = np.log(np.maximum(start.pi, 1e-8))
    logits -= logits.mean(axis=1, keepdims=True)
    x0 = [*(t.ravel() for t in start.theta), (logits * root).ravel()]
    if means:
        x0 += [to_free(start.H, problem.binary, scale).ravel(), np.log(start.tau2[real] / scale[real])]
    options = {"maxiter": max_steps, "maxfun": 4 * max_steps, "maxcor": 30, "ftol": 1e-13, "gtol": TOLERANCE}
    found = minimize(loss, np.concatenate(x0), jac=True, method="L-BFGS-B", options=options)
    gradient = float(np.abs(found.jac).max())
    return unpack(found.x)[0], {
        "converged": bool(found.status == 0 or gradient < 10 * TOLERANCE),
        "gradient": gradient,
        "steps": int(found.nit),
        "log_posterior": -float(found.fun) * n,
    }


def random_start(problem: Problem, n_clusters: int, rng: np.random.Generator) -> Parameters:
    """Make parameters from responsibilities centered on a randomly chosen row per cluster."""
    C = len(problem.X)
    by_row = np.bincount(problem.cell, problem.weight, C)
    scale = np.nanstd(problem.X, axis=0)
    Z = np.where(np.isfinite(problem.X), problem.X, np.nanmean(problem.X, axis=0)) / np.maximum(scale, 1e-12)
    distance = np.empty((C, n_clusters))
    chance = by_row / by_row.sum()
    for k in range(n_clusters):  # as in k-means++: far rows are likelier
        distance[:, k] = ((Z - Z[rng.choice(C, p=chance)]) ** 2).sum(axis=1)
        weight = by_row * distance[:, : k + 1].min(axis=1)
        chance = weight / weight.sum() if weight.sum() > 0 else by_row / by_row.sum()
    r = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True)))
    r /= r.sum(axis=1, keepdims=True)
    W = by_row[:, None] * r
    pi = np.tile(W.sum(axis=0) / W.sum(), (len(problem.size), 1))
    return Parameters(problem.peak(W), pi, np.tile(problem.centers, (n_clusters, 1)), problem.spreads)


def em(problem: Problem, prior: Prior, at: Parameters, tolerance: float = 1e-9) -> Parameters:
    """Climb by EM."""
    value = -np.inf
    for _ in range(EM_STEPS):
        now, by_cell, by_atom = weigh(problem, at)
        at = replace(at, theta=problem.peak(by_cell), pi=update_mix(by_atom, prior.alpha))
        if abs(now - value) < tolerance * abs(now):
            break
        value = now
    return at


def fit_mixture(problem: Problem, prior: Prior, seed: int, n_restarts: int = 6, step: Step | None = None) -> Fit:
    """Fit the mixture of x from several starts, and learn the exponents of the mixes where the prior says so.

    ``step`` is called after every start.
    """
    n_clusters = len(prior.alpha)
    rng = np.random.default_rng([seed, n_clusters])
    near = []
    for _ in range(n_restarts):
        near.append(em(problem, prior, random_start(problem, n_clusters, rng)))
        if step is not None:
            step()
    climbs = sorted((ascend(problem, prior, at, max_steps=FIRST_CLIMB) for at in near), key=_depth)
    climbs[:FINISHED] = [ascend(problem, prior, at) for at, _ in climbs[:FINISHED]]
    climbs.sort(key=_depth)
    modes = [-_depth(climb) for climb in climbs]
    best, convergence = climbs[0]
    people = weigh(problem, best)[2]
    for _ in range(ALPHA_ROUNDS if prior.learn else 0):
        alpha = learn_alpha(expected_log(people, prior.alpha).mean(axis=0), prior.alpha)
        change = float(np.abs(np.log(alpha / prior.alpha)).max())
        prior = replace(prior, alpha=alpha)
        best, convergence = ascend(problem, prior, best)
        people = weigh(problem, best)[2]
        if change < 1e-3:
            break
    number = 1 + int((np.diff(modes) < -SAME_MODE).sum())
    convergence |= {"restarts": n_restarts, "modes": number, "mode_values": modes}
    return Fit(best, prior, people / problem.size[:, None], convergence)


def _depth(climb: tuple[Parameters, dict[str, Any]]) -> float:
    return -float(climb[1]["log_posterior"])


DEFAULT_RIDGE = 1.0
"""People by which hidden means of numbers are shrunk to the overall mean when no ridge is given."""
LOGIT_SD = 1.25
"""Deviation of the logits of a binary feature's hidden means around that of the overall mean when no ridge is given."""
ROUNDS = 8
"""Alternations of eta and the variances that depend on it (an ECM step); three or four suffice."""


def make_prior(
    problem: Problem,
    alpha: FloatArray,
    *,
    learn: bool = False,
    ridge: float | None = None,
    unit: FloatArray | None = None,
) -> Prior:
    """Make the priors.

    Parameters
    ----------
    alpha : (K,)
    learn : bool
    ridge : float, optional
        In people: a cluster's mean is shrunk to the overall mean as by this many people there.
    unit : (d_u,), optional
        Variance of each feature between people, which says how much one of them weighs; the feature's spread when not given.
    """
    on_logit = problem.binary & (ridge is None)
    people = (DEFAULT_RIDGE if ridge is None else ridge) / (problem.spreads if unit is None else unit)
    center = np.where(on_logit, np.clip(problem.centers, EDGE, 1 - EDGE), problem.centers)
    precision = np.where(on_logit, 1.0 / LOGIT_SD**2, people)
    return Prior(alpha, learn, precision, center, on_logit, problem.spreads)


def solve_means(A: FloatArray, b: FloatArray, prior: Prior, j: int, *, binary: bool) -> FloatArray:
    """Most probable cluster means of hidden feature j, (K,): inside [0, 1] for a binary one.

    Parameters
    ----------
    A : (K, K)
        Sum of w E[nbar nbar'] over the published means.
    b : (K,)
        Sum of w E[nbar] s.

    Examples
    --------
    >>> prior = Prior(np.ones(2), False, np.array([1e-9]), np.zeros(1), np.array([False]), np.ones(1))
    >>> D = np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> solve_means(100 * D.T @ D, 100 * D.T @ D @ [1.0, 3.0], prior, 0, binary=False).round(5).tolist()
    [1.0, 3.0]
    """
    c, precision = prior.center[j], prior.precision[j]
    if prior.on_logit[j]:
        return _solve_logit(A, b, precision, c)
    eye = np.eye(len(A))
    # a design known only in part makes rows of E[nbar nbar'] sum to E[nbar], so shrinking to c is shifting by c
    h: FloatArray = c + np.linalg.solve(A + precision * eye, b - A.sum(axis=1) * c)
    if not binary or ((h >= EDGE) & (h <= 1.0 - EDGE)).all():
        return h
    root = np.linalg.cholesky(A + (precision + 1e-12 * np.trace(A)) * eye).T
    rhs = np.linalg.solve(root.T, b + precision * c)
    found = lsq_linear(root, rhs, bounds=(EDGE, 1.0 - EDGE), method="bvls").x
    return np.clip(found, EDGE, 1.0 - EDGE)


def _solve_logit(A: FloatArray, b: FloatArray, precision: float, center: float) -> FloatArray:
    middle, yes, one = logit(center), np.ones(len(b), dtype=bool), np.ones(len(b))

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        h, slope = from_free(x, yes, one)
        value = 0.5 * h @ A @ h - b @ h + 0.5 * precision * ((x - middle) ** 2).sum()
        return float(value), (A @ h - b) * slope + precision * (x - middle)

    start, options = np.full(len(b), middle), {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return from_free(found.x, yes, one)[0]


@dataclass(frozen=True, eq=False)
class Design:
    """The published means of one hidden feature, without those that are missing.

    Attributes
    ----------
    D : (E, K)
        Expected shares of the clusters.
    DD : (E, K, K)
        Expected products of the shares.
    s, size, variance : (E,)
    """

    D: FloatArray
    DD: FloatArray
    s: FloatArray
    size: FloatArray
    variance: FloatArray

    def normal(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sum of w E[nbar nbar'], (K, K), and of w E[nbar] s, (K,)."""
        return np.einsum("e,ekl->kl", w, self.DD), self.D.T @ (w * self.s)


def designs_of(
    problem: Problem, at: Parameters, shares: FloatArray, cov: FloatArray | None = None
) -> tuple[Design, ...]:
    """Lay out the published means of every hidden feature.

    Parameters
    ----------
    problem : Problem
    at : Parameters
        At which the variances are.
    shares : (A, K)
        Expected shares of the clusters in each atom.
    cov : (A, K, K), optional
        Covariance of the shares.
    """
    out = {}
    for block in problem.blocks:
        D = block.gather(shares)
        DD = D[:, :, None] * D[:, None, :] + (0.0 if cov is None else block.gather(cov, power=2))
        variance = moments(problem, block, replace(at, pi=shares))[1]
        for c, j in enumerate(block.features):
            seen = np.isfinite(block.S[:, c])
            v = np.maximum(variance[seen, c, c], 1e-14)
            out[int(j)] = Design(D[seen], DD[seen], block.S[seen, c], block.size[seen], v)
    return tuple(out[j] for j in range(len(out)))


def regress(
    problem: Problem,
    prior: Prior,
    at: Parameters,
    shares: FloatArray,
    cov: FloatArray | None = None,
    rounds: int = ROUNDS,
) -> Parameters:
    """Estimate eta and tau^2 from shares of the clusters (eq 18 corrected), recomputing the variances in between."""
    for _ in range(rounds):
        H, tau2 = at.H.copy(), at.tau2.copy()
        for j, design in enumerate(designs_of(problem, at, shares, cov)):
            binary = bool(problem.binary[j])
            H[:, j] = h = solve_means(*design.normal(1.0 / design.variance), prior, j, binary=binary)
            if not binary:
                squares = (design.s - design.D @ h) ** 2
                squares = squares + np.einsum("k,ekl,l->e", h, design.DD, h) - (design.D @ h) ** 2
                scatter = prior.scale[j] + 0.5 * float((design.size * squares).sum())
                tau2[j] = scatter / (TAU_SHAPE + 0.5 * len(squares) + 1.0)
        change = np.abs(H - at.H).max() + np.abs(tau2 - at.tau2).max()
        at = replace(at, H=H, tau2=tau2)
        if change < 1e-10:
            break
    return at


def person_variance(problem: Problem, at: Parameters, shares: FloatArray) -> FloatArray:
    """Variance of each hidden feature between the people of a group, (d_u,), from a regression with almost no ridge."""
    sampled = replace(problem, likelihood="cudia")
    loose = regress(sampled, make_prior(sampled, np.ones(1), ridge=1e-2), at, shares)
    # a published error is no variance between people
    bare = tuple(replace(block, se=np.full(block.se.shape, np.nan)) for block in problem.blocks)
    designs = designs_of(replace(sampled, blocks=bare), loose, shares)
    found = np.array([np.median(d.variance * d.size) for d in designs])
    return np.where(problem.binary, problem.spreads, np.maximum(problem.spreads, found))


@dataclass(frozen=True, eq=False)
class Identifiability:
    """What the published means say about the cluster means of one hidden feature.

    Attributes
    ----------
    singular_values : (min(P, K),)
        Of W^{1/2} R, the design weighted by precision.
    effective_df : float
        Cluster contrasts fixed by the data rather than by the prior, of K.
    share : (K,)
        Share of each contrast (columns of ``contrasts``) that comes from the data.
    contrasts : (K, K)
        Orthonormal combinations of the clusters, best known first.
    variance : (K, K)
        Posterior covariance of the cluster means on the scale of eta.
    n_groups : int
    """

    singular_values: FloatArray
    effective_df: float
    share: FloatArray
    contrasts: FloatArray
    variance: FloatArray
    n_groups: int


def identifiability(D: FloatArray, w: FloatArray, precision: float) -> Identifiability:
    """Say which contrasts of eta the published means determine.

    Parameters
    ----------
    D : (E, K)
        Design: mean responsibilities of the groups.
    w : (E,)
        Inverse variances of the means.
    precision : float
        Of the prior.

    Examples
    --------
    >>> found = identifiability(np.array([[0.5, 0.5], [0.5, 0.5]]), np.ones(2), 1e-3)
    >>> round(found.effective_df, 2)  # two clusters that nothing tells apart
    1.0
    """
    _, d, Vt = np.linalg.svd(np.sqrt(w)[:, None] * D, full_matrices=True)
    squares = np.zeros(D.shape[1])
    squares[: len(d)] = d**2
    share = squares / np.maximum(squares + precision, 1e-300)
    variance = (Vt.T / np.maximum(squares + precision, 1e-12 * max(squares.max(), 1e-300))) @ Vt
    return Identifiability(d, float(share.sum()), share, Vt.T, variance, len(D))


def identify(problem: Problem, prior: Prior, at: Parameters, shares: FloatArray) -> tuple[Identifiability, ...]:
    """Say for every hidden feature which contrasts of the clusters its published means determine."""
    c = np.where(prior.on_logit, prior.center, 0.5)
    # a prior on the logit is taken at its center, on the scale of eta
    precision = prior.precision / np.where(prior.on_logit, (c * (1.0 - c)) ** 2, 1.0)
    designs = designs_of(problem, at, shares)
    return tuple(identifiability(d.D, 1.0 / d.variance, float(p)) for d, p in zip(designs, precision, strict=True))


def leave_one_out(problem: Problem, prior: Prior, at: Parameters, shares: FloatArray) -> tuple[FloatArray, ...]:
    """Error of every published mean predicted from the others, in deviations between groups, (E,) for each hidden feature.

    It measures how well group means are predicted, not people: with few groups a small error can still go with answers that are
    worse for people than the naive group mean.
    """
    out = []
    for j, design in enumerate(designs_of(problem, at, shares)):
        w = 1.0 / design.variance
        A, b = design.normal(w)
        left = []
        for d, s, own in zip(design.D, design.s, w, strict=True):
            h = solve_means(A - own * np.outer(d, d), b - own * d * s, prior, j, binary=bool(problem.binary[j]))
            left.append(s - d @ h)
        out.append(np.array(left) / max(float(design.s.std()), 1e-12))
    return tuple(out)
