"""What does a change in one covariate do to the fit? Derivatives, first differences and whole-factor contrasts.

Every effect is a linear functional L of the fitted function, known by two things (and by L L' k where bands need it):

* v_j = L k(., x_j): its value on the kernel functions, so that the plug-in effect is v'c;
* ell = L h, its value on the linear functions h(x) = (1, z_1, .., z_P).

For a derivative averaged with row weights rho, v = (-2/s) [K (rho o z_p) - z_p o (K rho)]. For a switch of the columns F
from one point to another (a binary column, a dummy, a whole factor) the kernel factorizes into the part F makes and the
rest, and v_j = (E[high, level_j] - E[low, level_j]) (K_rest rho)_j, where E is the kernel between the points of F. The
pointwise effects are the same sums with c in the place of rho. Nothing larger than blocks of K is formed.

An effect of a switch compares two arms at the same values of all other covariates. Where an arm has nobody with such values the answer
comes from the shape of the kernel alone. A *neighbor* is a row of the other arm that differs by at most one standard deviation (that
inside the arms) per covariate, as a root mean square over the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import KDTree

from crosslevel.data.columns import Number
from crosslevel.errors import listed
from crosslevel.krls.reading import Encoding, label
from crosslevel.krls.spectrum import GaussianKernel, Scaling
from crosslevel.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.krls.model import Fit

CONTRASTS = ("factor", "dummy")


SKEWED = 1.5
"""Skewness beyond which the average derivative of a curved effect is hard for every method."""
COLLINEAR = 1e-10
SMALLEST_RATIO = 1e-100
"""Below this, dividing the kernel by the part of the switched columns meets underflow; the rest is then made afresh."""

MOST_ALONE = 0.1
"""Share of people without neighbors in the other arm from which on a fit says so."""
MOST_LOOKED_UP = 2_000
"""Distinct rows of an arm that are looked up among those of the other."""


@dataclass(frozen=True)
class Switch:
    """Columns that change together, and the points they can take.

    Attributes
    ----------
    columns : (F,)
    points : (L, F)
        In standardized units.
    """

    columns: IntArray
    points: FloatArray

    def kernel(self, rows: FloatArray, s: float) -> FloatArray:
        """Give the kernel that these columns alone make between rows, (n, F), and the points: (n, L)."""
        return np.exp(-np.square(rows[:, None, :] - self.points).sum(axis=2) / s)

    def levels(self, Z: FloatArray) -> IntArray:
        """Tell at which point each row stands, (n,)."""
        rows = Z[:, self.columns]
        return np.square(rows[:, None, :] - self.points).sum(axis=2).argmin(axis=1)


@dataclass(frozen=True)
class Effect:
    """One effect.

    Attributes
    ----------
    term : str
        Its name in the table.
    kind : {"derivative", "first difference", "contrast"}
    contrast : str
        What is compared, in words.
    column : int
        The column of a derivative; the first switched column otherwise.
    switch : Switch or None
    high, low : int
        The points of the switch that are compared.
    unit : float
        Change of the covariate, in its own units, that the effect is reported for; 1 leaves it as it is.
    """

    term: str
    kind: str
    contrast: str
    column: int
    switch: Switch | None = None
    high: int = 1
    low: int = 0
    unit: float = 1.0


def build_effects(
    encoding: Encoding,
    X: FloatArray,
    scaling: Scaling,
    *,
    contrast: str = "factor",
    first_differences: bool = True,
    per_unit: bool = False,
) -> tuple[Effect, ...]:
    """List the effects of the columns.

    Parameters
    ----------
    encoding : Encoding
    X : (U, P)
        Distinct rows of the matrix.
    scaling : Scaling
    contrast : {"factor", "dummy"}
        Whether the effect of a level sets the whole factor or its dummy alone.
    first_differences : bool
        False gives binary columns a derivative, as R's ``binary=FALSE``.
    per_unit : bool
        Whether first differences are divided by the distance of the two values, as bigKRLS does.
    """
    names, out = encoding.names, []
    for column, own in encoding.places():
        if isinstance(column, Number) or contrast == "dummy":
            out += [_one_column(names[p], int(p), X[:, p], scaling, first_differences, per_unit) for p in own]
            continue
        corners = np.concatenate([np.zeros((1, len(own))), np.eye(len(own))])
        switch = Switch(own, (corners - scaling.mean[own]) / scaling.sd[own])
        reference, *others = map(label, column.labels)
        out += [
            Effect(
                f"{names[p]} (reference {reference})", "contrast", f"{level} - {reference}", int(p), switch, high=k + 1
            )
            for k, (p, level) in enumerate(zip(own, others, strict=True))
        ]
    return tuple(out)


def _one_column(
    name: str, p: int, values: FloatArray, scaling: Scaling, first_differences: bool, per_unit: bool
) -> Effect:
    low, high = float(values.min()), float(values.max())
    if not first_differences or not ((values == low) | (values == high)).all():
        return Effect(name, "derivative", "dy/dx", p)
    points = ((np.array([low, high]) - scaling.mean[p]) / scaling.sd[p])[:, None]
    unit = high - low if per_unit else 1.0
    return Effect(name, "first difference", f"{high:g} - {low:g}", p, Switch(np.array([p]), points), unit=unit)


def scales(fit: Fit, effects: Sequence[Effect]) -> FloatArray:
    """Give the factors from the standardized scale to the units of the data, (E,)."""
    return np.array(
        [fit.y_sd / (fit.scaling.sd[e.column] if e.switch is None else e.unit) for e in effects], dtype=np.float64
    )


@dataclass(frozen=True)
class Functionals:
    """Effects as functionals.

    Attributes
    ----------
    V : (U, E)
        Values on the kernel functions of the distinct rows.
    ell : (P + 1, E)
        Values on the constant and the linear functions.
    """

    V: FloatArray
    ell: FloatArray


def linear_parts(effects: Sequence[Effect], P: int) -> FloatArray:
    """Give each effect of the functions 1, z_1, .., z_P: (P + 1, E)."""
    ell = np.zeros((P + 1, len(effects)))
    for e, effect in enumerate(effects):
        if effect.switch is None:
            ell[1 + effect.column, e] = 1.0
        else:
            points = effect.switch.points
            ell[1 + effect.switch.columns, e] = points[effect.high] - points[effect.low]
    return ell


def average_functionals(kernel: GaussianKernel, effects: Sequence[Effect], rho: FloatArray) -> Functionals:
    """Make the functionals of effects averaged over the distinct rows with weights rho.

    Parameters
    ----------
    kernel : GaussianKernel
    effects : sequence of Effect
    rho : (U,)
        Adding up to one for an average (m / N for that over the data), to zero for a slope.
    """
    centers = kernel.centers.Z
    rows = kernel if centers is kernel.Z else GaussianKernel(kernel.Z, kernel.s)
    Kx, Kxz, rest = _sums(rows, effects, rho, centers)
    V = np.empty((len(centers), len(effects)))
    for e, effect in enumerate(effects):
        if effect.switch is None:
            p = effect.column
            V[:, e] = (-2.0 / kernel.s) * (Kxz[p] - centers[:, p] * Kx)
        else:
            gap = _gap(effect, kernel.s)[effect.switch.levels(centers)]
            V[:, e] = gap * rest[id(effect.switch)].sum(axis=1)
    return Functionals(kernel.lift(V), rho.sum() * linear_parts(effects, kernel.Z.shape[1]))


def pointwise_effects(
    kernel: GaussianKernel, effects: Sequence[Effect], coef: FloatArray, at: FloatArray | None = None
) -> FloatArray:
    """Evaluate the effects at the distinct rows, or at the standardized rows ``at``: (n, E).

    Parameters
    ----------
    kernel : GaussianKernel
    effects : sequence of Effect
    coef : (U,)
        Sum of the coefficients c within each distinct row.
    at : (n, P), optional

    Examples
    --------
    >>> kernel = GaussianKernel(np.array([[0.0], [1.0], [2.0]]), s=2.0)
    >>> slope = Effect("x", "derivative", "dy/dx", 0)
    >>> f = lambda z: kernel.apply(np.ones((3, 1)), at=np.array([[z]]))[0, 0]
    >>> found = pointwise_effects(kernel, [slope], np.ones(3), at=np.array([[0.3]]))[0, 0]
    >>> bool(abs(found - (f(0.3 + 1e-6) - f(0.3 - 1e-6)) / 2e-6) < 1e-6)
    True
    """
    points = kernel.Z if at is None else at
    Kx, Kxz, rest = _sums(kernel.centers, effects, kernel.center_coef(coef), points)
    out = np.empty((len(points), len(effects)))
    for e, effect in enumerate(effects):
        if effect.switch is None:
            p = effect.column
            out[:, e] = (-2.0 / kernel.s) * (points[:, p] * Kx - Kxz[p])
        else:
            out[:, e] = rest[id(effect.switch)] @ _gap(effect, kernel.s)
    return out


def _gap(effect: Effect, s: float) -> FloatArray:
    """Give E[high, l] - E[low, l] for every point l of the switch, (L,)."""
    assert effect.switch is not None
    points = effect.switch.points
    E = effect.switch.kernel(points[[effect.high, effect.low]], s)
    return E[0] - E[1]


def _sums(
    kernel: GaussianKernel, effects: Sequence[Effect], x: FloatArray, at: FloatArray | None
) -> tuple[FloatArray, dict[int, FloatArray], dict[int, FloatArray]]:
    """Give K x, K (x o z_p) by column, and K_rest (x where the level is l) by switch, in one pass over the kernel."""
    points = kernel.Z if at is None else at
    slopes = sorted({e.column for e in effects if e.switch is None})
    switches = {id(e.switch): e.switch for e in effects if e.switch is not None}
    right = [x[:, None], x[:, None] * kernel.Z[:, slopes]]
    split = {i: _by_level(s, kernel.Z, x) for i, s in switches.items()}
    ratios = {i: s.kernel(points[:, s.columns], kernel.s) for i, s in switches.items()}
    near = [i for i in switches if ratios[i].min() > SMALLEST_RATIO]
    right += [split[i] for i in near]
    made = kernel.apply(np.concatenate(right, axis=1), at)
    Kxz = {p: made[:, 1 + j] for j, p in enumerate(slopes)}
    rest, start = {}, 1 + len(slopes)
    for i in near:
        stop = start + split[i].shape[1]
        rest[i] = made[:, start:stop] / ratios[i]
        start = stop
    for i in switches.keys() - set(near):
        columns = switches[i].columns
        rest[i] = kernel.without(columns).apply(split[i], np.delete(points, columns, axis=1))
    return made[:, 0], Kxz, rest


def _by_level(switch: Switch, Z: FloatArray, x: FloatArray) -> FloatArray:
    """Lay x out in one column per point of the switch, zero elsewhere: (U, L)."""
    out = np.zeros((len(x), len(switch.points)))
    out[np.arange(len(x)), switch.levels(Z)] = x
    return out


def describe_covariates(fit: Fit, effects: Sequence[Effect], names: Sequence[str]) -> tuple[str, ...]:
    """Say what in the covariates makes effects hard to estimate: skewness, columns that repeat one another."""
    m, Z = fit.cells.m, fit.kernel.Z
    said = []
    slopes = [e.column for e in effects if e.switch is None]
    skewness = m @ Z**3 / fit.cells.N
    skewed = [names[p] for p in slopes if abs(skewness[p]) > SKEWED]
    if skewed:
        said.append(
            f"{len(skewed)} column(s) are strongly skewed ({listed(skewed)}); where the effect is curved, the interval of its "
            "average can fall short. Take logarithms or ranks before fitting."
        )
    correlation = (m[:, None] * Z).T @ Z / (fit.cells.N - 1.0)
    values, vectors = np.linalg.eigh(correlation)
    involved = np.abs(vectors[:, values < COLLINEAR]).max(axis=1, initial=0.0) > 1e-6
    if involved.any():
        same = [n for n, i in zip(names, involved, strict=True) if i]
        said.append(
            f"the columns {listed(same)} determine one another, so their effects cannot be told apart; each got a share. "
            "Leave one out."
        )
    return tuple(said)


# do the two arms of a comparison hold people who are alike? -----------------------------------------------------------


def share_alone(effect: Effect, Z: FloatArray, m: FloatArray) -> float:
    """Give the share of the people of both arms who have no neighbor in the other.

    Parameters
    ----------
    effect : Effect
        Of a binary column or a level.
    Z : (U, P)
        Distinct rows, standardized.
    m : (U,)
        Weight of each.
    """
    assert effect.switch is not None
    level = effect.switch.levels(Z)
    others = np.delete(Z, effect.switch.columns, axis=1)
    arms = [np.flatnonzero(level == point) for point in (effect.high, effect.low)]
    # in units of the spread inside the arms: distance between them must not make them look alike
    centered = np.concatenate([others[r] - np.average(others[r], axis=0, weights=m[r]) for r in arms if len(r)])
    weight = np.concatenate([m[r] for r in arms])
    others = others / np.maximum(np.sqrt(weight @ centered**2 / weight.sum()), 1e-6)
    alone = 0.0
    for arm, other in (arms, arms[::-1]):
        looked_up = arm[:: max(1, len(arm) // MOST_LOOKED_UP)]
        share = 1.0
        if len(other) and len(looked_up):
            distance = np.zeros(len(looked_up))
            if others.shape[1]:
                distance, _ = KDTree(others[other]).query(others[looked_up])
            share = float(np.average(distance > np.sqrt(max(others.shape[1], 1)), weights=m[looked_up]))
        alone += share * float(m[arm].sum())
    return alone / float(weight.sum())


def describe_overlap(effects: Sequence[Effect], Z: FloatArray, m: FloatArray) -> list[str]:
    """Say which effects compare people who have nobody like them in the other arm."""
    shares = {e.term: share_alone(e, Z, m) for e in effects if e.switch is not None}
    far = {term: s for term, s in shares.items() if s > MOST_ALONE}
    if not far:
        return []
    worst = max(far, key=lambda term: far[term])
    return [
        f"the groups of {listed(list(far))} overlap little: {100 * far[worst]:.0f} % of the people compared by {worst!r} have nobody in "
        "the other group within one standard deviation per covariate, and their effect is extrapolated."
    ]
