"""``DistributionRegression``: the regression of totals on mean embeddings of people, with a field over the map."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from scipy import sparse

from crosslevel.data import checks
from crosslevel.data.batches import Batches
from crosslevel.data.cells import warn_new_people
from crosslevel.data.queries import ALL, SUBGROUP
from crosslevel.data.surveys import PublishedShares
from crosslevel.data.totals import PlaceTotals, check_people, match_places
from crosslevel.ecological.answers import Source
from crosslevel.ecological.claims import read_evidence
from crosslevel.ecological.covariance import MOST_DISTANCES, Moments, Terms, read_hyperparameters
from crosslevel.ecological.estimate import PlaceEstimator, check_choices
from crosslevel.ecological.regression.evidence import Evidence, weigh_evidence
from crosslevel.ecological.regression.model import RegressionModel, Sampling, fit_regression, sampling_of
from crosslevel.ecological.regression.weights import EXACT_PLACES, ManyPlaces, describe_directions, fit_weights
from crosslevel.ecological.scales import Fit
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.numerics.kernels import METRICS
from crosslevel.typing import FloatArray, IntArray, Progress, RandomState

SAME_VECTOR = 1e-5
"""Relative distance of two embeddings of the same people that is rounding, of weights and features in single precision too."""


class DistributionRegression(PlaceEstimator):
    """Regress totals by place on the mean embedding of each place's people and on its position.

    The people of a place become one vector, the mean of their features, and a Gaussian process of that vector and of the place's
    position explains the totals; its value at the vector of a subgroup is the subgroup's answer. Every draw is then shifted so that
    the subgroups of a place add up to its total. It predicts the totals of places well; for subgroups use
    :class:`crosslevel.EcologicalInference`, which was nearer to the truth wherever it is known.

    Parameters
    ----------
    n_features : int, default 4096
        Length of the vectors; see :class:`crosslevel.MeanEmbedding` for this and the next three.
    feature_map : str, default "sorf"
        The feature map.
    bandwidth : "median" or float, default "median"
        Width of the kernel between people.
    categorical : sequence of str, optional
        Columns of numbers that are codes.
    spatial : {"matern12", "matern32", "matern52"} or None, default "matern32"
        The field over the map; None for none.
    metric : {"sphere", "plane"}, default "sphere"
        Chord distances in kilometers between longitudes and latitudes, or plain distances between any two coordinates (degrees,
        as in the paper).
    kernel : {"sum", "product"}, default "sum"
        Add the field to what composition says, or let the weights of composition vary over the map.
    nugget : bool, default True
        Give every place an effect of its own.
    rank : int, optional
        Leading directions of the features that carry the weights. By default all features are used up to 3,000 places (and with
        ``kernel="product"`` or ``evidence``), and 300 directions beyond, without any matrix of all places; what that changes is said.
    group : str or two names, optional
        Column of places, such as the state: an effect shared by all with the same value.
    match_totals : bool, default True
        Shift draws so that subgroups add up to the totals. False gives the paper's answers, which do not.
    sampling_error : bool, default True
        Add what the sampling of few people does to a subgroup's vector.
    hyperparameters : mapping of name to number, optional
        Take these in place of learning them, all that the prior has: ``effect_variance`` (of the weights of features); ``spatial`` and
        ``length`` of the field (the length alone with ``kernel="product"``); ``nugget``, unless False; ``group``, where there is one. A
        sequence of mappings gives every question its own.
    n_restarts : int, default 2
        How many first guesses of the hyperparameters are followed to the end.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the features and of the draws.
    n_jobs : int, optional
        Threads of the passes over people; all cores when not given. Changes no number.

    Attributes
    ----------
    hyperparameters_ : tuple of Hyperparameters
        One for each question (turnout, then the outcomes); variances in squared logits, the length in kilometers or in the unit of
        the coordinates.
    log_evidence_ : float
        Laplace's approximation of the log evidence, of all questions together.
    convergence_ : dict
        How the fit ended and what was learned. A fit that does not converge raises :class:`crosslevel.errors.ConvergenceError`.
    model_ : RegressionModel
    embeddings_ : Embeddings
        Of the places used, in sorted order of their keys.
    embedder_ : MeanEmbedding
    evidence_ : Evidence or None
    places_ : PlaceTotals
    place_weight_, place_people_ : (q,)
        Weight and number of their people.
    columns_ : tuple of str
        The features used.
    warnings_ : tuple of str
        What was left out and what to know; every result repeats it.
    seconds_ : dict
        Time of the passes over people and of the fit.

    See Also
    --------
    crosslevel.EcologicalInference : the same questions, people deciding one by one.

    Notes
    -----
    mu_i = sum_j w_ij phi(x_ij) / sum_j w_ij is the mean embedding of place i, centered at the weighted mean over places;

        f_i = bias + mu_i . w + s_i + g_i + e_i,    k_i ~ Binomial(n_i, 1 / (1 + exp(-f_i))),

    w ~ N(0, effect_variance I), s a Matern field over the map, g the effect of a group of places, e the nugget. f is approximated
    by Laplace's method, the hyperparameters maximize its evidence. A subgroup of place i with embedding mu_i^g has
    f_i^g = bias + mu_i^g . w + s_i + g_i + e_i; its rate is 1 / (1 + exp(-f_i^g - c_i)), where c_i, one number per place and draw,
    makes the subgroups and the rest of the place add up to k_i / n_i. Turnout and several outcomes are a chain of such questions.

    Corrected against the paper: embeddings are centered and the level has its own variance (the constant part of phi would eat that of
    the weights); the nugget (a binomial alone claims certainty to a tenth of a point); distances over the sphere, not degrees; answers
    add up to the totals and lie inside the deterministic bounds; roll-ups from joint draws, weighted by the subgroup's people or its
    predicted voters; the mean of the rate, not the rate at the mean; the gradient of the evidence moves with the mode. Without all
    that: ``match_totals=False, nugget=False, metric="plane", sampling_error=False``.

    References
    ----------
    Flaxman, S., Wang, Y.-X. and Smola, A. (2015). Who supported Obama in 2012? Ecological inference through distribution
    regression. KDD.

    Examples
    --------
    A survey that asked 500 women is evidence:

    >>> from crosslevel.data.simulate import nation
    >>> world = nation(40, 100, n_states=4)
    >>> counts = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
    >>> model = DistributionRegression(n_features=128, categorical=["sex"])
    >>> found = model.fit(world.people, world.places, **counts).estimate(by="sex", rollup="all", n_draws=200)
    >>> poll = {"subgroup": ["sex == 2"], "dem": [300], "votes": [500]}
    >>> asked = model.fit(world.people, world.places, **counts, evidence=poll).estimate(by="sex", rollup="all", n_draws=200)
    >>> bool(asked["std_error"][1] < 0.5 * found["std_error"][1])
    True
    """

    model_: RegressionModel
    embedder_: MeanEmbedding
    embeddings_: Embeddings
    evidence_: Evidence | None
    log_evidence_: float

    _method = "distribution regression"
    _intervals = ("model",)
    _about_subgroups = (
        "DistributionRegression predicts the totals of places well and subgroups poorly: on columns whose truth is known it was further "
        "off than the neighborhood column. Use EcologicalInference for subgroups."
    )

    def __init__(
        self,
        n_features: int = 4096,
        *,
        feature_map: str = "sorf",
        bandwidth: str | float = "median",
        categorical: Sequence[str] | None = None,
        spatial: str | None = "matern32",
        metric: str = "sphere",
        kernel: str = "sum",
        nugget: bool = True,
        rank: int | None = None,
        group: str | Sequence[str] | None = None,
        match_totals: bool = True,
        sampling_error: bool = True,
        hyperparameters: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
        n_restarts: int = 2,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_features = n_features
        self.feature_map = feature_map
        self.bandwidth = bandwidth
        self.categorical = categorical
        self.spatial = spatial
        self.metric = metric
        self.kernel = kernel
        self.nugget = nugget
        self.rank = rank
        self.group = group
        self.match_totals = match_totals
        self.sampling_error = sampling_error
        self.hyperparameters = hyperparameters
        self.n_restarts = n_restarts
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        people: Any,
        places: object,
        *,
        by: str,
        successes: str | None = None,
        trials: str | None = None,
        weight: str | None = None,
        coords: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        outcomes: Sequence[str] | None = None,
        population: str | None = None,
        evidence: object = None,
        where: str | None = None,
        unmatched: str = "error",
        progress: Progress | None = None,
    ) -> Self:
        """Learn how totals depend on who lives in a place.

        Parameters
        ----------
        people, places, by, successes, trials, weight, coords, columns, outcomes, population, where, unmatched, progress
            As in :meth:`crosslevel.EcologicalInference.fit`.
        evidence : dataframe, optional
            What is known about subgroups: a row for each result, with ``subgroup`` (a query over people, nothing for
            everybody), any columns of places that say where it holds (missing: everywhere), and the columns of counts. Each
            row is binomial with its own trials: divide them by a design effect before. It tells whom people voted for, not
            whether.
        """
        self._forget()
        self._check_parameters()
        begun = time.perf_counter()
        seed = checks.read_seed(self.random_state)
        named: dict[str, Any] = {
            "successes": successes,
            "trials": trials,
            "outcomes": outcomes,
            "population": population,
        }
        if evidence is not None and self.rank is not None:
            raise InputError(
                "rank and evidence are both given, and evidence needs all features; leave one of them out."
            )
        stream, found = self._read(people, places, where, by=by, coords=coords, **named)
        if evidence is not None and len(found) > MOST_DISTANCES:
            raise InputError(
                f"evidence needs matrices of all places, of at most {MOST_DISTANCES:,}, and places has {len(found):,} rows; leave it out."
            )
        claims = None if evidence is None else read_evidence(PublishedShares(evidence), found, stream.schema, **named)
        embedder = self._new_embedder(seed)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            sample = embedder._fit_and_sample(stream, by, columns, weight, None, progress)
            bags = embedder.transform(stream, subgroups=(claims.queries or None) if claims else None, progress=progress)
        found, whole = _match(bags, found, unmatched)
        known = None if claims is None else weigh_evidence(claims, bags, whole, found)
        terms, embedded = self._terms(found), time.perf_counter()
        seen = (whole.values, whole.weight, terms, found.totals.successes, found.totals.trials)
        how: dict[str, Any] = {
            "sampling": self._sampling(embedder, sample, whole),
            "n_restarts": self.n_restarts,
            "fixed": read_hyperparameters(self.hyperparameters, terms, found.totals.questions),
        }
        many = self.kernel == "sum" and evidence is None and len(found) > EXACT_PLACES
        model: RegressionModel
        if many or self.rank is not None:
            model = fit_weights(*seen, rank=self.rank, **how)
        else:
            model = fit_regression(*seen, evidence=known or None, **how)
        notes = [*(str(w.message) for w in said), *found.notes, *(() if known is None else known.notes)]
        if isinstance(model, ManyPlaces):
            notes += describe_directions(model, found.totals.questions)
        self.embedder_, self.embeddings_, self.evidence_ = embedder, whole, known or None
        self.log_evidence_ = float(sum(fit.mode.log_evidence for fit in model.fits))
        arguments = {"by": by, "weight": weight, **named, "coords": coords, "columns": columns, "where": where}
        self._keep(people, model, found, whole.weight, whole.n_rows, embedder.columns_, notes, arguments, seed)
        if self.evidence_ is not None:
            self.data_["evidence"] = self.evidence_.fingerprint
            self.convergence_["evidence_rows"] = len(self.evidence_)
        self.seconds_ = {"people": embedded - begun, "fit": time.perf_counter() - embedded}
        return self

    def _check_parameters(self) -> None:
        self._check_common()
        check_choices(self, {"kernel": ("sum", "product"), "metric": METRICS})
        if self.spatial is None:
            checks.refuse_idle(self, ["metric"], "with spatial=None; name a spatial kernel")
        checks.check_whole(self.n_restarts, "n_restarts", 1)
        if self.rank is not None:
            checks.check_whole(self.rank, "rank", 1)
            if self.kernel == "product":
                checks.refuse_idle(self, ["rank"], "with kernel='product'; leave one of them out")
        if self.kernel == "product" and self.spatial is None:
            raise InputError("kernel='product' multiplies by the spatial kernel, and spatial=None; name one.")
        if self.hyperparameters is not None:
            checks.refuse_idle(self, ["n_restarts"], "with hyperparameters given; leave them out to learn them")
        if self.feature_map == "linear":
            checks.refuse_idle(self, ["n_features", "bandwidth"], "with feature_map='linear'; name another map")

    def _holds_all_places(self) -> str:
        return "kernel='product'" if self.kernel == "product" else ""

    def _new_embedder(self, seed: int) -> MeanEmbedding:
        return MeanEmbedding(
            self.n_features,
            self.feature_map,
            self.bandwidth,
            categorical=self.categorical,
            random_state=seed,
            n_jobs=self.n_jobs,
        )

    def _sampling(self, embedder: MeanEmbedding, sample: FloatArray, whole: Embeddings) -> Sampling | None:
        """Prepare what the sampling of people does to the embedding of a part, from the embedder's sample of them."""
        if not self.sampling_error:
            return None
        features = embedder.feature_map_.transform(sample)
        return sampling_of(features, whole.values, whole.weight, whole.effective_size)

    def _source(
        self, request: Request, question: Question, people: Batches, progress: Progress | None
    ) -> tuple[Source, list[str]]:
        from crosslevel.ecological.regression.parts import RegressionSource, cut

        by, places = self.places_.by, self.places_
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            found = self.embedder_.transform(
                people.select(where=request.where),
                by=[by, *request.by],
                subgroups=request.subgroups or None,
                progress=progress,
            )
            everybody = found if request.where is None else self.embedder_.transform(people, by=by)
        _check_same(everybody, places, self.embeddings_)
        parts = cut(found, request, self.embeddings_, places.keys)
        return RegressionSource(self.model_, parts), [str(w.message) for w in said]

    def _describe_fit(self, fit: Fit) -> dict[str, Any]:
        return {
            "log_evidence": fit.mode.log_evidence,
            "gradient_at_mode": fit.mode.gradient,
            "newton_steps": fit.mode.iterations,
            "evidence_slope": fit.slope,
            "evaluations": fit.evaluations,
            "log_evidence_by_start": list(fit.evidences),
        }

    def _fitted_moments(self, stage: int) -> Moments:
        return self.model_.moments(stage, self.model_.embeddings, np.arange(len(self.places_)))

    def _new_moments(self, stage: int, terms: Terms, new: list[object], people: Batches, table: pa.Table) -> Moments:
        from crosslevel.ecological.validation import check_inhabited

        by, q = self.places_.by, len(self.places_)
        warn_new_people(people, self.embedder_.encoder_)
        found = self.embedder_.transform(people, by=by)
        rows = {key: i for i, key in enumerate(found.key_table[by].to_pylist())}
        check_inhabited([key for key in new if key not in rows])
        M = found.values[[rows[key] for key in new]]
        return self.model_.new_moments(stage, terms, M, np.arange(q, q + len(new)))

    def _held_out_moments(self, stage: int, folds: Iterable[IntArray]) -> Moments:
        return self.model_.held_out(
            stage, folds, None if self.hyperparameters is None else self.model_.fits[stage].hyperparameters
        )


