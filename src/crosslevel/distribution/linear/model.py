"""A label is linear in a bag's vector: the decomposition, the solution and the prediction that ridge regression and the evidence share.

With Z (n, r) the bags' vectors (centered when there is an intercept), ``Z = U diag(s) V'``, and t = U'y, everything a penalty
``lam`` can change is a function of s and t:

    w = V diag(s / (s^2 + lam)) t,    h_i = sum_k U_ik^2 s_k^2 / (s_k^2 + lam),    |y - Z w|^2 = sum_k t_k^2 (lam / (s_k^2 + lam))^2 + rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslevel.distribution.features import BagFeatures
from crosslevel.distribution.predictive import Predictive
from crosslevel.errors import unknown_name
from crosslevel.typing import FloatArray

PRIORS = ("rkhs", "iid")
LOWEST, HIGHEST = 1e-13, 1e3
"""Limits of the penalty, times the largest squared singular value: below rounding rules, above the fit is constant."""
PER_DECADE = 4
TINY = 1e-14
"""Share of the label's mean square below which what varies is rounding; also the least noise."""


@dataclass(frozen=True, eq=False)
class Design:
    """Bags' vectors and labels, decomposed.

    Attributes
    ----------
    A : (d, r)
        From means to the coordinates in which the weights are equally likely: ``Z = (mu - center) A``.
    center : (d,)
    offset : float
        Mean label, 0 without an intercept.
    U : (n, k), s : (k,), V : (r, r)
        Singular vectors and values; V is square, ``s`` may be shorter.
    t : (k,)
        U'y.
    rest : float
        Sum of squares of y outside U.
    y : (n,)
        Labels less ``offset``.
    free : int
        n, less one with an intercept.
    floor : float
        Least variance: labels are not told apart more finely.
    """

    A: FloatArray
    center: FloatArray
    offset: float
    U: FloatArray
    s: FloatArray
    V: FloatArray
    t: FloatArray
    rest: float
    y: FloatArray
    free: int
    floor: float

    @property
    def intercept(self) -> bool:
        """Whether there is one."""
        return self.free < len(self.y)


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Weights of the bags' means, with their uncertainty.

    Attributes
    ----------
    center, coef : (d,)
    offset : float
        ``mean = offset + (mu - center) @ coef``.
    root : (d, r)
        ``variance = noise (1 + leverage)``, leverage = base + |(mu - center) @ root|^2.
    base : float
        Leverage of the intercept, 1/n or 0.
    noise : float
        Variance of a label given its mean.
    penalty : float
        noise / prior variance of the weights.
    criterion : float
        What chose the penalty: log evidence, or leave-one-out mean squared error.
    edf : float
        Effective number of weights.
    bound : str
        "lower" or "upper" when the penalty lies at a limit of the search, else "".
    slope : float
        Derivative of the criterion by log penalty at the end, relative.
    chosen : int
    converged : bool
    """

    center: FloatArray
    coef: FloatArray
    offset: float
    root: FloatArray
    base: float
    noise: float
    penalty: float
    criterion: float
    edf: float
    bound: str
    slope: float
    chosen: int
    converged: bool

    def predict(self, features: BagFeatures) -> Predictive:
        """Give the distribution of the labels of bags."""
        away = features.mu - self.center
        leverage = self.base + np.square(away @ self.root).sum(axis=1)
        return Predictive.normal(self.offset + away @ self.coef, self.noise * (1.0 + leverage))

    @property
    def intercept(self) -> float:
        """The label of a bag whose means are zero."""
        return self.offset - float(self.center @ self.coef)

    def diagnostics(self) -> dict[str, Any]:
        """Say what the reader should know."""
        return {
            "penalty": self.penalty,
            "noise": self.noise,
            "edf": self.edf,
            "criterion": self.criterion,
            "slope": self.slope,
            "penalty_at_limit": self.bound or "no",
        }


def decompose(features: BagFeatures, y: FloatArray, prior: str, intercept: bool) -> Design:
    """Decompose the bags' vectors.

    Parameters
    ----------
    features : BagFeatures
    y : (n,)
    prior : {"rkhs", "iid"}
        Weights alpha of the landmarks' functions: N(0, K^-1), so that the function has a white prior in the RKHS, or N(0, I).
    intercept : bool
    """
    if prior not in PRIORS:
        raise unknown_name("prior", prior, PRIORS, "choice")
    A = features.whiten if prior == "rkhs" else np.eye(features.d)
    center = features.mu.mean(axis=0) if intercept else np.zeros(features.d)
    offset = float(y.mean()) if intercept else 0.0
    Z = (features.mu - center) @ A
    U, s, Vt = np.linalg.svd(Z, full_matrices=len(Z) < Z.shape[1])
    # a direction in which bags do not differ, seen through rounding, is none
    least = np.finfo(np.float64).eps * max(Z.shape) * max(float(s.max(initial=0.0)), 1e-300)
    free = len(y) - int(intercept)
    s = np.where((s > least) & (np.arange(len(s)) < free), s, 0.0)
    target = y - offset
    t = U[:, : len(s)].T @ target
    floor = TINY * (float(np.mean(y**2)) or 1.0)
    rest = max(float(target @ target - t @ t), 0.0)
    return Design(
        A,
        center,
        offset,
        U[:, : len(s)],
        s,
        np.ascontiguousarray(Vt.T),
        t,
        rest,
        target,
        free,
        floor,
    )


def penalty_grid(design: Design) -> FloatArray:
    """Give the penalties at which a search looks first, ascending."""
    top = max(float(design.s[0]) ** 2 if len(design.s) else 0.0, 1e-300)
    return np.geomspace(LOWEST, HIGHEST, int(np.log10(HIGHEST / LOWEST) * PER_DECADE) + 1) * top


def solve(
    design: Design, penalty: float, noise: float, criterion: float, *, bound: str, slope: float, chosen: int = 0
) -> LinearFit:
    """Find the weights at a penalty."""
    s2 = np.zeros(design.V.shape[1])
    s2[: len(design.s)] = design.s**2
    st = np.zeros(design.V.shape[1])
    st[: len(design.s)] = design.s * design.t
    AV = design.A @ design.V
    return LinearFit(
        center=design.center,
        coef=AV @ (st / (s2 + penalty)),
        offset=design.offset,
        root=AV / np.sqrt(s2 + penalty),
        base=1.0 / len(design.y) if design.intercept else 0.0,
        noise=max(noise, design.floor),
        penalty=penalty,
        criterion=criterion,
        edf=float((s2 / (s2 + penalty)).sum()) + int(design.intercept),
        bound=bound,
        slope=slope,
        chosen=chosen,
        converged=True,
    )
