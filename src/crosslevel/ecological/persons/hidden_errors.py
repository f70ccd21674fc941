"""How far subgroups of hidden labels are off, and the parts of the variance that constants of confounding give the error.

Effects e of levels are learned from totals; a group's rate follows from them and from the totals of its places. With
G_g = d logit P_g / d e after every place is matched to its total, the error of a group has the variance

    G_g V G_g' + sum_col (distance G_g,col e_col)^2 + tau^2 (G_g R G_g' + .3 |G_g,pairs|^2 + untold |C_g|^2) + omega^2 L_g

by a normal law: what the totals leave open, the doubt about how much of an effect is contextual, confounding of effects and of pairs of
levels that all places share, of levels that no feature tells, and of one group in one place. With heavy tails every column has a scale
that multiplies the prior of its effects (V is what the totals leave of it), distance and tau of the column. Every group of a hidden
label, over all places, of crossings of two columns and within places, has such a law in closed form; the slopes are those that answers use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from scipy import special

from crosslevel.ecological.confounding import Confounding, Tail
from crosslevel.ecological.persons.aggregate import EFFECT_VARIANCE
from crosslevel.ecological.persons.groups import Stretched, asked_pairs
from crosslevel.ecological.persons.model import (
    Effects,
    Kinds,
    Parts,
    Telling,
    kept_effects,
    parts_at,
    rates_over,
    symmetric_root,
)
from crosslevel.typing import AnyArray, BoolArray, FloatArray, IntArray

LEAST_PEOPLE = 100
"""Groups of places with fewer people have no truth to speak of."""
LEAST_FACTOR = 1e-4
"""Groups of a smaller factor are nearly everybody where they live: matched totals leave them no error to learn from, only rounding."""
QUANTILE_STEPS, QUANTILE_TOLERANCE, FARTHEST = 200, 1e-12, 38.0
"""Newton's steps to a quantile, the relative change of the last, and the deviate beyond which a normal law has no density."""
LEVELS = ("nation", "crossings", "places")
"""What groups are compared: over all places, of two columns at a time over all places, and within places."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of one column in every place, and their truth.

    Attributes
    ----------
    name : str
    names : tuple of str
        Of the groups.
    group : (n_pairs,) int
        Group of every pair.
    telling : Telling
        Features that the groups follow from.
    weight, yes : (q, n_groups)
        Weight of everybody, and of those who have the label.
    count, effective : (q, n_groups)
        People behind it, and Kish's number of them.
    """

    name: str
    names: tuple[str, ...]
    group: IntArray
    telling: Telling
    weight: FloatArray
    yes: FloatArray
    count: FloatArray
    effective: FloatArray


@dataclass(frozen=True, eq=False)
class HiddenLabel:
    """A label learned back from totals of one half of the people, with the composition of the other half.

    Attributes
    ----------
    label : str
    columns : tuple of str
        Features.
    kinds : Kinds
        Composition: kinds of people of each place, smoothed.
    effects : (p,)
    covariance : (p, p)
        Of their coefficients given the totals.
    total : (q,)
        Rate of everybody in each place, which answers are matched to.
    people : (q,)
        Weight of everybody.
    dimensions : tuple of Groups
    crossings : tuple of Groups
        Of two columns at a time.
    share : float
        Of everybody.
    hidden : tuple of str
        Columns that were not among the features: the label's own, those named with it, and those that nearly determine it.
    places : (q,) int
        Numbers of the places among those of the fit.
    """

    label: str
    columns: tuple[str, ...]
    kinds: Kinds
    effects: FloatArray
    covariance: FloatArray
    total: FloatArray
    people: FloatArray
    dimensions: tuple[Groups, ...]
    crossings: tuple[Groups, ...]
    share: float
    hidden: tuple[str, ...]
    places: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def structure(self) -> Effects:
        """Which effects there are."""
        return self.kinds.effects

    @property
    def effect_covariance(self) -> FloatArray:
        """Covariance of the effects given the totals, (p, p)."""
        return np.asarray(self.structure.B @ self.covariance @ self.structure.B.T)


