"""Read the parameters of ``CUDIA``: each is checked, and what was left open is filled in."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.data import checks
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cudia.fitting import METHODS, Choices
from crosslevel.imputation.cudia.selection import CLUSTERS, RIDGES, TARGETS
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.imputation.cudia.estimator import CUDIA

__all__ = ["read_choices"]


_CHOICES = {
    "method": METHODS,
    "likelihood": ("cudia", "count"),
    "z": ("sampled", "expected"),
    "proposal": ("counts", "prior"),
    "design": ("counts", "pi"),
    "aggregates_from": ("sample", "population"),
}
DEFAULT_RIDGE = 1.0
"""People by which hidden means of real features are pulled to the target when no ridge is given."""


def read_choices(
    model: CUDIA, auto: tuple[tuple[int, ...], tuple[float, ...], tuple[str | float, ...]] | None = None
) -> Choices:
    """Check the parameters of an estimator and give them as choices; ``auto`` are candidates to choose among."""
    for name, options in _CHOICES.items():
        if getattr(model, name) not in options:
            raise unknown_name(name, getattr(model, name), list(options), "choice")
    if model.aggregates_from == "population" and model.likelihood == "count":
        raise InputError(
            "likelihood='count' is for means computed on these very people; with aggregates_from='population' pass likelihood='cudia'."
        )
    normal = isinstance(model.alpha, str) and model.alpha == "logistic_normal"
    if normal and model.method in ("gibbs", "mcem") and model.likelihood == "count":
        raise InputError(
            "alpha='logistic_normal' cannot be integrated out under likelihood='count'; pass likelihood='cudia'."
        )
    checks.check_seed(model.random_state)
    _check_whole("n_restarts", model.n_restarts, 1)
    _check_whole("n_draws", model.n_draws, 4)
    for name in ("beta", "logit_sd"):
        _check_positive(name, getattr(model, name))
    place: Any = model.place_sd
    if isinstance(place, str) and place != "auto":
        raise unknown_name("place_sd", place, ["auto"], "choice")
    if not isinstance(place, str) and (
        isinstance(place, bool) or not isinstance(place, Real) or not 0 <= float(place) < np.inf
    ):
        raise InputError(f"place_sd={place!r} is not a number of logits; pass 'auto', or a number of at least 0.")
    K: int | str = model.n_clusters
    if K != "auto":
        if isinstance(K, str):
            raise unknown_name("n_clusters", K, ["auto"], "choice")
        if isinstance(K, int) and not isinstance(K, bool) and K == 1:
            raise InputError(
                "n_clusters=1 gives everybody the mean of the group, which is the naive answer; pass at least 2."
            )
        _check_whole("n_clusters", K, 2)
    ridge, target, kind = _ridge(model, chosen=K == "auto")
    if auto is not None:
        return _filled(model, "auto", "auto", "auto", "ridge", *auto)
    return _filled(model, K, ridge, target, kind)


def _ridge(model: CUDIA, *, chosen: bool) -> tuple[float | str, str | float, str]:
    """Read ridge and target; without a ridge binary features have a prior on the logit."""
    target = model.ridge_target
    if target is None:
        target = "auto" if chosen and model.ridge is None else "mean"
    if isinstance(target, str) and target not in ("mean", "zero", "auto"):
        raise unknown_name("ridge_target", target, ["mean", "zero", "auto"], "choice")
    if not isinstance(target, str) and (isinstance(target, bool) or not np.isfinite(target)):
        raise InputError(f"ridge_target={target!r} is not a number; pass 'mean', 'zero', 'auto' or a number.")
    if model.ridge is None:
        return ("auto", target, "ridge") if chosen else (DEFAULT_RIDGE, target, "logit")
    if isinstance(model.ridge, str):
        if model.ridge != "auto":
            raise unknown_name("ridge", model.ridge, ["auto"], "choice")
        return "auto", target, "ridge"
    _check_positive("ridge", model.ridge)
    return float(model.ridge), target, "ridge"


def _filled(
    model: CUDIA,
    K: int | str,
    ridge: float | str,
    target: str | float,
    kind: str,
    clusters: tuple[int, ...] = CLUSTERS,
    ridges: tuple[float, ...] = RIDGES,
    targets: tuple[str | float, ...] = TARGETS,
) -> Choices:
    alpha, learn = _read_alpha(model.alpha)
    return Choices(
        n_clusters=K,
        method=model.method,
        law=model.likelihood,
        ridge=ridge,
        target=target,
        kind=kind,
        logit_sd=float(model.logit_sd),
        alpha=alpha,
        learn=learn,
        n_restarts=int(model.n_restarts),
        z=model.z,
        proposal=model.proposal,
        design=model.design,
        beta=float(model.beta),
        n_draws=int(model.n_draws),
        clusters=clusters,
        ridges=ridges,
        targets=targets,
    )


def _read_alpha(alpha: Any) -> tuple[FloatArray, str | None]:
    if isinstance(alpha, str):
        known = {"learn": "dirichlet", "logistic_normal": "logistic_normal"}
        if alpha not in known:
            raise unknown_name("alpha", alpha, list(known), "choice")
        return np.ones(1), known[alpha]
    values = np.atleast_1d(checks.check_finite(alpha, "alpha"))
    if (values <= 0).any():
        raise InputError(
            f"alpha={alpha!r} is not positive; pass a positive number (1 is uniform), 'learn' or 'logistic_normal'."
        )
    return values, None


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise InputError(f"{name}={value!r} is not a positive number; pass one.")


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name}={value!r} is not a whole number of at least {least}; pass one.")
