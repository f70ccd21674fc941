"""Chains of the Multinomial-Dirichlet posterior: started apart, run side by side, lengthened until they converge.

beta_ir ~ Dirichlet(alpha_ir), T_i ~ Multinomial(N_i, sum_r x_ir beta_ir), alpha_irc = alpha_rc exp(b H_ic), alpha_rc ~ Gamma(shape, rate):
Rosen, Jiang, King and Tanner (2001), Bayesian and frequentist inference for ecological inference: the R x C case, Statistica
Neerlandica 55, whose covariate H_ic is here what composition predicts for the unit's outcomes (see ``contextual_effect.py``) and whose
coefficient b is stated, since H is made of the outcomes.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from crosslevel.data.checks import count_jobs
from crosslevel.data.progress import follow
from crosslevel.ecological.tables.contextual_effect import ContextualEffect
from crosslevel.ecological.tables.dirichlet.moves import advance, draw_tables
from crosslevel.numerics.chains import ChainDiagnostics, diagnose
from crosslevel.typing import FloatArray, Progress

SWEEPS = 5
"""Sweeps to a draw: on precincts of thousands of people the slowest quantity needs about 25 for an independent one."""

UNIT_BYTES, UNIT_DRAWS = 128e6, (100, 400)
"""What the tables of all units may take, and how many are kept at least and at most."""


@dataclass(frozen=True)
class Plan:
    """How long to run.

    Attributes
    ----------
    chains, draws, warmup : int
        Chains, draws kept of each and draws thrown away before; a draw is five sweeps.
    max_draws : int
        How far ``draws`` may be doubled until the chains have converged.
    seed : int
        Of the chains; every chain has a stream of its own, so the threads do not matter.
    """

    chains: int
    draws: int
    warmup: int
    max_draws: int
    seed: int


@dataclass(frozen=True)
class Posterior:
    """What the chains say.

    Attributes
    ----------
    alpha, cells : (n_chains, n_draws, R, C)
        Draws of alpha, and of the district's inner table in counts.
    mean, sd : (n_units, R, C)
        Of the units' inner tables over all draws, in counts.
    units : (n_kept, n_units, R, C)
        Some of these tables, evenly spaced.
    slope : (R, C)
        How fast the district's mean table moves with b, in counts; 0 without a contextual effect.
    diagnostics : ChainDiagnostics
        Of log alpha and the district's cells together.
    acceptance, seconds : float
    """

    alpha: FloatArray
    cells: FloatArray
    mean: FloatArray
    sd: FloatArray
    units: FloatArray
    slope: FloatArray
    diagnostics: ChainDiagnostics
    acceptance: float
    seconds: float


def sample_posterior(
    X: FloatArray,
    T: FloatArray,
    prior: tuple[float, float],
    plan: Plan,
    effect: ContextualEffect,
    progress: Progress | None = None,
) -> Posterior:
    """Run the chains until they have converged or ``max_draws`` is reached.

    Parameters
    ----------
    X : (n_units, R), T : (n_units, C)
        Counts; every group and every outcome has people somewhere, and R and C are at least 2.
    prior : (shape, rate)
        Of every alpha_rc.
    plan : Plan
    effect : ContextualEffect
    progress : bool or callable, optional
        True for a bar on stderr; or a function, called with draws done and draws planned, over all chains, from the calling thread.
    """
    begun = time.perf_counter()
    seeds = np.random.SeedSequence(plan.seed).spawn(plan.chains)
    slots = int(np.clip(UNIT_BYTES / (X.size * T.shape[1] * 8), *UNIT_DRAWS)) // plan.chains + 1
    given = _Given.read(X, T, effect, slots)
    chains = [_Chain.start(given, prior, np.random.default_rng(seed)) for seed in seeds]
    draws = plan.draws
    _run(chains, plan.warmup, draws, progress)
    while True:
        cells = np.stack([np.array(chain.seen.cells) for chain in chains])
        alpha = np.stack([np.array(chain.seen.alphas) for chain in chains])
        followed = [v.reshape(*v.shape[:2], -1) for v in (np.log(alpha), cells)]
        found = diagnose(np.concatenate(followed, axis=2), sum(chain.lost for chain in chains))
        if found.converged or 2 * draws > plan.max_draws:
            break
        draws *= 2
        _run(chains, plan.warmup, draws, progress)
    total = draws * plan.chains
    mean = np.sum([chain.seen.total for chain in chains], axis=0) / total
    square = np.sum([chain.seen.square for chain in chains], axis=0) / total
    return Posterior(
        alpha=alpha,
        cells=cells,
        mean=mean,
        sd=np.sqrt(np.maximum(square - mean**2, 0.0)),
        units=np.stack([table for chain in chains for table in chain.seen.units]),
        slope=_slope(cells, np.stack([np.array(chain.seen.scores) for chain in chains])),
        diagnostics=found,
        acceptance=float(np.mean([chain.acceptance for chain in chains])),
        seconds=time.perf_counter() - begun,
    )


def _slope(cells: FloatArray, scores: FloatArray) -> FloatArray:
    """Give the derivative in b of the posterior mean: the covariance of the table with the derivative of the log density."""
    off = cells - cells.mean(axis=(0, 1))
    return np.asarray(np.einsum("kt,ktrc->rc", scores - scores.mean(), off) / scores.size)


@dataclass(frozen=True, eq=False)
class _Given:
    """What all chains share: data, prior and what follows from them."""

    x: FloatArray
    T: FloatArray
    X: FloatArray
    y: FloatArray
    H: FloatArray
    edge: FloatArray
    factor: FloatArray
    of: npt.NDArray[np.int64]
    people: FloatArray
    slots: int

    @classmethod
    def read(cls, X: FloatArray, T: FloatArray, effect: ContextualEffect, slots: int) -> _Given:
        """Prepare the units."""
        N, t = X.sum(axis=1, keepdims=True), T / T.sum(axis=1, keepdims=True)
        x = X / N
        error = np.sqrt((T + 0.5) * (N - T + 0.5).clip(0.5) / (N + 1) ** 3)  # of the observed outcome shares
        # units of one composition are counted together: without a contextual effect that is one row, and alpha needs no pass over the units
        kinds, of = np.unique(effect.factor(), axis=0, return_inverse=True)
        of = of.ravel().astype(np.int64)  # its shape differs between versions of numpy
        people = np.zeros((X.shape[1], len(kinds)))
        np.add.at(people.T, of, X > 0)
        edge = np.minimum(1.0, error[:, None, :] / np.maximum(x, 1e-12)[:, :, None])
        return cls(x, T, X, t * N, effect.H, np.ascontiguousarray(edge.transpose(1, 2, 0)), kinds, of, people, slots)


@dataclass(eq=False)
class _Seen:
    """What a chain has seen: sums over draws of the units' tables, and draws; when room for tables is short, every other is let go."""

    total: FloatArray
    square: FloatArray
    alphas: list[FloatArray] = field(default_factory=list)
    cells: list[FloatArray] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    units: list[FloatArray] = field(default_factory=list)
    stride: int = 1


