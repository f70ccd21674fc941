"""What the parameters of `BinnedGP` may be, and which arguments belong to which likelihood."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslevel.binned.gaussian import SOLVERS
from crosslevel.binned.kernels import CONVENTIONS, BoundKernel, Kernel
from crosslevel.binned.search import Settings
from crosslevel.data.checks import check_seed
from crosslevel.errors import InputError, unknown_name

if TYPE_CHECKING:
    from crosslevel.binned.estimator import BinnedGP

__all__ = ["LIKELIHOODS", "bind", "check", "noise", "number", "refuse", "settings"]

LIKELIHOODS = ("gaussian", "poisson", "negative_binomial", "binomial")
PRIORS = ("auto", "none", "lengthscale")
_OF_COUNTS = ("trials", "exposure", "pool", "cell", "tail", "preserve")


def check(model: BinnedGP) -> None:
    """Refuse unknown choices, numbers that are none, and scales where counts are averaged over them."""
    choices = {"likelihood": LIKELIHOODS, "convention": CONVENTIONS, "solver": SOLVERS, "prior": PRIORS}
    for name, allowed in choices.items():
        if getattr(model, name) not in allowed:
            raise unknown_name(name, getattr(model, name), allowed, name)
    for name in ("restarts", "max_features"):
        value = getattr(model, name)
        if value is None and name == "max_features":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < (name == "max_features"):
            raise InputError(f"{name}={value!r} is not a whole number of at least {int(name == 'max_features')}.")
    if not (number(model.tolerance, "tolerance") > 0):
        raise InputError(f"tolerance={model.tolerance!r} is not positive; pass a relative error such as 1e-6.")
    if model.likelihood == "gaussian":
        return
    for name in ("variance", "lengthscale", "noise", "mean"):
        if getattr(model, name) is not None:
            raise InputError(
                f"{name}={getattr(model, name)!r} is of the Gaussian model; likelihood={model.likelihood!r} averages over scales by "
                f"their evidence. Leave {name} out."
            )


def refuse(likelihood: str, **given: Any) -> None:
    """Refuse arguments that belong to the other kind of likelihood.

    Examples
    --------
    >>> refuse("gaussian", pool=None)
    """
    for name, value in given.items():
        if value is not None:
            whose = "counts (likelihood='poisson' and others)" if name in _OF_COUNTS else "the Gaussian likelihood"
            raise InputError(f"{name} is for {whose}, and likelihood={likelihood!r}; leave it out.")


def bind(model: BinnedGP, kernel: Kernel, dimension: int) -> BoundKernel:
    """Lay the kernel out over the axes with the hyperparameters that were given."""
    if model.convention == "paper":
        others = {f.correlation.name for t in kernel.terms for f in t.factors} - {"eq", "white"}
        if others:
            raise InputError(
                f"convention='paper' is the lengthscale of the squared exponential; {sorted(others)[0]!r} has only the usual one."
            )
    variance = None if model.variance is None else number(model.variance, "variance")
    return kernel.bind(dimension, variance=variance, lengthscale=model.lengthscale, convention=model.convention)


def settings(model: BinnedGP) -> Settings:
    """Gather how to fit."""
    return Settings(
        solver=model.solver,
        optimize=bool(model.optimize),
        restarts=int(model.restarts),
        seed=check_seed(model.random_state),
        prior=model.prior,
        tolerance=float(model.tolerance),
        max_features=None if model.max_features is None else int(model.max_features),
    )


def noise(value: Any) -> float | None:
    """Read the noise variance; None to have it estimated."""
    if value is None:
        return None
    found = number(value, "noise")
    if found < 0:
        raise InputError(f"noise={value!r} is negative; pass a variance, or None to have it estimated.")
    return found


def number(value: Any, argument: str) -> float:
    """Read a finite number.

    Examples
    --------
    >>> number("2.5", "variance")
    2.5
    """
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, bool) or not math.isfinite(found):
        raise InputError(f"{argument}={value!r} is not a number; pass one, or None to have it estimated.")
    return found
