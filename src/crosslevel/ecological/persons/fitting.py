"""Fit the model of persons, question by question, and say the rates of whole places: those fitted, those held out, and new ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks
from crosslevel.data.people import People
from crosslevel.data.people_columns import fewer_bins, warn_outside_fit
from crosslevel.data.place_cells import Bins, Pairs, PlaceCells, count_people
from crosslevel.data.places import Totals
from crosslevel.ecological.covariance import Hyperparameters, Moments, Terms
from crosslevel.ecological.persons.aggregate import (
    AggregateFit,
    explained_variance,
    fit_aggregate,
    new_logits,
    predict_logits,
    prior_left,
)
from crosslevel.ecological.persons.composition import (
    Measured,
    counted_shares,
    measure_shares,
    rake,
    smooth_shares,
)
from crosslevel.ecological.persons.model import (
    Design,
    Effects,
    PersonsModel,
    asked_next,
    effects_of,
    level_shares,
    observed_rate,
    people_shares,
    rake_cells,
    raked,
    shares_left,
)
from crosslevel.ecological.persons.sweeps import place_effects, probabilities
from crosslevel.ecological.validation import check_inhabited
from crosslevel.errors import TooManyKindsError
from crosslevel.numerics.laplace import Binomial
from crosslevel.typing import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference


LEAST_RELIABILITY, MOST_LEFT, LEAST_EXPLAINED = 0.1, 0.9, 0.45
"""The reliability of a column's shares below which, and the share of its prior variance left above which, readers are told; and the R2 of
places on composition below which estimates gained nothing over the neighborhood."""
FEWEST_PLACES = 40
"""Of the worlds and states whose truth intervals were compared with."""
FEWEST_TRIALS = 30
"""Median of the trials of a place below which totals are more often samples than counts of everybody."""
FEWEST_PEOPLE = 100
"""Effective number of people of a place below which its shares say too little for intervals to hold what they promise."""


def check_parameters(model: EcologicalInference) -> None:
    """Refuse parameters that mean nothing, or that cannot act with the others given."""
    if model.spatial is None:
        checks.refuse_idle(model, ["inducing_points"], "with spatial=None; name a spatial kernel")
    if model.inducing_points is not None:
        checks.check_whole(model.inducing_points, "inducing_points", 2)
    checks.check_whole(model.n_bins, "n_bins", 2)


def count_in_bins(
    people: People, bins: Bins, n_bins: int, keys: Sequence[object], counted: bool = False
) -> tuple[Bins, PlaceCells, list[str]]:
    """Count people by place and cell; with fewer bins of numbers where the kinds of people would not fit in memory."""
    size = n_bins
    while True:
        try:
            found = count_people(people, bins, keys, clusters=people.cluster is not None, counted=counted)
        except TooManyKindsError:
            if size == 2 or not bins.edges:
                raise
            size = max(2, size // 2)
            bins = fewer_bins(people, bins, size)
            continue
        told = f"Numbers are in at most {size} bins, not {n_bins}: with more, the kinds of people do not fit in memory."
        return bins, found, [told] if size < n_bins else []


@dataclass(frozen=True, eq=False)
class Given:
    """What is known and wanted beside people and totals.

    Attributes
    ----------
    known : (q, n_levels) or None
        Shares of places that are counted, NaN where they are not.
    counted : bool
        Whether all shares are counted.
    columns : (q, p) or None
        What acts on everybody of a place.
    interactions : sequence of (column, column) or None
    contextual_variance : float
        Variance of the effect that a place's composition has on everybody there, in units of that of people's own effects.
    fixed : sequence of Hyperparameters or None
        One for each question, taken as they are.
    """

    known: FloatArray | None = None
    counted: bool = False
    columns: FloatArray | None = None
    interactions: Sequence[Sequence[str]] | None = None
    contextual_variance: float = 0.0
    fixed: Sequence[Hyperparameters] | None = None


def fit_persons(
    cells: PlaceCells, bins: Bins, terms: Terms, totals: Totals, given: Given | None = None
) -> PersonsModel:
    """Fit every question of the chain, each among those who are left after the one before.

    Parameters
    ----------
    cells : PlaceCells
        People by place and cell.
    bins : Bins
    terms : Terms
    totals : Totals
    given : Given, optional
    """
    given = given or Given()
    effects = effects_of(bins, given.interactions)
    codes = effects.codes(cells.codes)
    raking, smoothed, measured = _smooth(cells, effects, codes, given)
    pairs = replace(cells.pairs, weight=raked(codes[:, : len(effects.sizes)], cells.pairs, raking))
    shares = level_shares(pairs, codes, len(effects.B))
    everybody = cells.total @ shares / cells.total.sum()
    context = [] if given.columns is None else [given.columns]
    if given.contextual_variance > 0:
        context.insert(0, np.sqrt(given.contextual_variance) * ((shares - everybody) @ effects.B))
    fits: list[AggregateFit] = []
    for stage in range(len(totals.trials)):
        design = Design(codes, effects.B, pairs, np.hstack(context) if context else None)
        seen = Binomial(totals.successes[stage], totals.trials[stage])
        fits.append(fit_aggregate(design, terms, seen, cells.total, given.fixed[stage] if given.fixed else None))
        if stage + 1 < len(totals.trials):
            pairs = _left(design, fits[-1], totals, stage)
    last, asked = fits[-1], totals.trials[-1] > 0
    left = prior_left(last, effects.B, everybody, effects.columns)
    explained = explained_variance(last.z[asked], smoothed[asked])
    known = people_shares(effects, cells)
    return PersonsModel(bins, effects, terms, tuple(fits), raking, measured, left, explained, known)


def _smooth(
    cells: PlaceCells, effects: Effects, codes: AnyArray, given: Given
) -> tuple[FloatArray, FloatArray, Measured]:
    """Find factors that rake the people of places to smoothed shares, these shares, and how well they are known."""
    levels, columns, known = np.ascontiguousarray(codes[:, : len(effects.sizes)]), effects.columns, given.known
    if given.counted:
        shares = level_shares(cells.pairs, levels, columns[-1][1])
        return np.ones_like(shares), shares, counted_shares(shares, columns)
    drawn = None if cells.clusters is not None else cells.count.sum(axis=1).astype(np.float64)
    squares = cells.squares.sum(axis=1)
    sampled = measure_shares(levels, cells.pairs, cells.total, cells.by_cluster(), columns, squares, drawn)
    exact = None if known is None else np.asarray(np.isfinite(known).all(axis=0))
    if known is not None:
        sampled = replace(sampled, shares=np.where(np.isnan(known), sampled.shares, known))
    smoothed, measured = smooth_shares(sampled, exact)
    return rake(levels, cells.pairs, smoothed, columns), smoothed, measured


def effective_sizes(cells: PlaceCells) -> FloatArray:
    """Give Kish's effective number of people of each place, (q,)."""
    return np.asarray(cells.total**2 / np.maximum(cells.squares.sum(axis=1), 1e-300))