@dataclass(frozen=True, eq=False)
class Variances:
    """Parts of the variance of errors on the logit scale.

    Attributes
    ----------
    model : (m,)
        G V G'.
    stretched : (m, SCENARIOS)
        The same with the prior of every column multiplied by the scales of a scenario of heavy tails.
    contextual : (m, n_terms)
        (G_col e_col)^2 of the effects as they are shrunk, to be multiplied with distance^2.
    shared : (m, n_terms)
        G_col R G_col', to be multiplied with tau^2.
    pairs, untold, own : (m,)
        What .3 tau^2, tau^2 and omega^2 are multiplied with.
    noise : (m,)
        Variance of the truth itself, zero over all places.
    """

    model: FloatArray
    stretched: FloatArray
    contextual: FloatArray
    shared: FloatArray
    pairs: FloatArray
    untold: FloatArray
    own: FloatArray
    noise: FloatArray


@dataclass(frozen=True, eq=False)
class Errors:
    """Groups of one column: estimate, truth and the parts of the variance of their difference, on the logit scale.

    Attributes
    ----------
    scale : (n_terms, SCENARIOS)
        Scales of the columns in scenarios of heavy tails.
    estimate, truth, neighborhood, people : (m,)
        Rates, and weight.
    variances : Variances
    """

    scale: FloatArray
    estimate: FloatArray
    truth: FloatArray
    neighborhood: FloatArray
    people: FloatArray
    variances: Variances

    @property
    def error(self) -> FloatArray:
        """Truth less estimate, logits."""
        return np.asarray(special.logit(self.truth) - special.logit(self.estimate))


class _State:
    """A hidden label at given effects, every place matched to its total, and what its effects may be with heavy tails."""

    def __init__(self, hidden: HiddenLabel, shrinkage: Mapping[str, float], tail: Tail | None = None) -> None:
        h = self.hidden = hidden
        self.keep = kept_effects(h.structure, h.columns, shrinkage)
        self.eta, self.f = h.kinds.at(self.keep * h.effects, h.total)
        self.scale, self.covariances = np.ones((len(h.structure.widths), 0)), []
        if tail is not None:
            wider = Stretched(h.covariance, EFFECT_VARIANCE, h.structure.widths)
            self.scale = tail.scales(h.structure.names(h.columns))
            self.covariances = [wider.covariance(scale) for scale in self.scale.T]

    def parts(self, d: Groups) -> Parts:
        """Sum the people of every place to groups, with slopes."""
        kinds = replace(self.hidden.kinds, crossed=asked_pairs(self.hidden.structure, d.telling.columns))
        return parts_at(kinds, self.eta, self.f, d.group, len(d.names))


def added(at: AnyArray, values: FloatArray, size: int) -> FloatArray:
    """Sum values by number, (size,)."""
    return np.asarray(np.bincount(at, weights=values, minlength=size), dtype=np.float64)


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.asarray(np.clip(part / np.maximum(whole, 1e-300), 1e-9, 1.0 - 1e-9))


def errors_of(
    hidden: HiddenLabel,
    shrinkage: Mapping[str, float],
    tail: Tail | None = None,
    levels: Sequence[str] = LEVELS,
) -> dict[str, dict[str, Errors]]:
    """Compare every group with the truth: over all places, crossings of two columns, and within places.

    Parameters
    ----------
    hidden : HiddenLabel
    shrinkage : mapping of column to float
        How far effects of a column are shrunk toward zero.
    tail : Tail, optional
        Heavy tails that intervals may be given.
    levels : sequence of str
        Those of LEVELS that are asked for.

    Returns
    -------
    dict
        Of every level, errors by column (or pair of columns).
    """
    state = _State(hidden, shrinkage, tail)
    groups = {"nation": hidden.dimensions, "crossings": hidden.crossings, "places": hidden.dimensions}
    compare = {"nation": _over_places, "crossings": _over_places, "places": _within_places}
    return {level: {d.name: compare[level](state, d) for d in groups[level]} for level in levels}


