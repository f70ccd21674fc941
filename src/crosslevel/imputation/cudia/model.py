"""The arrays of a cross-level problem, from checked inputs, its parameters and priors, and how published means are distributed given them.

People with the same row of x in the same place are one *pair* with a count, so the cost of everything depends on pairs, not on
people. A place is an *atom*: the finest group that any published mean can tell apart. A *block* is the set of hidden features
published for one partition of the atoms; features of different partitions are in different blocks.

Likelihood ``cudia`` (the paper's, with its covariance corrected): the people of a group are a sample from its mix pi_p,

    s_p | pi_p ~ N(mu_p, Sigma_p),  mu_p = sum_k pi_pk eta_k,
    Sigma_p = (1/N_p) [ sum_k pi_pk T_k + sum_k pi_pk (eta_k - mu_p)(eta_k - mu_p)' ].

Likelihood ``count``: the mean is that of these very people, whose clusters z are known in part from x,

    s_p | z ~ N( sum_k nbar_pk eta_k , (1/N_p) sum_k nbar_pk T_k ).

Groups made of several atoms are sampled within each: variances add up. A published standard error replaces the variance of the
first (it is the error of the mean about that of the population) and is added to that of the second (as noise of publication).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logit, softmax

from crosslevel.data import checks
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cudia.families import Family, learn_families, recode
from crosslevel.imputation.inputs import Inputs, read_range
from crosslevel.typing import BoolArray, FloatArray, Int64Array, IntArray

LEAST = 1e-14
"""Added to variances: every eta of a binary feature may be at its bound."""
TAU_SHAPE = 1.0
"""Shape of the inverse-gamma prior of tau^2; its scale is the feature's spread. With few groups it must not be dropped."""


@dataclass(frozen=True, eq=False)
class Block:
    """Published means of some hidden features in one partition.

    Attributes
    ----------
    partition : int
    features : (d,) int
        Places of these features among the hidden ones.
    group : (A,) int
        Group of each atom.
    share : (A,)
        Weight of the atom in its group; adds up to one in each group.
    S : (Q, d)
        Published means; NaN where none was.
    size : (Q,)
        People behind each mean: for survey weights (sum w)^2 / sum w^2.
    se : (Q, d)
        Published standard errors; NaN where none.
    elsewhere : (d,) bool
        Whether means are those of others or of a population, and move with their errors.
    """

    partition: int
    features: Int64Array
    group: Int64Array
    share: FloatArray
    S: FloatArray
    size: FloatArray
    se: FloatArray
    elsewhere: BoolArray

    @cached_property
    def plain(self) -> bool:
        """Whether atoms are groups, in the same order."""
        return len(self.group) == len(self.S) and bool((self.group == np.arange(len(self.S))).all())

    def gather(self, per_atom: FloatArray, power: int = 1) -> FloatArray:
        """Add up (A, ...) over the atoms of each group, by this power of their shares: (Q, ...)."""
        if self.plain:
            return per_atom
        out = np.zeros((len(self.S), *per_atom.shape[1:]))
        np.add.at(out, self.group, per_atom * self.share.reshape(-1, *[1] * (per_atom.ndim - 1)) ** power)
        return out

    def spread(self, per_group: FloatArray) -> FloatArray:
        """The transpose of :meth:`gather`: (Q, ...) to (A, ...)."""
        if self.plain:
            return per_group
        return per_group[self.group] * self.share.reshape(-1, *[1] * (per_group.ndim - 1))