def describe_columns(model: PersonsModel) -> dict[str, Any]:
    """Say how well the shares of each column are measured, what its effects still owe to the prior, and R2 of the places."""

    def listing(values: FloatArray) -> str:
        return ", ".join(f"{name} {value:.2f}" for name, value in zip(model.bins.names, values, strict=True))

    return {
        "reliability_of_shares": listing(model.measured.reliability),
        "prior_variance_left": listing(model.prior_left),
        "r2_of_places_on_composition": model.explained,
    }


def describe_field(model: PersonsModel, totals: Totals) -> list[str]:
    """Say where the field over the map is approximated, and how far it is from the exact one."""
    said = []
    for name, fit in zip(totals.questions, model.fits, strict=True):
        if (off := fit.approximation) is not None:
            said.append(
                f"The field over {off.locations:,} locations stands on {off.points:,} points ({name}): on {off.places:,} places around "
                f"three of them it moves posterior means by {off.mean:.2g} percentage points and standard errors by {off.std_error:.1%} "
                "(root mean square, against the exact field among these places). inducing_points sets their number."
            )
    return said


def describe_totals(totals: Totals) -> list[str]:
    """Say where totals look like samples."""
    middle = float(np.median(totals.trials[int(totals.turnout)]))
    if middle >= FEWEST_TRIALS:
        return []
    return [
        f"Totals of places are taken as exact, and half of the places have at most {middle:g} trials: if these are samples of the "
        "people there, DistributionRegression(match_totals=False) predicts the places from them instead."
    ]


