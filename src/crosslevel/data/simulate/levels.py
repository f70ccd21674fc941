"""Count a simulated nation's people and votes in cells, and read every true rate off them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.simulate.people import AGE_GROUPS, CELL_SHAPE, EDUCATION, RACES, URBAN, RegionDraw
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import Int64Array

__all__ = ["GROUPINGS", "LEVELS", "Cells", "composition_table", "rates", "truth_table"]


LEVELS: dict[str, tuple[int, ...] | tuple[str, ...]] = {
    "sex": (1, 2),
    "race": RACES,
    "education": EDUCATION,
    "urban": URBAN,
    "age_group": AGE_GROUPS,
}
"""The variables the population is counted by, in the order of the cells' axes, and their levels."""

GROUPINGS: tuple[tuple[str, ...], ...] = (("sex",), ("age_group",), ("race",), ("education",), ("sex", "age_group"))
"""The groupings of the tables ``truth`` and ``composition``."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts of the whole population: one axis for places, then one per variable of ``LEVELS``.

    Attributes
    ----------
    population, voters, successes : (n_places, 2, 4, 5, 2, 4) int32
    """

    population: npt.NDArray[np.int32]
    voters: npt.NDArray[np.int32]
    successes: npt.NDArray[np.int32]

    @classmethod
    def empty(cls, n_places: int) -> Cells:
        """Make room for the counts of ``n_places`` places."""
        return cls(*(np.zeros((n_places, *CELL_SHAPE), np.int32) for _ in range(3)))

    def put(self, place: int, draw: RegionDraw) -> None:
        """Store the counts of one place."""
        self.population[place], self.voters[place], self.successes[place] = draw.population, draw.voters, draw.successes

    def over(self, by: Sequence[str], owner: Int64Array | None = None, n_owners: int = 0) -> tuple[Int64Array, ...]:
        """Sum out every variable but ``by`` (axes in that order), and places into ``owner`` if given."""
        axes = tuple(1 + i for i, name in enumerate(LEVELS) if name not in by)
        kept = [name for name in LEVELS if name in by]
        order = (0, *(1 + kept.index(name) for name in by))
        answer = []
        for counts in (self.population, self.voters, self.successes):
            sums = counts.sum(axis=axes, dtype=np.int64).transpose(order)
            if owner is not None:
                merged = np.zeros((n_owners, *sums.shape[1:]), np.int64)
                np.add.at(merged, owner, sums)
                sums = merged
            answer.append(sums)
        return tuple(answer)


def check_by(by: str | Sequence[str] | None) -> tuple[str, ...]:
    """Read a grouping: names of ``LEVELS``, each once.

    Examples
    --------
    >>> check_by("sex"), check_by(None)
    (('sex',), ())
    """
    names = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    for name in names:
        if name not in LEVELS:
            raise unknown_name("by", name, list(LEVELS), "variable with known truth")
    if len(set(names)) < len(names):
        raise InputError(f"by={list(names)!r} names a variable twice; name each once.")
    return names


def rates(counts: tuple[Int64Array, ...], places: Iterable[str] | None, place_name: str, by: Sequence[str]) -> pa.Table:
    """Lay counts (n_places, levels of ``by``...) out as rows: place, the by columns, rate, count, dem, population.

    ``count`` is the number of votes; ``rate`` is dem / count, null where nobody voted.

    Examples
    --------
    >>> one = np.array([[10, 20]])
    >>> rates((one, one, one // 2), ["R0001"], "region", ["sex"])["rate"].to_pylist()
    [0.5, 0.5]
    """
    population, voters, successes = counts
    index = np.indices(population.shape).reshape(population.ndim, -1)
    columns: dict[str, pa.Array] = {}
    if places is not None:
        columns[place_name] = pa.array(list(places), pa.string()).take(pa.array(index[0]))
    for axis, name in enumerate(by, start=1):
        columns[name] = pa.array(LEVELS[name]).take(pa.array(index[axis]))
    count, dem = voters.ravel(), successes.ravel()
    columns["rate"] = pa.array(dem / np.maximum(count, 1), mask=count == 0)
    columns |= {"count": pa.array(count), "dem": pa.array(dem), "population": pa.array(population.ravel())}
    return pa.table(columns)


def truth_table(cells: Cells, regions: Sequence[str]) -> pa.Table:
    """Tabulate the true rate of every subgroup of ``GROUPINGS`` in every region.

    Examples
    --------
    >>> truth_table(Cells.empty(2), ["R0001", "R0002"]).num_rows
    46
    """
    parts = []
    for by in GROUPINGS:
        table = rates(cells.over(by), regions, "region", by)
        levels = [" x ".join(map(str, row)) for row in zip(*(table[name].to_pylist() for name in by), strict=True)]
        named = {
            "region": table["region"],
            "variable": pa.array([" x ".join(by)] * table.num_rows),
            "level": pa.array(levels),
        }
        parts.append(pa.table(named | {n: table[n] for n in ("rate", "count", "dem", "population")}))
    return pa.concat_tables(parts).combine_chunks()


def composition_table(truth: pa.Table) -> pa.Table:
    """Tabulate how many people of each subgroup live in each region, out of the truth.

    Examples
    --------
    >>> composition_table(truth_table(Cells.empty(1), ["R0001"])).column_names
    ['region', 'variable', 'level', 'population']
    """
    return truth.select(["region", "variable", "level", "population"])
