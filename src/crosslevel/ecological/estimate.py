"""What both models share: how people and places are read, and what a fitted model can be asked."""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.frames import as_names
from crosslevel.data.people import People
from crosslevel.data.places import Places, PlaceTotals
from crosslevel.ecological.answers import Setting, Source, answer
from crosslevel.ecological.confounding import Confounding, LearnedConfounding
from crosslevel.ecological.covariance import (
    Hyperparameters,
    Moments,
    Terms,
    check_degrees,
    read_hyperparameters,
)
from crosslevel.ecological.subgroups import Question, Request, read_question, read_request
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.numerics.kernels import SMOOTHNESS
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import AnyArray, FloatArray, IntArray, Progress, RandomState

LEAST_PLACES = 3
NO_NUGGET = (
    "nugget=False: places of a hundred thousand votes are then taken as known to a tenth of a point, and intervals are too narrow "
    "(those of DistributionRegression for held-out regions of the election of 2024, at 95 %, held 89 %, and 3 to 33 % without the field "
    "over the map)."
)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit found, before any of it is kept.

    Attributes
    ----------
    people : People or None
    model : RegressionModel or PersonsModel
    places : PlaceTotals
    lived : (q,), (q,)
        Weight and number of the people of each place.
    columns : sequence of str
        Features.
    arguments : mapping
        What the nouns mean, without their data.
    seed : int
    notes, quiet : sequence of str
        Warnings, and what only the reader of a result is told.
    """

    people: Any
    model: Any
    places: PlaceTotals
    lived: tuple[FloatArray, AnyArray]
    columns: Sequence[str]
    arguments: Mapping[str, Any]
    seed: int
    notes: Sequence[str]
    quiet: Sequence[str] = ()


class PlaceEstimator(BaseEstimator):
    """Base of the models that are fitted to people and totals by place; a model adds its fit, its draws and its predictions."""

    model_: Any
    places_: PlaceTotals
    confounding_: LearnedConfounding | None
    hyperparameters_: tuple[Hyperparameters, ...]
    convergence_: dict[str, Any]
    arguments_: dict[str, Any]

    _unsaved: tuple[str, ...] = ("people_", "cells_")
    _never_saves_people = "fit it with a feature map that is not made of people, such as feature_map='sorf'"
    _method: str
    _intervals: tuple[str, ...]
    _about_subgroups: str | None = None
    """A warning that every answer about subgroups repeats."""
    nugget: bool = True
    match_totals: bool = True
    nugget_by: str | None = None
    inducing_points: int | None = None
    """What only one of the models lets choose."""

    def estimate(
        self,
        by: str | Sequence[str] | None = None,
        subgroups: Mapping[str, str] | None = None,
        *,
        where: str | None = None,
        rollup: str | Sequence[str] | None = None,
        share_of: str = "voters",
        interval: str | None = None,
        level: float = 0.95,
        n_draws: int = 1000,
        people: Any = None,
        progress: Progress | None = None,
    ) -> Estimates:
        """Estimate the rate of subgroups in every place, or in places put together, in one pass over the people.

        Parameters
        ----------
        by : str or sequence of str, optional
            Columns of people: a row for each value, or each combination of values. None may be missing; leave such people out with
            ``where="race is not null"``.
        subgroups : mapping of name to condition, optional
            Subgroups by name; with ``by``, each is cut further. They may overlap.
        where : str, optional
            Ask about these people only.
        rollup : str, optional
            A column of places to put them together by, or "all". Weights are the subgroup's people, or its predicted voters when
            turnout is modeled.
        share_of : {"voters", "people", "turnout"}, default "voters"
            Shares of those who voted, shares of everybody, or who voted; the latter two need ``Places(population=)``.
        interval : {"confounding", "model"}, optional
            Whether intervals allow for subgroups that behave differently where they live, or hold under the model alone.
            :class:`crosslevel.EcologicalInference` allows for confounding by default (see its ``learn_confounding``): the effects of
            columns in which places differ much are shrunk, so that the two differ in ``estimate`` too, and ``model_low`` and
            ``model_high`` say what the model's own uncertainty leaves of the shrunk answer. The errors of
            :class:`crosslevel.ecological.DistributionRegression` have not been measured so, and it has "model" only.
        level : float, default 0.95
            Level of the intervals.
        n_draws : int, default 1000
            Number of posterior draws.
        people : People, path or dataframe, optional
            The people of :meth:`fit` again; needed after loading, which does not bring them back.
        progress : bool or callable, optional

        Returns
        -------
        Estimates
            Keys: the place (or roll-up), then the subgroup. ``bound_low`` and ``bound_high`` assume nothing; ``neighborhood``
            is what the subgroup would have if everybody behaved like their place, ``goodman`` what constant rates would give;
            ``population``, ``effective_size`` (Kish); ``distance`` of the subgroup's people from those of the nearest place, by the
            shares of their levels (of DistributionRegression, by their vectors), 1 being the distance between neighboring places;
            ``shift``, the mean size of the shift in logits that made the parts add up (of the last question, where there are several).
            :meth:`crosslevel.results.Estimates.contrast` compares the subgroups.
        """
        check_is_fitted(self, "model_")
        request = read_request(by, subgroups, where, self.places_.by)
        question = read_question(
            self.places_,
            request,
            rollup=rollup,
            share_of=share_of,
            level=level,
            n_draws=n_draws,
            seed=self.seed_,
            interval=read_interval(interval, self._intervals),
        )
        asked: dict[str, object] = {"by": list(request.by) or None, "subgroups": dict(request.subgroups) or None}
        asked |= {"where": where, "rollup": rollup, "share_of": None if share_of == "voters" else share_of}
        asked |= {"interval": question.interval, "level": level, "n_draws": n_draws}
        source, notes = self._source(request, question, self._open_people(people), progress)
        notes += [
            f"Nobody is in the subgroup {name!r} ({request.subgroups[name]}); it is absent from the table."
            for name, part in zip(request.subgroups, source.partitions, strict=False)
            if not part.asked.any()
        ]
        return answer(source, question, self._setting(question, asked, notes))

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the tables of a report: the rate of each place."""
        return {"places": self.predict_places(level=level)}

    def predict_places(self, places: object = None, *, people: Any = None, level: float = 0.95) -> Estimates:
        """Predict the share of each place: of the fitted ones as the model sees them, of new ones from their people.

        With several outcomes it is the share of the last question, among those who chose none of the outcomes before. Which of the
        two models predicts places better differs from data to data: compare their :meth:`cross_validate`.

        Parameters
        ----------
        places : dataframe, optional
            Keys (and coordinates) of places; the fitted ones when not given.
        people : People, path or dataframe, optional
            Where new places' people are; those of :meth:`fit` when not given.
        level : float, default 0.95
        """
        from crosslevel.ecological.validation import predict_places

        check_is_fitted(self, "model_")
        found = predict_places(self, places, people, checks.check_level(level))
        return self._signed(found, "predict_places", {"level": level}, self.seed_)

    def cross_validate(
        self,
        k: int = 10,
        *,
        leave_out: str | None = None,
        level: float = 0.95,
        random_state: RandomState = 0,
        progress: Progress | None = None,
    ) -> Estimates:
        """Predict every place from the others, hyperparameters learned anew each time.

        With several outcomes the last question is scored: its share of those who
        chose none of the outcomes before.

        Parameters
        ----------
        k : int, default 10
            Number of folds of places.
        leave_out : str, optional
            Column of places: leave out one of its values at a time (a state) in place of k folds.
        level : float, default 0.95
        random_state : int, None, Generator or RandomState, default 0
            Seed of the folds.
        progress : bool or callable, optional

        Returns
        -------
        Estimates
            A row per place: predicted share, interval of the observed share, ``truth``, ``log_density``, ``fold``. Scores
            stand in the diagnostics. They say how well *places* are predicted, and nothing about subgroups.
        """
        from crosslevel.ecological.validation import cross_validate

        check_is_fitted(self, "model_")
        if leave_out is not None:
            idle, because = {"k": k, "random_state": random_state}, f"beside leave_out={leave_out!r}; use one of them"
            checks.refuse_idle_arguments(PlaceEstimator.cross_validate, idle, because)
        seed = checks.read_seed(random_state)
        found = cross_validate(self, k, leave_out, checks.check_level(level), seed, progress)
        asked = {"k": None if leave_out is not None else k, "leave_out": leave_out, "level": level}
        return self._signed(found, "cross_validate", asked | {"random_state": seed}, seed)

    def _source(
        self, request: Request, question: Question, people: Any, progress: Progress | None
    ) -> tuple[Source, list[str]]:
        """Go over the people once and cut places in the parts asked for."""
        raise NotImplementedError

    def _fitted_moments(self, stage: int) -> Moments:
        """Give mean and variance of the logit of every fitted place's rate."""
        raise NotImplementedError

    def _new_moments(self, stage: int, terms: Terms, new: list[object], people: Any, table: pa.Table) -> Moments:
        """Give mean and variance of the logit of new places' rates; ``terms`` are over the fitted and the new, ``table`` has the new."""
        raise NotImplementedError

    def _held_out_moments(self, stage: int, folds: Iterable[IntArray]) -> Moments:
        """Predict the logit of every place from those outside its fold."""
        raise NotImplementedError

    def _open_people(self, people: Any, places: pa.Table | None = None) -> People:
        """Give the people asked about, or those of the fit; ``places`` are new ones whose people are asked for."""
        held = getattr(self, "people_", None)
        if people is None and held is None:
            raise InputError("people is missing: a loaded model does not hold them; pass people=, those of fit.")
        given = held if people is None else people
        return given if isinstance(given, People) else People(given, **self.arguments_["people"])

    def _metric(self, places: Places) -> str:
        """Say how far apart places are."""
        return places.metric

    def _check_common(self) -> None:
        """Refuse parameters of the constructor that mean nothing, or that cannot act with the others given."""
        if self.spatial not in (known := (None, *SMOOTHNESS)):
            raise unknown_name("spatial", self.spatial, known, "choice")
        checks.check_flags(self)

    def _read_places(self, places: Places) -> PlaceTotals:
        """Check places, and everything that can be checked before anybody is read."""
        if self.spatial is None and places.coords is not None:
            raise InputError(
                "coords have no effect with spatial=None; leave them out of Places, or name a spatial kernel."
            )
        found = places.read()
        read_hyperparameters(self.hyperparameters, self._terms(found, self._metric(places)), found.totals.questions)
        return found

    def _terms(self, places: PlaceTotals, metric: str) -> Terms:
        """Say which terms the prior has over these places."""
        if len(places) < LEAST_PLACES:
            raise InputError(
                f"places has {len(places)} place(s) with people and trials; a regression needs at least {LEAST_PLACES}."
            )
        coords = None
        if self.spatial is not None:
            coords = places.coords
            if coords is None:
                raise InputError(
                    "coords is missing; name two columns of places, coords=('lon', 'lat'), or pass spatial=None."
                )
            if len(np.unique(coords, axis=0)) < 2:
                raise InputError("coords are the same for every place; correct them, or pass spatial=None.")
            if metric == "sphere":
                check_degrees(coords, places.keys)
        groups = []
        for name in as_groups(self.group):
            values = places.column(name, "group")
            number = {v: i for i, v in enumerate(dict.fromkeys(values))}
            if len(number) < 2:
                raise InputError(f"group={name!r} has one value in all places; name a column with several.")
            groups.append(np.array([number[v] for v in values], dtype=np.intp))
        first, second = (*groups, None, None)[:2]
        settings = (self.spatial, coords, metric, bool(self.nugget), first, second, self.inducing_points)
        if self.nugget_by is None:
            return Terms(len(places), *settings)
        kinds = [str(v) for v in places.column(self.nugget_by, "nugget_by")]
        levels = tuple(sorted(set(kinds)))
        if len(levels) < 2:
            raise InputError(f"nugget_by={self.nugget_by!r} has one value in all places; name a column with several.")
        return Terms(len(places), *settings, np.searchsorted(levels, kinds), levels)

    def _keep(self, fitted: Fitted) -> None:
        """Set what every fit leaves, all at once: nothing is kept of a fit that was stopped."""
        model, places, told = fitted.model, fitted.places, fitted.lived
        self.model_, self.places_, self.people_, self.confounding_ = model, places, fitted.people, None
        self.seed_, self.columns_, self.arguments_ = fitted.seed, tuple(fitted.columns), dict(fitted.arguments)
        self.place_weight_, self.place_people_ = told
        self.call_ = f"{describe_call(self, 'fit', {})[:-1]}{', '.join(map(repr, self._nouns()))})"
        weights = [f"{w:.9g}" for w in told[0]]
        counted = [list(fitted.columns), [str(k) for k in places.keys], told[1].tolist(), weights]
        # named by what was counted anyway: two files of different format with the same people have the same name
        digest = hashlib.sha256(json.dumps(counted).encode()).hexdigest()[:16]
        self.data_ = {"people": f"sha256:{digest}", "places": places.fingerprint}
        self.hyperparameters_ = tuple(f.hyperparameters for f in model.fits)
        said = [*fitted.notes, *(() if self.nugget else (NO_NUGGET,))]
        for name, fit in zip(places.totals.questions, model.fits, strict=True):
            question = f" (question {name!r})" if len(model.fits) > 1 else ""
            said += [
                f"The hyperparameter {term!r} ended at the limit of its range, {getattr(fit.hyperparameters, term):.3g}{question}: "
                "these places cannot tell it."
                for term in fit.at_limit
            ]
        self.warnings_ = tuple(dict.fromkeys([*said, *fitted.quiet]))
        sizes = {"converged": True, "places": len(places), "people": int(told[1].sum())}
        self.convergence_ = sizes | self._describe_fits()
        for text in dict.fromkeys(said):  # the rest is for the reader of a result
            warnings.warn(text, CrosslevelWarning, stacklevel=3)

    def _nouns(self) -> list[Described]:
        """Describe what was fitted, without its data."""
        return [Described("People", self.arguments_["people"]), Described("Places", self.arguments_["places"])]

    def _describe_fits(self) -> dict[str, Any]:
        """Say for every question what was learned and how the search ended, flat and plain."""
        said: dict[str, Any] = {}
        for name, fit in zip(self.places_.totals.questions, self.model_.fits, strict=True):
            first = f"{name}: " if len(self.model_.fits) > 1 else ""
            said |= {f"{first}{term}": getattr(fit.hyperparameters, term) for term in self.model_.terms.names}
            if self.model_.terms.nugget_levels:
                ratios = zip(self.model_.terms.nugget_levels, fit.hyperparameters.nugget_ratios, strict=True)
                told = [f"{level} {fit.hyperparameters.nugget * ratio:.3g}" for level, ratio in ratios]
                said[f"{first}nugget_by_level"] = ", ".join(told)
            said[f"{first}at_limit"] = ", ".join(fit.at_limit) or "none"
            said |= {f"{first}{n}": value for n, value in fit.describe().items()}
        return said

    def _setting(self, question: Question, asked: Mapping[str, object], said: Sequence[str]) -> Setting:
        totals, confounding = self.places_.totals, None
        diagnostics, notes = dict(self.convergence_), [] if self._about_subgroups is None else [self._about_subgroups]
        if question.interval == "confounding":
            confounding, sentence, facts = self._confounding()
            diagnostics |= facts
        else:
            sentence = (
                "interval='model': intervals hold if subgroups behave alike wherever they live, which cannot be checked with totals. "
                "On sixteen columns whose truth is known, such 95 % intervals of EcologicalInference held the truth of 78 % of the "
                "subgroups of all regions."
            )
        return Setting(
            confounding=confounding,
            totals=totals,
            match_totals=self.match_totals,
            several=len(totals.outcomes) > 1 and question.share_of != "turnout",
            method=self._method + ("" if self.match_totals else ", totals not matched"),
            provenance=self._provenance("estimate", asked, question.seed),
            frame=self.places_.frame,
            warnings=(*self.warnings_, *said, *notes, sentence),
            diagnostics=diagnostics,
        )

    def _confounding(self) -> tuple[Confounding, str, dict[str, Any]]:
        """Say which confounding is allowed for, in a sentence for its reader and in the diagnostics."""
        raise NotImplementedError

    def _provenance(self, verb: str, asked: Mapping[str, object], seed: int) -> Provenance:
        words = ", ".join(f"{n}={v!r}" for n, v in asked.items() if v is not None)
        return Provenance.of(call=f"{self.call_}.{verb}({words})", seed=seed, data=self.data_)

    def _signed(self, found: Estimates, verb: str, asked: Mapping[str, object], seed: int) -> Estimates:
        """Give an answer the whole call, the data behind it, and what every result must say."""
        warnings_ = (*self.warnings_, *found.warnings)
        return replace(found, provenance=self._provenance(verb, asked, seed), warnings=warnings_)

    def __getstate__(self) -> Any:
        # a pickle is a saved form too, and people are never saved
        return {name: value for name, value in super().__getstate__().items() if name not in self._unsaved}

    def _forget(self) -> None:
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)


