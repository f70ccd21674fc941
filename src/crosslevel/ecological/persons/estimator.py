"""``EcologicalInference``: people by place and totals by place in, the behavior of any subgroup in any place out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.audit import audit
from crosslevel.data.people import People, counting
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.place_cells import PlaceCells
from crosslevel.data.place_columns import GroupCounts, learn_covariates
from crosslevel.data.places import Places, match_places
from crosslevel.data.signatures import checked
from crosslevel.data.surveys import MEASURED, PublishedShares, Survey, read_surveys
from crosslevel.ecological.answers import Source
from crosslevel.ecological.confounding import Confounding, describe_allowance
from crosslevel.ecological.covariance import Moments, Terms, read_hyperparameters
from crosslevel.ecological.estimate import Described, Fitted, PlaceEstimator, check_nouns
from crosslevel.ecological.persons import fitting, survey_fit
from crosslevel.ecological.persons.composition import known_shares
from crosslevel.ecological.persons.groups import allowance_of, source_of
from crosslevel.ecological.persons.model import PersonsModel
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.results import Estimates
from crosslevel.typing import IntArray, Progress, RandomState


def read_people(people: People | GroupCounts, places: Places) -> tuple[dict[str, Any] | None, People]:
    """Give people, and what was counted in columns of places where those stand for them."""
    if isinstance(people, GroupCounts) and isinstance(places, Places):
        if places.margins is not None:
            raise InputError("margins are beside GroupCounts, which are counts themselves; leave margins out.")
        return asdict(people), people.people(places.table, places.by)
    check_nouns(people, places)
    assert isinstance(people, People)
    return None, people


class EcologicalInference(PlaceEstimator):
    """Estimate how each subgroup behaved in each place, from weighted people by place and totals by place.

    People decide one by one: each has a probability that depends on who they are and where they live, and a place's total is the
    sum of its people's. Every draw is shifted so that the subgroups of a place add up to its total.

    Parameters
    ----------
    spatial : {"matern12", "matern32", "matern52"} or None, default "matern32"
        The field over the map; None for none.
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

    People are counted where they are, by SQL. Sums are equal to 1e-12 whatever the order, the threads and the frame.

    Examples
    --------
    >>> import crosslevel as cl
    >>> from crosslevel.data.simulate import nation
    >>> world = nation(40, 100, n_states=4)
    >>> people = cl.People(world.people, by="region", weight="weight", categorical=["sex"])
    >>> places = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
    >>> model = cl.EcologicalInference().fit(people, places)
    >>> found = model.estimate(by="sex", rollup="all", n_draws=200)
    >>> found["sex"].tolist()
    [1, 2]
    >>> bool((found["bound_low"] <= found["conf_low"]).all() and (found["conf_high"] <= found["bound_high"]).all())
    True
    >>> model.estimate(subgroups={"women over 65": "sex = 2 and age >= 65"}, rollup="state", n_draws=200).keys
    ('state', 'subgroup')
    """

    log_evidence_: float
    model_: PersonsModel
    cells_: PlaceCells
    survey_: Any

    _method = "ecological inference of persons"
    _intervals = ("confounding", "model")
    _unsaved = (*PlaceEstimator._unsaved, "surveyed_", "surveys_", "shares_")
    _contextual_variance = 0.0
    """What :meth:`sensitivity` varies."""

    def __init__(
        self,
        *,
        spatial: str | None = "matern32",
        group: str | Sequence[str] | None = None,
        nugget_by: str | None = None,
        interactions: Sequence[Sequence[str]] | None = None,
        n_bins: int = 12,
        inducing_points: int | None = None,
        hyperparameters: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.spatial = spatial
        self.group = group
        self.nugget_by = nugget_by
        self.interactions = interactions
        self.n_bins = n_bins
        self.inducing_points = inducing_points
        self.hyperparameters = hyperparameters
        self.random_state = random_state

    def fit(
        self,
        people: People | GroupCounts,
        places: Places,
        survey: Survey | PublishedShares | Sequence[Survey | PublishedShares] | None = None,
        *,
        unmatched: str = "error",
        progress: Progress | None = None,
    ) -> Self:
        """Learn how totals depend on who lives in a place, and how people of a place differ from a survey where there is one.

        Parameters
        ----------
        people : People or GroupCounts
            Who lives where: records, or counts of groups in columns of places. Records are kept by reference for :meth:`estimate`,
            never saved.
        places : Places
            The totals.
        survey : Survey, PublishedShares, or several of them, optional
            Respondents who were asked the outcome, with the columns of people, and shares that were published; several surveys have an
            offset each. The fit holds counts of respondents who are alike, and a saved model not even those.
        unmatched : {"error", "drop"}, default "error"
            What to do with places that stand in one table only, and with respondents of unknown areas; every result repeats it.
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the people read and of all, after each pass, then (0, None).
        """
        self._forget()
        self._check_parameters()
        surveys, shares = ((), None) if survey is None else read_surveys(survey)
        begun, seed = time.perf_counter(), checks.read_seed(self.random_state)
        given = people
        groups, people = read_people(given, places)
        found = self._read_places(places)
        with counting(progress, "Reading people") as done:
            learned = learn_columns(people, int(self.n_bins))
            done(learned.n_rows)
        doubts = audit(given, places, *surveys, shares).sentences
        found = found.take(np.array(sorted(range(len(found)), key=lambda i: found.keys[i]), dtype=np.intp))  # type: ignore[arg-type,return-value]
        with counting(progress, "Counting people") as done:
            n_bins, grouped = int(self.n_bins), groups is not None
            bins, cells, coarser = fitting.count_in_bins(people, learned.bins, n_bins, found.keys, grouped)
            done(learned.n_rows)
        if callable(progress):
            progress(0, None)  # the search that follows has no end that is known
        lived = np.flatnonzero(cells.total > 0)
        keys = [found.keys[i] for i in lived] + list(cells.elsewhere)
        outside = np.array(list(cells.elsewhere.values())).reshape(-1, 2)
        weights = np.append(cells.total[lived], outside[:, 0])
        rows = np.append(cells.count.sum(axis=1)[lived], outside[:, 1]).astype(np.intp)
        found, cells = match_places(found, keys, weights, rows, unmatched), cells.inhabited()
        terms, counted = self._terms(found, self._metric(places)), time.perf_counter()
        table, covariates = places.margins_table, places.covariates
        read = None if covariates is None else learn_covariates(found.table, covariates)
        known = None if table is None else known_shares(table, places.by, found.keys, bins)
        wanted = fitting.Given(
            known=known,
            counted=groups is not None,
            columns=None if read is None else read.read(found.table),
            interactions=self.interactions,
            contextual_variance=self._contextual_variance,
            fixed=read_hyperparameters(self.hyperparameters, terms, found.totals.questions),
        )
        model = replace(fitting.fit_persons(cells, bins, terms, found.totals, wanted), covariates=read)
        notes = [*doubts, *learned.warnings, *found.notes, *coarser, *fitting.describe_field(model, found.totals)]
        notes += fitting.describe_totals(found.totals)
        quiet = fitting.describe_composition(model, found.totals, people.cluster, cells, groups is not None)
        surveyed, summary = None, None
        if surveys or shares is not None:
            named = {n: getattr(places, n) for n in ("successes", "trials", "outcomes", "population")}
            counts = (surveys, shares, people, model, found, unmatched, groups is not None, named)
            surveyed = survey_fit.read_surveyed(*counts)
            selection = survey_fit.default_selection(surveys[0].selection if surveys else MEASURED)
            allowance = allowance_of(model, None)
            compare = any(one.compare for one in surveys)
            fused = (model, cells, found, surveyed, allowance, selection, compare)
            model, summary = survey_fit.fuse_questions(*fused)
            notes, quiet = [*notes, *summary.loud], [*quiet, *summary.said]
        self.cells_ = replace(cells, clusters=None)  # in the shares already
        self.log_evidence_ = float(sum(fit.log_evidence for fit in model.fits))
        kept = None if groups is not None else people  # made again from places where they are asked for
        roles: dict[str, Any] = {"people": people.roles(), "places": places.roles(), "groups": groups}
        roles |= {"surveys": [*(one.name for one in surveys), *([] if shares is None else ["published shares"])]}
        self.margins_ = table
        people_of = (cells.total, cells.count.sum(axis=1))
        self._keep(Fitted(kept, model, found, people_of, bins.names, roles, seed, notes, quiet))
        sizes: dict[str, Any] = {"cells": len(cells.codes), "place_cell_pairs": len(cells.label)}
        sizes["bins_of_numbers"] = bins.describe_bins()
        self.convergence_ |= fitting.describe_columns(model) | sizes | ({} if summary is None else summary.facts())
        self.survey_, self.surveyed_, self.surveys_, self.shares_ = summary, surveyed, surveys, shares
        self.data_ |= {} if surveyed is None else surveyed.fingerprint
        self.seconds_ = {"people": counted - begun, "fit": time.perf_counter() - counted}
        return self

    @checked
    def learn_confounding(
        self,
        labels: Sequence[str] | Mapping[str, str] | str = "auto",
        *,
        people: Any = None,
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
        labels : sequence of str, mapping of name to condition, or "auto"
            What to hide: columns of 0 and 1 (or of true and false), or conditions (``"tenure = 1"``), true of 5 to 95 % of people and
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
        from crosslevel.ecological.persons.labels import Hiding, hide_and_learn

        check_is_fitted(self, "model_")
        if self.counted_:
            raise InputError(
                "learn_confounding hides columns of people, and GroupCounts has counts of groups only; fit people to learn it, "
                "or use the shipped constants."
            )
        checks.check_level(level)
        survey_fit.check_measured(self, survey)
        given = self._open_people(people)
        asked = Hiding(labels, by, hidden, families, level, survey)
        found, said, selection = hide_and_learn(self, given, asked, progress)
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

    @property
    def counted_(self) -> bool:
        """Whether people are counts of groups in the table of places."""
        return self.arguments_["groups"] is not None

    def _nouns(self) -> list[Described]:
        told = self.arguments_
        first = Described("GroupCounts", told["groups"]) if self.counted_ else Described("People", told["people"])
        margins = {} if self.margins_ is None else {"margins": self.margins_.column_names}
        more = [Described("Survey", {"name": name}) for name in told["surveys"]]
        return [first, Described("Places", told["places"] | margins), *more]

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        found = super()._report_tables(level)
        if self.survey_ is not None and self.survey_.compared.num_rows:
            made = self._provenance("survey_.estimates", {}, self.seed_)
            found["survey"] = self.survey_.estimates(made, self.places_.frame)
        return found

    def _source(
        self, request: Request, question: Question, people: People, progress: Progress | None
    ) -> tuple[Source, list[str]]:
        with counting(progress, "Counting people") as done:
            found = source_of(self, request, question, people)
            done(int(self.place_people_.sum()))
        return found, []

    def _confounding(self) -> tuple[Confounding, str, dict[str, Any]]:
        given = allowance_of(self.model_, self.confounding_)
        return given.confounding, *describe_allowance(self.confounding_, given.confounding, given.shrinkage)

    def _open_people(self, people: Any, places: pa.Table | None = None) -> People:
        if people is None and self.counted_:
            made = self.places_.table if places is None else places
            return GroupCounts(**self.arguments_["groups"]).people(made, self.places_.by)
        return super()._open_people(people)

    def _fitted_moments(self, stage: int) -> Moments:
        return fitting.fitted_rates(self.model_, stage)

    def _new_moments(self, stage: int, terms: Terms, new: list[object], people: People, table: pa.Table) -> Moments:
        if stage:
            raise InputError(
                "new places are predicted for one question only; leave out population and name one outcome in fit."
            )
        return fitting.new_places(self, terms, new, people, table)

    def _held_out_moments(self, stage: int, folds: Iterable[IntArray]) -> Moments:
        if getattr(self, "cells_", None) is None:
            raise InputError("a loaded model does not hold its people; fit it again to cross-validate.")
        return fitting.held_out_places(self, stage, folds)
