"""Who lives in one region, how they vote, and which of them are asked: numbers on arrays.

All effects are in log odds. Ages run from 18 to 89, and c = (age - 18) / 72.

Everybody is counted in cells, off which every true rate is read: an array of (population, voters, successes) by place, sex, race,
education, urban and age group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.simulate.map import Plan, region_rng
from crosslevel.typing import FloatArray

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


def draw_region(plan: Plan, i: int) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[Any]]]:
    """Simulate everybody in region ``i``, count their votes and sample them.

    Returns
    -------
    counts : (3, *CELL_SHAPE)
        Everybody, those who voted, and those who voted ``dem``, in each cell.
    people : dict of arrays
        The sampled people as integer codes; income is NaN where not told.

    Examples
    --------
    >>> from crosslevel.data.simulate.map import Settings, plan_nation
    >>> plan = plan_nation(Settings(4, 10, 2, 0.1, None, 1.0, 0.35, entropy=0))
    >>> (population, voters, _), people = draw_region(plan, 2)
    >>> bool(population.sum() == plan.population[2] == voters.sum())
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
    age_asked, sex_asked, education_asked = age[asked], sex[asked], education[asked]
    return np.stack([tally.sum(axis=-1), tally[..., 2] + tally[..., 3], tally[..., 3]]), {
        "weight": 1.0 / chance[asked],
        "sex": (sex_asked + 1).astype(np.int8),
        "age": (age_asked + 18).astype(np.int16),
        "age_group": group[asked].astype(np.int8),
        "race": race[asked].astype(np.int8),
        "education": education_asked.astype(np.int8),
        "hours": _hours(rng, sex_asked, age_asked),
        "income": _told_income(rng, log_income[asked], education_asked),
        "urban": urban[asked].astype(np.int8),
    }


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
"""The groupings of the table ``truth``."""


def rates(counts: npt.NDArray[np.int64], places: Mapping[str, Sequence[str]], by: Sequence[str]) -> pa.Table:
    """Sum counts over all variables but some and lay them out as rows: place, the by columns, rate, count, dem, population.

    ``count`` is the number of votes; ``rate`` is dem / count, null where nobody voted.

    Parameters
    ----------
    counts : (3, n_places, *CELL_SHAPE)
    places : mapping
        Name of the column of places, and their names; nothing where there is one that has none.
    by : sequence of str

    Examples
    --------
    >>> counts = np.ones((3, 1, *CELL_SHAPE), int)
    >>> rates(counts, {"region": ["R0001"]}, ["sex"])["count"].to_pylist()
    [160, 160]
    """
    kept = [name for name in LEVELS if name in by]
    sums = counts.sum(axis=tuple(2 + i for i, name in enumerate(LEVELS) if name not in by))
    population, voters, successes = sums.transpose(0, 1, *(2 + kept.index(name) for name in by))
    index = np.indices(population.shape).reshape(population.ndim, -1)
    levels = [*places.items(), *((name, LEVELS[name]) for name in by)]
    axes = index if places else index[1:]
    columns = {name: pa.array(values).take(pa.array(axis)) for (name, values), axis in zip(levels, axes, strict=True)}
    count, dem = voters.ravel(), successes.ravel()
    columns["rate"] = pa.array(dem / np.maximum(count, 1), mask=count == 0)
    columns |= {"count": pa.array(count), "dem": pa.array(dem), "population": pa.array(population.ravel())}
    return pa.table(columns)


def truth_table(counts: npt.NDArray[np.int64], regions: Sequence[str]) -> pa.Table:
    """Tabulate the true rate of every subgroup of ``GROUPINGS`` in every region.

    Examples
    --------
    >>> truth_table(np.zeros((3, 2, *CELL_SHAPE), int), ["R0001", "R0002"]).num_rows
    46
    """
    parts = []
    for by in GROUPINGS:
        table = rates(counts, {"region": regions}, by)
        levels = [" x ".join(map(str, row)) for row in zip(*(table[name].to_pylist() for name in by), strict=True)]
        variable = pa.array([" x ".join(by)] * table.num_rows)
        parts.append(
            table.drop_columns(list(by)).add_column(1, "variable", variable).add_column(2, "level", pa.array(levels))
        )
    return pa.concat_tables(parts).combine_chunks()
