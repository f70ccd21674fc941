"""Draw people with chances proportional to their weights: what the bandwidth and the landmarks are made of.

People who are alike are one kind. Kinds are counted by SQL and put in the order of their codes, so that neither the order of rows nor
what levels are called moves a draw. Where kinds are too many to be counted, people are drawn step by step: first the levels of a few
columns together, then, among the people who have these, those of a few columns more, until few enough people are left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crosslevel.data.columns import Category, Encoded, Encoder, Number
from crosslevel.data.people import People
from crosslevel.data.sql import is_value, quoted
from crosslevel.embedding.chunks import WEIGHT
from crosslevel.typing import AnyArray, FloatArray, Int64Array

MOST_VALUES = 1 << 22
"""Values of people (rows times columns) whose kinds are counted at once."""
BITS, STEPS = 16, 3
"""Bits of the code of a step's columns, and the most steps, whose codes fit into a whole number together."""
MOST_CODES = 1 << 10
"""A column of more levels takes no part in the steps."""
CODE = "crosslevel_code"
CELLS = 64
"""Stretches of a number that a step tells apart."""


@dataclass(frozen=True, eq=False)
class Sample:
    """People who were drawn with replacement.

    Attributes
    ----------
    encoder : Encoder
    kinds : Encoded
        People, each kind once and in the order of their codes: all there are, or some among whom the drawn ones are.
    weight : (n_kinds,) or None
        Their weight, where all are there.
    picks : (n,)
        The kind of each person drawn.
    """

    encoder: Encoder
    kinds: Encoded
    weight: FloatArray | None
    picks: Int64Array

    def people(self, n: int) -> FloatArray:
        """Give the first people drawn as vectors, (n, n_inputs)."""
        return self._vectors(self.picks[:n])

    def weighted(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Give all kinds and their weights where there are at most ``n``, or those of the first ``n`` drawn and how often they were."""
        if self.weight is not None and len(self.weight) <= n:
            return self._vectors(np.arange(len(self.weight))), self.weight
        kinds, times = np.unique(self.picks[:n], return_counts=True)
        return self._vectors(kinds), times.astype(float)

    def different(self, n: int) -> FloatArray:
        """Give kinds without replacement, in the order in which they were drawn: at most ``n``, (n, n_inputs)."""
        rest = np.arange(0 if self.weight is None else len(self.weight))
        kinds, first = np.unique(np.concatenate([self.picks, rest]), return_index=True)
        return self._vectors(kinds[np.argsort(first)][:n])

    def _vectors(self, rows: Int64Array) -> FloatArray:
        some = replace(self.kinds, codes=self.kinds.codes[rows], reals=self.kinds.reals[rows])
        return some.dense(self.encoder.n_inputs)


def draw_people(people: People, encoder: Encoder, n_rows: int, n: int, seed: int) -> Sample:
    """Draw people with replacement.

    Parameters
    ----------
    people : People
    encoder : Encoder
        The columns, learned from these people.
    n_rows : int
        How many people there are.
    n : int
        How many are drawn.
    seed : int

    Examples
    --------
    >>> from crosslevel.data.people_columns import learn_columns
    >>> people = People({"town": ["a", "a", "b", "b"], "sex": ["f", "m", "f", "f"]}, by="town")
    >>> sample = draw_people(people, learn_columns(people).bins.encoder, 4, 9, seed=0)
    >>> sample.weighted(9)
    (array([[1., 0.],
           [0., 1.]]), array([3., 1.]))
    """
    rng, w = np.random.default_rng(seed), people.weight_sql
    left = [column for column in encoder.columns if _n_codes(column) <= MOST_CODES]
    left.sort(key=lambda column: isinstance(column, Number))
    chosen, code, kept, steps = np.zeros(n, dtype=np.int64), "cast(0 as bigint)", f"{w} > 0", 0
    while n_rows * len(encoder.columns) > MOST_VALUES and left and steps < STEPS:
        code, steps = f"(({code}) * {1 << BITS} + {_step(left)})", steps + 1
        found = people.answer(
            f"select {code} as {CODE}, sum({w}) as {WEIGHT}, count(*) as n from people where {kept} group by 1"
        )
        codes, weight, count = (found[name].to_numpy() for name in (CODE, WEIGHT, "n"))
        order = np.argsort(codes)
        picks = order[_pick(chosen, codes[order] >> BITS, weight[order], rng)]
        chosen, some = codes[picks], np.unique(picks)
        n_rows, kept = int(count[some].sum()), f"{w} > 0 and {code} in ({', '.join(map(str, codes[some]))})"
    names = ", ".join(quoted(name) for name in encoder.names)
    by = ", ".join(str(i + 1) for i in range(len(encoder.names) + 1))
    found = people.answer(
        f"select {names}, {code} as {CODE}, sum({w}) as {WEIGHT} from people where {kept} group by {by}"
    )
    encoded, codes = encoder.encode(found), found[CODE].to_numpy()
    # numbers that differ by less than their single precision are one kind
    kinds, first, same = np.unique(_rows(encoded), axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(same.ravel(), found[WEIGHT].to_numpy(), len(kinds)).astype(np.float64)
    encoded, codes = replace(encoded, codes=encoded.codes[first], reals=encoded.reals[first]), codes[first]
    order = np.argsort(codes, kind="stable")
    picks = order[_pick(chosen, codes[order], weight[order], rng)]
    return Sample(encoder, encoded, None if steps else weight, picks)


def _pick(chosen: Int64Array, groups: Int64Array, weight: FloatArray, rng: np.random.Generator) -> Int64Array:
    """Draw, for each group that was chosen, one of its rows by weight; ``groups`` are sorted."""
    below = np.concatenate([[0.0], np.cumsum(weight)])
    first, last = np.searchsorted(groups, chosen, "left"), np.searchsorted(groups, chosen, "right")
    target = below[first] + rng.random(len(chosen)) * (below[last] - below[first])
    return np.clip(np.searchsorted(below, target, "right") - 1, first, last - 1)


def _step(left: list[Category | Number]) -> str:
    """Take as many columns as a code has bits for, and write the code of all together."""
    code, size = "0", 1
    while left and size * _n_codes(left[0]) <= 1 << BITS:
        column = left.pop(0)
        size *= _n_codes(column)
        code = f"(({code}) * {_n_codes(column)} + {_code(column)})"
    return code


def _n_codes(column: Category | Number) -> int:
    return len(column.levels) + 1 if isinstance(column, Category) else CELLS + 2


def _code(column: Category | Number) -> str:
    """Write the number of a level, or of a stretch of numbers; 0 is missing."""
    c = quoted(column.name)
    if isinstance(column, Category):
        cases = " ".join(f"when {is_value(column.name, v)} then {i + 1}" for i, v in enumerate(column.labels))
        return f"case {cases} else 0 end"
    width = column.high - column.low
    cell = f"floor({CELLS} * (cast({c} as double) - {column.low!r}) / {width!r})" if width > 0 else "0"
    return f"coalesce(cast({cell} as bigint) + 1, 0)"


def _rows(encoded: Encoded) -> AnyArray:
    """Lay encoded people out as whole numbers, a row for each."""
    return np.hstack([encoded.codes, encoded.reals.view(np.int32)])
