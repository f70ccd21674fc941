"""Which subgroups are asked for, where, and how: requests, questions and partitions of places, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import pyarrow as pa

from crosslevel.data import checks
from crosslevel.data.frames import as_names
from crosslevel.data.queries import SUBGROUP
from crosslevel.data.totals import Places
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import BoolArray, FloatArray, IntArray

__all__ = ["REST", "Partition", "Question", "Request", "Rollup", "read_question", "read_request"]


REST = -1
"""Level of the part that holds everybody not asked for."""
LEAST_DRAWS = 50
DENOMINATORS = ("voters", "people", "turnout")
TAKEN = (
    *("estimate", "std_error", "conf_low", "conf_high", "bound_low", "bound_high", "neighborhood", "goodman"),
    *("population", "effective_size", "distance", "shift", "outcome", "against", "model_low", "model_high"),
)
"""Columns of the answer that a key must not be called: they would take its place."""


@dataclass(frozen=True)
class Request:
    """Which subgroups are asked for.

    Attributes
    ----------
    by : tuple of str
        Columns of people whose values are the subgroups.
    subgroups : mapping of name to query
    where : str or None
        A filter on the people asked for.
    """

    by: tuple[str, ...]
    subgroups: Mapping[str, str]
    where: str | None


@dataclass(frozen=True, eq=False)
class Partition:
    """The people of every place cut in parts: the levels asked for, then the rests.

    Attributes
    ----------
    levels : pyarrow.Table
        One row per level asked for.
    place : (m,) int
        Place of each part.
    level : (m,) int
        Its level, or REST.
    share : (m,)
        Its share of the place's people.
    weight : (m,)
        Its people, by survey weights.
    effective : (m,)
        Kish's effective number of people.
    """

    levels: pa.Table
    place: IntArray
    level: IntArray
    share: FloatArray
    weight: FloatArray
    effective: FloatArray

    @property
    def asked(self) -> BoolArray:
        """(m,) whether the part was asked for."""
        return self.level != REST


@dataclass(frozen=True)
class Rollup:
    """Where the answer is given: each place by itself, or places put together.

    Attributes
    ----------
    name : str or None
        Key column; None when there is one row for everywhere.
    labels : tuple
    member : (q,) int
        Label of each place.
    """

    name: str | None
    labels: tuple[object, ...]
    member: IntArray


@dataclass(frozen=True)
class Question:
    """What is asked, checked.

    Attributes
    ----------
    rollup : Rollup
    denominator : {"voters", "people", "turnout"}
    contrast : {"difference", "ratio"} or None
    reference : level to compare with, or None for all pairs
    level : float
    n_draws : int
    seed : int
    interval : {"confounding", "model"}
        Whether intervals allow for confounding.
    """

    rollup: Rollup
    denominator: str
    contrast: str | None
    reference: object
    level: float
    n_draws: int
    seed: int
    interval: str = "model"


def read_request(by: object, subgroups: Mapping[str, str] | None, where: str | None, place: str) -> Request:
    """Check what is asked for."""
    names = () if by is None else as_names(by, "by")  # type: ignore[arg-type]
    if place in names:
        raise InputError(
            f"by names {place!r}, which is the place itself; every answer is by place unless rollup says so."
        )
    if SUBGROUP in names:
        raise InputError(f"by names {SUBGROUP!r}, which is the key of named subgroups; rename that column of people.")
    if subgroups is not None and not isinstance(subgroups, Mapping):
        raise InputError(
            f"subgroups={subgroups!r} is no mapping of a name to a query; pass subgroups={{'women over 65': 'sex == 2 and age >= 65'}}."
        )
    for name in subgroups or ():
        if not isinstance(name, str):
            raise InputError(f"subgroups has the name {name!r}, which is no text; write {str(name)!r}.")
    if not names and not subgroups and where is None:
        raise InputError("nothing is asked for; pass by='column', subgroups={'name': 'query'} or where='query'.")
    return Request(names, dict(subgroups or {}), where)


def read_question(
    places: Places,
    request: Request,
    *,
    rollup: str | Sequence[str] | None,
    denominator: str,
    contrast: str | None,
    reference: object,
    level: float,
    n_draws: int,
    seed: int,
    interval: str = "model",
) -> Question:
    """Check what is asked about the subgroups."""
    if denominator not in DENOMINATORS:
        raise unknown_name("denominator", denominator, DENOMINATORS, "share")
    if denominator != "voters" and not places.totals.turnout:
        raise InputError(
            f"denominator={denominator!r} needs turnout; name the column of everybody in fit(population=...)."
        )
    if contrast not in (None, "difference", "ratio"):
        raise unknown_name("contrast", contrast, ["difference", "ratio"], "contrast")
    if reference is not None and contrast is None:
        raise InputError(f"reference={reference!r} is for a contrast; pass contrast='difference' or 'ratio' too.")
    if isinstance(n_draws, bool) or not isinstance(n_draws, Integral) or n_draws < LEAST_DRAWS:
        raise InputError(f"n_draws={n_draws!r} is not a whole number of at least {LEAST_DRAWS}.")
    name = None if rollup is None else _one_name(rollup)
    if name is not None and name in request.by:
        raise InputError(f"rollup={name!r} is also in by; name it in one of them.")
    found = _rollup(places, name)
    _check_keys(found, request)
    return Question(found, denominator, contrast, reference, checks.check_level(level), int(n_draws), seed, interval)


def _check_keys(rollup: Rollup, request: Request) -> None:
    """Refuse keys that are called like another column of the answer."""
    clash = next((name for name in request.by if name in TAKEN), None)
    if clash is not None:
        raise InputError(f"by names {clash!r}, which is a column of the answer; rename that column of people.")
    taken = TAKEN if request.by and not request.subgroups else (*TAKEN, SUBGROUP)
    if rollup.name in taken:
        raise InputError(
            f"the key {rollup.name!r} of places is called like a column of the answer; rename that column of places."
        )


def _one_name(rollup: object) -> str:
    """Read one name, by itself or as a list of one."""
    names = as_names(rollup, "rollup")  # type: ignore[arg-type]
    if len(names) > 1:
        raise InputError(
            f"rollup={list(names)!r} names {len(names)} columns of places, and answers roll up to one; make a column of them together, "
            "or ask for each."
        )
    return names[0]


def _rollup(places: Places, name: str | None) -> Rollup:
    q = len(places)
    if name is None:
        return Rollup(places.by, tuple(places.keys), np.arange(q))
    if name == "all":
        return Rollup(None, (None,), np.zeros(q, dtype=np.intp))
    values = places.column(name, "rollup")
    kind = places.table.schema.field(name).type
    labels = sorted(set(values), key=str if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) else None)  # type: ignore[type-var,arg-type]
    number = {v: i for i, v in enumerate(labels)}
    return Rollup(name, tuple(labels), np.array([number[v] for v in values], dtype=np.intp))