class Sites(NamedTuple):
    """People and published means as the sweeps over people take them.

    Attributes
    ----------
    cell, atom : (R,) int
    each : (R,)
        Weight of one person of the pair.
    equation : (A, B) int
        Published means that the people of an atom take part in.
    feature : (B,) int
        Hidden feature of each.
    step : (A, B)
        What one unit of weight in the atom adds to the mean, per unit of eta.
    s, noise, size : (E,)
        Published mean (NaN: none), variance of publication, people.
    """

    cell: Int64Array
    atom: Int64Array
    each: FloatArray
    equation: Int64Array
    feature: Int64Array
    step: FloatArray
    s: FloatArray
    noise: FloatArray
    size: FloatArray

    def total(self, per_person: FloatArray, n: FloatArray) -> FloatArray:
        """Mean of what a person of a cluster adds (K, d_u) over the people n (A, K) behind each published mean, (E,)."""
        out = np.zeros(len(self.s))
        for b, j in enumerate(self.feature):
            np.add.at(out, self.equation[:, b], self.step[:, b] * (n @ per_person[:, j]))
        return out


@dataclass(frozen=True, eq=False)
class Problem:
    """People in pairs of (distinct row, atom), and the published means.

    Attributes
    ----------
    X : (C, d_x)
        Distinct rows of x; columns with levels are coded 0..L-1, NaN is missing.
    families : tuple of Family
    cell, atom : (R,) int
        Row and place of each pair.
    weight : (R,)
        People of the pair, or their survey weights scaled to one a person on average.
    count : (R,) int
        People of the pair.
    size : (A,)
        People of each atom.
    places : (A, L) int
        Group of each atom in each partition.
    blocks : tuple of Block
    binary : (d_u,) bool
        Whether each hidden feature is yes or no, or a number.
    likelihood : {"cudia", "count"}
    """

    X: FloatArray
    families: tuple[Family, ...]
    cell: Int64Array
    atom: Int64Array
    weight: FloatArray
    count: Int64Array
    size: FloatArray
    places: Int64Array
    blocks: tuple[Block, ...]
    binary: BoolArray
    likelihood: str

    @cached_property
    def published(self) -> tuple[tuple[Block, int], ...]:
        """Block and column of each hidden feature."""
        found = {int(j): (block, c) for block in self.blocks for c, j in enumerate(block.features)}
        return tuple(found[j] for j in range(len(found)))

    @cached_property
    def plain(self) -> bool:
        """Whether atoms are groups, of every partition."""
        return all(block.plain for block in self.blocks)

    @cached_property
    def sites(self) -> Sites:
        """The blocks as one list of published means."""
        first = np.cumsum([0, *(len(block.S) for block, _ in self.published)])
        return Sites(
            self.cell,
            self.atom,
            self.weight / self.count,
            np.column_stack([e + block.group for e, (block, _) in zip(first, self.published, strict=False)]),
            np.arange(len(self.published)),
            np.column_stack([block.share / self.size for block, _ in self.published]),
            np.concatenate([block.S[:, c] for block, c in self.published]),
            np.concatenate([np.nan_to_num(block.se[:, c]) ** 2 for block, c in self.published]),
            np.concatenate([block.size for block, _ in self.published]),
        )

    @cached_property
    def statistics(self) -> sparse.csr_array:
        """Statistics of every distinct row for all families, (C, M)."""
        return statistics(self.families, self.X)

    @cached_property
    def centers(self) -> FloatArray:
        """Mean of the published means of each hidden feature, weighted by people, (d_u,)."""
        out = np.zeros(len(self.binary))
        for block in self.blocks:
            seen = np.isfinite(block.S)
            total = (np.where(seen, block.S, 0.0) * block.size[:, None]).sum(axis=0)
            out[block.features] = total / np.maximum((seen * block.size[:, None]).sum(axis=0), 1e-300)
        return out

    @cached_property
    def spreads(self) -> FloatArray:
        """A scale of the variance inside clusters for each hidden feature, (d_u,).

        Binary features have it from their mean; for numbers it is the variance of the published means between groups, the only thing
        in the data with the right units.
        """
        center = self.centers
        out = center * (1.0 - center)
        for block in self.blocks:
            away = np.where(np.isfinite(block.S), (block.S - center[block.features]) ** 2, 0.0) * block.size[:, None]
            people = (np.isfinite(block.S) * block.size[:, None]).sum(axis=0)
            between = away.sum(axis=0) / np.maximum(people, 1e-300)
            out[block.features] = np.where(self.binary[block.features], out[block.features], between)
        return np.asarray(np.maximum(out, 1e-8 * np.maximum(1.0, center**2)))

    def sums(self, W: FloatArray) -> list[FloatArray]:
        """Sums of each family's statistics over weighted rows (C, K), with those of its prior: (K, m) each."""
        prior = np.concatenate([f.prior for f in self.families])
        cuts = np.cumsum([len(f.prior) for f in self.families])[:-1]
        return np.split((self.statistics.T @ W).T + prior, cuts, axis=1)

    def peak(self, W: FloatArray) -> tuple[FloatArray, ...]:
        """Most probable parameters of x for weights of the rows in each cluster (C, K)."""
        return tuple(f.peak(s) for f, s in zip(self.families, self.sums(W), strict=True))

    def log_density(self, theta: Sequence[FloatArray]) -> FloatArray:
        """Log density of every distinct row in every cluster, (C, K)."""
        return log_density(self.statistics, self.families, theta)

    def people(self, Z: Int64Array) -> tuple[FloatArray, FloatArray]:
        """People of each row (C, K) and atom (A, K) in each cluster, for people of each pair (R, K)."""
        by_cell, by_atom = np.zeros((len(self.X), Z.shape[1])), np.zeros((len(self.size), Z.shape[1]))
        weighted = Z * self.sites.each[:, None]
        np.add.at(by_cell, self.cell, weighted)
        np.add.at(by_atom, self.atom, weighted)
        return by_cell, by_atom

    def without_people(self) -> Problem:
        """Give the problem of a saved model: families, sizes and published means, enough to impute."""
        nobody = np.zeros(0, dtype=np.int64)
        X = np.zeros((0, self.X.shape[1]))
        return replace(self, X=X, cell=nobody, atom=nobody, weight=np.zeros(0), count=nobody)


