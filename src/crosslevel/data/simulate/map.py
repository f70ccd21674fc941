"""Invent a country: where its regions lie, which states they form, polygons that tile it, and what its regions are like.

Seeds are spread evenly over a box; the ``n_regions`` of them that lie deepest inside an invented coastline are land
and the rest is sea. A region is the Voronoi cell of its seed, its sides made winding by midpoint displacement. Each
side is displaced once and used by both neighbors, so the polygons share their borders to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import Voronoi, cKDTree

from crosslevel.data.checks import check_between, check_whole
from crosslevel.typing import FloatArray

CENTER = (4.0, 51.0)
"""Longitude and latitude of the middle of the box."""
HALF_BOX = (9.0, 6.0)
"""Half width and half height of the box, in degrees."""
LAND_SHARE = 0.45
"""Share of the seeds that are land; leaves at least two cells of sea between the coast and the box."""
WINDING = 0.22
"""How far a side's midpoint moves, at most, as a share of the side and of the way to the seed it moves to."""


LEAST_SHARE, MOST_EFFECT, PLACE_SD = 1e-9, 100.0, 0.15
"""Of sampling and turnout; on a logit, beyond which everybody does the same; and of the effects of places that neighbors do not share."""


@dataclass(frozen=True)
class Country:
    """Seeds and borders of the regions.

    Attributes
    ----------
    lon, lat : (n_regions,)
        Seeds of the regions, from north to south.
    xy : (n_regions, 2)
        The same in units in which the box is 3 wide and 2 high, centered at 0.
    state : (n_regions,) int
        State of each region, 0 to n_states - 1, contiguous blocks of regions.
    rings : list of (n_points, 2)
        Outline of each region in longitude and latitude, counterclockwise, closed.
    """

    lon: FloatArray
    lat: FloatArray
    xy: FloatArray
    state: npt.NDArray[np.int64]
    rings: list[FloatArray]


def invent_country(n_regions: int, n_states: int, rng: np.random.Generator) -> Country:
    """Draw the seeds, the coast, the states and the borders of a country.

    Examples
    --------
    >>> country = invent_country(30, 4, np.random.default_rng(0))
    >>> len(country.rings), country.state.max() + 1
    (30, np.int64(4))
    """
    n_seeds = int(np.ceil(n_regions / LAND_SHARE)) + 12
    seeds = _even_points(n_seeds, rng)
    deepest = np.argsort(-_depth(seeds, rng), kind="stable")
    land = deepest[:n_regions]
    land = land[np.lexsort((seeds[land, 0], -seeds[land, 1]))]
    seeds = np.concatenate([seeds[land], seeds[deepest[n_regions:]]])
    rings = _outlines(seeds, n_regions, 3 if n_regions <= 1000 else 2, rng)
    xy = seeds[:n_regions]
    degrees = _degrees(xy)
    return Country(
        degrees[:, 0], degrees[:, 1], xy, _blocks(xy, n_states, rng), [_distinct(_degrees(r)) for r in rings]
    )


def _degrees(xy: FloatArray) -> FloatArray:
    """Turn box units into longitude and latitude; five decimals are about a meter."""
    return np.round(np.array(CENTER) + xy * (HALF_BOX[0] / 1.5, HALF_BOX[1]), 5)


def _distinct(ring: FloatArray) -> FloatArray:
    """Drop points that rounding made equal to the one before; a neighbor drops the same ones."""
    return ring[np.concatenate([[True], (ring[1:] != ring[:-1]).any(axis=1)])]


def _even_points(n: int, rng: np.random.Generator) -> FloatArray:
    """Spread points evenly over the box, by a few steps of Lloyd's algorithm on random samples."""
    points = rng.uniform((-1.5, -1.0), (1.5, 1.0), (n, 2))
    for _ in range(4):
        sample = rng.uniform((-1.5, -1.0), (1.5, 1.0), (24 * n, 2))
        _, owner = cKDTree(points).query(sample)
        mass = np.bincount(owner, minlength=n)
        for axis in (0, 1):
            sums = np.bincount(owner, sample[:, axis], minlength=n)
            points[:, axis] = np.where(mass > 0, sums / np.maximum(mass, 1), points[:, axis])
    return points


