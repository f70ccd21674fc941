"""Who lives in one region, how they vote, and which of them are asked: numbers on arrays.

All effects are in log odds. Ages run from 18 to 89, and c = (age - 18) / 72.

Count a simulated nation's people and votes in cells, and read every true rate off them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.simulate.places import Plan, region_rng
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray, Int64Array

RACES = ("white", "black", "hispanic", "other")
EDUCATION = ("no diploma", "high school", "some college", "bachelor", "graduate")
URBAN = ("rural", "urban")
AGE_GROUPS = ("18-29", "30-44", "45-64", "65+")
AGES = np.arange(18, 90)
C = (AGES - 18) / 72
GROUP_OF_AGE = np.digitize(AGES, [30, 45, 65]).astype(np.int16)
CELL_SHAPE = (2, len(RACES), len(EDUCATION), len(URBAN), len(AGE_GROUPS))
"""sex, race, education, urban, age group: the cells in which the whole population is counted."""

RACE_EFFECT = np.array([-0.95, 1.2, 0.2, 0.0])
EDUCATION_EFFECT = np.array([[-0.5, -0.35, -0.05, 0.4, 0.8], *[[0.15, 0.1, 0.0, -0.1, -0.15]] * 3])
"""By race and education: schooling moves the first race left and the others slightly right."""
URBAN_EFFECT = np.array([0.4, 0.15, 0.15, 0.15])
AGE_EFFECT = 0.7 * np.cos(2.5 * np.pi * C) + np.array([[0.0], [1.0]]) * (0.2 + 0.5 * (1 - C))
"""By sex and age: lowest at 47, high at both ends; women higher, young women most."""
EDUCATION_CUTS = np.array([-1.9, -0.4, 0.6, 1.8])
RACE_SCHOOL = np.array([0.0, -0.5, -0.6, 0.4])
RACE_YOUTH = np.array([0.0, 0.1, 0.2, 0.1])
RACE_URBAN = np.array([0.0, 0.8, 0.6, 0.8])
MEAN_MINORITY = 0.35
"""Minority share at which the contextual effects are zero."""


@dataclass(frozen=True)
class RegionDraw:
    """One region's counts, and its sampled people as integer codes.

    Attributes
    ----------
    population, voters, successes : CELL_SHAPE int64
        Everybody, those who voted, and those who voted ``dem``, in each cell.
    sex, age, race, education, urban, hours : (n_sampled,) integers
    income : (n_sampled,)
        NaN where not told.
    weight : (n_sampled,)
        One over the probability of being sampled.
    """

    population: npt.NDArray[np.int64]
    voters: npt.NDArray[np.int64]
    successes: npt.NDArray[np.int64]
    sex: npt.NDArray[np.int8]
    age: npt.NDArray[np.int16]
    race: npt.NDArray[np.int8]
    education: npt.NDArray[np.int8]
    urban: npt.NDArray[np.int8]
    hours: npt.NDArray[np.int16]
    income: FloatArray
    weight: FloatArray


def draw_region(plan: Plan, i: int) -> RegionDraw:
    """Simulate everybody in region ``i``, count their votes and sample them.

    Examples
    --------
    >>> from crosslevel.data.simulate.places import Settings, plan_nation
    >>> plan = plan_nation(Settings(4, 10, 2, 0.1, None, 1.0, 0.35, 0.15, entropy=0))
    >>> draw = draw_region(plan, 2)
    >>> bool(draw.population.sum() == plan.population[2] == draw.voters.sum())
    True
    """
    rng = region_rng(plan.settings, i)
    n = int(plan.population[i])
    sex = (rng.random(n, np.float32) < plan.women[i]).astype(np.int16)
    race = _choice(rng, np.broadcast_to(np.cumsum(plan.race[i])[:-1, None], (len(RACES) - 1, n)))
    age = _ages(rng, 1.25 + plan.youth[i] + RACE_YOUTH, float(plan.middle[i]), race)
    education = _education(rng, plan.school[i] + RACE_SCHOOL, race, age)
    city = _sigmoid(np.log(plan.urban[i] / (1 - plan.urban[i])) + RACE_URBAN).astype(np.float32)
    urban = (rng.random(n, np.float32) < city[race]).astype(np.int16)
    traits = ((sex * len(RACES) + race) * len(EDUCATION) + education) * len(URBAN) + urban
    log_income = _log_income(rng, plan.wealth[i], traits, age)

    odds = _traits_effect(plan, i)[traits]
    odds += AGE_EFFECT.astype(np.float32).ravel()[sex * len(AGES) + age]
    z = np.clip((log_income - np.float32(10.5)) / np.float32(0.8), -2.5, 2.5)
    odds += z * (np.float32(0.25) * z - np.float32(0.1)) - np.float32(0.25)
    dem = rng.random(n, np.float32) < _sigmoid(odds)
    group = GROUP_OF_AGE[age]
    voted = _votes(rng, plan.settings.turnout, education, group, n)
    cell = traits * len(AGE_GROUPS) + group
    size = int(np.prod(CELL_SHAPE))
    tally = np.bincount(cell.astype(np.int32) * 4 + 2 * voted + dem, minlength=4 * size).reshape(*CELL_SHAPE, 4)

    chance = _spread(plan.settings.sampling_rate, 1.0 + 0.35 * (group >= 2) - 0.2 * (race > 0) + 0.15 * (education > 2))
    asked = _systematic(chance, rng)
    return RegionDraw(
        population=tally.sum(axis=-1),
        voters=tally[..., 2] + tally[..., 3],
        successes=tally[..., 3],
        sex=(sex[asked] + 1).astype(np.int8),
        age=(age[asked] + 18).astype(np.int16),
        race=race[asked].astype(np.int8),
        education=education[asked].astype(np.int8),
        urban=urban[asked].astype(np.int8),
        hours=_hours(rng, sex[asked], age[asked]),
        income=_told_income(rng, log_income[asked], education[asked]),
        weight=1.0 / chance[asked],
    )


def _sigmoid(x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return 1 / (1 + np.exp(-x))


def _choice(rng: np.random.Generator, cuts: npt.NDArray[np.floating]) -> npt.NDArray[np.int16]:
    """Draw a category per person from the cumulative probabilities ``cuts`` (n_categories - 1, n)."""
    u = rng.random(cuts.shape[1], np.float32)
    code = np.zeros(cuts.shape[1], np.int16)
    for cut in cuts:
        code += u > cut
    return code


def _ages(
    rng: np.random.Generator, tilt: FloatArray, middle: float, race: npt.NDArray[np.int16]
) -> npt.NDArray[np.int16]:
    """Draw ages less 18: of a share ``middle`` of the people evenly from 30 to 64, of others as 72 u**tilt."""
    u, v = rng.random((2, len(race)), np.float32)
    # the smaller part of v tells who is in the middle, and then where
    age = np.where(v < middle, 12 + 35 * v / max(middle, 1e-9), 72 * u ** tilt.astype(np.float32)[race])
    return np.minimum(age, len(AGES) - 1).astype(np.int16)  # in single precision the product can round up to 72


def _education(
    rng: np.random.Generator, school: FloatArray, race: npt.NDArray[np.int16], age: npt.NDArray[np.int16]
) -> npt.NDArray[np.int16]:
    """Draw education from an ordered logit in race, place and age (the young studied longer)."""
    mean = (school[:, None] - 0.9 * (C - 0.4)).astype(np.float32).ravel()
    u = np.maximum(rng.random(len(race), np.float32), np.float32(1e-7))
    latent = mean[race * len(AGES) + age] + np.log(u / (np.float32(1.0 + 1e-7) - u))
    code = np.zeros(len(race), np.int16)
    for cut in EDUCATION_CUTS.astype(np.float32):
        code += latent > cut
    return code


def _log_income(
    rng: np.random.Generator, wealth: float, traits: npt.NDArray[np.int16], age: npt.NDArray[np.int16]
) -> npt.NDArray[np.float32]:
    sex, _, education, urban = np.indices(CELL_SHAPE[:4])
    by_trait = (10.1 + wealth + 0.22 * (education - 2) - 0.25 * sex + 0.15 * urban).astype(np.float32).ravel()
    by_age = (1.8 * C * (1 - C)).astype(np.float32)
    noise = rng.standard_normal(len(age), np.float32)
    return by_trait[traits] + by_age[age] + np.float32(0.65) * noise


def _traits_effect(plan: Plan, i: int) -> npt.NDArray[np.float32]:
    """Add up what sex, race, education, urban and the region contribute to the log odds, per combination of traits."""
    effect = RACE_EFFECT[:, None, None] + EDUCATION_EFFECT[:, :, None] + URBAN_EFFECT[:, None, None] * np.arange(2)
    minority = plan.minority[i] - MEAN_MINORITY
    context = np.where(np.arange(len(RACES)) == 0, -1.2 * minority, -0.5 * minority) + 0.5 * plan.school[i]
    effect = effect + (plan.place[i] + plan.settings.contextual * context)[:, None, None]
    return np.broadcast_to(effect, CELL_SHAPE[:4]).astype(np.float32).ravel()


def _votes(
    rng: np.random.Generator,
    turnout: float | None,
    education: npt.NDArray[np.int16],
    group: npt.NDArray[np.int16],
    n: int,
) -> npt.NDArray[np.bool_]:
    if turnout is None:
        return np.ones(n, bool)
    chance = _spread(turnout, 0.7 + 0.12 * group + 0.08 * education)
    return rng.random(n) < chance


def _spread(rate: float, relative: FloatArray) -> FloatArray:
    """Turn relative chances into probabilities with mean ``rate``.

    With relative chances below twice their mean, h = relative / mean - 1 < 1 and rate (1 + (1 - rate) h) <= 1.
    """
    return np.asarray(rate * (1.0 + (1.0 - rate) * (relative / relative.mean() - 1.0)))


def _systematic(chance: FloatArray, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Sample people with given probabilities and a size that is fixed up to rounding (systematic sampling)."""
    steps = np.floor(np.cumsum(chance) + rng.random())
    return np.flatnonzero(np.diff(steps, prepend=0.0) > 0)


def _hours(rng: np.random.Generator, sex: npt.NDArray[np.int16], age: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    works = rng.random(len(sex)) < np.where(age < 67 - 18, 0.82, 0.12)
    hours = np.clip(np.rint(40 - 4 * sex + 8 * rng.standard_normal(len(sex))), 5, 80)
    return np.where(works, hours, 0).astype(np.int16)


def _told_income(
    rng: np.random.Generator, log_income: npt.NDArray[np.float32], education: npt.NDArray[np.int16]
) -> FloatArray:
    """Round incomes to tens; some are not told, more often by the less educated."""
    told = rng.random(len(education)) >= 0.09 - 0.015 * education
    return np.where(told, np.rint(np.exp(log_income.astype(np.float64)) / 10) * 10, np.nan)


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
