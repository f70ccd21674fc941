"""Draws of weights and hyperparameters by NUTS, started and whitened from Laplace's approximation.

The model, in the eigenbasis (see :mod:`~crosslevel.distribution.shrinkage.likelihood` for the symbols):

- y ~ N(xi, nu), or for classes P(y = 1) = Phi(xi / sqrt(1 + V));
- a ~ N(0, rho2 Q^-1), b ~ N(0, 2^2);
- log sigma2, log eta, log rho2 ~ normal with the given locations and scales (without sigma2 for classes).

The sampler sees z and h. The log hyperparameters are center + Th with T a factor of the inverse curvature of the evidence. With
V the joint eigenvectors of the data's information about (b, a) and of the prior's precision, f the eigenvalues and m the mode
in these coordinates, (b, a) = V u with u = m (f + 1/rho2_hat) / (f + 1/rho2) + z / sqrt(f + 1/rho2): Laplace's approximation
given the drawn rho2. So the funnel between the weights and their prior variance is straightened, the posterior of (z, h) is
nearly a standard normal, and a trajectory takes a dozen steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from crosslevel.data.progress import follow
from crosslevel.distribution.shrinkage.laplace import evidence
from crosslevel.distribution.shrinkage.likelihood import INTERCEPT_SD, Problem, WeightPosterior
from crosslevel.distribution.shrinkage.probit import probit_evidence
from crosslevel.numerics.chains import ChainDiagnostics, diagnose
from crosslevel.numerics.nuts import COMPILING, import_jax, sample_nuts
from crosslevel.typing import AnyArray, BoolArray, FloatArray, Int64Array, Progress

TARGET, PROBIT_TARGET = 0.85, 0.95
"""Acceptance the step size is tuned to; classes that can nearly be separated leave a funnel that needs smaller steps."""
FEW_SIZES = 8


@dataclass(frozen=True)
class HyperPrior:
    """Normal priors of the log hyperparameters.

    Attributes
    ----------
    location, scale : tuple of float
        Of log sigma2 (regression only), log eta, log rho2.
    """

    location: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True)
class Settings:
    """How long to sample, and who is told how far it is: draws of each chain, (0, None) while the sampler is compiled."""

    n_chains: int = 4
    n_warmup: int = 400
    n_draws: int = 600
    seed: int = 0
    progress: Progress | None = None


@dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws.

    Attributes
    ----------
    w : (n_chains, n_draws, q + 1)
        (b, a).
    log_hyper : (n_chains, n_draws, 3 or 2)
    diverging : (n_chains, n_draws) bool
    n_steps : (n_chains, n_draws) int
        Leapfrog steps.
    energy, acceptance : (n_chains, n_draws)
    diagnostics : ChainDiagnostics
    """

    w: FloatArray
    log_hyper: FloatArray
    diverging: BoolArray
    n_steps: Int64Array
    energy: FloatArray
    acceptance: FloatArray
    diagnostics: ChainDiagnostics


def prior_around(fit: WeightPosterior, scale: float = 1.0) -> HyperPrior:
    """Give log-normal priors around the hyperparameters of largest evidence.

    Examples
    --------
    >>> from crosslevel.numerics.evidence import Convergence
    >>> fit = WeightPosterior(np.zeros(1), 0.0, 1.0, 1.0, np.eye(2), 0.0, Convergence(True, 0.0))
    >>> prior_around(fit, 2.0)
    HyperPrior(location=(0.0, 0.0), scale=(2.0, 2.0))
    """
    center = fit.log_hyper
    return HyperPrior(tuple(float(c) for c in center), (float(scale),) * len(center))


def sample_posterior(
    problem: Problem, fit: WeightPosterior, prior: HyperPrior, settings: Settings | None = None
) -> Draws:
    """Sample weights and hyperparameters.

    Parameters
    ----------
    problem : Problem
    fit : WeightPosterior
        Of the same problem; one without sigma2 makes the labels -1 and 1.
    prior : HyperPrior
    settings : Settings, optional
    """
    settings = Settings() if settings is None else settings
    probit = fit.sigma2 is None
    q, k = len(problem.s), len(prior.location)
    sizes, which = np.unique(problem.sizes, return_inverse=True)
    data = {
        "delta": problem.delta,
        "noise": problem.s[None, :] / sizes[:, None],
        "which": which,
        "y": problem.y,
        "Q": np.eye(q) if problem.Q is None else problem.Q,
        **_straightened(fit, problem.Q),
        "center": fit.log_hyper,
        "T": _hyper_root(problem, fit, prior),
        "location": np.array(prior.location),
        "scale": np.array(prior.scale),
    }
    import_jax("FullBayes", "use MeanShrinkage")
    rng = np.random.default_rng(settings.seed)
    with follow(settings.progress, COMPILING, "draws of each chain") as tell:
        found = sample_nuts(
            _minus_probit if probit else _minus_gaussian,
            data,
            {name: rng.standard_normal((settings.n_chains, size)) for name, size in (("z", q + 1), ("h", k))},
            n_warmup=settings.n_warmup,
            n_draws=settings.n_draws,
            seed=settings.seed,
            target=PROBIT_TARGET if probit else TARGET,
            tell=tell,
        )
    log_hyper = data["center"] + found.values["h"] @ data["T"].T
    bend = data["f"] + np.exp(-log_hyper[..., -1:])
    u = data["m"] * (data["f"] + data["precision"]) / bend + found.values["z"] / np.sqrt(bend)
    return Draws(
        w=u @ data["V"].T,
        log_hyper=log_hyper,
        diverging=found.diverging,
        n_steps=found.n_steps,
        energy=found.energy,
        acceptance=found.acceptance,
        diagnostics=diagnose(np.concatenate([u, log_hyper], axis=2), found.n_divergent),
    )


