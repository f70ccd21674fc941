"""``DistributionRegression``: the regression of totals on mean embeddings of people, with a field over the map."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import pyarrow as pa
from scipy import sparse

from crosslevel.data import checks
from crosslevel.data.audit import audit
from crosslevel.data.expressions import ALL, SUBGROUP
from crosslevel.data.people import People
from crosslevel.data.people_columns import warn_outside_fit
from crosslevel.data.places import Places, PlaceTotals, check_people, match_places
from crosslevel.ecological.answers import Source
from crosslevel.ecological.covariance import Moments, Terms, read_hyperparameters
from crosslevel.ecological.estimate import Fitted, PlaceEstimator, check_nouns
from crosslevel.ecological.regression.model import RegressionModel, describe_directions, fit_regression
from crosslevel.ecological.regression.sampling import Sampling, sampling_of
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.errors import CrosslevelWarning, InputError
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
    spatial : {"matern12", "matern32", "matern52"} or None, default "matern32"
        The field over the map; None for none.
    degrees : bool, default False
        Take distances between longitudes and latitudes in degrees, as in the paper, in place of kilometers on the sphere.
    nugget : bool, default True
        Give every place an effect of its own.
    rank : int, optional
        Leading directions of the features that carry the weights. By default all features up to 3,000 places, and 300 directions
        beyond, without any matrix of all places; what that changes is said.
    group : str or two names, optional
        Column of places, such as the state: an effect shared by all with the same value.
    match_totals : bool, default True
        Shift draws so that subgroups add up to the totals. False gives the paper's answers, which do not.
    sampling_error : bool, default True
        Add what the sampling of few people does to a subgroup's vector.
    hyperparameters : mapping of name to number, optional
        Take these in place of learning them, all that the prior has: ``effect_variance`` (of the weights of features); ``spatial`` and
        ``length`` of the field; ``nugget``, unless False; ``group``, where there is one. A
        sequence of mappings gives every question its own.
    n_restarts : int, default 2
        How many first guesses of the hyperparameters are followed to the end.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the features and of the draws.

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
    that: ``match_totals=False, nugget=False, degrees=True, sampling_error=False``.

    References
    ----------
    Flaxman, S., Wang, Y.-X. and Smola, A. (2015). Who supported Obama in 2012? Ecological inference through distribution
    regression. KDD.

    Examples
    --------
    >>> import crosslevel as cl
    >>> from crosslevel.data.simulate import nation
    >>> world = nation(40, 100, n_states=4)
    >>> people = cl.People(world.people, by="region", weight="weight", categorical=["sex"])
    >>> places = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
    >>> model = DistributionRegression(n_features=128).fit(people, places)
    >>> found = model.estimate(by="sex", rollup="all", n_draws=200)
    >>> found["sex"].tolist(), bool((found["bound_low"] < found["estimate"]).all())
    ([1, 2], True)
    """

    model_: RegressionModel
    embedder_: MeanEmbedding
    embeddings_: Embeddings
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
        spatial: str | None = "matern32",
        degrees: bool = False,
        nugget: bool = True,
        rank: int | None = None,
        group: str | Sequence[str] | None = None,
        match_totals: bool = True,
        sampling_error: bool = True,
        hyperparameters: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
        n_restarts: int = 2,
        random_state: RandomState = 0,
    ) -> None:
        self.n_features = n_features
        self.feature_map = feature_map
        self.bandwidth = bandwidth
        self.spatial = spatial
        self.degrees = degrees
        self.nugget = nugget
        self.rank = rank
        self.group = group
        self.match_totals = match_totals
        self.sampling_error = sampling_error
        self.hyperparameters = hyperparameters
        self.n_restarts = n_restarts
        self.random_state = random_state

    def fit(
        self, people: People, places: Places, *, unmatched: str = "error", progress: Progress | None = None
    ) -> Self:
        """Learn how totals depend on who lives in a place.

        Parameters
        ----------
        people, places, unmatched, progress
            As in :meth:`crosslevel.EcologicalInference.fit`; places have no ``margins`` and no ``covariates`` here.
        """
        self._forget()
        self._check_parameters()
        begun, seed = time.perf_counter(), checks.read_seed(self.random_state)
        check_nouns(people, places)
        if places.margins is not None or places.covariates or people.cluster is not None:
            raise InputError(
                "DistributionRegression takes no margins, covariates or cluster; leave them out of Places and People."
            )
        found, embedder = self._read_places(places), self._new_embedder(seed)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            sample = embedder._fit_and_sample(people, progress)
            bags = embedder.transform(people, progress=progress)
        found, whole = _match(bags, found, unmatched)
        terms, embedded = self._terms(found, self._metric(places)), time.perf_counter()
        model = fit_regression(
            whole.values,
            whole.weight,
            terms,
            found.totals,
            rank=self.rank,
            sampling=self._sampling(embedder, sample, whole),
            n_restarts=self.n_restarts,
            fixed=read_hyperparameters(self.hyperparameters, terms, found.totals.questions),
        )
        doubts = [*audit(people, places).sentences, *embedder.warnings_]
        notes = [
            *doubts,
            *(str(w.message) for w in said),
            *found.notes,
            *describe_directions(model, found.totals.questions),
        ]
        self.embedder_, self.embeddings_ = embedder, whole
        self.log_evidence_ = float(sum(fit.mode.log_evidence for fit in model.fits))
        roles = {"people": people.roles(), "places": places.roles()}
        lived = (whole.weight, whole.n_rows)
        self._keep(Fitted(people, model, found, lived, embedder.columns_, roles, seed, notes))
        self.seconds_ = {"people": embedded - begun, "fit": time.perf_counter() - embedded}
        return self

    def _metric(self, places: Places) -> str:
        if self.degrees and places.metric == "plane":
            raise InputError("degrees=True has no effect without coords of longitude and latitude; leave degrees out.")
        return "plane" if self.degrees else places.metric

    def _check_parameters(self) -> None:
        self._check_common()
        if self.spatial is None:
            checks.refuse_idle(self, ["degrees"], "with spatial=None; name a spatial kernel")
        checks.check_whole(self.n_restarts, "n_restarts", 1)
        if self.rank is not None:
            checks.check_whole(self.rank, "rank", 1)
        if self.hyperparameters is not None:
            checks.refuse_idle(self, ["n_restarts"], "with hyperparameters given; leave them out to learn them")
        if self.feature_map == "linear":
            checks.refuse_idle(self, ["n_features", "bandwidth"], "with feature_map='linear'; name another map")

    def _new_embedder(self, seed: int) -> MeanEmbedding:
        return MeanEmbedding(self.n_features, self.feature_map, self.bandwidth, random_state=seed)

    def _sampling(self, embedder: MeanEmbedding, sample: FloatArray, whole: Embeddings) -> Sampling | None:
        """Prepare what the sampling of people does to the embedding of a part, from the embedder's sample of them."""
        if not self.sampling_error:
            return None
        features = embedder.feature_map_.transform(sample)
        return sampling_of(features, whole.values, whole.weight, whole.effective_size)

    def _source(
        self, request: Request, question: Question, people: People, progress: Progress | None
    ) -> tuple[Source, list[str]]:
        from crosslevel.ecological.regression.parts import RegressionSource, cut

        places = self.places_
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            asked = replace(people.kept(request.where), by=[people.place, *request.by], columns=None)
            found = self.embedder_.transform(asked, subgroups=request.subgroups or None, progress=progress)
            everybody = found if request.where is None else self.embedder_.transform(people)
        _check_same(everybody, places, self.embeddings_)
        parts = cut(found, request, self.embeddings_, places.keys)
        return RegressionSource(self.model_, parts, question.n_draws, question.seed), [str(w.message) for w in said]

    def _fitted_moments(self, stage: int) -> Moments:
        return self.model_.moments(stage, self.model_.embeddings, np.arange(len(self.places_)))

    def _new_moments(self, stage: int, terms: Terms, new: list[object], people: People, table: pa.Table) -> Moments:
        from crosslevel.ecological.validation import check_inhabited

        q = len(self.places_)
        warn_outside_fit(people, self.embedder_.encoder_, stacklevel=5)
        found = self.embedder_.transform(people)
        rows = {key: i for i, key in enumerate(found.key_table.column(0).to_pylist())}
        check_inhabited([key for key in new if key not in rows])
        M = found.values[[rows[key] for key in new]]
        return self.model_.moments(stage, M, np.arange(q, q + len(new)), terms)

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
    rows, keys = _everybody(bags), bags.key_table.column(0).to_pylist()
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


def _match(whole: Embeddings, places: PlaceTotals, unmatched: str) -> tuple[PlaceTotals, Embeddings]:
    """Keep places with people, and their embeddings in the same order."""
    keys = whole.key_table.column(0).to_pylist()
    places = match_places(places, keys, whole.weight, whole.n_rows, unmatched)
    number = {key: i for i, key in enumerate(keys)}
    rows = np.array([number[key] for key in places.keys], dtype=np.intp)
    return places, replace(
        whole,
        values=whole.values[rows],
        key_table=whole.key_table.take(pa.array(rows)),
        weight=whole.weight[rows],
        n_rows=whole.n_rows[rows],
        effective_size=whole.effective_size[rows],
    )
