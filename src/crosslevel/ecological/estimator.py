"""``EcologicalInference``: people by place and totals by place in, the behaviour of any subgroup in any place out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel.data.checks import count_jobs
from crosslevel.ecological import saved
from crosslevel.ecological.asking import SubgroupAnswers
from crosslevel.ecological.certificate import limit_words
from crosslevel.ecological.evidence import read_evidence
from crosslevel.ecological.group.link import GroupModel, fit_group
from crosslevel.ecological.individual.link import IndividualModel, fit_link
from crosslevel.ecological.learning import (
    Counted,
    Gathered,
    count_people,
    gather,
    people_fingerprint,
    sampling_error,
)
from crosslevel.ecological.places import read_places
from crosslevel.ecological.settings import (
    check_parameters,
    fixed_hyperparameters,
    open_people,
    prior_terms,
    settings_words,
)
from crosslevel.ecological.trusting import Trust
from crosslevel.embedding import MeanEmbedding
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.typing import Progress

__all__ = ["EcologicalInference"]

NO_NUGGET = (
    "nugget=False: places of a hundred thousand votes are then believed to a tenth of a point, and intervals are too narrow (on the "
    "election of 2024, 95 % intervals held 89 % of held-out regions, and 3 to 33 % without the field over the map)."
)


class EcologicalInference(SubgroupAnswers, Trust, BaseEstimator):
    """Say how each subgroup behaved in each place, from weighted people by place and totals by place.

    With ``link="individual"`` people decide one by one: each has a probability that depends on who they are and where they live, and
    a place's total is the sum of its people's. With ``link="group"``, the paper's, the people of a place become one vector, the mean
    of their features, and a Gaussian process of that vector and of the place's position explains the totals; its value at the
    vector of a subgroup is the subgroup's answer. Every draw is then shifted so that the subgroups of a place add up to its total.
    The first is nearer to the truth of subgroups, the second predicts the totals of places better; see Notes.

    Parameters
    ----------
    link : {"individual", "group"}, default "individual"
        How people and totals are tied.
    n_features : int, default 4096
        Length of the vectors of the group link; see :class:`crosslevel.MeanEmbedding` for this and the next three.
    map : str, default "sorf"
        The feature map.
    bandwidth : "median" or float, default "median"
        Width of the kernel between people.
    categorical : sequence of str, optional
        Columns of numbers that are codes.
    spatial : {"matern12", "matern32", "matern52"} or None, default "matern32"
        The field over the map; None for none.
    metric : {"sphere", "plane"}, default "sphere"
        Chord distances in kilometres between longitudes and latitudes, or plain distances between any two coordinates (degrees,
        as in the paper).
    kernel : {"sum", "product"}, default "sum"
        Add the field to what composition says, or let the weights of composition vary over the map.
    nugget : bool, default True
        Give every place an effect of its own.
    group : str, optional
        Column of places, such as the state: an effect shared by all with the same value.
    account : bool, default True
        Shift draws so that subgroups add up to the totals. False gives the paper's answers, which do not.
    sampling_error : bool, default True
        Add what the sampling of few people does to a subgroup's vector.
    n_bins : int, default 12
        Individual link: the most bins of a column of numbers. Fewer are taken, with a warning, where places and kinds of people make
        more than eight million pairs; ``certificate()`` says how many.
    interactions : sequence of (column, column), optional
        Individual link: pairs of columns that have an effect together, beside that of each.
    rho : float, default 0
        Individual link: how far the composition of a place acts on everybody there, as a variance in units of that of people's own
        effects. Totals cannot tell; :meth:`sensitivity` shows what it would change.
    inference : {"laplace", "nuts"}, default "laplace"
        Individual link: approximate the posterior, or sample it (minutes, and for few places only; needs the extra ``bayes``).
    hyperparameters : mapping of name to number, optional
        Take these in place of learning them: ``embedding``, ``spatial``, ``length``, ``nugget``, ``group``, as far as the prior has
        such terms. A sequence of mappings gives every question its own.
    n_starts : int, default 2
        Group link: how many first guesses of the hyperparameters are followed to the end.
    random_state : int, default 0
        Seed of the features and of the draws.
    n_jobs : int, optional
        Threads of the passes over people; all cores when not given. Changes no number.

    Attributes
    ----------
    hyperparameters_ : tuple of Hyperparameters
        One for each question (turnout, then the outcomes); variances in squared logits, the length in kilometres or in the unit of
        the coordinates.
    log_marginal_ : float
        Laplace's approximation of the log evidence, of all questions together.
    converged_ : bool
        Always True: a fit that does not converge raises :class:`crosslevel.errors.ConvergenceError`.
    calibration_ : Calibration or None
        What :meth:`calibrate` learnt.
    model_ : IndividualModel or GroupModel
        The fitted link.
    places_ : Places
        Places used, in sorted order of their keys.
    whole_ : Embeddings
        Their vectors: of the individual link, the share of people in every level.
    evidence_ : Evidence or None
    embedder_ : MeanEmbedding
    warnings_ : tuple of str
        What was left out and what to know; every result repeats it.
    counts_ : dict
        Individual link: kinds of people, and pairs of them with a place.
    seconds_ : dict
        Time of the embedding and of the fit.

    See Also
    --------
    crosslevel.ecological.rxc : when only counts of groups by place are known, not people.
    crosslevel.ecological.bounds : what the margins imply with certainty.

    Notes
    -----
    **Individual link.** k_i ~ Binomial(n_i, sum_c W_ic / (1 + exp(-(x_c . beta + b_i)))) over covariate cells c, W_ic their share of
    the place's people: an effect for every level of every column (numbers in bins whose effects are smooth), b = level + Matern
    field + nugget (+ group effect). The mode of all of them is found exactly, scales in turn with it under priors; draws are those of
    the linear look-alike at the mode, each shifted to the totals. Turnout and several outcomes are a chain of such questions, each
    among those who are left.

    **Intervals.** That a subgroup behaves alike wherever it lives is not true and cannot be checked with totals. With
    ``interval="honest"`` (the default) every draw is moved by one more effect of each subgroup, of standard deviation tau on the
    logit scale, and re-shifted to the totals; :meth:`calibrate` learns tau by hiding columns that are known.

    **Group link.** mu_i = sum_j w_ij phi(x_ij) / sum_j w_ij is the mean embedding of place i, centred at the weighted mean over places;

        f_i = bias + mu_i . w + s_i + g_i + e_i,    k_i ~ Binomial(n_i, 1 / (1 + exp(-f_i))),

    w ~ N(0, sx2 I), s a Matern field over the map, g the effect of a group of places, e ~ N(0, t2) the nugget. f is approximated
    by Laplace's method, the hyperparameters maximise its evidence. A subgroup of place i with embedding mu_i^g has
    f_i^g = bias + mu_i^g . w + s_i + g_i + e_i; its rate is 1 / (1 + exp(-f_i^g - c_i)), where c_i, one number per place and draw,
    makes the subgroups and the rest of the place add up to k_i / n_i. Turnout and several outcomes are a chain of such questions.

    Corrected against the paper: embeddings are centred and the level has its own variance (the constant part of phi would eat sx2);
    the nugget (a binomial alone claims certainty to a tenth of a point); distances over the sphere, not degrees; answers add up
    to the totals and lie inside the deterministic bounds; roll-ups from joint draws, weighted by the subgroup's people or its
    predicted voters; the mean of the rate, not the rate at the mean; the gradient of the evidence moves with the mode. Without all
    that: ``account=False, nugget=False, metric="plane", sampling_error=False``.

    People are read twice to fit and once for every estimate. The order of places, the batch size, the number of threads and the
    kind of frame change no bit; the row groups of a file and the order of people change rounding.

    References
    ----------
    Flaxman, S., Wang, Y.-X. and Smola, A. (2015). Who supported Obama in 2012? Ecological inference through distribution
    regression. KDD.

    Examples
    --------
    >>> from crosslevel.data.simulate import nation
    >>> world = nation(40, 100, n_states=4)
    >>> model = EcologicalInference(categorical=["sex"])
    >>> model.fit(world.people, world.places, by="region", weight="weight", successes="dem", trials="votes", coords=("lon", "lat"))
    EcologicalInference(categorical=['sex'])
    >>> found = model.estimate(by="sex", rollup="all", draws=200)
    >>> found["sex"].tolist()
    [1, 2]
    >>> bool((found["bound_low"] <= found["conf_low"]).all() and (found["conf_high"] <= found["bound_high"]).all())
    True
    >>> model.estimate(subgroups={"women over 65": "sex == 2 and age >= 65"}, rollup="state", draws=200).keys
    ('state', 'subgroup')

    A survey that asked 500 women is evidence, which the group link reads:

    >>> poll = {"subgroup": ["sex == 2"], "dem": [300], "votes": [500]}
    >>> group = EcologicalInference(link="group", n_features=128, categorical=["sex"])
    >>> asked = group.fit(
    ...     world.people, world.places, by="region", weight="weight", successes="dem", trials="votes", coords=("lon", "lat"),
    ...     evidence=poll,
    ... ).estimate(by="sex", rollup="all", draws=200)
    >>> bool(asked["std_error"][1] < 0.5 * found["std_error"][1])
    True
    """

    def __init__(
        self,
        link: str = "individual",
        n_features: int = 4096,
        *,
        map: str = "sorf",
        bandwidth: str | float = "median",
        categorical: Sequence[str] | None = None,
        spatial: str | None = "matern32",
        metric: str = "sphere",
        kernel: str = "sum",
        nugget: bool = True,
        group: str | None = None,
        account: bool = True,
        sampling_error: bool = True,
        n_bins: int = 12,
        interactions: Sequence[Sequence[str]] | None = None,
        rho: float = 0.0,
        inference: str = "laplace",
        hyperparameters: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
        n_starts: int = 2,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.link = link
        self.n_features = n_features
        self.map = map
        self.bandwidth = bandwidth
        self.categorical = categorical
        self.spatial = spatial
        self.metric = metric
        self.kernel = kernel
        self.nugget = nugget
        self.group = group
        self.account = account
        self.sampling_error = sampling_error
        self.n_bins = n_bins
        self.interactions = interactions
        self.rho = rho
        self.inference = inference
        self.hyperparameters = hyperparameters
        self.n_starts = n_starts
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
        people : path, frame or stream
            One row per person; anything :func:`crosslevel.data.batches.open_batches` reads, and reads again. Kept by reference for
            :meth:`estimate`, never saved.
        places : dataframe
            One row per place, with the totals.
        by : str
            Column that names the place, in both tables.
        successes, trials : str
            Columns of places: how many did it, of how many. Places without trials are left out.
        weight : str, optional
            Column of people: survey weights.
        coords : two column names, optional
            Longitude and latitude of the places; needed unless ``spatial=None``.
        columns : sequence of str, optional
            The features of people; by default all but ``by``, ``weight`` and those constant within places.
        outcomes : sequence of str, optional
            Several outcomes, columns of counts, in place of ``successes``; ``trials`` is their sum unless given.
        population : str, optional
            Column of places: everybody who could have been among the trials. Turnout is then modelled too, and roll-ups
            weigh subgroups by their predicted voters.
        evidence : dataframe, optional
            What is known about subgroups: a row for each result, with ``subgroup`` (a query over people, nothing for
            everybody), any columns of places that say where it holds (missing: everywhere), and the columns of counts. Each
            row is binomial with its own trials: divide them by a design effect before. It tells whom people voted for, not
            whether.
        where : str, optional
            Use these people only, here and in :meth:`estimate`. The totals must then count these people only.
        unmatched : {"error", "drop"}, default "error"
            What to do with places that stand in one table only; every result repeats what was dropped.
        progress : callable, optional
            Called with the rows of people read and, where known, the rows in all; once more from 0 for the second pass.
        """
        self._forget()
        check_parameters(self)
        begun = time.perf_counter()
        stream = open_people(people, where)
        named = {"successes": successes, "trials": trials, "outcomes": outcomes, "population": population}
        found = read_places(places, by, coords=coords, **named)  # type: ignore[arg-type]
        terms = prior_terms(self, found)
        fixed_hyperparameters(self.hyperparameters, terms, found.totals.questions)
        claims = None if evidence is None else read_evidence(evidence, found, stream.schema, **named)  # type: ignore[arg-type]
        common = {"weight": weight, "columns": columns, "unmatched": unmatched, "progress": progress}
        given: Gathered | Counted
        if self.link == "individual":
            if claims is not None:
                raise InputError("evidence is read by the group link only; pass link='group', or leave evidence out.")
            given = count_people(stream, found, self._new_embedder(), n_bins=int(self.n_bins), **common)  # type: ignore[arg-type]
        else:
            given = gather(stream, found, self._new_embedder(), claims, **common)  # type: ignore[arg-type]
        gathered = time.perf_counter()
        model = self._fit_link(given)
        notes = (*given.notes, *(() if self.nugget else (NO_NUGGET,)))
        notes = (*notes, *limit_words(model.fits, given.places.totals.questions))
        asked = {"by": by, "weight": weight, **named, "coords": coords, "columns": columns, "where": where}
        words = {n: list(v) if isinstance(v, list | tuple) else v for n, v in asked.items()}
        # nothing is kept of a fit that was stopped: all of it is set here
        self.embedder_, self.places_, self.whole_ = given.embedder, given.places, given.whole
        self.evidence_ = given.evidence if isinstance(given, Gathered) else None
        self.cells_, self.counts_ = None, {}
        if isinstance(given, Counted):
            self.cells_ = given.collapsed
            self.counts_ = {"cells": len(self.cells_.codes), "place_cell_pairs": len(self.cells_.label)}
        self.model_, self.warnings_, self.calibration_ = model, notes, None
        self.people_, self.where_, self.by_ = people, where, by
        self.asked_ = words
        self.call_ = settings_words(self, "fit", words)
        self.data_ = {
            "people": people_fingerprint(given.whole, given.embedder.columns_),
            "places": given.places.fingerprint,
            **({} if self.evidence_ is None else {"evidence": self.evidence_.fingerprint}),
        }
        self.seconds_ = {"embedding": gathered - begun, "fit": time.perf_counter() - gathered}
        self._set_attributes()
        for text in notes:
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        return self

    def to_payload(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Give the saved form; see `crosslevel.save`."""
        check_is_fitted(self, "model_")
        return saved.to_payload(self)

    @classmethod
    def from_payload(cls, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the model from its saved form; it has no people."""
        return saved.from_payload(cls, meta, arrays)

    def __getstate__(self) -> Any:
        # a pickle is a saved form too, and people are never saved
        held = ("people_", "cells_", "other_")
        return {name: None if name in held else value for name, value in super().__getstate__().items()}

    def _new_embedder(self) -> MeanEmbedding:
        map_: dict[str, Any] = {"feature_map": "linear"}
        if self.link != "individual" and self.map != "linear":
            map_ = {"n_features": self.n_features, "feature_map": self.map, "bandwidth": self.bandwidth}
        return MeanEmbedding(
            **map_,
            categorical=self.categorical,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _fit_link(self, given: Gathered | Counted) -> GroupModel | IndividualModel:
        """Fit the link to what was gathered."""
        terms = prior_terms(self, given.places)
        totals = given.places.totals
        fixed = fixed_hyperparameters(self.hyperparameters, terms, totals.questions)
        if isinstance(given, Counted):
            return fit_link(
                given.collapsed,
                given.coarsening,
                terms,
                totals,
                interactions=self.interactions,
                rho=float(self.rho),
                fixed=fixed,
                inference=self.inference,
                seed=int(self.random_state),
                n_jobs=count_jobs(self.n_jobs),
            )
        model = fit_group(
            given.whole.values,
            given.whole.weight,
            terms,
            totals.successes,
            totals.trials,
            sampling=sampling_error(given.embedder, given.whole) if self.sampling_error else None,
            extra=None if given.evidence is None else given.evidence.extra,
            n_starts=self.n_starts,
            fixed=fixed,
        )
        for stage in range(len(model.fits)):
            model.points(stage)  # how sure its scales are: seconds that belong to the fit, not to the first answer
        return model

    def _set_attributes(self) -> None:
        """Set what follows from the model, after a fit and after loading."""
        self.hyperparameters_ = tuple(f.hyperparameters for f in self.model_.fits)
        self.log_marginal_ = float(sum(f.mode.log_evidence for f in self.model_.fits))
        self.converged_ = True

    def _forget(self) -> None:
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)