def joined(errors: Sequence[Errors]) -> Errors | None:
    """Put the groups of several columns of one half together; None where there are none."""
    if not errors:
        return None
    estimate, truth, near, people = (
        np.concatenate([getattr(e, name) for e in errors]) for name in ("estimate", "truth", "neighborhood", "people")
    )
    parts = {f.name: np.concatenate([getattr(e.variances, f.name) for e in errors]) for f in fields(Variances)}
    return Errors(errors[0].scale, estimate, truth, near, people, Variances(**parts))


def _some(found: Errors, kept: BoolArray) -> Errors:
    """Keep some groups."""
    parts = {f.name: getattr(found.variances, f.name)[kept] for f in fields(Variances)}
    rates = (found.estimate[kept], found.truth[kept], found.neighborhood[kept], found.people[kept])
    return Errors(found.scale, *rates, Variances(**parts))


def _over_places(state: _State, d: Groups) -> Errors:
    h, n, at = state.hidden, len(d.names), state.parts(d)
    found = rates_over(at, h.people, n)
    weight = d.weight.sum(axis=0)
    T = (d.yes.sum(axis=0) + 0.5) / (weight + 1.0)
    near = _share(added(at.group, h.people[at.place] * at.share * h.total[at.place], n), found.people)
    own = found.by_part.power(2) @ _own_factors(at, len(h.total))
    C = found.by_part @ _level_slopes(at, len(h.total), n)
    parts = _variances(state, d, found.G, C, (own, np.zeros(n)))
    kept = (weight > 0) & (found.people > 0) & (parts.shared.sum(axis=1) >= LEAST_FACTOR)
    rates = (found.rate, np.clip(T, 1e-9, 1 - 1e-9), near, weight)
    return _some(Errors(state.scale, *rates, parts), kept)


def _within_places(state: _State, d: Groups) -> Errors:
    h, n, at = state.hidden, len(d.names), state.parts(d)
    count, weight, effective, yes = (
        v.ravel()[at.place * n + at.group] for v in (d.count, d.weight, d.effective, _share(d.yes, d.weight))
    )
    T = np.clip((yes * effective + 0.5) / (effective + 1.0), 1e-9, 1 - 1e-9)
    open_ = np.clip(1.0 - weight / h.people[at.place], 0.0, 1.0)
    noise = open_ / np.maximum(effective * at.rate * (1.0 - at.rate), 1e-9)
    own, C = _own_factors(at, len(h.total)), _level_slopes(at, len(h.total), n)
    parts = _variances(state, d, at.G, C, (own, noise))
    kept = (count >= LEAST_PEOPLE) & (parts.shared.sum(axis=1) >= LEAST_FACTOR)
    return _some(Errors(state.scale, at.rate, T, h.total[at.place], weight, parts), kept)


def _variances(
    state: _State, d: Groups, G: FloatArray, C: FloatArray, own_and_noise: tuple[FloatArray, FloatArray]
) -> Variances:
    """Give G V G', alone and stretched, (G e)^2 and G R G' by column, and the squares of pairs and of levels that no feature tells."""
    h, p = state.hidden, len(state.hidden.effects)
    main, crossed, widths = G[:, :p], G[:, p:], h.structure.widths
    shrunk = main * state.keep
    own = shrunk @ h.structure.B
    model, *wider = (np.einsum("ij,ij->i", own @ V, own) for V in (h.covariance, *state.covariances))
    contextual = np.add.reduceat(shrunk * h.effects, np.cumsum([0, *widths[:-1]]), axis=1) ** 2
    shared = np.zeros_like(contextual)  # of two columns together, pairs count
    for number, (a, b) in enumerate(h.structure.columns):
        shared[:, number] = ((main[:, a:b] @ symmetric_root(h.structure.correlation(number))) ** 2).sum(axis=1)
    stretched = np.column_stack(wider) if wider else np.zeros((len(G), 0))
    pairs, untold = (crossed**2).sum(axis=1), d.telling.untold * (C**2).sum(axis=1)
    return Variances(model, stretched, contextual, shared, pairs, untold, *own_and_noise)


