"""What a fitted model of persons is asked by the answers and predictions that both models share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from crosslevel.data.batches import Batches
from crosslevel.data.engines import OnEngine
from crosslevel.data.place_cells import PlaceCells
from crosslevel.data.place_columns import count_groups
from crosslevel.ecological.answers import Source
from crosslevel.ecological.confounding import Confounding, describe_allowance
from crosslevel.ecological.covariance import Moments, Terms
from crosslevel.ecological.estimate import PlaceEstimator
from crosslevel.ecological.persons.groups import allowance_of, source_of
from crosslevel.ecological.persons.model import PersonsModel
from crosslevel.ecological.subgroups import Question, Request
from crosslevel.errors import InputError
from crosslevel.typing import IntArray, Progress


class PersonsEstimator(OnEngine, PlaceEstimator):
    """Base of :class:`crosslevel.EcologicalInference`: sources of draws, and moments of places."""

    model_: PersonsModel
    cells_: PlaceCells
    survey_: Any

    _method = "ecological inference of persons"
    _intervals = ("confounding", "model")
    _unsaved = (*PlaceEstimator._unsaved, "surveyed_", "survey_given_")

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
        from crosslevel.ecological.persons.prediction import fitted_rates

        return fitted_rates(self.model_, stage)

    def _new_moments(self, stage: int, terms: Terms, new: list[object], people: Batches, table: pa.Table) -> Moments:
        from crosslevel.ecological.persons.prediction import new_places

        if stage:
            raise InputError(
                "new places are predicted for one question only; leave out population and name one outcome in fit."
            )
        return new_places(self, terms, new, people, table)

    def _held_out_moments(self, stage: int, folds: Iterable[IntArray]) -> Moments:
        from crosslevel.ecological.persons.prediction import held_out_places

        if getattr(self, "cells_", None) is None:
            raise InputError("a loaded model does not hold its people; fit it again to cross-validate.")
        return held_out_places(self, stage, folds)
