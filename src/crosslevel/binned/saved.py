"""The saved form of a fitted model: observations and hyperparameters; the posterior is made again from them, the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from crosslevel.binned.dense import DenseSolver
from crosslevel.binned.features import FeatureSolver
from crosslevel.binned.gaussian import GaussianFit
from crosslevel.binned.hyperparameters import Certificate
from crosslevel.binned.kernels import Factor, Kernel, Term
from crosslevel.binned.kronecker import KroneckerSolver, find_grid
from crosslevel.binned.problem import Problem
from crosslevel.binned.regions import sums
from crosslevel.binned.regions.base import SineBasis
from crosslevel.binned.solver import Solver
from crosslevel.errors import FileError, InputError
from crosslevel.numerics.integrals import Antiderivative, correlation
from crosslevel.typing import Arrays

if TYPE_CHECKING:
    from crosslevel.binned.estimator import BinnedGP

__all__ = ["from_payload", "to_payload"]

Model = TypeVar("Model", bound="BinnedGP")

_PROBLEM = ("y", "scale", "unit_noise", "known_noise", "level")
_BASIS = ("centre", "half_width", "index")


def to_payload(model: BinnedGP) -> tuple[dict[str, Any], Arrays]:
    """Give plain values and named arrays."""
    fit = model._fit
    arrays: Arrays = {n: getattr(fit.problem, n) for n in _PROBLEM}
    arrays |= {"logs": fit.logs} | sums.to_arrays(fit.problem.regions, "regions_")
    basis = getattr(getattr(fit.posterior, "solver", None), "basis", None)
    if basis is not None:
        arrays |= {f"basis_{n}": getattr(basis, n) for n in _BASIS}
    params = model.get_params()
    params["kernel"] = params["kernel"] if isinstance(params["kernel"], str) else _kernel_to_plain(params["kernel"])
    meta = {
        "params": {k: _plain(v) for k, v in params.items()},
        "kind": model.kind_,
        "mean": fit.problem.mean,
        "noise": fit.noise,
        "solver": fit.solver,
        "error": None if np.isnan(fit.error) else fit.error,
        "certificate": None if fit.certificate is None else asdict(fit.certificate),
        "notes": list(fit.notes),
    }
    return meta, arrays


def from_payload(cls: type[Model], meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Model:
    """Make the model again."""
    params = dict(meta["params"])
    if not isinstance(params["kernel"], str):
        params["kernel"] = _kernel_from_plain(params["kernel"])
    model = cls(**params)
    regions = sums.from_arrays(arrays, "regions_")
    problem = Problem(regions=regions, **{n: arrays[n] for n in _PROBLEM}, mean=meta["mean"])
    kernel = model._bind(regions.dimension)
    error = np.nan if meta["error"] is None else float(meta["error"])
    solver: Solver
    if meta["solver"] == "features":
        solver = FeatureSolver(problem, kernel, SineBasis(*(arrays[f"basis_{n}"] for n in _BASIS)), error)
    elif meta["solver"] == "kronecker":
        grid = find_grid(problem, kernel)
        if isinstance(grid, str):
            raise FileError(f"the saved model says that its regions fill a grid, but {grid}; the file is damaged.")
        solver = KroneckerSolver(problem, kernel, grid)
    else:
        solver = DenseSolver(problem, kernel)
    certificate = meta["certificate"]
    if certificate is not None:
        certificate = Certificate(**{**certificate, "at_bounds": tuple(certificate["at_bounds"])})
    logs, noise = arrays["logs"], float(meta["noise"])
    fit = GaussianFit(
        problem,
        kernel,
        logs,
        noise,
        solver.condition(logs, noise),
        solver.words,
        meta["solver"],
        error,
        certificate,
        tuple(meta["notes"]),
    )
    model._keep(fit, meta["kind"])
    return model


def _kernel_to_plain(kernel: Kernel) -> list[dict[str, Any]]:
    out = []
    for term in kernel.terms:
        for f in term.factors:
            if isinstance(f.correlation, Antiderivative):
                raise InputError("a kernel of your own H cannot be saved: it is code. Save the estimates instead.")
        factors = [[f.correlation.name, f.axis, f.lengthscale] for f in term.factors]
        out.append({"variance": term.variance, "factors": factors})
    return out


def _kernel_from_plain(plain: list[dict[str, Any]]) -> Kernel:
    return Kernel(
        tuple(Term(t["variance"], tuple(Factor(correlation(n), a, x) for n, a, x in t["factors"])) for t in plain)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | tuple | list) and not any(isinstance(v, dict) for v in value):
        return [float(v) for v in value]
    return value
