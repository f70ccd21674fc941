"""What a fitted model can be asked: subgroups, places, and how well places are predicted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.data.batches import Batches
from crosslevel.data.checks import count_jobs
from crosslevel.data.queries import ALL, SUBGROUP, parse
from crosslevel.ecological.calibration import Calibration, calibration_words, columns_apart
from crosslevel.ecological.certificate import certificate
from crosslevel.ecological.estimating import Question, Setting, Source, answer
from crosslevel.ecological.evidence import Evidence
from crosslevel.ecological.group.link import GroupModel
from crosslevel.ecological.group.source import GroupSource
from crosslevel.ecological.honest import Confounding
from crosslevel.ecological.individual.collapse import Collapsed, Labels, collapse
from crosslevel.ecological.individual.link import IndividualModel
from crosslevel.ecological.individual.source import parts_of
from crosslevel.ecological.matching import check_people
from crosslevel.ecological.partitions import Request, cut, read_request
from crosslevel.ecological.places import Places
from crosslevel.ecological.settings import open_people, read_interval, read_question
from crosslevel.ecological.validation import cross_validate, predict_places
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import Progress

if TYPE_CHECKING:
    from crosslevel.ecological.estimator import EcologicalInference

__all__ = ["SubgroupAnswers"]

UNDER_MODEL = (
    "interval='model': intervals hold if subgroups behave alike wherever they live, which cannot be checked with totals. On twenty "
    "columns whose truth is known, such 95 % intervals of the individual link held the truth of 68 % of national subgroups."
)
GROUP_LINK = (
    "link='group' predicts the totals of places well and subgroups poorly: on columns whose truth is known it was further off than "
    "the neighborhood column. Use link='individual' for subgroups."
)


class SubgroupAnswers:
    """The questions; :class:`EcologicalInference` adds the fit."""

    link: str
    account: bool
    sampling_error: bool
    random_state: int
    n_jobs: int | None
    embedder_: MeanEmbedding
    model_: GroupModel | IndividualModel
    calibration_: Calibration | None
    cells_: Collapsed | None
    counts_: dict[str, int]
    places_: Places
    whole_: Embeddings
    evidence_: Evidence | None
    warnings_: tuple[str, ...]
    people_: Any
    where_: str | None
    by_: str
    call_: str
    asked_: dict[str, Any]
    data_: dict[str, str]
    other_: EcologicalInference | None
    links_: dict[str, dict[str, Any]] | None

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
        interval: str | None = None,
        level: float = 0.95,
        draws: int = 1000,
        people: Any = None,
        progress: Progress | None = None,
    ) -> Estimates:
        """Answer for subgroups of every place, or of places put together, in one pass over the people.

        Parameters
        ----------
        by : str or sequence of str, optional
            Columns of people: a row for each value, or each combination of values. None may be missing; leave such people out with
            ``where="race is not null"``.
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
        interval : {"honest", "model"}, optional
            Whether intervals allow for subgroups that behave differently where they live (see :meth:`calibrate`), or hold under the
            model alone. Honest for the individual link, where ``model_low`` and ``model_high`` show beside it how wide the interval is
            without that; of the group link, whose errors have not been measured so, only the latter is known. Once calibrated, honest
            answers are pulled towards the rates of their places, and ``model_low`` and ``model_high`` with them; those of "model"
            are not, so the two may differ in ``estimate`` too.
        level : float, default 0.95
            Level of the intervals.
        draws : int, default 1000
            Number of posterior draws.
        people : path, frame or stream, optional
            The people of :meth:`fit` again; needed after loading, which does not bring them back.
        progress : callable, optional

        Returns
        -------
        Estimates
            Keys: the place (or roll-up), then the subgroup. ``bound_low`` and ``bound_high`` assume nothing; ``neighborhood``
            is what the subgroup would have if everybody behaved like their place, ``goodman`` what constant rates would give;
            ``population``, ``effective_size`` (Kish); ``distance`` (group link) from the places' vectors, 1 being the distance
            between neighbouring places; ``shift``, the mean size of the shift in logits that made the parts add up (of the last
            question, where there are several).
        """
        check_is_fitted(self, "model_")
        interval = read_interval(interval, self.link)
        request = read_request(by, subgroups, where, self.by_)
        question = read_question(
            self.places_,
            request,
            rollup=rollup,
            of=of,
            contrast=contrast,
            reference=reference,
            level=level,
            draws=draws,
            seed=int(self.random_state),
            interval=interval,
        )
        asked: dict[str, object] = {
            "by": list(request.by) or None,
            "subgroups": dict(request.subgroups) or None,
            "where": where,
        }
        asked |= {"rollup": rollup, "of": None if of == "voters" else of, "contrast": contrast, "reference": reference}
        asked |= {"interval": interval, "level": level, "draws": draws}
        source, notes = self._source(request, self.people_ if people is None else people, progress)
        notes += [
            f"Nobody is in the subgroup {name!r} ({request.subgroups[name]}); it is absent from the table."
            for name, part in zip(request.subgroups, source.partitions, strict=False)
            if not part.asked.any()
        ]
        return answer(source, question, self._setting(question, request, asked, notes))

    def _source(self, request: Request, people: Any, progress: Progress | None) -> tuple[Source, list[str]]:
        """Go over the people once and cut places in the parts asked for."""
        stream = open_people(people, self.where_)
        if isinstance(self.model_, IndividualModel):
            return self._individual_source(request, stream, progress), []
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            found = self.embedder_.transform(
                stream.select(where=request.where),
                by=[self.by_, *request.by],
                subgroups=request.subgroups or None,
                progress=progress,
            )
        self._check_people(found, bool(request.where))
        return (
            GroupSource(self.model_, cut(found, request, self.whole_, self.places_.keys)),
            [str(w.message) for w in said],
        )

    def _individual_source(self, request: Request, stream: Batches, progress: Progress | None) -> Source:
        model = cast("IndividualModel", self.model_)
        for name in request.by:
            if name not in stream.schema.names:
                raise unknown_name("by", name, stream.schema.names)
        queries = tuple((str(name), parse(query)) for name, query in request.subgroups.items())
        where = None if request.where is None else parse(request.where)
        for query in [q for _, q in queries] + ([] if where is None else [where]):
            query.check(stream.schema)
        labels = Labels(request.by, queries, where)
        weight = self.embedder_.weight_
        found = collapse(
            stream,
            model.coarsening,
            place=self.by_,
            keys=self.places_.keys,
            weight=weight,
            labels=labels,
            progress=progress,
        )
        check_people(self.places_.keys, found.total, self.places_, self.whole_.weight, False)
        kinds = {name: stream.schema.field(name).type for name in request.by}
        return parts_of(
            model,
            found,
            request,
            self.places_.totals,
            account=self.account,
            sampling=bool(self.sampling_error),
            types={n: t.value_type if pa.types.is_dictionary(t) else t for n, t in kinds.items()},
            n_jobs=count_jobs(self.n_jobs),
        )

    def predict_places(
        self, places: object = None, *, people: Any = None, level: float = 0.95, link: str = "auto"
    ) -> Estimates:
        """Predict the share of each place: of the fitted ones as the model sees them, of new ones from their people.

        With several outcomes it is the share of the last question, among those who chose none of the outcomes before.

        Parameters
        ----------
        places : dataframe, optional
            Keys (and coordinates) of places; the fitted ones when not given.
        people : path, frame or stream, optional
            Where new places' people are; those of :meth:`fit` when not given. A loaded model needs the people of the fit among them,
            unless ``link="individual"``.
        level : float, default 0.95
        link : {"auto", "individual", "group"}, default "auto"
            Which link predicts. A model of the group link uses it; one of the individual link fits the other too, cross-validates both
            once, and uses the one whose held-out log density is higher. The answer says which.
        """
        check_is_fitted(self, "model_")
        if link not in ("auto", "individual", "group"):
            raise unknown_name("link", link, ["auto", "individual", "group"], "link")
        if link == "individual" and self.link == "group":
            raise InputError("link='individual' was not fitted; fit with link='individual'.")
        own, other = cast("EcologicalInference", self), None
        said: tuple[str, ...] = ()
        if self.link == "individual" and link != "individual":
            other = self._other_link(people)
            if link == "auto":
                scores, better = self._links(other)
                said = (scores,)
                other = other if better == "group" else None
        found = predict_places(other or own, places, people, checks.check_level(level))
        asked = {"level": level, "link": None if link == "auto" else link}
        return replace(self._signed(found, "predict_places", asked), warnings=(*self.warnings_, *found.warnings, *said))

    def _other_link(self, people: Any) -> EcologicalInference:
        """Fit the group link to the same people and places, once."""
        if getattr(self, "other_", None) is None:
            # the people of the fit, whoever is given for new places
            source = people if self.people_ is None else self.people_
            if source is None:
                raise InputError(
                    "people is missing: a loaded model does not hold them, and the group link must be fitted too; pass people=, or "
                    "link='individual'."
                )
            if self.cells_ is None:
                self.cells_ = self._counted(source)
            other = clone(cast("EcologicalInference", self)).set_params(
                link="group", interactions=None, rho=0.0, inference="laplace"
            )
            other.set_params(hyperparameters=None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrosslevelWarning)  # said by the first fit
                other.fit(source, self.places_.table, unmatched="drop", **self.asked_)
            self.other_ = cast("EcologicalInference", other)
        return cast("EcologicalInference", self.other_)

    def _counted(self, people: Any) -> Collapsed:
        """Count the people of the fit again, whom a loaded model does not hold."""
        model = cast("IndividualModel", self.model_)
        stream, keys = open_people(people, self.where_), self.places_.keys
        found = collapse(stream, model.coarsening, place=self.by_, keys=keys, weight=self.embedder_.weight_)
        check_people(keys, found.total, self.places_, self.whole_.weight, False)
        return found

    def _links(self, other: EcologicalInference) -> tuple[str, str]:
        """Cross-validate both links, once, and say which predicts places better."""
        if getattr(self, "links_", None) is None:
            self.links_ = {
                link: dict(model.cross_validate().diagnostics)
                for link, model in (("individual", cast("EcologicalInference", self)), ("group", other))
            }
        links = cast("dict[str, dict[str, Any]]", self.links_)
        density = {link: scores["mean_log_density"] for link, scores in links.items()}
        better = max(density, key=lambda link: density[link])
        words = ", ".join(
            f"{link} link: log density {density[link]:.2f}, error {100 * links[link]['rmse']:.1f} points"
            for link in density
        )
        return f"Predicted by the {better} link, which cross-validates better over places ({words}).", better

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

        Notes
        -----
        Evidence stays in the training data of every fold. With several outcomes the last question is scored: its share of those who
        chose none of the outcomes before.

        Returns
        -------
        Estimates
            A row per place: predicted share, interval of the observed share, ``truth``, ``log_density``, ``fold``. Scores
            stand in the diagnostics. They say how well *places* are predicted, and nothing about subgroups.
        """
        check_is_fitted(self, "model_")
        found = cross_validate(cast("EcologicalInference", self), k, leave_out, checks.check_level(level), random_state)
        asked = {"k": None if leave_out is not None else k, "leave_out": leave_out, "level": level}
        return self._signed(found, "cross_validate", asked | {"random_state": random_state})

    def certificate(self) -> dict[str, Any]:
        """Say how well the fit converged, and with which hyperparameters: plain values, without nesting."""
        check_is_fitted(self, "model_")
        sizes = {"places": len(self.places_), "people": int(self.whole_.n_rows.sum())}
        if self.evidence_ is not None:
            sizes["evidence_rows"] = len(self.evidence_)
        bins = {"bins_of_numbers": self.model_.coarsening.bins()} if isinstance(self.model_, IndividualModel) else {}
        said = certificate(self.model_.fits, self.model_.terms, self.places_.totals.questions)
        return {"converged": True, "link": self.link, **sizes, **self.counts_, **bins, **said}

    def _check_people(self, found: Embeddings, part: bool) -> None:
        names = found.key_table.column_names
        rows = list(range(len(found)))
        if names[-1] == SUBGROUP and SUBGROUP not in names[:-1]:
            rows = [i for i, name in enumerate(found.key_table[SUBGROUP].to_pylist()) if name == ALL]
        keys = found.key_table[self.by_].to_pylist()
        check_people([keys[i] for i in rows], found.weight[rows], self.places_, self.whole_.weight, part)

    def _setting(
        self, question: Question, request: Request, asked: Mapping[str, object], said: Sequence[str]
    ) -> Setting:
        totals = self.places_.totals
        confounding, pulls, words = calibration_words(self.calibration_, self.link, request)
        honest = question.interval == "honest"
        words = [*((GROUP_LINK,) if self.link == "group" else ()), *(words if honest else (UNDER_MODEL,))]
        return Setting(
            confounding=confounding,
            pulls=pulls,
            apart=columns_apart(request),
            totals=totals,
            account=self.account,
            several=len(totals.outcomes) > 1 and question.of != "turnout",
            method=f"distribution regression, {self.link} link" + ("" if self.account else ", not accounted"),
            provenance=self._provenance("estimate", asked, question.seed),
            frame=self.places_.frame,
            warnings=(*self.warnings_, *said, *words),
            diagnostics=self.certificate() | (self._interval_facts(request, confounding, pulls) if honest else {}),
        )

    def _interval_facts(self, request: Request, confounding: Confounding, pulls: Sequence[float]) -> dict[str, Any]:
        """Say what honest intervals rest on."""
        said: dict[str, Any] = {"tau": confounding.tau, "omega": confounding.omega}
        said |= {"calibration_columns": confounding.n_labels}
        if self.calibration_ is not None:
            said |= {"leave_one_out_coverage": self.calibration_.coverage}
        names = list(request.subgroups) or [", ".join(request.by) or str(request.where)]
        pulled = [f"{name} {pull:.2g}" for name, pull in zip(names, pulls, strict=False) if pull]
        return said | {"pulled_towards_places": "; ".join(pulled) or "none"}

    def _provenance(self, verb: str, asked: Mapping[str, object], seed: int) -> Provenance:
        words = ", ".join(f"{n}={v!r}" for n, v in asked.items() if v is not None)
        return Provenance.of(call=f"{self.call_}.{verb}({words})", seed=seed, data=self.data_)

    def _signed(self, found: Estimates, verb: str, asked: Mapping[str, object]) -> Estimates:
        """Give an answer the whole call, the data behind it, and what every result must say."""
        seed = int(found.provenance.seed or 0)
        return replace(
            found, provenance=self._provenance(verb, asked, seed), warnings=(*self.warnings_, *found.warnings)
        )
