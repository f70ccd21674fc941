"""``Survey`` and ``PublishedShares``: people who were asked the outcome, one by one or as shares somebody published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import pyarrow as pa

from crosslevel.data import frames
from crosslevel.data.places import read_table
from crosslevel.errors import InputError

MEASURED, SOURCE = "measured", "source"
MOST_SELECTION = 10.0
"""Groups of which nobody answers, or everybody."""


@dataclass(frozen=True, eq=False, repr=False)
class Survey:
    """Respondents with the columns of people and their answer.

    Parameters
    ----------
    data : dataframe or path
    outcome : str
        Column of the answer: 1 or 0, or with several outcomes the name of one. Respondents without an answer are left out.
    by : str, optional
        Column of the survey and of places: where the respondent lives, be it the place or the state. Without it, or where it is
        missing, respondents live wherever such people do.
    weight : str or sequence of str, optional
        Weights, scaled to Kish's effective number; then replicate weights, whose mean square tells that number.
    name : str, default "survey"
        What results call it.
    selection : "measured" or float, default "measured"
        How far respondents of a group differ from its people, as a standard deviation in logits: a number, or as
        ``learn_confounding(survey=True)`` measures it, 0.1 until then.
    compare : bool, default False
        Also fit the survey by itself (MRP), as it is and shifted to the totals.

    Examples
    --------
    >>> Survey({"age": [30, 41], "vote": [1, 0]}, outcome="vote", name="poll")
    Survey(2 respondents: 'poll', outcome='vote')
    """

    data: Any
    outcome: str
    by: str | None = None
    weight: str | Sequence[str] | None = None
    name: str = "survey"
    selection: str | float = MEASURED
    compare: bool = False
    table: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", read_table(self.data, "survey"))
        for argument in ("outcome", "by", "name"):
            value = getattr(self, argument)
            if not isinstance(value, str) and not (value is None and argument == "by"):
                raise InputError(f"survey: {argument}={value!r} is not text; name it.")
        if isinstance(self.weight, set | frozenset):
            raise InputError(
                f"survey: weight={self.weight!r} has no order; pass a list, the weight first, then its replicates."
            )
        columns = {"outcome": [self.outcome], "by": [] if self.by is None else [self.by], "weight": self.weights}
        for argument, names in columns.items():
            frames.check_columns(self.table, names, f"survey: {argument}")
        value = self.selection
        stated = isinstance(value, Real) and not isinstance(value, bool) and 0.0 <= float(value) <= MOST_SELECTION
        if not stated and not (isinstance(value, str) and value == MEASURED):
            raise InputError(
                f"survey: selection={value!r} is neither {MEASURED!r} nor a number of logits from 0 to {MOST_SELECTION:g}."
            )
        if not isinstance(self.compare, bool):
            raise InputError(f"survey: compare={self.compare!r} is neither True nor False.")

    @property
    def weights(self) -> tuple[str, ...]:
        """Columns of weights: the weight first, then replicates."""
        return () if self.weight is None else frames.as_names(self.weight, "survey: weight")

    def __repr__(self) -> str:
        more = [f"{n}={getattr(self, n)!r}" for n in ("outcome", "by", "weight") if getattr(self, n) is not None]
        return f"Survey({self.table.num_rows:,} respondents: {', '.join([repr(self.name), *more])})"


@dataclass(frozen=True, eq=False, repr=False)
class PublishedShares:
    """Shares of subgroups that somebody published: exit polls, crosstabs.

    Parameters
    ----------
    data : dataframe or path
        A row for each result: who, where (any columns of places; missing: everywhere) and the counts, called as in places. Divide
        counts by a design effect before.
    subgroup : str, default "subgroup"
        Column with a condition over columns of people; nothing for everybody.
    source : str, default "source"
        Column that says which survey a row is from, where there is one.

    Examples
    --------
    >>> PublishedShares({"subgroup": ["sex = 2"], "dem": [300], "votes": [500]})
    PublishedShares(1 row)
    """

    data: Any
    subgroup: str = "subgroup"
    source: str = SOURCE
    table: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        table = read_table(self.data, "published shares")
        frames.check_columns(table, [self.subgroup], "published shares: subgroup")
        if self.source != SOURCE:
            frames.check_columns(table, [self.source], "published shares: source")
        object.__setattr__(self, "table", table)

    def __repr__(self) -> str:
        n = self.table.num_rows
        return f"PublishedShares({n:,} row{'s' if n != 1 else ''})"


def read_surveys(given: Any) -> tuple[tuple[Survey, ...], PublishedShares | None]:
    """Tell surveys from published shares; several surveys have names of their own and one selection."""
    every = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    strange = [one for one in every if not isinstance(one, Survey | PublishedShares)]
    if strange:
        raise InputError(
            f"survey holds a {type(strange[0]).__name__}; pass crosslevel.Survey(data, outcome=...) or crosslevel.PublishedShares(data)."
        )
    surveys = tuple(one for one in every if isinstance(one, Survey))
    shares = [one for one in every if isinstance(one, PublishedShares)]
    if len(shares) > 1:
        raise InputError("survey holds PublishedShares twice; put their rows in one table, with a column of sources.")
    names = [one.name for one in surveys]
    if len(set(names)) < len(names):
        raise InputError(
            f"survey: {max(names, key=names.count)!r} is the name of two surveys; give each its own name=."
        )
    if len({one.selection for one in surveys}) > 1:
        raise InputError("surveys have different selection=; state one for all.")
    return surveys, shares[0] if shares else None
