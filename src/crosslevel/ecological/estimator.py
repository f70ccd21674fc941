"""``EcologicalInference``: people by place and totals by place in, the behaviour of any subgroup in any place out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.batches import open_batches
from crosslevel.ecological.answers import Rollup
from crosslevel.ecological.estimating import Question, Setting, answer
from crosslevel.ecological.group.covariance import Hyperparameters, Terms
from crosslevel.ecological.group.link import Sampling, fit_group, sampling_of
from crosslevel.ecological.partitions import Request, cut, read_request
from crosslevel.ecological.places import Places, match, read_places
from crosslevel.ecological.quantities import SHARES
from crosslevel.ecological.validation import cross_validate, predict_places
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.embedding.run import Progress
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.numerics.kernels import METRICS, SMOOTHNESS, distances
from crosslevel.results import Estimates, Provenance

__all__ = ["EcologicalInference"]

LINKS = ("group",)
KERNELS = ("sum", "product")
NO_NUGGET = (
    "nugget=False: places of a hundred thousand votes are then believed to a tenth of a point, and intervals are far too narrow "
    "(they held 2 to 27 % of held-out places where 95 % were promised)."
)
SUBGROUPS = (
    "Intervals hold under the model; that subgroups behave alike wherever they live cannot be checked with totals, and on real "
    "data this link was further from the truth for subgroups than the neighbourhood column."
)


class EcologicalInference(BaseEstimator):
    """Say how each subgroup behaved in each place, from weighted people by place and totals by place.

    The people of a place become one vector, the mean of their features; a Gaussian process of that vector and of the place's
    position explains the totals; its value at the vector of a subgroup is the subgroup's answer. Every draw is then shifted so
    that the subgroups of a place add up to its total.
    """

    def __init__(
        self,
        link: str = "group",
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
        hyperparameters: Mapping[str, float] | None = None,
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
            One row per person; anything :func:`crosslevel.data.batches.open_batches` reads. Kept by reference for
            :meth:`estimate`, never saved.
        places : dataframe
            One row per place, with the totals.
        by : str
            Column that names the place, in both tables.
        successes, trials : str
            Columns of places: how many did it, of how many.
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
            What is known about subgroups, as further rows: see :mod:`crosslevel.ecological.evidence`.
        where : str, optional
            Use these people only, here and in :meth:`estimate`.
        unmatched : {"error", "drop"}, default "error"
            What to do with places that stand in one table only.
        progress : callable, optional
            Called with the rows of people read and, where known, the rows in all.
        """
        self._check_parameters(coords)
        begun = time.perf_counter()
        found = read_places(places, by, successes, trials, coords=coords, outcomes=outcomes, population=population)
        embedder = MeanEmbedding(
            self.n_features,
            self.map,
            self.bandwidth,
            categorical=self.categorical,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            embedder.fit(open_batches(people, where=where), by=by, columns=columns, weight=weight, progress=progress)
            whole = embedder.transform(open_batches(people, where=where), progress=progress)
        self.warnings_: tuple[str, ...] = tuple(str(w.message) for w in said)
        keys = whole.key_table[by].to_pylist()
        found = match(found, keys, whole.weight, whole.n_rows, unmatched)
        self.warnings_ += found.notes
        self.places_, self.whole_ = found, _in_order(whole, keys, found.keys)
        self.embedder_ = embedder
        self.people_, self.where_, self.by_ = people, where, by
        self.warnings_ += () if self.nugget else (NO_NUGGET,)
        for text in self.warnings_:
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        embedded = time.perf_counter()
        self.model_ = fit_group(
            self.whole_.values,
            self.whole_.weight,
            self._terms(found),
            found.totals.successes,
            found.totals.trials,
            sampling=self._sampling(),
            n_starts=self.n_starts,
            fixed=self._fixed(len(found.totals.trials)),
        )
        self.hyperparameters_ = tuple(f.hyperparameters for f in self.model_.fits)
        self.log_marginal_ = float(sum(f.mode.log_evidence for f in self.model_.fits))
        self.converged_ = True
        self.seconds_ = {"embedding": embedded - begun, "fit": time.perf_counter() - embedded}
        return self

    def estimate(
        self,
        by: str | Sequence[str] | None = None,
        subgroups: Mapping[str, str] | None = None,
        *,
        where: str | None = None,
        rollup: str | None = None,
        of: str = "voters",
        contrast: str | None = None,
        reference: object = None,
        level: float = 0.95,
        draws: int = 1000,
        people: Any = None,
        progress: Progress | None = None,
    ) -> Estimates:
        """Answer for subgroups of every place, or of places put together, in one pass over the people.

        Parameters
        ----------
        by : str or sequence of str, optional
            Columns of people: a row for each value, or each combination of values.
        subgroups : mapping of name to query, optional
            Subgroups by name; with ``by``, each is cut further. They may overlap.
        where : str, optional
            Ask about these people only.
        rollup : str, optional
            A column of places to put them together by, or "all". Weights are the subgroup's people, or its predicted voters when
            turnout is modelled.
        of : {"voters", "people", "turnout"}, default "voters"
            Shares of those who voted, shares of everybody, or who voted; the latter two need ``population`` in :meth:`fit`.
        contrast : {"difference", "ratio"}, optional
            Compare subgroups within each place or roll-up, with joint uncertainty.
        reference : value, optional
            The subgroup to compare with; by default each pair is compared once.
        level : float, default 0.95
            Level of the intervals.
        draws : int, default 1000
            Number of posterior draws.
        people : path, frame or stream, optional
            The people, when they are not those of :meth:`fit`; needed after loading.
        progress : callable, optional

        Returns
        -------
        Estimates
            Keys: the place (or roll-up), then the subgroup. ``bound_low`` and ``bound_high`` assume nothing; ``neighbourhood``
            is what the subgroup would have if everybody behaved like their place, ``goodman`` what constant rates would give;
            ``population``, ``effective_size`` (Kish); ``distance`` from the places' vectors, 1 being the distance
            between neighbouring places; ``shift``, the mean size of the shift in logits that made the parts add up.
        """
        check_is_fitted(self, "model_")
        request = read_request(by, subgroups, where, self.by_)
        question = self._question(rollup, of, contrast, reference, level, draws)
        source = self.people_ if people is None else people
        if source is None:
            raise InputError("people is missing: a loaded model does not hold them; pass estimate(..., people=people).")
        stream = open_batches(open_batches(source, where=self.where_), where=where)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            found = self.embedder_.transform(
                stream, by=[self.by_, *request.by], subgroups=request.subgroups or None, progress=progress
            )
        parts = cut(found, request, self.whole_, self.places_.keys)
        return answer(self.model_, parts, question, self._setting(request, question, [str(w.message) for w in said]))

    def predict_places(self, places: object = None, *, people: Any = None, level: float = 0.95) -> Estimates:
        """Predict the share of each place: of the fitted ones as the model sees them, of new ones from their people.

        Parameters
        ----------
        places : dataframe, optional
            Keys (and coordinates) of places; the fitted ones when not given.
        people : path, frame or stream, optional
            Where new places' people are; those of :meth:`fit` when not given.
        level : float, default 0.95
        """
        check_is_fitted(self, "model_")
        return predict_places(self, places, people, checks.check_level(level))

    def cross_validate(
        self, k: int = 10, *, leave_out: str | None = None, level: float = 0.95, random_state: int = 0
    ) -> Estimates:
        """Predict every place from the others, hyperparameters learnt anew each time.

        Parameters
        ----------
        k : int, default 10
            Number of folds of places.
        leave_out : str, optional
            Column of places: leave out one of its values at a time (a state) in place of k folds.
        level : float, default 0.95
        random_state : int, default 0
            Seed of the folds.

        Returns
        -------
        Estimates
            A row per place: predicted share, interval of the observed share, ``truth``, ``log_density``, ``fold``. Scores
            stand in the diagnostics. They say how well *places* are predicted, and nothing about subgroups.
        """
        check_is_fitted(self, "model_")
        return cross_validate(self, k, leave_out, checks.check_level(level), random_state)

    def _terms(self, found: Places) -> Terms:
        distance, group = None, None
        if len(found) < 3:
            raise InputError(f"places has {len(found)} place(s) with people and trials; a regression needs at least 3.")
        if self.spatial is not None:
            if found.coords is None:
                raise InputError(
                    "coords is missing; name two columns of places, coords=('lon', 'lat'), or pass spatial=None."
                )
            if len(np.unique(found.coords, axis=0)) < 2:
                raise InputError("coords are the same for every place; correct them, or pass spatial=None.")
            if self.metric == "sphere":
                _check_degrees(found)
            distance = distances(found.coords, found.coords, self.metric)
        if self.group is not None:
            values = found.column(self.group, "group")
            number = {v: i for i, v in enumerate(dict.fromkeys(values))}
            group = np.array([number[v] for v in values], dtype=np.intp)
        return Terms(len(found), self.spatial, distance, bool(self.nugget), group, self.kernel == "product")

    def _sampling(self) -> Sampling | None:
        if not self.sampling_error:
            return None
        features = self.embedder_.feature_map_.transform(self.embedder_.sample_)
        return sampling_of(features, self.whole_.values, self.whole_.weight)

    def _fixed(self, n_stages: int) -> list[Hyperparameters] | None:
        if self.hyperparameters is None:
            return None
        known = [f.name for f in fields(Hyperparameters)]
        for name in self.hyperparameters:
            if name not in known:
                raise unknown_name("hyperparameters", name, known, "hyperparameter")
        return [Hyperparameters(**self.hyperparameters)] * n_stages

    def _question(
        self, rollup: str | None, of: str, contrast: str | None, reference: object, level: float, draws: int
    ) -> Question:
        if of not in SHARES:
            raise unknown_name("of", of, SHARES, "share")
        if of != "voters" and not self.places_.totals.turnout:
            raise InputError(f"of={of!r} needs turnout; name the column of everybody in fit(population=...).")
        if contrast not in (None, "difference", "ratio"):
            raise unknown_name("contrast", contrast, ["difference", "ratio"], "contrast")
        if isinstance(draws, bool) or not isinstance(draws, Integral) or draws < 50:
            raise InputError(f"draws={draws!r} is not a whole number of at least 50.")
        return Question(
            self._rollup(rollup), of, contrast, reference, checks.check_level(level), int(draws), int(self.random_state)
        )

    def _rollup(self, name: str | None) -> Rollup:
        q = len(self.places_)
        if name is None:
            return Rollup(self.by_, tuple(self.places_.keys), np.arange(q))
        if name == "all":
            return Rollup(None, (None,), np.zeros(q, dtype=np.intp))
        values = self.places_.column(name, "rollup")
        labels = sorted(set(values), key=str)
        number = {v: i for i, v in enumerate(labels)}
        return Rollup(name, tuple(labels), np.array([number[v] for v in values], dtype=np.intp))

    def _setting(self, request: Request, question: Question, said: Sequence[str]) -> Setting:
        asked = [f"{n}={v!r}" for n, v in (("by", list(request.by)), ("subgroups", dict(request.subgroups))) if v]
        asked += [f"{n}={v!r}" for n, v in (("where", request.where), ("rollup", question.rollup.name)) if v]
        asked += [] if question.rollup.name is not None else ["rollup='all'"]
        return Setting(
            totals=self.places_.totals,
            account=self.account,
            several=len(self.places_.totals.outcomes) > 1 and question.of != "turnout",
            method="distribution regression, group link" + ("" if self.account else ", not accounted"),
            provenance=Provenance.of(
                call=f"EcologicalInference(...).estimate({', '.join(asked)})",
                seed=question.seed,
                data={"places": self.places_.fingerprint},
            ),
            frame=self.places_.frame,
            warnings=(*self.warnings_, *said, SUBGROUPS),
            diagnostics=self.certificate(),
        )

    def certificate(self) -> dict[str, Any]:
        """Say how well the fit converged, and with which hyperparameters."""
        check_is_fitted(self, "model_")
        stages = []
        for found in self.model_.fits:
            h = found.hyperparameters
            stages.append(
                {
                    "gradient_at_mode": found.mode.gradient,
                    "newton_steps": found.mode.iterations,
                    "evidence_slope": found.slope,
                    "log_evidence": found.mode.log_evidence,
                    "log_evidence_by_start": list(found.evidences),
                    "at_limit": list(found.at_limit),
                    **{f"{name}": getattr(h, name) for name in self.model_.terms.names},
                }
            )
        return {"converged": True, "places": len(self.places_), "people": int(self.whole_.n_rows.sum()), "fit": stages}

    def _check_parameters(self, coords: Sequence[str] | None) -> None:
        for argument, choices in (
            ("link", LINKS),
            ("spatial", (None, *SMOOTHNESS)),
            ("metric", METRICS),
            ("kernel", KERNELS),
        ):
            if getattr(self, argument) not in choices:
                raise unknown_name(argument, getattr(self, argument), choices, "choice")
        if self.kernel == "product" and self.spatial is None:
            raise InputError("kernel='product' multiplies by the spatial kernel, and spatial=None; name one.")


def _in_order(whole: Embeddings, keys: Sequence[object], wanted: Sequence[object]) -> Embeddings:
    number = {key: i for i, key in enumerate(keys)}
    rows = np.array([number[key] for key in wanted], dtype=np.intp)
    return Embeddings(
        whole.values[rows],
        whole.key_table.take(pa.array(rows)),
        whole.weight[rows],
        whole.n_rows[rows],
        whole.effective_size[rows],
        whole.warnings,
        whole.frame,
    )


def _check_degrees(found: Places) -> None:
    coords = found.coords
    if coords is None:
        return
    bad = (np.abs(coords[:, 0]) > 360) | (np.abs(coords[:, 1]) > 90)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"coords of {found.keys[i]!r} are {coords[i].tolist()}, which is no longitude and latitude in degrees; correct them (in "
            "this order), or pass metric='plane' for other coordinates."
        )