def _depth(xy: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Measure how far inside the coast a point lies: a wavy mainland and an island off it."""
    depth = np.full(len(xy), -np.inf)
    for center, radius, waves in (((-0.12, 0.0), (1.18, 0.76), 9), ((1.15, -0.62), (0.24, 0.2), 4)):
        dx, dy = (xy[:, 0] - center[0]) / radius[0], (xy[:, 1] - center[1]) / radius[1]
        angle, distance = np.arctan2(dy, dx), np.hypot(dx, dy)
        k = np.arange(2, waves + 2)
        amplitude = rng.normal(size=len(k)) * 0.16 / k**0.7
        phase = rng.uniform(0, 2 * np.pi, len(k))
        coast = 1.0 + np.cos(angle[:, None] * k + phase) @ amplitude
        depth = np.maximum(depth, (coast - distance) * radius[1])
    # The frame of the box is always sea, so that every land cell is bounded.
    edge = np.minimum(1.5 - np.abs(xy[:, 0]), 1.0 - np.abs(xy[:, 1]))
    return np.minimum(depth, edge - 0.1)


def _outlines(seeds: FloatArray, n_land: int, levels: int, rng: np.random.Generator) -> list[FloatArray]:
    """Trace the winding Voronoi cell of each of the first ``n_land`` seeds."""
    far = np.array([(x, y) for x in (-6.0, 0.0, 6.0) for y in (-5.0, 0.0, 5.0) if x or y])
    cells = Voronoi(np.concatenate([seeds, far]))
    sides, ends = np.asarray(cells.ridge_points), np.asarray(cells.ridge_vertices)
    kept = (sides < n_land).any(axis=1)
    sides, ends = sides[kept], ends[kept]
    paths = _wind(cells.vertices[ends], cells.points[sides], levels, rng)
    by_region: list[dict[int, list[tuple[int, FloatArray]]]] = [{} for _ in range(n_land)]
    for (a, b), (v, w), path in zip(sides.tolist(), ends.tolist(), paths, strict=True):
        for region in (a, b):
            if region < n_land:
                by_region[region].setdefault(v, []).append((w, path))
                by_region[region].setdefault(w, []).append((v, path[::-1]))
    return [_ring(sides_of) for sides_of in by_region]


def _wind(ends: FloatArray, seeds: FloatArray, levels: int, rng: np.random.Generator) -> FloatArray:
    """Displace the midpoints of the sides toward the seeds on either side, ``levels`` times.

    ``ends``, ``seeds``: (n_sides, 2, 2). The side of a convex cell and its two seeds span a kite no other side
    enters; a path that stays inside its kite crosses none. Answers (n_sides, 2**levels + 1, 2).
    """
    path = ends
    length = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)[:, None]
    for level in range(levels):
        middle = (path[:, :-1] + path[:, 1:]) / 2
        side = rng.uniform(-1, 1, middle.shape[:2])
        offset = np.where(side[:, :, None] > 0, seeds[:, None, 0], seeds[:, None, 1]) - middle
        # Half as much at each level, and no more than a share of the side: a short side between far seeds has a
        # narrow kite.
        reach = np.minimum(1.0, length / np.linalg.norm(offset, axis=2))
        moved = middle + (np.abs(side) * reach * WINDING / 2**level)[:, :, None] * offset
        woven = np.empty((len(path), 2 * path.shape[1] - 1, 2))
        woven[:, ::2], woven[:, 1::2] = path, moved
        path = woven
    return path


def _ring(sides: dict[int, list[tuple[int, FloatArray]]]) -> FloatArray:
    """Chain the sides of a cell into a closed ring, counterclockwise."""
    start = min(sides)
    corner, path = sides[start][0]
    pieces, before = [path[:-1]], start
    while corner != start:
        onward, path = next((w, p) for w, p in sides[corner] if w != before)
        pieces.append(path[:-1])
        before, corner = corner, onward
    ring = np.concatenate([*pieces, pieces[0][:1]])
    x, y = ring.T
    return ring if (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() > 0 else ring[::-1]


def _blocks(xy: FloatArray, n_blocks: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Group points into compact blocks (Lloyd's algorithm from spread-out starts), numbered from north to south."""
    centers = xy[[int(rng.integers(len(xy)))]]
    while len(centers) < n_blocks:
        gap, _ = cKDTree(centers).query(xy)
        centers = np.concatenate([centers, xy[[int(np.argmax(gap))]]])
    for _ in range(8):
        _, block = cKDTree(centers).query(xy)
        size = np.bincount(block, minlength=n_blocks)
        if (size == 0).any():  # pragma: no cover - a start is a point of its own block
            break
        centers = np.stack([np.bincount(block, xy[:, a], minlength=n_blocks) / size for a in (0, 1)], axis=1)
    _, block = cKDTree(centers).query(xy)
    _, block = np.unique(block, return_inverse=True)
    first = np.argsort(-np.array([xy[block == b, 1].mean() for b in range(block.max() + 1)]), kind="stable")
    return np.argsort(first)[block].astype(np.int64)


def smooth_field(xy: FloatArray, lengthscale: float, rng: np.random.Generator) -> FloatArray:
    """Draw a smooth random field at the points (256 random cosines), with mean 0 and standard deviation 1 over them.

    Examples
    --------
    >>> field = smooth_field(np.array([[0.0, 0.0], [0.01, 0.0], [1.0, 1.0]]), 0.4, np.random.default_rng(0))
    >>> bool(abs(field[0] - field[1]) < abs(field[0] - field[2]))
    True
    """
    frequency = rng.normal(size=(2, 256)) / lengthscale
    field = np.cos(xy @ frequency + rng.uniform(0, 2 * np.pi, 256)).sum(axis=1)
    spread = field.std()
    return (field - field.mean()) / (spread if spread > 0 else 1.0)


def feature_collection(country: Country, regions: list[str], states: list[str]) -> dict[str, Any]:
    """Write the outlines as a GeoJSON FeatureCollection with the properties ``region`` and ``state``.

    Examples
    --------
    >>> country = invent_country(2, 1, np.random.default_rng(0))
    >>> feature_collection(country, ["R1", "R2"], ["S1", "S1"])["features"][1]["properties"]
    {'region': 'R2', 'state': 'S1'}
    """
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "id": region,
                "properties": {"region": region, "state": state},
                "geometry": {"type": "Polygon", "coordinates": [ring.tolist()]},
            }
            for region, state, ring in zip(regions, states, country.rings, strict=True)
        ],
    }


