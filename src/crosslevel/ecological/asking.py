"""What a fitted model can be asked: subgroups, places, and how well places are predicted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks
from crosslevel.ecological.certificate import certificate
from crosslevel.ecological.estimating import Question, Setting, answer
from crosslevel.ecological.evidence import Evidence
from crosslevel.ecological.group.link import GroupModel
from crosslevel.ecological.matching import check_people
from crosslevel.ecological.partitions import cut, read_request
from crosslevel.ecological.places import Places
from crosslevel.ecological.settings import open_people, read_question
from crosslevel.ecological.validation import cross_validate, predict_places
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.embedding.chunks import ALL, SUBGROUP
from crosslevel.embedding.run import Progress
from crosslevel.errors import CrosslevelWarning
from crosslevel.results import Estimates, Provenance

if TYPE_CHECKING:
    from crosslevel.ecological.estimator import EcologicalInference

__all__ = ["SubgroupAnswers"]

SUBGROUPS = (
    "Intervals hold under the model; that subgroups behave alike wherever they live cannot be checked with totals, and beside "
    "exit polls of 2012 and 2016 this link was nearer than the neighbourhood column by race, further from them by age and income."
)


class SubgroupAnswers:
    """The questions; :class:`EcologicalInference` adds the fit."""

    link: str
    account: bool
    random_state: int
    embedder_: MeanEmbedding
    model_: GroupModel
    places_: Places
    whole_: Embeddings
    evidence_: Evidence | None
    warnings_: tuple[str, ...]
    people_: Any
    where_: str | None
    by_: str
    call_: str
    data_: dict[str, str]

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
            Keys: the place (or roll-up), then the subgroup. ``bound_low`` and ``bound_high`` assume nothing; ``neighbourhood``
            is what the subgroup would have if everybody behaved like their place, ``goodman`` what constant rates would give;
            ``population``, ``effective_size`` (Kish); ``distance`` from the places' vectors, 1 being the distance
            between neighbouring places; ``shift``, the mean size of the shift in logits that made the parts add up (of the last
            question, where there are several).
        """
        check_is_fitted(self, "model_")
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
        )
        stream = open_people(self.people_ if people is None else people, self.where_).select(where=where)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", CrosslevelWarning)
            found = self.embedder_.transform(
                stream, by=[self.by_, *request.by], subgroups=request.subgroups or None, progress=progress
            )
        self._check_people(found, bool(where))
        parts = cut(found, request, self.whole_, self.places_.keys)
        asked: dict[str, object] = {
            "by": list(request.by) or None,
            "subgroups": dict(request.subgroups) or None,
            "where": where,
        }
        asked |= {"rollup": rollup, "of": None if of == "voters" else of, "contrast": contrast, "reference": reference}
        asked |= {"level": level, "draws": draws}
        notes = [str(w.message) for w in said]
        notes += [
            f"Nobody is in the subgroup {name!r} ({request.subgroups[name]}); it is absent from the table."
            for name, part in zip(request.subgroups, parts, strict=False)
            if not part.asked.any()
        ]
        return answer(self.model_, parts, question, self._setting(question, asked, notes))

    def predict_places(self, places: object = None, *, people: Any = None, level: float = 0.95) -> Estimates:
        """Predict the share of each place: of the fitted ones as the model sees them, of new ones from their people.

        With several outcomes it is the share of the last question, among those who chose none of the outcomes before.

        Parameters
        ----------
        places : dataframe, optional
            Keys (and coordinates) of places; the fitted ones when not given.
        people : path, frame or stream, optional
            Where new places' people are; those of :meth:`fit` when not given.
        level : float, default 0.95
        """
        check_is_fitted(self, "model_")
        found = predict_places(cast("EcologicalInference", self), places, people, checks.check_level(level))
        return self._signed(found, "predict_places", {"level": level})

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
        said = certificate(self.model_.fits, self.model_.terms, self.places_.totals.questions)
        return {"converged": True, "link": self.link, **sizes, **said}

    def _check_people(self, found: Embeddings, part: bool) -> None:
        names = found.key_table.column_names
        rows = list(range(len(found)))
        if names[-1] == SUBGROUP and SUBGROUP not in names[:-1]:
            rows = [i for i, name in enumerate(found.key_table[SUBGROUP].to_pylist()) if name == ALL]
        keys = found.key_table[self.by_].to_pylist()
        check_people([keys[i] for i in rows], found.weight[rows], self.places_, self.whole_.weight, part)

    def _setting(self, question: Question, asked: Mapping[str, object], said: Sequence[str]) -> Setting:
        totals = self.places_.totals
        return Setting(
            totals=totals,
            account=self.account,
            several=len(totals.outcomes) > 1 and question.of != "turnout",
            method=f"distribution regression, {self.link} link" + ("" if self.account else ", not accounted"),
            provenance=self._provenance("estimate", asked, question.seed),
            frame=self.places_.frame,
            warnings=(*self.warnings_, *said, SUBGROUPS),
            diagnostics=self.certificate(),
        )

    def _provenance(self, verb: str, asked: Mapping[str, object], seed: int) -> Provenance:
        words = ", ".join(f"{n}={v!r}" for n, v in asked.items() if v is not None)
        return Provenance.of(call=f"{self.call_}.{verb}({words})", seed=seed, data=self.data_)

    def _signed(self, found: Estimates, verb: str, asked: Mapping[str, object]) -> Estimates:
        """Give an answer the whole call, the data behind it, and what every result must say."""
        seed = int(found.provenance.seed or 0)
        return replace(
            found, provenance=self._provenance(verb, asked, seed), warnings=(*self.warnings_, *found.warnings)
        )
