"""Have the chains of a sampler met, and how many independent draws are they worth?

Rank-normalized split r-hat, bulk and tail effective sample size of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021),
Rank-normalization, folding, and localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16.

Draws are (n_chains, n_draws, ...) everywhere, and every function answers for each quantity on the trailing axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import fft, stats

from crosslevel.errors import InputError
from crosslevel.typing import FloatArray

RHAT_LIMIT, ESS_LIMIT = 1.01, 400.0
"""Vehtari et al. (2021), section 4: below the first and above the second the estimates of both are themselves reliable."""


@dataclass(frozen=True)
class ChainDiagnostics:
    """The worst of every quantity followed.

    Attributes
    ----------
    max_rhat : float
        Largest rank-normalized split r-hat.
    min_ess_bulk, min_ess_tail : float
        Smallest effective sample sizes, of the center and of the 5 % and 95 % quantiles.
    divergences : int
        Moves that the sampler could not complete.
    chains, draws : int
        Chains, and draws kept of each.
    """

    max_rhat: float
    min_ess_bulk: float
    min_ess_tail: float
    divergences: int
    chains: int
    draws: int

    @property
    def converged(self) -> bool:
        """Whether r-hat is below 1.01, both sample sizes are at least 400 and nothing diverged."""
        enough = min(self.min_ess_bulk, self.min_ess_tail) >= ESS_LIMIT
        return bool(self.max_rhat < RHAT_LIMIT and enough and self.divergences == 0)


def diagnose(draws: npt.ArrayLike, divergences: int = 0) -> ChainDiagnostics:
    """Give the worst r-hat and effective sample sizes of all quantities.

    A quantity that is the same number in all chains (a cell that the margins fix) is left out; one that is stuck at
    different numbers has r-hat infinity.

    Parameters
    ----------
    draws : array (n_chains, n_draws, ...)
        At least two chains of at least four draws.
    divergences : int
        As the sampler counted them.

    Examples
    --------
    >>> import numpy as np
    >>> found = diagnose(np.random.default_rng(0).standard_normal((4, 1000, 3)))
    >>> found.converged, found.min_ess_bulk > 3000
    (True, True)
    """
    x = _checked(draws)
    flat = x.reshape(*x.shape[:2], -1)
    moving = flat[:, :, np.ptp(flat, axis=(0, 1)) > 0]
    if moving.shape[2] == 0:
        everything = float(x.shape[0] * x.shape[1])
        return ChainDiagnostics(1.0, everything, everything, int(divergences), *x.shape[:2])
    return ChainDiagnostics(
        max_rhat=float(rank_rhat(moving).max()),
        min_ess_bulk=float(bulk_ess(moving).min()),
        min_ess_tail=float(tail_ess(moving).min()),
        divergences=int(divergences),
        chains=x.shape[0],
        draws=x.shape[1],
    )


def rank_rhat(draws: npt.ArrayLike) -> FloatArray:
    """Give the larger of the split r-hats of ranks and of folded ranks: do chains agree in place, and in spread?

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((4, 500))
    >>> bool(rank_rhat(x) < 1.01), bool(rank_rhat(x * [[1], [1], [1], [3]]) > 1.05)
    (True, True)
    """
    x = split_chains(_checked(draws))
    folded = np.abs(x - np.median(x, axis=(0, 1)))
    in_place, in_spread = (potential_scale_reduction(_normal_scores(v)) for v in (x, folded))
    return np.maximum(in_place, in_spread)


def bulk_ess(draws: npt.ArrayLike) -> FloatArray:
    """Give the effective sample size of the normal scores of split chains.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(bulk_ess(np.random.default_rng(0).standard_normal((4, 1000)))), -2)
    3900.0
    """
    return effective_sample_size(_normal_scores(split_chains(_checked(draws))))


def tail_ess(draws: npt.ArrayLike) -> FloatArray:
    """Give the smaller effective sample size of being below the 5 % and the 95 % quantile.

    Examples
    --------
    >>> import numpy as np
    >>> bool(tail_ess(np.random.default_rng(0).standard_normal((4, 1000))) > 3000)
    True
    """
    x = split_chains(_checked(draws))
    below = [(x <= np.quantile(x, q, axis=(0, 1))).astype(np.float64) for q in (0.05, 0.95)]
    return np.minimum(*(effective_sample_size(b) for b in below))


def split_chains(draws: FloatArray) -> FloatArray:
    """Cut every chain in two halves; the middle draw of an odd number is left out.

    Examples
    --------
    >>> import numpy as np
    >>> split_chains(np.arange(5.0)[None]).tolist()
    [[0.0, 1.0], [3.0, 4.0]]
    """
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def potential_scale_reduction(draws: FloatArray) -> FloatArray:
    """Give Gelman and Rubin's r-hat: the spread of all chains over that within them.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(potential_scale_reduction(np.array([[0.0, 1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 2.0]]))), 3)
    1.5
    """
    within, total = _variances(draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt(np.where(total > 0, total / within, 1.0)))


def effective_sample_size(draws: FloatArray) -> FloatArray:
    """Give the number of independent draws whose mean would vary as much (Geyer's initial monotone sequence).

    Autocorrelations of all chains are combined with the spread between chains, summed in pairs, and cut off where a pair is
    negative. At most S log10(S) for S draws, as antithetic chains would otherwise claim any number.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.repeat(np.random.default_rng(0).standard_normal((4, 500)), 4, axis=1)  # each draw four times
    >>> bool(1700 < effective_sample_size(x) < 2300)
    True
    """
    m, n = draws.shape[:2]
    within, total = _variances(draws)
    centered = draws - draws.mean(axis=1, keepdims=True)
    spectrum = fft.rfft(centered, n=fft.next_fast_len(2 * n), axis=1)
    lagged = fft.irfft(np.abs(spectrum) ** 2, n=fft.next_fast_len(2 * n), axis=1)[:, :n].mean(axis=0) / n
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1.0 - (within - lagged) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2 : 2] + rho[1:n:2]
    pairs[1:] = np.minimum.accumulate(np.clip(pairs[1:], 0.0, None), axis=0)
    tau = np.maximum(-1.0 + 2.0 * pairs.sum(axis=0), 1.0 / np.log10(m * n))
    # constant within every chain: worth one draw per chain at most
    return np.asarray(np.where(within > 0, m * n / tau, float(m)))


def _variances(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the mean variance within chains and the estimate of the variance of the target."""
    n = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    return within, within * (n - 1) / n + draws.mean(axis=1).var(axis=0, ddof=1)


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Replace draws by the normal quantiles of their ranks among all chains (Blom's offset; ties share a rank)."""
    m, n = draws.shape[:2]
    ranks = stats.rankdata(draws.reshape(m * n, -1), axis=0)
    return np.asarray(stats.norm.ppf((ranks - 0.375) / (m * n + 0.25)).reshape(draws.shape))


def _checked(draws: npt.ArrayLike) -> FloatArray:
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim < 2 or x.shape[0] < 1 or x.shape[1] < 4:
        raise InputError(f"draws has shape {x.shape}; pass (chains, draws, ...) with at least 4 draws of each chain.")
    if not np.isfinite(x).all():
        raise InputError(
            f"draws has {int((~np.isfinite(x)).sum()):,} value(s) that are not finite; the sampler has failed."
        )
    return x
