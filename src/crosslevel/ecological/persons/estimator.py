"""``EcologicalInference``: people by place and totals by place in, the behavior of any subgroup in any place out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.batches import Batches
from crosslevel.data.engines import OnEngine
from crosslevel.data.frames import to_arrow
from crosslevel.data.place_cells import PlaceCells
from crosslevel.data.place_columns import N_PEOPLE, count_groups, learn_covariates, read_composition
from crosslevel.data.signatures import checked
from crosslevel.data.totals import match_places
from crosslevel.ecological.answers import Source
from crosslevel.ecological.confounding import Confounding, describe_allowance
from crosslevel.ecological.covariance import Moments, Terms, read_hyperparameters
from crosslevel.ecological.estimate import PlaceEstimator, describe_call
from crosslevel.ecological.persons import fitting, survey_fit
from crosslevel.ecological.persons.composition import known_shares
from crosslevel.ecological.persons.groups import allowance_of, source_of
from crosslevel.ecological.persons.model import PersonsModel
from crosslevel.ecological.persons.prediction import fitted_rates, held_out_places, new_places
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.results import Estimates
from crosslevel.typing import IntArray, Progress, RandomState


class EcologicalInference(OnEngine, PlaceEstimator):
    """Estimate how each subgroup behaved in each place, from weighted people by place and totals by place.

    People decide one by one: each has a probability that depends on who they are and where they live, and a place's total is the
    sum of its people's. Every draw is shifted so that the subgroups of a place add up to its total.

    Parameters
    ----------
    categorical : sequence of str, optional
        Columns of numbers that are codes.
    spatial : {"matern12", "matern32", "matern52"} or None, default "matern32"
        The field over the map; None for none.
    metric : {"sphere", "plane"}, default "sphere"
        Chord distances in kilometers between longitudes and latitudes, or plain distances between any two coordinates.
    nugget_by : str, optional
        Column of places, such as the state, whose levels have nuggets of their own, shrunk to that of all: some scatter more.
    group : str or two names, optional
        Columns of places, such as the state, or state and county: an effect shared by all with the same value.
    inducing_points : int, optional
        Points that carry the field. By default it is exact up to 3,500 different locations and groups of places, and stands on 600
        points beyond; what that changes is measured and said.
    n_bins : int, default 12
        The most bins of a column of numbers. Fewer are taken, with a warning, where places and kinds of people make more than eight
        million pairs; ``convergence_`` says how many.
    interactions : sequence of (column, column), optional
        Pairs of columns that have an effect together, beside that of each.
    hyperparameters : mapping of name to number, optional
        Take these in place of learning them, all that the prior has: ``effect_variance``; ``spatial`` and ``length`` of the field;
        ``nugget``; ``group`` and ``second_group``, where there are. A sequence of mappings gives every question its own.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the draws.
    engine : {"local", "spark"} or session, default "local"
        Where the passes over people run, those of :meth:`estimate` too: here, or on the workers of the active SparkSession or of the
        one passed. They read the files themselves, and agree with "local" to rounding.
    n_jobs : int, optional
        Threads of the passes over people; all cores when not given. Changes no number.

    Attributes
    ----------
    hyperparameters_ : tuple of Hyperparameters
        One for each question (turnout, then the outcomes); variances in squared logits, the length in kilometers (or coordinates).
    log_evidence_ : float
        Laplace's approximation of the log evidence, of all questions together.
    convergence_ : dict
        How the fit ended and what was learned; one that does not converge is an error.
    confounding_ : LearnedConfounding or None
        What :meth:`learn_confounding` learned.
    margins_ : pyarrow.Table or None
        Counts that people were raked to.
    survey_ : SurveySummary or None
        What a survey said beside the totals: ``surveys`` (offsets), ``selection``, ``moved`` and ``compared`` (every level).
    model_ : PersonsModel
    places_ : Places
        Places used, in sorted order of their keys.
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
    crosslevel.ecological.DistributionRegression : a regression on mean embeddings; predicts the totals of places.
    crosslevel.ecological.rxc : when only counts of groups by place are known, not people.

    Notes
    -----
    logit y_i = logit sum_c W_ic / (1 + exp(-(x_c . beta + a))) + r_i over covariate cells c, W_ic their share of the place's people: an
    effect for every level of every column (numbers in bins whose effects are smooth), r = level + Matern field + nugget (+ group
    effect) + counting. Who lives in a place is taken as measured with error: the shares of all columns are smoothed together and people
    raked to them. Turnout and several outcomes are a chain of such questions, each among those who are left.

    **Intervals.** That a subgroup behaves alike wherever it lives is not true and cannot be checked with totals. With
    ``interval="confounding"`` (the default) effects may differ from what composition says, by tau on the logit scale and by a factor
    for each column, and those of columns that mark their places are shrunk; every draw then meets the totals. Without a survey each
    column's prior and confounding have heavy tails. :meth:`learn_confounding` learns the constants by hiding columns that are known.

    People are read twice to fit and once for every estimate. Sums are equal to 1e-12 whatever the order, the threads and the frame.

    Examples
    --------
    >>> from crosslevel.data.simulate import nation
    >>> world = nation(40, 100, n_states=4)
    >>> model = EcologicalInference(categorical=["sex"])
    >>> model.fit(world.people, world.places, by="region", weight="weight", successes="dem", trials="votes", coords=("lon", "lat"))
    EcologicalInference(categorical=['sex'])
    >>> found = model.estimate(by="sex", rollup="all", n_draws=200)
    >>> found["sex"].tolist()
    [1, 2]
    >>> bool((found["bound_low"] <= found["conf_low"]).all() and (found["conf_high"] <= found["bound_high"]).all())
    True
    >>> model.estimate(subgroups={"women over 65": "sex == 2 and age >= 65"}, rollup="state", n_draws=200).keys
    ('state', 'subgroup')
    """

    log_evidence_: float
    model_: PersonsModel
    cells_: PlaceCells
    survey_: Any

    _method = "ecological inference of persons"
    _intervals = ("confounding", "model")
    _unsaved = (*PlaceEstimator._unsaved, "surveyed_", "survey_given_")
    _contextual_variance = 0.0
    """What :meth:`sensitivity` varies."""

    def __init__(
        self,
        *,
        categorical: Sequence[str] | None = None,
        spatial: str | None = "matern32",
        metric: str = "sphere",
        nugget_by: str | None = None,
        group: str | Sequence[str] | None = None,
        inducing_points: int | None = None,
        n_bins: int = 12,
        interactions: Sequence[Sequence[str]] | None = None,
        hyperparameters: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
        random_state: RandomState = 0,
        engine: Any = "local",
        n_jobs: int | None = None,
    ) -> None:
        self.categorical = categorical
        self.spatial = spatial
        self.metric = metric
        self.nugget_by = nugget_by
        self.group = group
        self.inducing_points = inducing_points
        self.n_bins = n_bins
        self.interactions = interactions
        self.hyperparameters = hyperparameters
        self.random_state = random_state
        self.engine = engine
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
        composition: Mapping[str, Any] | None = None,
        covariates: Sequence[str] | None = None,
        cluster: str | None = None,
        margins: Any = None,
        survey: Any = None,
        survey_outcome: str | None = None,
        survey_by: str | None = None,
        survey_weight: str | Sequence[str] | None = None,
        survey_name: str | None = None,
        compare: bool = False,
        selection: str | float = "measured",
        evidence: Any = None,
        where: str | None = None,
        unmatched: str = "error",
        progress: Progress | None = None,
    ) -> Self:
        """Learn how totals depend on who lives in a place, and how people of a place differ from a survey where there is one.

        Parameters
        ----------
        people : path, frame or stream, or None
            One row per person; anything :func:`crosslevel.data.batches.open_batches` reads, and reads again. Kept by reference for
            :meth:`estimate`, never saved. None where ``composition`` says who lives in the places.
        places : dataframe
            One row per place, with the totals.
        by : str
            Column that names the place, in both tables.
        successes, trials : str
            Columns of places: how many did it, of how many. Places without trials are left out.
        weight : str, optional
            Column of people: survey weights; places count in roll-ups by their sum. With ``composition``, the column of places with
            the number of people, of which ``composition`` then has shares.
        coords : two column names, optional
            Longitude and latitude of the places; needed unless ``spatial=None``.
        columns : sequence of str, optional
            The features of people; by default all but ``by``, ``weight`` and those constant within places.
        outcomes : sequence of str, optional
            Several outcomes, columns of counts, in place of ``successes``; ``trials`` is their sum unless given.
        population : str, optional
            Column of places: everybody who could have been among the trials. Turnout is then modeled too, and roll-ups
            weigh subgroups by their predicted voters.
        composition : mapping of column to columns of places, optional
            Counts of groups in the columns of places in place of people, taken as exact: ``{"race": ["white", "black", "other"]}``, or
            with names of the levels, ``{"race": {"white": "vap_white", ...}}``. Several columns count as independent within a place.
        covariates : sequence of str, optional
            Columns of places that act on everybody there: numbers, or text. Subgroups of a place have its total whatever they say; they
            help to tell what composition explains, and predict places.
        cluster : str, optional
            Column of people: who was drawn together, such as the household. People of one household are alike, which makes the shares of
            places less sure (or, for sex, more); without it everybody counts as drawn alone, and every result says so.
        margins : dataframe, optional
            Exact counts of columns by place, as a census has them: the key of the place and a column for every level, called
            ``column=level`` (``sex=1``, ``sex=2``). The people of each place are raked to them, and what else is smoothed with them.
        survey : frame, path, or sequence or mapping of them, optional
            Respondents who were asked the outcome, with the columns of people; several surveys have an offset each. Kept by reference
            for :meth:`learn_confounding`; the fit holds counts of respondents who are alike, and a saved model not even those.
        survey_outcome : str, optional
            Column of the survey: 1 or 0, or with ``outcomes`` the name of the outcome. Respondents without an answer are left out.
        survey_by : str, optional
            Column of the survey and of places: where the respondent lives, be it the place or the state. Without it, or where it is
            missing, respondents live wherever such people do.
        survey_weight : str or sequence of str, optional
            Columns of the survey: weights, scaled to Kish's effective number; then replicate weights, whose mean square tells that
            number. Leave it out where the weights make up for columns of people only.
        survey_name : str, optional
            Column of the survey: which of several each respondent is from.
        compare : bool, default False
            Also fit the survey by itself (MRP), as it is and shifted to the totals; ``survey_.compared`` has every level by each.
        selection : "measured" or float, default "measured"
            How far respondents of a group differ from its people, as a standard deviation in logits: a number, or as
            :meth:`learn_confounding` measures it with ``survey=True``, 0.1 until then.
        evidence : dataframe, optional
            Published shares of subgroups: ``subgroup`` (a query), ``source``, columns of places that say where, and the counts, called
            as in places.
        where : str, optional
            Use these people and respondents only, here and in :meth:`estimate`. The totals must then count these people only.
        unmatched : {"error", "drop"}, default "error"
            What to do with places that stand in one table only, and with respondents of unknown areas; every result repeats it.
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the rows read and, where known, of all; for each pass, then (0, None).
        """
        self._forget()
        self._check_parameters()
        asked = {"survey": survey, "evidence": evidence, "survey_outcome": survey_outcome, "survey_by": survey_by}
        asked |= {"survey_weight": survey_weight, "survey_name": survey_name, "compare": compare}
        asked["selection"] = selection
        any_survey = survey is not None or evidence is not None
        if any_survey:
            survey_fit.check_survey(type(self).fit, asked)
        else:
            checks.refuse_idle_arguments(type(self).fit, asked, "without survey")
        begun, seed = time.perf_counter(), checks.read_seed(self.random_state)
        engine = None if self.engine == "local" else self._cluster
        given_weight, groups = weight, None
        if composition is not None:
            given = {"cluster": cluster, "margins": margins}
            checks.refuse_idle_arguments(type(self).fit, given, "beside composition; pass people in its place")
            checks.refuse_idle(self, ["engine"], "beside composition, which has no people to go over")
            if people is not None:
                raise InputError("people and composition are both given; pass people=None, or leave composition out.")
            groups, weight = read_composition(composition), N_PEOPLE
            people = count_groups(to_arrow(places, "places"), by, groups, given_weight, trials)
        grouped = groups is not None
        named = {"successes": successes, "trials": trials, "outcomes": outcomes, "population": population}
        stream, found = self._read(people, places, where, by=by, coords=coords, **named)
        learned = fitting.learn_features(self, stream, by, columns, weight, cluster, progress=progress)
        found = found.take(np.array(sorted(range(len(found)), key=lambda i: found.keys[i]), dtype=np.intp))  # type: ignore[arg-type,return-value]
        bins, cells, coarser = fitting.count_in_bins(
            stream, learned, self.n_bins, by, found.keys, weight, cluster, progress, grouped, engine
        )
        lived = np.flatnonzero(cells.total > 0)
        keys = [found.keys[i] for i in lived] + list(cells.elsewhere)
        outside = np.array(list(cells.elsewhere.values())).reshape(-1, 2)
        weights = np.append(cells.total[lived], outside[:, 0])
        rows = np.append(cells.count.sum(axis=1)[lived], outside[:, 1]).astype(np.intp)
        found, cells = match_places(found, keys, weights, rows, unmatched), cells.inhabited()
        terms, counted = self._terms(found), time.perf_counter()
        table = None if margins is None else to_arrow(margins, "margins")
        read = None if covariates is None else learn_covariates(found.table, covariates)
        known = None if table is None else known_shares(table, by, found.keys, bins)
        model = fitting.fit_persons(
            cells,
            bins,
            terms,
            found.totals,
            known=known,
            counted=grouped,
            covariates=read,
            table=found.table,
            interactions=self.interactions,
            contextual_variance=self._contextual_variance,
            fixed=read_hyperparameters(self.hyperparameters, terms, found.totals.questions),
            n_jobs=checks.count_jobs(self.n_jobs),
        )
        notes = [*learned.warnings, *found.notes, *coarser, *fitting.describe_field(model, found.totals)]
        notes += fitting.describe_input(found, cells, bins, known, grouped)
        quiet = fitting.describe_composition(model, found.totals, cluster, cells, grouped)
        surveyed, summary = None, None
        if any_survey:
            surveyed = survey_fit.read_surveyed(asked, stream, model, found, where, weight, unmatched, engine, **named)
            held = (model, cells, found, surveyed, allowance_of(model, None), survey_fit.default_selection(selection))
            model, summary = survey_fit.fuse_questions(*held, compare, checks.count_jobs(self.n_jobs))
            notes, quiet = [*notes, *summary.loud], [*quiet, *summary.said]
        self.cells_, self.log_evidence_ = cells, float(sum(fit.log_evidence for fit in model.fits))
        arguments = {"by": by, "weight": given_weight, **named, "coords": coords, "columns": columns, "where": where}
        optional: dict[str, Any] = {"cluster": cluster, "composition": groups, "covariates": covariates}
        arguments |= {name: value for name, value in optional.items() if value is not None}
        arguments |= {n: asked[n] for n in survey_fit.ARGUMENTS if surveyed is not None}
        kept = None if grouped else people  # made again from places where they are asked for
        self._keep(kept, model, found, cells.total, cells.count.sum(axis=1), bins.names, notes, arguments, seed, quiet)
        self.weight_, self.margins_ = weight, table
        if table is not None:
            self.call_ = describe_call(self, "fit", {**self.arguments_, "margins": table.column_names})
        sizes: dict[str, Any] = {"cells": len(cells.codes), "place_cell_pairs": len(cells.label)}
        sizes["bins_of_numbers"] = bins.describe_bins()
        self.convergence_ |= fitting.describe_columns(model) | sizes | ({} if summary is None else summary.facts())
        self.survey_, self.surveyed_ = summary, surveyed
        self.survey_given_ = {n: asked[n] for n in ("survey", "evidence")}
        self.data_ |= {} if surveyed is None else surveyed.fingerprint
        self.seconds_ = {"people": counted - begun, "fit": time.perf_counter() - counted}
        return self

    @checked
    def learn_confounding(
        self,
        people: Any = None,
        labels: Sequence[str] | Mapping[str, str] | str = "auto",
        *,
        by: Sequence[str] | None = None,
        hidden: Mapping[str, Sequence[str]] | None = None,
        families: Mapping[str, str] | None = None,
        survey: bool = False,
        level: float = 0.95,
        progress: Progress | None = None,
    ) -> Self:
        """Learn how far subgroups are off, by hiding known columns one after another and learning them back from their totals.

        Clusters (``cluster`` of :meth:`fit`) are split in halves by a hash: who lives where is taken from one half, the totals of the
        label from the other, the truth from everybody; then the other way round. The totals of the real question are not used. One
        standard deviation tau of the effects (omega more within places) then widens every interval of :meth:`estimate`. With eight
        labels or more of four families, the labels also choose which columns are shrunk among those in which places differ much; with
        fewer all of these are.

        Parameters
        ----------
        people : path, frame or stream, optional
            Those of :meth:`fit` when not given.
        labels : sequence of str, mapping of name to query, or "auto"
            What to hide: columns of 0 and 1 (or of true and false), or queries (``"tenure == 1"``), true of 5 to 95 % of people and
            not the same for all people of a place. "auto" takes every column of two values and the most common level of every other
            category, at most twenty, and warns of those it had to leave out. Eight or more are advised; with fewer than three the
            shipped tau is kept.
        by : sequence of str, optional
            Columns to compare groups by; all features of few levels, and numbers in four bands, when not given.
        hidden : mapping of label to columns, optional
            Columns that must leave the features together with a label, because they tell it (income for poverty).
        families : mapping of label to name, optional
            Labels that belong together (all about work, all about income): a family is left out whole when its labels are scored. By
            default labels whose correlation over people is above one half are a family.
        survey : bool, default False
            Measure the selection of respondents too, on the labels that the survey of :meth:`fit` has: one for all columns, and one
            for each, shrunk to it. With fewer than three labels, or fewer than a thousand respondents, it stays at 0.1.
        level : float, default 0.95
            Level of the intervals whose coverage is reported, each family left out in turn.
        progress : bool or callable, optional
            True for a bar on stderr; or a function, called with the labels done and the labels in all.

        Returns
        -------
        self
            With ``confounding_``, which has a table by label.
        """
        from crosslevel.ecological.persons.labels import hide_and_learn

        check_is_fitted(self, "model_")
        if self._counted:
            raise InputError(
                "learn_confounding hides columns of people, and composition has counts of groups only; fit people to learn it, "
                "or use the shipped constants."
            )
        checks.check_level(level)
        survey_fit.check_measured(self, survey)
        stream = self._open_people(people)
        found, said, selection = hide_and_learn(self, stream, labels, by, hidden, families, level, progress, survey)
        for text in said:
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        self.confounding_ = found
        if self.survey_ is not None:
            survey_fit.fuse_again(self, selection or self.survey_.selection)
        return self

    @checked
    def sensitivity(
        self,
        by: str | Sequence[str] | None = None,
        subgroups: Mapping[str, str] | None = None,
        *,
        contextual_variance: Sequence[float] = (0.0, 0.03, 0.1, 0.3),
        people: Any = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Estimates:
        """Show how each answer moves when the composition of a place acts on everybody who lives there.

        Totals cannot tell whether people of a kind behave so, or whether their places make everybody do it. The contextual variance is
        that of the second in units of the first; every value means a fit of its own, with the scales of places that this one has.

        Parameters
        ----------
        by, subgroups, options
            As in :meth:`estimate`.
        contextual_variance : sequence of float, default (0, .03, .1, .3)
        people : path, frame or stream, optional
        progress : bool or callable, optional
            Of fits and answers, two for every value.

        Returns
        -------
        Estimates
            The answers for every value, with the key ``contextual_variance``. ``changes_sign`` marks subgroups whose difference from
            their neighborhood is not of one sign for all values; the warnings name them.
        """
        from crosslevel.ecological.persons.sensitivity import vary_context

        check_is_fitted(self, "model_")
        return vary_context(self, by, subgroups, contextual_variance, people, options, progress)

    def _check_parameters(self) -> None:
        self._check_common()
        fitting.check_parameters(self)

    def _source(
        self, request: Request, question: Question, people: Batches, progress: Progress | None
    ) -> tuple[Source, list[str]]:
        return source_of(self, request, question, people, progress), []

    def _confounding(self) -> tuple[Confounding, str, dict[str, Any]]:
        given = allowance_of(self.model_, self.confounding_)
        return given.confounding, *describe_allowance(self.confounding_, given.confounding, given.shrinkage)

    @property
    def _counted(self) -> bool:
        """Whether people are counts of groups in the table of places."""
        return self.arguments_.get("composition") is not None

    def _open_people(self, people: Any, places: pa.Table | None = None) -> Batches:
        if people is None and self._counted:
            made, told = self.places_.table if places is None else places, self.arguments_
            people = count_groups(made, self.places_.by, told["composition"], told["weight"])
        return super()._open_people(people)

    def _fitted_moments(self, stage: int) -> Moments:
        return fitted_rates(self.model_, stage)

    def _new_moments(self, stage: int, terms: Terms, new: list[object], people: Batches, table: pa.Table) -> Moments:
        if stage:
            raise InputError(
                "new places are predicted for one question only; leave out population and name one outcome in fit."
            )
        return new_places(self, terms, new, people, table)

    def _held_out_moments(self, stage: int, folds: Iterable[IntArray]) -> Moments:
        if getattr(self, "cells_", None) is None:
            raise InputError("a loaded model does not hold its people; fit it again to cross-validate.")
        return held_out_places(self, stage, folds)
