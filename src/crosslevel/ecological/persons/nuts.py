"""The whole posterior by NUTS: the judge of the Laplace approximation, and an answer where time allows.

Effects, place effects and the logarithms of the scales are sampled together, under the priors of the fit. They are written in
units of the Laplace approximation around its mode, in which the posterior is nearly a standard normal whatever the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import linalg

from crosslevel.data.progress import follow
from crosslevel.ecological.covariance import BIAS, Terms
from crosslevel.ecological.persons.exact import priors
from crosslevel.ecological.persons.model import Design, PersonsFit, Sampled
from crosslevel.ecological.persons.sweeps import rates
from crosslevel.errors import ConvergenceError
from crosslevel.numerics.chains import ChainDiagnostics, diagnose
from crosslevel.numerics.laplace import Binomial
from crosslevel.numerics.nuts import COMPILING, NutsDraws, double_precision, import_jax, sample_nuts
from crosslevel.typing import FloatArray, Progress

SCALE_SD = 0.5
"""Unit of the logarithms of scales."""
TARGETS = (0.9, 0.97, 0.995)
"""Share of moves to be accepted: where one diverges all draws are thrown away, and shorter steps begin anew."""


def sample_posterior(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    fit: PersonsFit,
    *,
    n_chains: int = 4,
    n_warmup: int = 500,
    n_draws: int = 500,
    max_rounds: int = 6,
    seed: int = 0,
    fixed: bool = False,
    allow_unconverged: bool = False,
    progress: Progress | None = None,
) -> Sampled:
    """Sample effects, place effects and scales.

    Parameters
    ----------
    design, terms, likelihood, fit
        Of a question that was fitted.
    n_chains, n_warmup, n_draws : int
        Draws of every chain are made in rounds of this many.
    max_rounds : int
        Draw on until the chains have met, at most as many times.
    seed : int
    fixed : bool
        Take the scales of the fit as they are.
    allow_unconverged : bool
        Give draws of chains that have not met.
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the draws of each chain done and of all, warm-up included: (0, None) while the sampler
        is compiled, and again where it begins anew.

    Raises
    ------
    ConvergenceError
        When r-hat exceeds 1.01, draws are worth fewer than 400, or moves diverged.
    """
    jax = import_jax("inference='nuts'", "use 'laplace'")
    p, q = design.B.shape[1], terms.n_places
    root = _laplace_root(design, terms, fit)
    start = np.concatenate([fit.linear.beta, fit.linear.f])
    logs = np.log([max(getattr(fit.hyperparameters, name), 1e-300) for name in terms.names])
    unit = 0.0 if fixed else SCALE_SD
    rng = np.random.default_rng(seed)
    first = {
        "v": 0.3 * rng.standard_normal((n_chains, p + q)),
        "s": 0.3 * rng.standard_normal((n_chains, len(logs))),
    }
    with double_precision():
        density = log_posterior(design, terms, likelihood, jax)

    def potential(at: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
        v = data["start"] + data["root"] @ at["v"]
        # deviates of scales that are given stand for nothing
        own = 0.5 * jax.numpy.sum(at["s"] ** 2) if fixed else 0.0
        return own - density(v[:p], v[p:], data["logs"] + unit * at["s"])

    def placed(drawn: NutsDraws) -> FloatArray:
        return np.concatenate([start + drawn.values["v"] @ root.T, logs + unit * drawn.values["s"]], axis=2)

    def diagnosed(drawn: NutsDraws) -> ChainDiagnostics:
        return diagnose(placed(drawn), drawn.n_divergent)

    for target in TARGETS:
        with follow(progress, COMPILING, "draws of each chain") as tell:
            drawn = sample_nuts(
                potential,
                {"start": start, "root": root, "logs": logs},
                first,
                n_warmup=n_warmup,
                n_draws=n_draws,
                seed=seed,
                target=target,
                max_rounds=max_rounds,
                enough=lambda found: bool(found.n_divergent) or diagnosed(found).converged,
                tell=tell,
            )
        if not drawn.n_divergent:
            break
    said = diagnosed(drawn)
    if not said.converged and not allow_unconverged:
        raise ConvergenceError(
            f"the chains have not met: r-hat {said.max_rhat:.3f}, effective draws "
            f"{min(said.min_ess_bulk, said.min_ess_tail):.0f}, divergences {said.divergences}; use inference='laplace', fewer columns, or "
            "fix hyperparameters."
        )
    whole = placed(drawn)
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
    same = {name: jnp.asarray(group[:, None] == group[None, :]) for name, group in terms.groupings}
    context = None if design.context is None else jnp.asarray(design.context @ design.context.T)
    prior = priors(terms)
    middle = jnp.asarray([prior[name][0] for name in terms.names])
    spread = jnp.asarray([prior[name][1] for name in terms.names])

    def covariance(h: Mapping[str, Any]) -> Any:
        K = jnp.full((q, q), BIAS)
        if terms.kind is not None and distance is not None:
            K = K + h["spatial"] * _matern(jnp, distance / h["length"], terms.kind)
        for name, alike in same.items():
            K = K + h[name] * alike
        if context is not None:
            K = K + h["effect_variance"] * context
        return K + (h.get("nugget", 0.0) + 1e-9) * jnp.eye(q)

    def density(beta: Any, f: Any, logs: Any) -> Any:
        h = dict(zip(terms.names, jnp.exp(logs), strict=True))
        eta = (B @ beta)[codes].sum(axis=1)
        rate = jax.ops.segment_sum(weight * jax.nn.sigmoid(eta[cell] + f[place]), place, q)
        rate = jnp.clip(rate, 1e-300, 1.0 - 1e-16)
        seen = jnp.sum(k * jnp.log(rate) + (n - k) * jnp.log1p(-rate))
        L = jnp.linalg.cholesky(covariance(h))
        white = jax.scipy.linalg.solve_triangular(L, f, lower=True)
        own = -0.5 * beta @ beta / h["effect_variance"] - 0.5 * len(beta) * jnp.log(h["effect_variance"])
        places = -0.5 * white @ white - jnp.sum(jnp.log(jnp.diag(L)))
        return seen + own + places - 0.5 * jnp.sum(((logs - middle) / spread) ** 2)

    return density


def _laplace_root(design: Design, terms: Terms, fit: PersonsFit) -> FloatArray:
    """Give a square root of the Laplace covariance of (beta, f), at the fitted scales."""
    p, q, h = design.B.shape[1], terms.n_places, fit.hyperparameters
    K = design.place_prior(terms, h)
    precision = linalg.block_diag(np.eye(p) / h.effect_variance, linalg.inv(K + 1e-9 * np.eye(q)))
    A = np.hstack([fit.linear.J, np.eye(q)])
    precision += (A.T * fit.linear.W) @ A
    values, vectors = linalg.eigh(precision)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-12 * values.max())))


def _matern(jnp: Any, r: Any, kind: str) -> Any:
    if kind == "matern12":
        return jnp.exp(-r)
    x = r * (3.0 if kind == "matern32" else 5.0) ** 0.5
    return (1.0 + x) * jnp.exp(-x) if kind == "matern32" else (1.0 + x + x**2 / 3.0) * jnp.exp(-x)