def describe_composition(
    model: PersonsModel, totals: Totals, cluster: str | None, cells: PlaceCells, counted: bool = False
) -> list[str]:
    """Say what a reader must know about who lives where, in sentences."""
    said = []
    if not counted and (typical := float(np.median(effective_sizes(cells)))) < FEWEST_PEOPLE:
        said.append(
            f"Places have few people in the sample (effective number {typical:.0f} at the median, below {FEWEST_PEOPLE}): shares of their "
            "groups, and the bounds that follow from them, are sampled too, and intervals are too short. Give more people, margins= "
            "(counts of a census), or larger places."
        )
    if cluster is None and not counted:
        said.append(
            "People count as drawn one by one; name the column of their households, People(cluster=...), if there is one: those of a "
            "household are alike, and shares of places are less sure than they seem."
        )
    for name, reliability, left in zip(model.bins.names, model.measured.reliability, model.prior_left, strict=True):
        reasons = []
        if reliability < LEAST_RELIABILITY:
            reasons.append(f"its shares of places are mostly sampling error (reliability {reliability:.2f})")
        if left > MOST_LEFT:
            reasons.append(f"the totals leave {left:.0%} of the prior variance of its effects")
        if reasons:
            said.append(f"{name}: {' and '.join(reasons)}. Compare its groups with their neighborhood.")
    if model.explained < LEAST_EXPLAINED:
        said.append(
            f"Who lives in a place explains little of its total (R2 {model.explained:.2f}, below {LEAST_EXPLAINED}): columns whose truth "
            "is known were then hardly estimated better than by the neighborhood."
        )
    if (n_places := len(observed_rate(totals, 0))) < FEWEST_PLACES:
        said.append(
            f"{n_places} places are fewer than the {FEWEST_PLACES} with which intervals were tested: differences between people of more "
            "than a logit (those of age often are) may lie outside them. Leave ordered columns out of categorical, or add a survey."
        )
    return said


def design_of(model: PersonsModel, cells: PlaceCells, totals: Totals, stage: int) -> Design:
    """Make the design of a fitted question again: those who were asked it."""
    pairs, codes = rake_cells(model, cells).pairs, model.effects.codes(cells.codes)
    for before in range(stage):
        pairs = _left(Design(codes, model.effects.B, pairs), model.fits[before], totals, before)
    context = model.fits[stage].context
    return Design(codes, model.effects.B, pairs, context if context.shape[1] else None)


def _left(design: Design, found: AggregateFit, totals: Totals, stage: int) -> Pairs:
    """Weigh people by their probability of being asked the next question."""
    pairs = design.pairs
    eta = design.eta(found.beta)
    f = place_effects(pairs, eta, observed_rate(totals, stage), found.z)
    left = asked_next(totals, stage, probabilities(pairs, eta, f)) * pairs.weight
    return replace(pairs, weight=shares_left(left, pairs))


def fitted_rates(model: PersonsModel, stage: int) -> Moments:
    """Give mean and variance of the logit of every fitted place's rate."""
    fit, every = model.fits[stage], np.arange(model.terms.n_places)
    return predict_logits(fit, model.terms, every, fit.logit, fit.slopes, fit.context, every)


def unseen(fit: AggregateFit, terms: Terms, seen: IntArray, design: Design, places: IntArray) -> Moments:
    """Predict the logit of the rate of places whose totals the fit has not seen.

    Parameters
    ----------
    fit : AggregateFit
    terms : Terms
        Over the places of the fit and the others.
    seen : (n,) int
        The places of the fit among them.
    design : Design
        Of the places asked for.
    places : (m,) int
        Their numbers among all.
    """
    logit, G = new_logits(fit, design)
    context = np.zeros((len(places), 0)) if design.context is None else design.context
    return predict_logits(fit, terms, seen, logit, G, context, places)


def new_places(
    fitted: EcologicalInference, terms: Terms, new: list[object], people: People, table: pa.Table
) -> Moments:
    """Predict the logit of new places' rates from their people; ``terms`` are over the fitted and the new, ``table`` holds the new."""
    model, q = fitted.model_, len(fitted.places_)
    warn_outside_fit(people, model.bins.encoder)
    cells = count_people(people, model.bins, new, counted=fitted.counted_)
    check_inhabited([key for key, total in zip(new, cells.total, strict=True) if not total > 0])
    columns = None if model.covariates is None else model.covariates.read(table)
    design = Design(model.effects.codes(cells.codes), model.effects.B, cells.pairs, columns)
    return unseen(model.fits[0], terms, np.arange(q), design, np.arange(q, q + len(new)))


def held_out_places(fitted: EcologicalInference, stage: int, folds: Iterable[IntArray]) -> Moments:
    """Predict the logit of every place from those outside its fold, scales learned anew each time but where they were given."""
    totals, cells, terms = fitted.places_.totals, fitted.cells_, fitted.model_.terms
    design, q = design_of(fitted.model_, cells, totals, stage), terms.n_places
    fixed = None if fitted.hyperparameters is None else fitted.model_.fits[stage].hyperparameters
    mean, variance = np.zeros(q), np.zeros(q)
    for test in folds:
        train = np.setdiff1d(np.arange(q), test)
        counted = Binomial(totals.successes[stage][train], totals.trials[stage][train])
        fit = fit_aggregate(design.take(train), terms.take(train), counted, cells.total[train], fixed)
        at = unseen(fit, terms, train, design.take(test), test)
        mean[test], variance[test] = at.mean, at.variance
    return Moments(mean, variance)