def _parts(at: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Give the log prior, xi, V and the log hyperparameters at whitened parameters."""
    import jax.numpy as jnp

    z, h, q = at["z"], at["h"], data["delta"].shape[1]
    logs = data["center"] + data["T"] @ h
    eta, rho2 = jnp.exp(logs[-2]), jnp.exp(logs[-1])
    bend = data["f"] + 1.0 / rho2
    w = data["V"] @ (data["m"] * (data["f"] + data["precision"]) / bend + z / jnp.sqrt(bend))
    b, a = w[0], w[1:]
    # bags of one size share their factors; of few sizes, a product with all of them is cheaper than gathering
    S, which = eta / (eta + data["noise"]), data["which"]
    V = ((S * data["noise"]) @ (a * a))[which]
    if len(S) <= FEW_SIZES:
        xi = b + jnp.take_along_axis(data["delta"] @ (S * a).T, which[:, None], axis=1)[:, 0]
    else:
        xi = b + jnp.sum(data["delta"] * (S * a)[which], axis=1)
    prior = -0.5 * (a @ (data["Q"] @ a)) / rho2 - 0.5 * q * logs[-1] - 0.5 * (b / INTERCEPT_SD) ** 2
    prior = prior - 0.5 * jnp.sum(jnp.log(bend))  # the Jacobian of u in z
    prior = prior - 0.5 * jnp.sum(((logs - data["location"]) / data["scale"]) ** 2)
    return prior, xi, V, logs


def _minus_gaussian(at: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Give minus the log posterior of the regression."""
    import jax.numpy as jnp

    prior, xi, V, logs = _parts(at, data)
    nu = jnp.exp(logs[0]) + V
    return 0.5 * jnp.sum(jnp.log(nu) + (data["y"] - xi) ** 2 / nu) - prior


def _minus_probit(at: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Give minus the log posterior of the classification."""
    import jax.numpy as jnp
    from jax.scipy.special import log_ndtr

    prior, xi, V, _ = _parts(at, data)
    return -jnp.sum(log_ndtr(data["y"] * xi / jnp.sqrt(1.0 + V))) - prior


def _straightened(fit: WeightPosterior, Q: FloatArray | None) -> dict[str, AnyArray]:
    """Give V, f, m and 1/rho2_hat: the coordinates in which the weights' conditional posterior is diagonal for every rho2."""
    q = len(fit.a)
    prior = np.zeros((q + 1, q + 1))
    prior[1:, 1:] = np.eye(q) if Q is None else Q
    known = linalg.inv(fit.covariance) - prior / fit.rho2
    if fit.sigma2 is None:
        known[0, 0] -= 1.0 / INTERCEPT_SD**2
    prior[0, 0] = fit.rho2 / INTERCEPT_SD**2  # any positive number would do: the intercept is not shrunk by rho2
    f, V = linalg.eigh((known + known.T) / 2.0, prior)
    m = V.T @ (prior @ np.concatenate([[fit.b], fit.a]))
    return {"V": V, "f": np.maximum(f, 0.0), "m": m, "precision": np.array(1.0 / fit.rho2)}


def _hyper_root(problem: Problem, fit: WeightPosterior, prior: HyperPrior) -> FloatArray:
    """Factor the inverse curvature of the log evidence and prior in the log hyperparameters, by central differences."""
    center, start = fit.log_hyper, np.concatenate([[fit.b], fit.a])
    k, step = len(center), 0.05
    H = np.empty((k, k))
    if fit.sigma2 is None:
        at = {}
        for i in range(k):
            for j in range(i + 1):
                for sides in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                    move = center + step * (sides[0] * np.eye(k)[i] + sides[1] * np.eye(k)[j])
                    at[sides] = probit_evidence(move, problem, start)[0]
                H[i, j] = H[j, i] = (at[1, 1] - at[1, -1] - at[-1, 1] + at[-1, -1]) / (4.0 * step**2)
    else:
        for i in range(k):
            ahead, behind = (
                evidence(center + side * step * np.eye(k)[i], problem, start).gradient for side in (1.0, -1.0)
            )
            H[i] = (ahead - behind) / (2.0 * step)
        H = (H + H.T) / 2.0
    values, vectors = linalg.eigh(H)
    # no direction is taken to be flatter than the prior makes it
    P = (vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(1.0 / np.array(prior.scale) ** 2)
    return np.asarray(linalg.cholesky(linalg.inv(P), lower=True))
