"""Fit the model of persons: mode and scales in turn until neither moves, then how sure the scales are, question by question.

Effects at the single best scales are too sure of themselves and shrunk too far. The posterior of the logarithms of the scales is
Laplace's evidence times their priors. Of few places all scales are spread; of many only that of the effects, the others are known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from crosslevel.data.batches import Batches
from crosslevel.data.checks import count_jobs, read_list, read_seed
from crosslevel.data.learning import Learned, learn_people
from crosslevel.data.place_cells import Bins, Pairs, PlaceCells, TooManyKindsError, count_people, learn_bins
from crosslevel.data.totals import Totals
from crosslevel.ecological.covariance import Hyperparameters, Terms
from crosslevel.ecological.persons.aggregate import AggregateFit, explained_variance, fit_aggregate, prior_left
from crosslevel.ecological.persons.composition import Composition, measure_shares, rake, smooth_shares
from crosslevel.ecological.persons.laplace import Laplace, laplace, start_mode
from crosslevel.ecological.persons.model import (
    Design,
    Effects,
    Linear,
    PersonsFit,
    PersonsModel,
    Point,
    asked_next,
    effects_of,
    level_shares,
    observed_rate,
    rake_cells,
    raked,
    shares_left,
)
from crosslevel.ecological.persons.sweeps import place_effects, probabilities
from crosslevel.ecological.scales import fit_scales
from crosslevel.errors import ConvergenceError, unknown_name
from crosslevel.numerics.laplace import Binomial, Gaussian
from crosslevel.typing import AnyArray, FloatArray, Progress

__all__ = [
    "PRIOR",
    "count_in_bins",
    "describe_columns",
    "describe_composition",
    "design_of",
    "fit_persons",
    "fit_question",
    "learn_features",
    "priors",
]

if TYPE_CHECKING:
    from crosslevel.ecological.persons.estimator import EcologicalInference


LEAST_RELIABILITY, MOST_LEFT, LEAST_EXPLAINED = 0.1, 0.9, 0.45
"""Below this reliability of its shares, or above this share of its prior variance left, a column tells nothing; and the R2 of places on
composition below which estimates gained nothing over the neighborhood."""
ROUNDS = 30
CLOSE = 0.03
"""Largest change of a log hyperparameter from one round to the next that counts as standing still."""
SLOWEST = 0.1
ALONE = 24
"""Opposite pairs of draws at scales that stand alone."""
FEW_PLACES, FEW_PAIRS = 500, 100_000
"""Up to these all scales are spread: a mode takes milliseconds. In worlds of 300 places intervals that spread the scale of effects alone
hold .90 of the truths, those that spread all of them .96."""
SPREADS, EACH = 4, 16
"""Rounds of points over all scales, and points of each."""
FIRST = 0.7
"""Standard deviations of the first round, in those of the prior."""
WIDER = 1.3
"""Standard deviations of later rounds, in those found."""
LEAST = 1e-3
"""A point of less weight is left out."""
STEP = 0.5
"""Between points along the scale of effects alone, in logarithms."""
MOST = 7
NEGLIGIBLE = 0.04
"""A point of this weight relative to the heaviest ends the walk."""
PRIOR: Mapping[str, tuple[float, float]] = {
    "effect_variance": (float(np.log(0.25)), 1.2),
    "spatial": (float(np.log(0.1)), 2.0),
    "nugget": (float(np.log(0.03)), 2.0),
    "group": (float(np.log(0.03)), 2.0),
}
"""Normal priors of log variances. That of effects (sd of half a logit, within a factor 3.3 with probability .95) holds what would run
away: the evidence of the linear look-alike, since the look-alike itself depends on the effects. The others are wide."""
START = Hyperparameters(effect_variance=0.25, spatial=0.1, length=300.0, nugget=0.03, group=0.02)


def priors(terms: Terms) -> dict[str, tuple[float, float]]:
    """Give the normal priors of the log scales that the terms have; that of the length is wide, around a fifth of the usual distance."""
    known = {**PRIOR, "length": (float(np.log(0.2 * terms.typical_distance)), 1.5)}
    return {name: known[name] for name in terms.names}


def first_guess(terms: Terms) -> Hyperparameters:
    """Say where the search begins."""
    chosen = {name: getattr(START, name) for name in terms.names} | (
        {"length": 0.2 * terms.typical_distance} if terms.kind else {}
    )
    return Hyperparameters(**chosen)


def fit_question(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    *,
    fixed: Hyperparameters | None = None,
    start: Hyperparameters | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
    n_jobs: int = 1,
) -> PersonsFit:
    """Fit one question.

    Parameters
    ----------
    design, terms, likelihood
    fixed : Hyperparameters, optional
        Take these as they are.
    start : Hyperparameters, optional
        Begin here.
    prior : mapping of name to (mean, sd), optional
        Of log hyperparameters; :func:`priors` when not given.

    Raises
    ------
    ConvergenceError
        When the mode is not reached, or mode and scales do not come to rest.
    """
    context = np.zeros((terms.n_places, 0)) if design.context is None else design.context
    if fixed is not None:
        at = laplace(design, terms, fixed, likelihood, n_jobs=n_jobs, n_pairs=ALONE)
        return PersonsFit(fixed, at.linear, context, at.log_evidence, 1, 0.0, (), (at.point,))
    h = start or first_guess(terms)
    chosen = prior or priors(terms)
    found: Linear | None = None
    change = np.inf
    limit: tuple[str, ...] = ()
    # half way for the effects: their scale answers to itself and would swing; slower wherever one does
    full = {name: 0.6 if name == "effect_variance" else 1.0 for name in terms.names}
    pace = dict(full)
    before: dict[str, float] = {}
    turn = 0
    while turn < ROUNDS:
        turn += 1
        found = start_mode(design, terms, h, likelihood, found, n_jobs)
        better = fit_scales(design.rows(found.J), terms, Gaussian(found.z, found.W), start=h, prior=chosen)
        limit = better.at_limit
        moves = {name: np.log(getattr(better.hyperparameters, name) / getattr(h, name)) for name in terms.names}
        change = max(abs(v) for name, v in moves.items() if name not in limit) if len(limit) < len(moves) else 0.0
        if change < CLOSE:
            break
        for name, move in moves.items():
            if turn > 2:
                back = move * before[name] < 0.0
                pace[name] = max(0.5 * pace[name], SLOWEST) if back else min(1.5 * pace[name], full[name])
        before = moves
        h = Hyperparameters(
            **{name: float(getattr(h, name) * np.exp(pace[name] * moves[name])) for name in terms.names}
        )
    else:
        raise ConvergenceError(
            f"mode and scales did not come to rest in {ROUNDS} rounds (a log scale still moves by "
            f"{change:.2g}); fix hyperparameters, or use fewer columns."
        )
    if found is None:
        raise AssertionError("no turn was taken")
    at, points = points_of(design, terms, likelihood, found, h, chosen, n_jobs)
    h = at.point.hyperparameters
    return PersonsFit(h, at.linear, context, at.log_evidence, turn, float(change), limit, points)


def points_of(
    design: Design,
    terms: Terms,
    likelihood: Binomial,
    found: Linear,
    h: Hyperparameters,
    prior: Mapping[str, tuple[float, float]],
    n_jobs: int = 1,
) -> tuple[Laplace, tuple[Point, ...]]:
    """Give points for the scales around those of a fit; the approximation at the mean of log scales comes with them.

    Parameters
    ----------
    design, terms, likelihood
    found : Linear
        Mode at ``h``.
    h : Hyperparameters
    prior : mapping of name to (mean, sd)
        Of log scales.
    """
    posterior = _Posterior(design, terms, likelihood, prior, found, n_jobs)
    x = np.log([getattr(h, name) for name in terms.names])
    if terms.n_places > FEW_PLACES or len(design.pairs.cell) > FEW_PAIRS:
        posterior.walk(x)
    else:
        posterior.spread(x)
    return posterior.weighed()


class _Posterior:
    """The posterior of log scales, as far as it was looked at."""

    def __init__(
        self,
        design: Design,
        terms: Terms,
        likelihood: Binomial,
        prior: Mapping[str, tuple[float, float]],
        found: Linear,
        n_jobs: int,
    ) -> None:
        self.design, self.terms, self.likelihood, self.n_jobs = design, terms, likelihood, n_jobs
        self.prior = np.array([prior[name] for name in terms.names])
        self.start = found
        self.kept: list[Point] = []
        self.logs: list[FloatArray] = []
        self.heights: list[float] = []

    def at(self, x: FloatArray) -> Laplace:
        """Approximate at log scales."""
        h = self.terms.unpack(x)
        # other draws at every point: what they miss averages out
        return laplace(self.design, self.terms, h, self.likelihood, self.start, self.n_jobs, seed=len(self.kept))

    def look(self, x: FloatArray, extra: float = 0.0) -> float:
        """Approximate at log scales and keep the point; ``extra`` is added to its log weight."""
        found = self.at(x)
        off = (x - self.prior[:, 0]) / self.prior[:, 1]
        self.kept.append(found.point)
        self.logs.append(x)
        self.heights.append(found.log_evidence - 0.5 * float(off @ off) + extra)
        return self.heights[-1]

    def walk(self, x: FloatArray) -> None:
        """Go up and down the scale of effects in equal steps, until points weigh nothing."""
        ends = {1: 0, -1: 0}
        height = {0: self.look(x)}
        while len(height) < MOST:
            least = max(height.values()) + np.log(NEGLIGIBLE)
            sides = [side for side in ends if height[ends[side]] > least]
            if not sides:
                break
            side = max(sides, key=lambda s: height[ends[s]])
            ends[side] += side
            height[ends[side]] = self.look(x + STEP * ends[side] * np.eye(len(x))[0])

    def spread(self, x: FloatArray) -> None:
        """Draw points from normals, each round's from what the rounds before have found.

        Weights are relative to all rounds together, so that no point is heavy for having been unlikely (Cornuet et al. 2012,
        "Adaptive multiple importance sampling").
        """
        d, widest = len(x), np.diag(self.prior[:, 1] ** 2)
        mean, spread = x, FIRST**2 * widest
        asked = []
        z = stats.norm.ppf(stats.qmc.Sobol(d, scramble=True, seed=0).random(SPREADS * EACH))
        raw: list[float] = []
        for round_ in range(SPREADS):
            asked.append(stats.multivariate_normal(mean, spread))
            root = np.linalg.cholesky(spread)
            for deviate in z[round_ * EACH : (round_ + 1) * EACH]:
                # so far out that the prior cannot be factored: no weight
                with contextlib.suppress(ConvergenceError):
                    raw.append(self.look(mean + root @ deviate))
            logs = np.array(self.logs)
            proposed = special.logsumexp([np.atleast_1d(q.logpdf(logs)) for q in asked], axis=0)
            self.heights = list(np.array(raw) - proposed)
            weight = special.softmax(self.heights)
            mean, size = weight @ logs, 1.0 / float(weight @ weight)
            found = ((logs - mean).T * weight) @ (logs - mean)
            spread = WIDER**2 * (size * found + d * spread) / (size + d)

    def weighed(self) -> tuple[Laplace, tuple[Point, ...]]:
        """Approximate at the mean, and give all points with their weights."""
        weight = special.softmax(self.heights)
        points = tuple(replace(p, weight=float(w)) for p, w in zip(self.kept, weight, strict=True))
        kept = [p for p in points if p.weight > LEAST]
        whole = sum(p.weight for p in kept)
        return self.at(weight @ np.array(self.logs)), tuple(replace(p, weight=p.weight / whole) for p in kept)


def learn_features(
    model: EcologicalInference,
    stream: Batches,
    by: str,
    columns: Sequence[str] | None,
    weight: str | None,
    cluster: str | None = None,
    codes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Learned:
    """Go over the people once, to learn how their columns are read."""
    seed = read_seed(model.random_state)
    if model.likelihood == "aggregate":  # whatever the order of columns and the seed, the fit is the same
        seed, stream = 0, stream.select(sorted(n for n in stream.schema.names if n != cluster))
        columns = None if columns is None else sorted(read_list(columns, "columns"), key=str)
    return learn_people(
        stream,
        by=[by],
        columns=columns,
        weight=weight,
        categorical=[*read_list(model.categorical or (), "categorical"), *codes],
        seed=seed,
        n_jobs=count_jobs(model.n_jobs),
        progress=progress,
    )


def count_in_bins(
    stream: Batches,
    learned: Learned,
    n_bins: int,
    by: str,
    keys: Sequence[object],
    weight: str | None,
    cluster: str | None,
    progress: Progress | None,
) -> tuple[Bins, PlaceCells, list[str]]:
    """Count people by place and cell; with fewer bins of numbers where the kinds of people would not fit in memory."""
    if cluster is not None and cluster not in stream.schema.names:
        raise unknown_name("cluster", cluster, stream.schema.names)
    size = n_bins
    while True:
        bins = learn_bins(learned.encoder, learned.encoded_sample(), size)
        try:
            found = count_people(stream, bins, place=by, keys=keys, weight=weight, cluster=cluster, progress=progress)
        except TooManyKindsError:
            if size == 2 or not bins.edges:
                raise
            size = max(2, size // 2)
            continue
        told = f"Numbers are in at most {size} bins, not {n_bins}: with more, the kinds of people do not fit in memory."
        return bins, found, [told] if size < n_bins else []


def fit_persons(
    cells: PlaceCells,
    bins: Bins,
    terms: Terms,
    totals: Totals,
    *,
    likelihood: str = "aggregate",
    known: FloatArray | None = None,
    interactions: Sequence[Sequence[str]] | None = None,
    contextual_variance: float = 0.0,
    fixed: Sequence[Hyperparameters] | None = None,
    inference: str = "laplace",
    seed: int = 0,
    n_jobs: int = 1,
) -> PersonsModel:
    """Fit every question of the chain, each among those who are left after the one before.

    Parameters
    ----------
    cells : PlaceCells
        People by place and cell.
    bins : Bins
    terms : Terms
    totals : Totals
    likelihood : {"aggregate", "exact"}
        Place effects on the logit of the total, with people raked to smoothed shares; or on each person's, people as they are.
    known : (q, n_levels), optional
        Shares of places that are counted, NaN where they are not.
    interactions : sequence of (column, column), optional
    contextual_variance : float
        Variance of the effect that a place's composition has on everybody there, in units of that of people's own effects.
    fixed : sequence of Hyperparameters, optional
        One for each question, taken as they are.
    inference : {"laplace", "nuts"}
        Approximate the posterior, or sample it.
    seed : int
        Of the sampler.
    """
    effects = effects_of(bins, interactions)
    codes, pairs, raking, composition = effects.codes(cells.codes), cells.pairs, None, None
    if likelihood == "aggregate":
        raking, composition = _smooth(cells, effects, codes, known)
        pairs = replace(pairs, weight=raked(codes[:, : len(effects.sizes)], pairs, raking))
    shares = level_shares(pairs, codes, len(effects.B))
    everybody = cells.total @ shares / cells.total.sum()
    context = None
    if contextual_variance > 0:
        context = np.sqrt(contextual_variance) * ((shares - everybody) @ effects.B)
    fits: list[AggregateFit | PersonsFit] = []
    for stage in range(len(totals.trials)):
        design = Design(codes, effects.B, pairs, context)
        counted = Binomial(totals.successes[stage], totals.trials[stage])
        held = None if fixed is None else fixed[stage]
        if likelihood == "aggregate":
            fits.append(fit_aggregate(design, terms, counted, cells.total, fixed=held, n_jobs=n_jobs))
        else:
            found = fit_question(design, terms, counted, fixed=held, n_jobs=n_jobs)
            if inference == "nuts":
                from crosslevel.ecological.persons.nuts import sample_posterior

                drawn = sample_posterior(design, terms, counted, found, seed=seed + stage, fixed=fixed is not None)
                found = replace(found, sampled=drawn)
            fits.append(found)
        if stage + 1 < len(totals.trials):
            pairs = _left(design, fits[-1], totals, stage, n_jobs)
    model = PersonsModel(bins, effects, terms, tuple(fits), contextual_variance, everybody, raking)
    last = fits[-1]
    if composition is None or not isinstance(last, AggregateFit):
        return model
    counted_ = totals.trials[-1] > 0
    return replace(
        model,
        reliability=composition.reliability,
        segregation=composition.segregation,
        prior_left=prior_left(last, effects.B, everybody, effects.columns),
        explained=explained_variance(last.z[counted_], composition.shares[counted_]),
        sampling=composition.sampling,
    )


def _smooth(
    cells: PlaceCells, effects: Effects, codes: AnyArray, known: FloatArray | None
) -> tuple[FloatArray, Composition]:
    """Smooth the shares of places, and find factors that rake their people to them."""
    levels, columns = np.ascontiguousarray(codes[:, : len(effects.sizes)]), effects.columns
    sampled = measure_shares(levels, cells.pairs, cells.total, cells.by_cluster(), columns, cells.squares.sum(axis=1))
    exact = None if known is None else np.asarray(np.isfinite(known).all(axis=0))
    if known is not None:
        sampled = replace(sampled, shares=np.where(np.isnan(known), sampled.shares, known))
    found = smooth_shares(sampled, exact)
    return rake(levels, cells.pairs, found.shares, columns), found


def describe_columns(model: PersonsModel) -> dict[str, Any]:
    """Say how well the shares of each column are measured, what its effects still owe to the prior, and R2 of the places."""
    if model.raking is None:
        return {}

    def listing(values: FloatArray) -> str:
        return ", ".join(f"{name} {value:.2f}" for name, value in zip(model.bins.names, values, strict=True))

    return {
        "reliability_of_shares": listing(model.reliability),
        "prior_variance_left": listing(model.prior_left),
        "r2_of_places_on_composition": model.explained,
    }


def describe_composition(model: PersonsModel, cluster: str | None) -> list[str]:
    """Say what a reader must know about who lives where, in sentences."""
    if model.raking is None:
        return []
    said = []
    if cluster is None:
        said.append(
            "People count as drawn one by one; name the column of their households in fit(cluster=...), if there is one: those of a "
            "household are alike, and shares of places are less sure than they seem."
        )
    told = zip(model.bins.names, model.reliability, model.prior_left, strict=True)
    said += [
        f"{name}: the totals tell next to nothing of it (reliability of its shares {reliability:.2f}, prior variance left {left:.2f}); "
        "its groups are answered with their neighborhood and the prior's interval."
        for name, reliability, left in told
        if reliability < LEAST_RELIABILITY or left > MOST_LEFT
    ]
    if model.explained < LEAST_EXPLAINED:
        said.append(
            f"Who lives in a place explains little of its total (R2 {model.explained:.2f}, below {LEAST_EXPLAINED}): columns whose truth "
            "is known were then hardly estimated better than by the neighborhood."
        )
    return said


def design_of(model: PersonsModel, cells: PlaceCells, totals: Totals, stage: int, n_jobs: int = 1) -> Design:
    """Make the design of a fitted question again: those who were asked it."""
    pairs, codes = rake_cells(model, cells).pairs, model.effects.codes(cells.codes)
    for before in range(stage):
        pairs = _left(Design(codes, model.effects.B, pairs), model.fits[before], totals, before, n_jobs)
    context = model.fits[stage].context
    return Design(codes, model.effects.B, pairs, context if context.shape[1] else None)


def _left(design: Design, found: AggregateFit | PersonsFit, totals: Totals, stage: int, n_jobs: int) -> Pairs:
    """Weigh people by their probability of being asked the next question."""
    pairs, rate = design.pairs, observed_rate(totals, stage)
    beta, guess = (found.linear.beta, found.linear.f) if isinstance(found, PersonsFit) else (found.beta, found.z)
    eta = design.eta(beta)
    f = place_effects(pairs, eta, rate, guess, n_jobs)
    left = asked_next(totals, stage, probabilities(pairs, eta, f)) * pairs.weight
    return replace(pairs, weight=shares_left(left, pairs))