def statistics(families: Sequence[Family], X: FloatArray) -> sparse.csr_array:
    """Statistics of rows for all families, (C, M)."""
    return sparse.csr_array(sparse.hstack([f.statistics(X) for f in families]))


def log_density(rows: sparse.csr_array, families: Sequence[Family], theta: Sequence[FloatArray]) -> FloatArray:
    """Log density of rows, given by their statistics, in every cluster, (C, K)."""
    natural = np.hstack([f.natural(t) for f, t in zip(families, theta, strict=True)])
    return np.asarray(rows @ natural.T)


@dataclass(frozen=True, eq=False)
class Parameters:
    """Everything that is estimated; many draws of it have one axis more, the first.

    Attributes
    ----------
    theta : tuple of (K, q)
        Free parameters of each family of x.
    pi : (A, K)
    H : (K, d_u)
    tau2 : (d_u,)
    """

    theta: tuple[FloatArray, ...]
    pi: FloatArray
    H: FloatArray
    tau2: FloatArray

    @classmethod
    def joined(cls, many: Sequence[Parameters], how: Callable[..., FloatArray]) -> Parameters:
        """Stack many parameters, or average them: ``how`` is ``np.stack`` or ``np.mean``."""
        theta = tuple(how([p.theta[i] for p in many], axis=0) for i in range(len(many[0].theta)))
        return cls(theta, *(how([getattr(p, name) for p in many], axis=0) for name in ("pi", "H", "tau2")))

    def at(self, i: int) -> Parameters:
        """The i-th of many draws."""
        return Parameters(tuple(t[i] for t in self.theta), self.pi[i], self.H[i], self.tau2[i])

    def reordered(self, order: IntArray) -> Parameters:
        """The same with the clusters in another order."""
        # contiguous, so that sums come out the same to the last bit after loading
        pi = np.ascontiguousarray(self.pi[:, order])
        return Parameters(tuple(np.ascontiguousarray(t[order]) for t in self.theta), pi, self.H[order], self.tau2)


