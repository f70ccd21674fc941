"""The whole posterior of the individual link by NUTS: the judge of the Laplace approximation, and an answer where time allows.

Effects, place effects and the logarithms of the scales are sampled together, under the priors of the fit. They are written in
units of the Laplace approximation around its mode, in which the posterior is nearly a standard normal whatever the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import linalg

from crosslevel.ecological.group.covariance import BIAS, Terms
from crosslevel.ecological.individual.fit import IndividualFit, priors
from crosslevel.ecological.individual.model import Design
from crosslevel.ecological.individual.sampled import Sampled
from crosslevel.ecological.individual.sweeps import rates
from crosslevel.errors import ConvergenceError, MissingExtraError
from crosslevel.numerics.chains import diagnose
from crosslevel.numerics.double import double_precision
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import FloatArray

__all__ = ["Sampled", "log_posterior", "sample_posterior"]


SCALE_SD = 0.5
"""Unit of the logarithms of scales."""
TARGETS = (0.9, 0.97, 0.995)
"""Share of moves to be accepted: where one diverges all draws are thrown away, and shorter steps begin anew."""


def sample_posterior(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    fit: IndividualFit,
    *,
    chains: int = 4,
    warmup: int = 500,
    draws: int = 500,
    goes: int = 6,
    seed: int = 0,
    fixed: bool = False,
    allow_unconverged: bool = False,
) -> Sampled:
    """Sample effects, place effects and scales.

    Parameters
    ----------
    design, terms, likelihood, fit
        Of a question that was fitted.
    chains, warmup, draws : int
        Draws of every chain are made in goes of this many.
    goes : int
        Draw on until the chains have met, at most as many times.
    seed : int
    fixed : bool
        Take the scales of the fit as they are.
    allow_unconverged : bool
        Give draws of chains that have not met.

    Raises
    ------
    ConvergenceError
        When r-hat exceeds 1.01, draws are worth fewer than 400, or moves diverged.
    """
    jax, MCMC, NUTS = _tools()
    p, q = design.B.shape[1], terms.n_places
    root = _laplace_root(design, terms, fit)
    start = np.concatenate([fit.linear.beta, fit.linear.f])
    logs = np.log([max(getattr(fit.hyperparameters, name), 1e-300) for name in terms.names])
    unit = 0.0 if fixed else SCALE_SD
    rng = np.random.default_rng(seed)
    with double_precision():
        jnp = jax.numpy
        density = log_posterior(design, terms, likelihood, jax)
        move, centre, logs_at = jnp.asarray(root), jnp.asarray(start), jnp.asarray(logs)

        def potential(x: Mapping[str, Any]) -> Any:
            v = centre + move @ x["v"]
            # deviates of scales that are given stand for nothing
            own = 0.5 * jnp.sum(x["s"] ** 2) if fixed else 0.0
            return own - density(v[:p], v[p:], logs_at + unit * x["s"])

        first = {
            "v": 0.3 * rng.standard_normal((chains, p + q)),
            "s": 0.3 * rng.standard_normal((chains, len(logs))),
        }
        moved = {name: jnp.asarray(v if chains > 1 else v[0]) for name, v in first.items()}
        for target in TARGETS:
            mcmc = MCMC(
                NUTS(potential_fn=potential, target_accept_prob=target),
                num_warmup=warmup,
                num_samples=draws,
                num_chains=chains,
                chain_method="vectorized",
                progress_bar=False,
            )
            parts: list[FloatArray] = []
            diverged = 0
            for go in range(goes):
                mcmc.run(jax.random.PRNGKey(seed + go), init_params=moved, extra_fields=("diverging",))
                mcmc.post_warmup_state = mcmc.last_state
                found = {name: np.asarray(v) for name, v in mcmc.get_samples(group_by_chain=True).items()}
                parts.append(np.concatenate([start + found["v"] @ root.T, logs + unit * found["s"]], axis=2))
                diverged += int(np.asarray(mcmc.get_extra_fields()["diverging"]).sum())
                whole = np.concatenate(parts, axis=1)
                said = diagnose(whole, diverged)
                if said.converged or diverged:
                    break
            if not diverged:
                break
    if not said.converged and not allow_unconverged:
        raise ConvergenceError(
            f"the chains of the individual link have not met: r-hat {said.max_rhat:.3f}, effective draws "
            f"{min(said.min_ess_bulk, said.min_ess_tail):.0f}, divergences {said.divergences}; use inference='laplace', fewer columns, or "
            "fix hyperparameters."
        )
    flat = whole.reshape(-1, whole.shape[2])
    beta, f, scales = (np.ascontiguousarray(v) for v in np.split(flat, [p, p + q], axis=1))
    rate = np.array([rates(design.pairs, design.eta(b), own) for b, own in zip(beta, f, strict=True)])
    return Sampled(beta, f, scales, rate, said)


def log_posterior(design: Design, terms: Terms, likelihood: Binomial, jax: Any) -> Any:
    """Give the log density of (beta, f, logs) as a function that jax can differentiate; call it in double precision.

    Parameters
    ----------
    jax : module
    """
    jnp = jax.numpy
    pairs, q = design.pairs, terms.n_places
    codes, cell, place = (jnp.asarray(a) for a in (design.codes, pairs.cell, pairs.place))
    weight, B = jnp.asarray(pairs.weight), jnp.asarray(design.B)
    k, n = jnp.asarray(likelihood.successes), jnp.asarray(likelihood.trials)
    distance = None if terms.distance is None else jnp.asarray(terms.distance)
    same = None if terms.group is None else jnp.asarray(terms.group[:, None] == terms.group[None, :])
    context = None if design.context is None else jnp.asarray(design.context @ design.context.T)
    prior = priors(terms)
    middle = jnp.asarray([prior[name][0] for name in terms.names])
    spread = jnp.asarray([prior[name][1] for name in terms.names])

    def covariance(h: Mapping[str, Any]) -> Any:
        K = jnp.full((q, q), BIAS)
        if terms.kind is not None and distance is not None:
            K = K + h["spatial"] * _matern(jnp, distance / h["length"], terms.kind)
        if same is not None:
            K = K + h["group"] * same
        if context is not None:
            K = K + h["embedding"] * context
        return K + (h.get("nugget", 0.0) + 1e-9) * jnp.eye(q)

    def density(beta: Any, f: Any, logs: Any) -> Any:
        h = dict(zip(terms.names, jnp.exp(logs), strict=True))
        eta = (B @ beta)[codes].sum(axis=1)
        rate = jax.ops.segment_sum(weight * jax.nn.sigmoid(eta[cell] + f[place]), place, q)
        rate = jnp.clip(rate, 1e-300, 1.0 - 1e-16)
        seen = jnp.sum(k * jnp.log(rate) + (n - k) * jnp.log1p(-rate))
        L = jnp.linalg.cholesky(covariance(h))
        white = jax.scipy.linalg.solve_triangular(L, f, lower=True)
        own = -0.5 * beta @ beta / h["embedding"] - 0.5 * len(beta) * jnp.log(h["embedding"])
        places = -0.5 * white @ white - jnp.sum(jnp.log(jnp.diag(L)))
        return seen + own + places - 0.5 * jnp.sum(((logs - middle) / spread) ** 2)

    return density


def _laplace_root(design: Design, terms: Terms, fit: IndividualFit) -> FloatArray:
    """Give a square root of the Laplace covariance of (beta, f), at the fitted scales."""
    p, q, h = design.B.shape[1], terms.n_places, fit.hyperparameters
    K = design.place_prior(terms, h)
    precision = linalg.block_diag(np.eye(p) / h.embedding, linalg.inv(K + 1e-9 * np.eye(q)))
    A = np.hstack([fit.linear.J, np.eye(q)])
    precision += (A.T * fit.linear.W) @ A
    values, vectors = linalg.eigh(precision)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-12 * values.max())))


def _matern(jnp: Any, r: Any, kind: str) -> Any:
    if kind == "matern12":
        return jnp.exp(-r)
    x = r * (3.0 if kind == "matern32" else 5.0) ** 0.5
    return (1.0 + x) * jnp.exp(-x) if kind == "matern32" else (1.0 + x + x**2 / 3.0) * jnp.exp(-x)


def _tools() -> tuple[Any, Any, Any]:
    try:
        import jax
        from numpyro.infer import MCMC, NUTS
    except ImportError as error:
        raise MissingExtraError(
            "inference='nuts' needs jax and numpyro; install them with pip install 'crosslevel[bayes]', or use 'laplace'."
        ) from error
    return jax, MCMC, NUTS