@dataclass(eq=False)
class _Chain:
    """One chain: its state, and what it has seen."""

    given: _Given
    prior: tuple[float, float]
    rng: np.random.Generator
    m: FloatArray
    alpha: FloatArray
    step: FloatArray
    seen: _Seen
    warmed: int = 0
    acceptance: float = 0.0
    lost: int = 0

    @classmethod
    def start(cls, given: _Given, prior: tuple[float, float], rng: np.random.Generator) -> _Chain:
        """Begin at alphas from the prior and groups that all behave like their unit."""
        C = given.T.shape[1]
        shape = (*given.X.shape, C)
        m = given.x[:, :, None] * (0.98 * (given.T / given.T.sum(axis=1, keepdims=True)) + 0.02 / C)[:, None, :]
        alpha = np.clip(rng.gamma(prior[0], 1 / prior[1], size=shape[1:]), 0.1, 50.0)
        return cls(given, prior, rng, m, alpha, np.full(shape[1:], 0.2), _Seen(np.zeros(shape), np.zeros(shape)))

    def forward(self, adapt: bool) -> None:
        """Make one draw's worth of sweeps."""
        g = self.given
        units, kinds, moves = (self.m, g.x, g.T), (g.factor, g.of, g.people), (g.edge, self.step)
        accepted, lost = advance(units, self.alpha, kinds, moves, self.prior, SWEEPS, adapt, self.rng)
        if not adapt:
            self.acceptance += (accepted - self.acceptance) / (len(self.seen.alphas) + 1)
            self.lost += lost

    def keep(self) -> None:
        """Draw inner tables and note them."""
        given, seen, tables = self.given, self.seen, np.empty_like(self.m)
        draw_tables(self.m, given.X, given.y, self.rng, tables)
        seen.total += tables
        seen.square += tables**2
        seen.cells.append(tables.sum(axis=0))
        seen.scores.append(_score(self.m, given.x, self.alpha * given.factor[given.of][:, None, :], given.H))
        seen.alphas.append(self.alpha.copy())
        if len(seen.alphas) % seen.stride == 0:
            seen.units.append(tables)
        if len(seen.units) >= 2 * given.slots:
            seen.units, seen.stride = seen.units[1::2], 2 * seen.stride

    def run(self, warmup: int, draws: int, stop: threading.Event) -> None:
        """Go on until there are that many draws, or somebody says stop."""
        while not stop.is_set() and self.warmed < warmup:
            self.forward(adapt=True)
            self.warmed += 1
        while not stop.is_set() and len(self.seen.alphas) < draws:
            self.forward(adapt=False)
            self.keep()


def _score(m: FloatArray, x: FloatArray, alpha: FloatArray, H: FloatArray) -> float:
    """Give the derivative in b of the log density of all betas, alpha (n, R, C) growing by the factor exp(b H)."""
    if not H.any():
        return 0.0
    beta = np.divide(m, x[:, :, None], out=np.ones_like(m), where=x[:, :, None] > 0)
    slope = digamma(alpha.sum(axis=2, keepdims=True)) - digamma(alpha) + np.log(beta)
    return float(np.einsum("nr,nrc,nrc,nc->", (x > 0).astype(np.float64), alpha, slope, H))


def _run(chains: list[_Chain], warmup: int, draws: int, progress: Progress | None) -> None:
    """Run all chains on the cores there are; whatever stops the caller (Ctrl-C too) stops them within one draw."""
    planned, stop = (warmup + draws) * len(chains), threading.Event()
    with ThreadPoolExecutor(min(len(chains), count_jobs(-1))) as pool, follow(progress, "Sampling", "draws") as tell:
        try:
            running = [pool.submit(chain.run, warmup, draws, stop) for chain in chains]
            while running:
                ended, left = wait(running, timeout=0.1, return_when=FIRST_EXCEPTION)
                for future in ended:
                    future.result()
                running = list(left)
                if tell is not None:
                    tell(sum(chain.warmed + len(chain.seen.alphas) for chain in chains), planned)
        finally:
            stop.set()