def _weights(at: Parts, q: int) -> FloatArray:
    """Give how far a place's level moves when the logit of a part does, (m,)."""
    return np.asarray(at.slope / np.maximum(added(at.place, at.slope, q), 1e-300)[at.place])


def _level_slopes(at: Parts, q: int, n: int) -> FloatArray:
    """Give the derivative of the logit of each part by an effect of each group on its own, totals matched, (m, n)."""
    moved = np.zeros((q, n))
    moved[at.place, at.group] = _weights(at, q)
    slopes = -moved[at.place]
    slopes[np.arange(len(at.group)), at.group] += 1.0
    return slopes


def _own_factors(at: Parts, q: int) -> FloatArray:
    """Say how confounding of each group of each place on its own shows in its logit, (m,)."""
    w = _weights(at, q)
    return np.asarray((1.0 - w) ** 2 + added(at.place, w**2, q)[at.place] - w**2)


def reach_of(errors: Errors, constants: Confounding, level: float) -> FloatArray:
    """Give half the length of the intervals that the constants allow for, in logits, (m,)."""
    law = constants.of_effects
    fixed, by_tau = _variance_by_tau(errors, constants)
    return _quantile(np.sqrt(fixed + law.tau**2 * by_tau), 0.5 * (1.0 + level))


def reach_by_tau(errors: Errors, constants: Confounding, level: float, taus: FloatArray) -> FloatArray:
    """Give the same for other values of the tau of effects, (len(taus), m); a normal law's tau is that of levels no feature tells too."""
    fixed, by_tau = _variance_by_tau(errors, constants)
    if constants.tail is None:
        untold = errors.variances.untold[:, None]
        fixed, by_tau = fixed - constants.tau**2 * untold, by_tau + untold
    sd = np.sqrt(np.maximum(fixed + taus[:, None, None] ** 2 * by_tau, 0.0))
    return _quantile(sd.reshape(-1, sd.shape[2]), 0.5 * (1.0 + level)).reshape(sd.shape[:2])


def _variance_by_tau(e: Errors, c: Confounding) -> tuple[FloatArray, FloatArray]:
    """Split the variance in equally probable scenarios, (m, n): what is fixed, and what the square of the tau of effects multiplies."""
    law, v = c.of_effects, e.variances
    scale, model = (np.ones((len(e.scale), 1)), v.model[:, None]) if c.tail is None else (e.scale, v.stretched)
    rest = c.tau**2 * v.untold + c.omega**2 * v.own + v.noise
    fixed = model + law.distance**2 * (v.contextual @ scale**2) + rest[:, None]
    return np.asarray(fixed), np.asarray(v.shared @ scale**2 + c.pairs * v.pairs[:, None])


def _quantile(sd: FloatArray, tail: float) -> FloatArray:
    """Give the quantile, above one half, of normal laws of different standard deviations, (m, n), that are equally probable, (m,).

    Above zero the distribution function is concave, so that Newton's steps rise to the quantile from below.
    """
    if sd.shape[1] == 1:
        return np.asarray(special.ndtri(tail) * sd[:, 0])
    sd = np.maximum(sd, 1e-300)
    x = special.ndtri(tail) * sd.min(axis=1)
    for _ in range(QUANTILE_STEPS):
        z = np.minimum(x[:, None] / sd, FARTHEST)
        step = (tail - special.ndtr(z).mean(axis=1)) / (np.exp(-0.5 * z * z) / sd).mean(axis=1) * np.sqrt(2.0 * np.pi)
        x = x + step
        if np.all(np.abs(step) <= QUANTILE_TOLERANCE * x):
            break
    return np.asarray(x)