def _everybody(bags: Embeddings) -> IntArray:
    """Number the bags that hold everybody once, apart from the named subgroups in the same pass."""
    names = bags.key_table.column_names
    if SUBGROUP not in names[1:] or names[-1] != SUBGROUP or SUBGROUP in names[:-1]:
        return np.arange(len(bags))
    return np.flatnonzero([name == ALL for name in bags.key_table[SUBGROUP].to_pylist()])


def _check_same(bags: Embeddings, places: PlaceTotals, whole: Embeddings) -> None:
    """Refuse people who are not those of the fit: places of other weight, or of other embeddings than ``whole``."""
    rows, keys = _everybody(bags), bags.key_table[places.by].to_pylist()
    check_people([keys[i] for i in rows], bags.weight[rows], places, whole.weight)
    number = {key: i for i, key in enumerate(places.keys)}
    rows = rows[[keys[i] in number for i in rows]]
    at = (np.array([number[keys[i]] for i in rows]), rows)
    now = sparse.csr_array((bags.weight[rows], at), shape=(len(whole), len(bags))) @ bags.values
    off = np.linalg.norm(now / whole.weight[:, None] - whole.values, axis=1)
    wrong = off > SAME_VECTOR * np.sqrt((whole.values**2).sum(axis=1).mean())
    if wrong.any():
        raise InputError(
            f"people are not those of fit: in {int(wrong.sum()):,} place(s), first in {places.keys[int(np.argmax(wrong))]!r}, they "
            "have other values of the features. Pass the same people, coded as they were, or fit again."
        )


def _match(bags: Embeddings, places: PlaceTotals, unmatched: str) -> tuple[PlaceTotals, Embeddings]:
    """Keep places with people, and the embeddings of whole places in the same order."""
    whole = _take(bags, _everybody(bags))
    whole = replace(whole, key_table=whole.key_table.select([places.by]))
    keys = whole.key_table[places.by].to_pylist()
    places = match_places(places, keys, whole.weight, whole.n_rows, unmatched)
    number = {key: i for i, key in enumerate(keys)}
    return places, _take(whole, np.array([number[key] for key in places.keys], dtype=np.intp))


def _take(bags: Embeddings, rows: IntArray) -> Embeddings:
    """Keep some bags, in the order given."""
    return replace(
        bags,
        values=bags.values[rows],
        key_table=bags.key_table.take(pa.array(rows)),
        weight=bags.weight[rows],
        n_rows=bags.n_rows[rows],
        effective_size=bags.effective_size[rows],
    )