@dataclass(frozen=True, eq=False)
class Prior:
    """Priors of the mixes and of the clusters' hidden means.

    Attributes
    ----------
    alpha : (K,)
        Exponents of the Dirichlet of the mixes.
    learn : bool
        Whether these are learned.
    precision, center : (d_u,)
        Of the normal prior of a feature's eta (inside its bounds), or of logit eta; the center is on the scale of eta.
    on_logit : (d_u,) bool
    scale : (d_u,)
        Of the prior of tau^2.
    """

    alpha: FloatArray
    learn: bool
    precision: FloatArray
    center: FloatArray
    on_logit: BoolArray
    scale: FloatArray

    def of_mix(self, logits: FloatArray) -> tuple[float, FloatArray]:
        """Log prior of mixes given by logits (A, K), with its gradient.

        The density is that of pi itself, not of its logits; learned exponents below one are taken as one, since a mode at the edge
        would say that a cluster is absent for certain.
        """
        pi = softmax(logits, axis=1)
        extra = np.maximum(self.alpha - 1.0, 0.0)
        return float((np.log(np.maximum(pi, 1e-300)) @ extra).sum()), extra - extra.sum() * pi

    def of_means(self, H: FloatArray, tau2: FloatArray, free: BoolArray) -> tuple[float, FloatArray, FloatArray]:
        """Log prior of eta, and of the tau^2 that are free, with gradients in both."""
        inside, middle = np.where(self.on_logit, H, 0.5), np.where(self.on_logit, self.center, 0.5)
        away = np.where(self.on_logit, logit(inside) - logit(middle), H - self.center)
        by_H = -self.precision * away / np.where(self.on_logit, inside * (1.0 - inside), 1.0)
        of_tau2 = (TAU_SHAPE + 1.0) * np.log(tau2) + self.scale / tau2
        by_tau2 = np.where(free, (self.scale / tau2 - TAU_SHAPE - 1.0) / tau2, 0.0)
        return -0.5 * float((self.precision * away**2).sum()) - float(of_tau2[free].sum()), by_H, by_tau2


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit by any method.

    Attributes
    ----------
    parameters : Parameters
    prior : Prior
    shares : (A, K)
        Expected shares of the clusters in each atom.
    convergence : dict
        ``converged``, and what it rests on.
    """

    parameters: Parameters
    prior: Prior
    shares: FloatArray
    convergence: dict[str, Any]

    def reordered(self, order: IntArray) -> Fit:
        """The same with the clusters in another order."""
        prior, shares = replace(self.prior, alpha=self.prior.alpha[order]), np.ascontiguousarray(self.shares[:, order])
        return Fit(self.parameters.reordered(order), prior, shares, self.convergence)


def hidden_variance(H: FloatArray, tau2: FloatArray, binary: BoolArray) -> FloatArray:
    """Variance of the hidden features inside each cluster, T (K, d_u): numbers share tau^2.

    Examples
    --------
    >>> hidden_variance(np.array([[0.5, 2.0]]), np.array([1.0, 9.0]), np.array([True, False])).tolist()
    [[0.25, 9.0]]
    """
    return np.where(binary, H * (1.0 - H), tau2)


def moments(problem: Problem, block: Block, at: Parameters) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Mean (Q, d) and covariance (Q, d, d) of the means of a block, and which entries of the latter depend on the parameters.

    ``at.pi`` are the mixes (likelihood "cudia"), or the shares of the clusters among the people ("count").
    """
    h, t = at.H[:, block.features], hidden_variance(at.H, at.tau2, problem.binary)[:, block.features]
    mean, diagonal = at.pi @ h, np.arange(h.shape[1])
    inside: FloatArray = np.zeros((*mean.shape, h.shape[1]))
    if problem.likelihood == "cudia":
        away = h[None] - mean[:, None]
        inside = np.einsum("ak,akj,akl->ajl", at.pi, away, away)
    inside[:, diagonal, diagonal] += at.pi @ t
    cov = block.gather(inside) / block.size[:, None, None]
    given, moved = block.se > 0, np.ones(cov.shape, dtype=bool)
    if given.any():
        if problem.likelihood == "cudia":
            moved = ~(given[:, :, None] | given[:, None, :])
            cov = np.where(moved, cov, 0.0)
        cov[:, diagonal, diagonal] += np.where(given, block.se, 0.0) ** 2
    return block.gather(mean), cov, moved


