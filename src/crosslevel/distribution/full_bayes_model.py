"""Draws of weights and hyperparameters by NUTS, started and whitened from Laplace's approximation.

The model, in the eigenbasis (see :mod:`~crosslevel.distribution.shrinkage` for the symbols):

- y ~ N(xi, nu), or for classes P(y = 1) = Phi(xi / sqrt(1 + V));
- a ~ N(0, rho2 Q^-1), b ~ N(0, 2^2);
- log sigma2, log eta, log rho2 ~ normal with the given locations and scales (without sigma2 for classes).

The sampler sees z and h. The log hyperparameters are centre + Th with T a factor of the inverse curvature of the evidence. With
V the joint eigenvectors of the data's information about (b, a) and of the prior's precision, f the eigenvalues and m the mode
in these coordinates, (b, a) = V u with u = m (f + 1/rho2_hat) / (f + 1/rho2) + z / sqrt(f + 1/rho2): Laplace's approximation
given the drawn rho2. So the funnel between the weights and their prior variance is straightened, the posterior of (z, h) is
nearly a standard normal, and a trajectory takes a dozen steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from crosslevel.distribution.probit import ProbitFit, probit_evidence
from crosslevel.distribution.shrinkage import INTERCEPT_SD, Problem
from crosslevel.distribution.shrinkage_evidence import LaplaceFit, evidence
from crosslevel.errors import MissingExtraError
from crosslevel.numerics.chains import ChainDiagnostics, diagnose
from crosslevel.numerics.double import double_precision
from crosslevel.typing import FloatArray

__all__ = ["Draws", "HyperPrior", "Settings", "prior_around", "sample_posterior"]


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
    """How long to sample."""

    chains: int = 4
    warmup: int = 400
    draws: int = 600
    seed: int = 0


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
    diverging: npt.NDArray[np.bool_]
    n_steps: npt.NDArray[np.int64]
    energy: FloatArray
    acceptance: FloatArray
    diagnostics: ChainDiagnostics


def prior_around(fit: LaplaceFit | ProbitFit, scale: float = 1.0) -> HyperPrior:
    """Give log-normal priors around the hyperparameters of largest evidence.

    Examples
    --------
    >>> from crosslevel.distribution.shrinkage import Certificate
    >>> ends = Certificate(True, 0.0, 0.0, 1, 1, 1, (), "")
    >>> fit = ProbitFit(np.zeros(1), 0.0, 1.0, 1.0, np.eye(2), 0.0, ends)
    >>> prior_around(fit, 2.0)
    HyperPrior(location=(0.0, 0.0), scale=(2.0, 2.0))
    """
    centre = _centre(fit)
    return HyperPrior(tuple(float(c) for c in centre), (float(scale),) * len(centre))


def sample_posterior(
    problem: Problem, fit: LaplaceFit | ProbitFit, prior: HyperPrior, settings: Settings | None = None
) -> Draws:
    """Sample weights and hyperparameters.

    Parameters
    ----------
    problem : Problem
    fit : LaplaceFit or ProbitFit
        Of the same problem; a `ProbitFit` makes the labels -1 and 1.
    prior : HyperPrior
    settings : Settings, optional
    """
    settings = Settings() if settings is None else settings
    probit = isinstance(fit, ProbitFit)
    q, k = len(problem.s), len(prior.location)
    sizes, which = np.unique(problem.sizes, return_inverse=True)
    data = {
        "delta": problem.delta,
        "noise": problem.s[None, :] / sizes[:, None],
        "which": which,
        "y": problem.y,
        "Q": np.eye(q) if problem.Q is None else problem.Q,
        **_straightened(fit, problem.Q),
        "centre": _centre(fit),
        "T": _hyper_root(problem, fit, prior),
        "location": np.array(prior.location),
        "scale": np.array(prior.scale),
    }
    found, extra = _run(data, probit, settings, (q + 1, k))
    log_hyper = data["centre"] + found["h"] @ data["T"].T
    bend = data["f"] + np.exp(-log_hyper[..., -1:])
    u = data["m"] * (data["f"] + data["precision"]) / bend + found["z"] / np.sqrt(bend)
    w = u @ data["V"].T
    diverging = np.asarray(extra["diverging"], dtype=bool)
    followed = np.concatenate([u, log_hyper], axis=2)
    return Draws(
        w=w,
        log_hyper=log_hyper,
        diverging=diverging,
        n_steps=np.asarray(extra["num_steps"], dtype=np.int64),
        energy=np.asarray(extra["energy"], dtype=np.float64),
        acceptance=np.asarray(extra["accept_prob"], dtype=np.float64),
        diagnostics=diagnose(followed, int(diverging.sum())),
    )


def _run(
    data: Mapping[str, npt.NDArray[Any]], probit: bool, settings: Settings, sizes: tuple[int, int]
) -> tuple[dict[str, FloatArray], dict[str, Any]]:
    """Run the sampler in double precision, all chains in one vectorised program."""
    try:
        import jax
        import jax.numpy as jnp
        import numpyro  # noqa: F401 - missing here, not half way
    except ImportError as error:
        raise MissingExtraError(
            "FullBayes needs jax and numpyro; install them with pip install 'crosslevel[bayes]', or use MeanShrinkage."
        ) from error
    rng = np.random.default_rng(settings.seed)
    start = {name: rng.standard_normal((settings.chains, k)) for name, k in zip("zh", sizes, strict=True)}
    with double_precision():
        moved = {name: jnp.asarray(v) for name, v in data.items()}
        first = {name: jnp.asarray(v) for name, v in start.items()}
        keys = jax.random.split(jax.random.PRNGKey(settings.seed), settings.chains)
        found, extra = _program(probit, settings.warmup, settings.draws)(keys, first, moved)
        # copied: the device's buffers may go with the program
        return {n: np.array(v) for n, v in found.items()}, {n: np.array(v) for n, v in extra.items()}


@lru_cache(maxsize=8)
def _program(probit: bool, warmup: int, draws: int) -> Any:
    """Make the sampler of all chains; kept, because the compiled program serves every problem of the same shape."""
    import jax
    from numpyro.infer.hmc import hmc

    minus = _minus_probit if probit else _minus_gaussian
    begin, step = hmc(potential_fn_gen=lambda data: lambda at: minus(at, data), algo="NUTS")

    def chain(key: Any, first: Any, data: Any) -> Any:
        state = begin(
            first, warmup, target_accept_prob=PROBIT_TARGET if probit else TARGET, model_args=(data,), rng_key=key
        )
        state, _ = jax.lax.scan(lambda now, _: (step(now, (data,)), None), state, None, length=warmup)

        def keep(now: Any, _: Any) -> tuple[Any, Any]:
            now = step(now, (data,))
            names = ("diverging", "num_steps", "energy", "accept_prob")
            return now, (now.z, {name: getattr(now, name) for name in names})

        return jax.lax.scan(keep, state, None, length=draws)[1]

    return jax.jit(jax.vmap(chain, (0, 0, None)))


def _parts(at: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Give the log prior, xi, V and the log hyperparameters at whitened parameters."""
    import jax.numpy as jnp

    z, h, q = at["z"], at["h"], data["delta"].shape[1]
    logs = data["centre"] + data["T"] @ h
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