def as_groups(group: str | Sequence[str] | None) -> tuple[str, ...]:
    """Read the columns whose values are groups of places: none, one or two.

    Examples
    --------
    >>> as_groups("state"), as_groups(["state", "county"])
    (('state',), ('state', 'county'))
    """
    if group is None:
        return ()
    names = as_names(group, "group")
    if len(names) > 2:
        raise InputError(f"group={list(names)!r} names {len(names)} columns, and places have at most two groupings.")
    return names


@dataclass(frozen=True, repr=False)
class Described:
    """A noun as provenance has it: what it means, without its data."""

    name: str
    roles: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{n}={v!r}' for n, v in self.roles.items())})"


def check_nouns(people: object, places: object) -> None:
    """Refuse what is neither people nor places, and clusters that are the places."""
    if not isinstance(places, Places):
        raise InputError(
            f"places is a {type(places).__name__}; pass crosslevel.Places(data, by=..., successes=..., trials=...)."
        )
    if not isinstance(people, People):
        raise InputError(
            f"people is a {type(people).__name__}; pass crosslevel.People(data, by=...) (EcologicalInference takes GroupCounts too)."
        )
    if people.cluster == people.place:
        raise InputError(f"cluster={people.cluster!r} names the places themselves; name the column of households.")


def read_interval(interval: str | None, known: Sequence[str]) -> str:
    """Say which intervals are meant; the first a model has, by default.

    Examples
    --------
    >>> read_interval(None, ["confounding", "model"]), read_interval(None, ["model"])
    ('confounding', 'model')
    """
    if interval is None:
        return known[0]
    if interval not in known:
        raise unknown_name("interval", interval, known, "interval")
    return interval


def describe_call(model: BaseEstimator, call: str, arguments: Mapping[str, object]) -> str:
    """Write a call as a person would: what differs from the defaults."""
    defaults = inspect.signature(type(model).__init__).parameters
    own = [f"{n}={v!r}" for n, v in model.get_params(deep=False).items() if not _same(v, defaults[n].default)]
    given = [f"{n}={v!r}" for n, v in arguments.items() if v is not None]
    return f"{type(model).__name__}({', '.join(own)}).{call}({', '.join(given)})"


def _same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))