def score(S: FloatArray, mean: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log density of published means (Q,), and its gradient in the mean (Q, d) and in the covariance (Q, d, d).

    A mean that is missing is left out.
    """
    seen = np.isfinite(S)
    both = seen[:, :, None] & seen[:, None, :]
    eye = np.eye(S.shape[1])
    cov = np.where(both, cov, eye) + LEAST * eye
    residual = np.where(seen, S - mean, 0.0)
    alone = len(eye) == 1
    inverse: Any = 1.0 / cov if alone else np.linalg.inv(cov)
    log_det = np.log(cov[:, 0, 0]) if alone else np.linalg.slogdet(cov)[1]
    weighted = np.einsum("qjl,ql->qj", inverse, residual)
    value = -0.5 * ((residual * weighted).sum(axis=1) + log_det + seen.sum(axis=1) * np.log(2 * np.pi))
    by_cov = 0.5 * (weighted[:, :, None] * weighted[:, None, :] - inverse)
    return value, np.where(seen, weighted, 0.0), np.where(both, by_cov, 0.0)


def fit_of_means(problem: Problem, at: Parameters) -> FloatArray:
    """Log density of the published means: of every atom (A,) where atoms are groups, or of all together (1,)."""
    found = [score(b.S, *moments(problem, b, at)[:2])[0] for b in problem.blocks]
    return np.asarray(np.sum(found, axis=0) if problem.plain else [np.concatenate(found).sum()])


def slopes_of_means(problem: Problem, at: Parameters) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Log likelihood of all published means, likelihood "cudia", with its gradient in pi, eta and tau^2."""
    pi, T = at.pi, hidden_variance(at.H, at.tau2, problem.binary)
    value, by_pi, by_H, by_tau2 = 0.0, np.zeros_like(pi), np.zeros_like(at.H), np.zeros_like(at.tau2)
    for block in problem.blocks:
        f = block.features
        h, t, yes = at.H[:, f], T[:, f], problem.binary[f]
        mean, cov, moved = moments(problem, block, at)
        found, by_mean, by_cov = score(block.S, mean, cov)
        value += float(found.sum())
        G = block.spread(np.where(moved, by_cov, 0.0) / block.size[:, None, None])
        g = block.spread(by_mean) - 2.0 * np.einsum("ajl,al->aj", G, pi @ h)
        diagonal = np.einsum("ajj->aj", G)
        by_pi += g @ h.T + diagonal @ t.T + np.einsum("kj,ajl,kl->ak", h, G, h)
        through_t = pi.T @ diagonal
        by_H[:, f] = pi.T @ g + 2.0 * np.einsum("ak,ajl,kl->kj", pi, G, h) + np.where(yes, through_t * (1 - 2 * h), 0.0)
        by_tau2[f] = np.where(yes, 0.0, through_t.sum(axis=0))
    return value, by_pi, by_H, by_tau2


def check_choices(model: Any, methods: tuple[str, ...]) -> None:
    """Check the parameters of a ``CUDIA`` before any data are read."""
    options = {"method": methods, "likelihood": ("cudia", "count")}
    for name, known in options.items():
        if getattr(model, name) not in known:
            raise unknown_name(name, getattr(model, name), known, "choice")
    checks.check_flags(model)
    if model.likelihood == "count" and model.method == "map":
        raise InputError("likelihood='count' draws or assigns clusters; with method='map' pass likelihood='cudia'.")
    if checks.check_whole(model.n_clusters, "n_clusters", 1) == 1:
        raise InputError(
            "n_clusters=1 gives everybody the mean of the group, which is the naive answer; pass at least 2."
        )
    checks.check_whole(model.n_restarts, "n_restarts", 1)
    if model.ridge is not None:
        checks.check_positive(model.ridge, "ridge")
    if not _is(model.alpha, "learn"):
        checks.check_positive(model.alpha, "alpha")
    if not _is(model.place_sd, "auto"):
        checks.check_between(model.place_sd, "place_sd", 0.0, 1e6)


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def hidden_families(given: Inputs, families: Any) -> tuple[Any, BoolArray]:
    """Tell families of columns from those of hidden features, which are binary by default when their means lie in [0, 1]."""
    chosen = {k: v for k, v in families.items() if k in given.hidden} if isinstance(families, Mapping) else {}
    out = []
    for published in given.published:
        name, mean = published.name, published.mean[~np.isnan(published.mean)]
        kind = chosen.get(name, "bernoulli" if (mean == np.clip(mean, 0.0, 1.0)).all() else "gaussian")
        if kind not in ("bernoulli", "gaussian"):
            raise unknown_name(f"families[{name!r}]", kind, ["bernoulli", "gaussian"], "family of a hidden feature")
        if kind == "bernoulli":
            read_range(given, published)
        out.append(kind == "bernoulli")
    rest = {k: v for k, v in families.items() if k not in chosen} if chosen else families
    return rest, np.array(out)


def build(given: Inputs, families: Any, likelihood: str) -> Problem:
    """Lay out the problem."""
    cells = given.cells
    if likelihood == "count" and any(one.elsewhere for one in given.published):
        raise InputError(
            "likelihood='count' is for means computed on these very people; with Means(..., of='population') pass likelihood='cudia'."
        )
    of_columns, binary = hidden_families(given, families)
    reading = learn_families(cells.X[cells.pair_cell], cells.count, given.schema.columns, of_columns)
    places, atom = np.unique(cells.pair_group, axis=0, return_inverse=True)
    atom = atom.reshape(-1)
    weight = cells.weight * (cells.count.sum() / cells.weight.sum())
    used = weight > 0
    size = np.bincount(atom, weight, len(places)).astype(np.float64)
    if (size <= 0).any():
        raise InputError("the weight is zero for everybody in one combination of groups; leave these people out.")
    blocks = []
    for p, partition in enumerate(given.schema.partitions):
        features = np.flatnonzero([q.partition == p for q in given.published])
        if len(features):
            people = cells.sizes(p, len(partition))[1]
            group = places[:, p].astype(np.int64)
            share = size / np.bincount(group, size, len(people))[group]
            S, se = (np.column_stack([getattr(given.published[j], n) for j in features]) for n in ("mean", "se"))
            elsewhere = np.array([given.published[j].elsewhere for j in features])
            blocks.append(Block(p, features, group, share, S, people, se, elsewhere))
    return Problem(
        X=recode(cells.X, reading, given.schema.names),
        families=reading,
        cell=cells.pair_cell[used].astype(np.int64),
        atom=atom[used].astype(np.int64),
        weight=weight[used],
        count=cells.count[used].astype(np.int64),
        size=size,
        places=places.astype(np.int64),
        blocks=tuple(blocks),
        binary=binary,
        likelihood=likelihood,
    )


def atoms_of(group: IntArray, places: Int64Array) -> Int64Array:
    """Find the atom of each person, (n,); a combination of groups the fit did not have is number A.

    Examples
    --------
    >>> atoms_of(np.array([[1], [0], [7]]), np.array([[0], [1]])).tolist()
    [1, 0, 2]
    """
    number = {tuple(row): i for i, row in enumerate(places.tolist())}
    rows, place = np.unique(np.asarray(group), axis=0, return_inverse=True)
    return np.array([number.get(tuple(r), len(places)) for r in rows.tolist()], dtype=np.int64)[place.reshape(-1)]