def _centre(fit: LaplaceFit | ProbitFit) -> FloatArray:
    if isinstance(fit, ProbitFit):
        return np.log([fit.eta, fit.rho2])
    return np.log([fit.sigma2, fit.eta, fit.rho2])


def _straightened(fit: LaplaceFit | ProbitFit, Q: FloatArray | None) -> dict[str, npt.NDArray[Any]]:
    """Give V, f, m and 1/rho2_hat: the coordinates in which the weights' conditional posterior is diagonal for every rho2."""
    q = len(fit.a)
    prior = np.zeros((q + 1, q + 1))
    prior[1:, 1:] = np.eye(q) if Q is None else Q
    known = linalg.inv(fit.covariance) - prior / fit.rho2
    if isinstance(fit, ProbitFit):
        known[0, 0] -= 1.0 / INTERCEPT_SD**2
    prior[0, 0] = fit.rho2 / INTERCEPT_SD**2  # any positive number would do: the intercept is not shrunk by rho2
    f, V = linalg.eigh((known + known.T) / 2.0, prior)
    m = V.T @ (prior @ np.concatenate([[fit.b], fit.a]))
    return {"V": V, "f": np.maximum(f, 0.0), "m": m, "precision": np.array(1.0 / fit.rho2)}


def _hyper_root(problem: Problem, fit: LaplaceFit | ProbitFit, prior: HyperPrior) -> FloatArray:
    """Factor the inverse curvature of the log evidence and prior in the log hyperparameters, by central differences."""
    centre, start = _centre(fit), np.concatenate([[fit.b], fit.a])
    k, step = len(centre), 0.05
    H = np.empty((k, k))
    if isinstance(fit, ProbitFit):
        at = {}
        for i in range(k):
            for j in range(i + 1):
                for sides in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                    move = centre + step * (sides[0] * np.eye(k)[i] + sides[1] * np.eye(k)[j])
                    at[sides] = probit_evidence(move, problem, start)[0]
                H[i, j] = H[j, i] = (at[1, 1] - at[1, -1] - at[-1, 1] + at[-1, -1]) / (4.0 * step**2)
    else:
        for i in range(k):
            ahead, behind = (
                evidence(centre + side * step * np.eye(k)[i], problem, start).gradient for side in (1.0, -1.0)
            )
            H[i] = (ahead - behind) / (2.0 * step)
        H = (H + H.T) / 2.0
    values, vectors = linalg.eigh(H)
    # no direction is taken to be flatter than the prior makes it
    P = (vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(1.0 / np.array(prior.scale) ** 2)
    return np.asarray(linalg.cholesky(linalg.inv(P), lower=True))