BASE_RACE = np.array([0.0, -1.9, -1.7, -2.6])
"""Log odds of each race against the first, in an average rural place."""
URBAN_RACE = np.array([0.0, 0.6, 0.5, 0.9])
"""What a wholly urban place adds to these log odds."""
FIELD_RACE = np.array([0.0, 1.25, 1.1, 0.4])
"""Standard deviation of the smooth fields in these log odds: how strongly races cluster."""


@dataclass(frozen=True)
class Settings:
    """The arguments that define a nation; :func:`crosslevel.data.simulate.nation` explains them."""

    n_regions: int
    people_per_region: int
    n_states: int
    sampling_rate: float
    turnout: float | None
    contextual: float
    spatial: float
    entropy: int

    def __post_init__(self) -> None:
        for name in ("n_regions", "people_per_region", "n_states"):
            check_whole(getattr(self, name), name, 1)
        check_between(self.sampling_rate, "sampling_rate", LEAST_SHARE, 1.0)
        if self.turnout is not None:
            check_between(self.turnout, "turnout", LEAST_SHARE, 1.0)
        check_between(self.contextual, "contextual", -MOST_EFFECT, MOST_EFFECT)
        check_between(self.spatial, "spatial", 0.0, MOST_EFFECT)


@dataclass(frozen=True)
class Plan:
    """The regions of a nation before anybody lives in them; every array has one row per region.

    Attributes
    ----------
    country : Country
        Seeds, states and outlines.
    regions : list of str
        Keys of the regions (``R0001`` from the north).
    population : (n_regions,) int
        Adults.
    race : (n_regions, 4)
        Probability of each race.
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
    population: npt.NDArray[np.int64]
    race: FloatArray
    women: FloatArray
    youth: FloatArray
    middle: FloatArray
    school: FloatArray
    urban: FloatArray
    wealth: FloatArray
    place: FloatArray

    @property
    def states(self) -> list[str]:
        """The state of each region, ``S01`` in the north."""
        digits = max(2, len(str(min(self.settings.n_states, self.settings.n_regions))))
        return [f"S{state + 1:0{digits}d}" for state in self.country.state]

    @property
    def minority(self) -> FloatArray:
        """One minus the probability of the first race."""
        return 1.0 - self.race[:, 0]


def region_rng(settings: Settings, region: int) -> np.random.Generator:
    """Make the generator that belongs to one region (-1: to the plan), whatever else was drawn before.

    Examples
    --------
    >>> settings = Settings(4, 10, 2, 0.1, None, 1.0, 0.35, entropy=0)
    >>> bool(region_rng(settings, 2).random() == region_rng(settings, 2).random())
    True
    """
    return np.random.default_rng(np.random.SeedSequence(settings.entropy, spawn_key=(region + 1,)))


def plan_nation(settings: Settings) -> Plan:
    """Draw the country and the character of its regions.

    Examples
    --------
    >>> plan = plan_nation(Settings(4, 10, 2, 0.1, None, 1.0, 0.35, entropy=0))
    >>> plan.regions, plan.race.shape
    (['R0001', 'R0002', 'R0003', 'R0004'], (4, 4))
    """
    rng = region_rng(settings, -1)
    n, n_states = settings.n_regions, min(settings.n_states, settings.n_regions)
    country = invent_country(n, n_states, rng)
    urban = _urban(country.xy, rng)
    race = _race(country.xy, urban, rng)
    minority = 1.0 - race[:, 0]
    school = 0.35 * smooth_field(country.xy, 0.35, rng) + 0.9 * (urban - urban.mean()) + 0.2 * rng.normal(size=n)
    wealth = 0.12 * smooth_field(country.xy, 0.4, rng) + 0.2 * school
    youth = 0.08 * smooth_field(country.xy, 0.3, rng) + 0.25 * (urban - urban.mean())
    middle = np.clip(0.3 + 0.1 * smooth_field(country.xy, 0.3, rng) + 0.06 * rng.normal(size=n), 0.0, 0.9)
    women = np.clip(0.515 + 0.016 * rng.normal(size=n), 0.3, 0.7)
    smooth = 0.9 * smooth_field(country.xy, 0.4, rng) - 0.5 * settings.contextual * _standard(minority)
    place = settings.spatial * smooth + PLACE_SD * rng.normal(size=n)
    digits = max(4, len(str(n)))
    return Plan(
        settings=settings,
        country=country,
        regions=[f"R{i + 1:0{digits}d}" for i in range(n)],
        population=_population(settings, rng),
        race=race,
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
