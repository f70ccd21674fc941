"""What a simulated nation's regions are like: how many people, of which kinds, and how the place itself votes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from crosslevel.data.simulate.geometry import Country, invent_country, smooth_field
from crosslevel.typing import FloatArray

__all__ = ["Plan", "Settings", "plan_nation", "region_rng"]

BASE_RACE = np.array([0.0, -1.9, -1.7, -2.6])
"""Log odds of each race against the first, in an average rural place."""
URBAN_RACE = np.array([0.0, 0.6, 0.5, 0.9])
"""What a wholly urban place adds to these log odds."""
FIELD_RACE = np.array([0.0, 1.25, 1.1, 0.4])
"""Standard deviation of the smooth fields in these log odds: how strongly races cluster."""


@dataclass(frozen=True)
class Settings:
    """The arguments that define a nation, checked; :func:`crosslevel.data.simulate.nation` explains them."""

    n_regions: int
    people_per_region: int
    n_states: int
    sampling_rate: float
    turnout: float | None
    contextual: float
    spatial: float
    place_sd: float
    entropy: int


@dataclass(frozen=True)
class Plan:
    """The regions of a nation before anybody lives in them; every array has one row per region.

    Attributes
    ----------
    country : Country
        Seeds, states and outlines.
    regions, states : list of str
        Keys of the regions (``R0001`` from the north) and the state (``S01``) of each.
    population : (n_regions,) int
        Adults.
    race : (n_regions, 4)
        Probability of each race.
    minority : (n_regions,)
        One minus the probability of the first race.
    women : (n_regions,)
        Probability of being a woman.
    youth, middle : (n_regions,)
        How young the place is, and the share of its people whose age is drawn from the middle of life.
    school, urban, wealth : (n_regions,)
        The shift of its education, its urban share and the shift of its log income.
    place : (n_regions,)
        Effect of living there on the log odds of voting ``dem``, before the contextual terms.
    """

    settings: Settings
    country: Country
    regions: list[str]
    states: list[str]
    population: npt.NDArray[np.int64]
    race: FloatArray
    minority: FloatArray
    women: FloatArray
    youth: FloatArray
    middle: FloatArray
    school: FloatArray
    urban: FloatArray
    wealth: FloatArray
    place: FloatArray


def region_rng(settings: Settings, region: int) -> np.random.Generator:
    """Make the generator that belongs to one region (-1: to the plan), whatever else was drawn before.

    Examples
    --------
    >>> settings = Settings(4, 10, 2, 0.1, None, 1.0, 0.35, 0.15, entropy=0)
    >>> bool(region_rng(settings, 2).random() == region_rng(settings, 2).random())
    True
    """
    return np.random.default_rng(np.random.SeedSequence(settings.entropy, spawn_key=(region + 1,)))


def plan_nation(settings: Settings) -> Plan:
    """Draw the country and the character of its regions.

    Examples
    --------
    >>> plan = plan_nation(Settings(4, 10, 2, 0.1, None, 1.0, 0.35, 0.15, entropy=0))
    >>> plan.regions, plan.race.shape
    (['R0001', 'R0002', 'R0003', 'R0004'], (4, 4))
    """
    rng = region_rng(settings, -1)
    n = settings.n_regions
    country = invent_country(n, settings.n_states, rng)
    urban = _urban(country.xy, rng)
    race = _race(country.xy, urban, rng)
    minority = 1.0 - race[:, 0]
    school = 0.35 * smooth_field(country.xy, 0.35, rng) + 0.9 * (urban - urban.mean()) + 0.2 * rng.normal(size=n)
    wealth = 0.12 * smooth_field(country.xy, 0.4, rng) + 0.2 * school
    youth = 0.08 * smooth_field(country.xy, 0.3, rng) + 0.25 * (urban - urban.mean())
    middle = np.clip(0.3 + 0.1 * smooth_field(country.xy, 0.3, rng) + 0.06 * rng.normal(size=n), 0.0, 0.9)
    women = np.clip(0.515 + 0.016 * rng.normal(size=n), 0.3, 0.7)
    smooth = 0.9 * smooth_field(country.xy, 0.4, rng) - 0.5 * settings.contextual * _standard(minority)
    place = settings.spatial * smooth + settings.place_sd * rng.normal(size=n)
    digits, state_digits = max(4, len(str(n))), max(2, len(str(settings.n_states)))
    return Plan(
        settings=settings,
        country=country,
        regions=[f"R{i + 1:0{digits}d}" for i in range(n)],
        states=[f"S{s + 1:0{state_digits}d}" for s in country.state],
        population=_population(settings, rng),
        race=race,
        minority=minority,
        women=women,
        youth=youth,
        middle=middle,
        school=school,
        urban=urban,
        wealth=wealth,
        place=place,
    )


def _urban(xy: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Put cities of falling size on some of the regions; a city's pull fades over about two regions."""
    n = len(xy)
    cities = rng.choice(n, size=max(1, n // 20), replace=False)
    size = 1.0 / np.arange(1, len(cities) + 1) ** 0.4
    fade = 1.6 * np.sqrt(2.7 / n)  # the land is about 2.7 units of area
    # A city's pull is nil beyond its fade, so the nearest few are all that count.
    distance, nearest = cKDTree(xy[cities]).query(xy, k=np.arange(1, min(8, len(cities)) + 1))
    pull = (size[nearest] * np.exp(-(distance**2) / (2 * fade**2))).sum(axis=1)
    return 0.12 + 0.8 * (1.0 - np.exp(-1.5 * pull))


def _race(xy: FloatArray, urban: FloatArray, rng: np.random.Generator) -> FloatArray:
    fields = np.stack([smooth_field(xy, 0.3, rng) for _ in BASE_RACE], axis=1)
    odds = BASE_RACE + URBAN_RACE * urban[:, None] + FIELD_RACE * fields
    odds[:, 1:] += 0.25 * rng.normal(size=(len(xy), len(BASE_RACE) - 1))
    shares = np.exp(odds)
    return shares / shares.sum(axis=1, keepdims=True)


def _population(settings: Settings, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw sizes of regions around people_per_region / sampling_rate, never so small that nobody is sampled."""
    mean = settings.people_per_region / settings.sampling_rate
    size = np.exp(0.4 * rng.normal(size=settings.n_regions))
    fewest = int(np.ceil(1.0 / settings.sampling_rate))
    return np.maximum(np.rint(size / size.mean() * mean).astype(np.int64), fewest)


def _standard(values: FloatArray) -> FloatArray:
    spread = values.std()
    return (values - values.mean()) / (spread if spread > 0 else 1.0)
