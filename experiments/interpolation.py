"""Totals of other areas: `interpolate` beside tobler, where the truth is known. Prints the table of the guide page.

Trafford, mid-2024: people of all ages from 28 MSOAs to their 139 LSOAs, and to 40 made-up districts that cross them. United States, state
by state: people of merged regions to their counties, and of one grouping of counties to another that crosses it. The same with totals
that carry sampling errors of a known size, and counts of some of the people where the people of the targets are known.

    CROSSLEVEL_DATA=... python experiments/interpolation.py          # three minutes, with tobler installed
    CROSSLEVEL_DATA=... python experiments/interpolation.py --quick  # Trafford and one state
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

from crosslevel.binned import Polygons
from crosslevel.binned.interpolation import interpolate
from crosslevel.binned.regions.shapes import as_shapely

FloatArray = npt.NDArray[np.float64]

Z90 = 1.645
GROUPS = {"65 and over": (65, 90), "20 to 29": (20, 29), "0 to 15": (0, 15)}
SHARES = {
    "Black, not Hispanic": "b03002: Black or African American, non-Hispanic",
    "Hispanic": "b03002: Hispanic or Latino (any race)",
    "owner-occupied homes": "b25003: owner_occupied_units",
    "bachelor's degree": "b15003: Bachelor's degree",
}


@dataclass(frozen=True, eq=False)
class Task:
    """One interpolation whose truth is known.

    Attributes
    ----------
    name : str
        Tasks of one name are scored together.
    source, target : Polygons
    values, truth : (B,) and (T,)
    std_error : (B,) or None
    population : (T,) or None
    similar : bool
        Whether targets were drawn to hold similar numbers of people.
    cell : float
        Side of the cells of pycnophylactic interpolation, kilometers.
    """

    name: str
    source: Polygons
    target: Polygons
    values: FloatArray
    truth: FloatArray
    std_error: FloatArray | None = None
    population: FloatArray | None = None
    cell: float = 4.0
    similar: bool = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Trafford and one state")
    parser.add_argument("--only", choices=["trafford", "counties"], help="one half")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore")
    scores: dict[str, list[Any]] = {}
    tasks = [] if args.only == "counties" else [*trafford(Path(folder) / "ages")]
    for task in chain(tasks, [] if args.only == "trafford" else counties(Path(folder), 1 if args.quick else None)):
        scores.setdefault(task.name, []).append(answer(task))
    print("\n".join(table_row(name, found) for name, found in scores.items()))


def answer(task: Task) -> dict[str, FloatArray]:
    """Solve one task by every method that has what it needs."""
    found = interpolate(
        task.source,
        task.target,
        task.values,
        task.std_error,
        population="similar" if task.similar else task.population,
    )
    out = {"truth": task.truth, "ours": found["estimate"], "low": found["conf_low"], "high": found["conf_high"]}
    if task.population is not None:
        return out | {"people": found["people_weighted"]}
    return out | {"area": found["area_weighted"], "pycno": pycnophylactic(task)}


def pycnophylactic(task: Task) -> FloatArray:
    """Interpolate by tobler."""
    try:
        import geopandas
        from tobler.pycno import pycno_interpolate
    except ImportError:
        return np.full(len(task.truth), np.nan)
    frame = {"n": task.values}
    meters = "EPSG:6933"  # any plane does: the coordinates are kilometers already, and are taken as they are
    source = geopandas.GeoDataFrame(frame, geometry=list(as_shapely(task.source.shapes)), crs=meters)
    target = geopandas.GeoDataFrame(geometry=list(as_shapely(task.target.shapes)), crs=meters)
    return np.asarray(pycno_interpolate(source, target, ["n"], cellsize=task.cell)["n"], dtype=np.float64)


def merge(polygons: Polygons, group: npt.NDArray[Any]) -> Polygons:
    """Join polygons of one group."""
    shapes = np.asarray(as_shapely(polygons.shapes))
    return Polygons([shapely.union_all(shapes[group == g]) for g in np.unique(group)], plane=None, crs="plane")


def districts(polygons: Polygons, number: int, seed: int) -> npt.NDArray[np.int64]:
    """Group polygons around a number of centers drawn at random: each joins the nearest."""
    at = shapely.get_coordinates(shapely.centroid(as_shapely(polygons.shapes)))
    chosen = np.random.default_rng(seed).choice(len(at), number, replace=False)
    nearest = ((at[:, None] - at[chosen]) ** 2).sum(axis=2).argmin(axis=1)
    return np.unique(nearest, return_inverse=True)[1].astype(np.int64)


def plain(polygons: Polygons) -> Polygons:
    """Keep the shapes only, kilometers as plane coordinates."""
    return Polygons(list(as_shapely(polygons.shapes)), crs="plane")


def trafford(folder: Path) -> Iterator[Task]:
    """Give the tasks of the borough."""
    sys.path.insert(0, str(Path(__file__).parent))
    from areas import read_borough

    data = read_borough(folder)
    large, small = plain(data.large), plain(data.small)
    people = data.small_ages.sum(axis=1)
    own = data.parent
    yield Task("Trafford, people: MSOA to LSOA", large, small, np.bincount(own, people), people, cell=0.1, similar=True)
    for seed in range(4):
        group = districts(small, 40, seed)
        crossing = np.bincount(group, people)
        yield Task(
            "Trafford, people: MSOA to districts",
            large,
            merge(small, group),
            np.bincount(own, people),
            crossing,
            cell=0.1,
        )
    for name, (a, b) in GROUPS.items():
        counts = data.small_ages[:, a : b + 1].sum(axis=1)
        yield Task(f"Trafford, {name}: by people", large, small, np.bincount(own, counts), counts, population=people)


def counties(folder: Path, states: int | None) -> Iterator[Task]:
    """Give the tasks of every state whose regions hold several counties."""
    with (folder / "county_acs2024" / "county_acs5_2020_2024.csv").open(encoding="utf-8") as file:
        acs = {row["fips"]: row for row in csv.DictReader(file)}
    with (folder / "us2024" / "region_of_county.csv").open(encoding="utf-8") as file:
        region = {row["county_fips"]: row["region"] for row in csv.DictReader(file)}
    shapes = read_topology(folder / "geometry" / "us-atlas_counties-10m.json", "counties")
    ready = sorted(f for f in shapes if f in acs and f in region and f[:2] not in ("02", "15"))
    for state in sorted({f[:2] for f in ready})[:states]:
        here = [f for f in ready if f[:2] == state]
        own = np.unique([region[f] for f in here], return_inverse=True)[1]
        if own.max() < 4 or len(here) < own.max() + 6:
            continue
        small = plain(Polygons([shapes[f] for f in here], crs="degrees", project="local", repair=True))
        number = {
            n: np.array([float(acs[f][c] or 0) for f in here])
            for n, c in {"people": "total_population", **SHARES}.items()
        }
        margin = np.array([float(acs[f]["b25003: owner_occupied_units_moe"] or 0) for f in here]) / Z90
        large, people = merge(small, own), number["people"]
        y = np.bincount(own, people)
        yield Task("Counties, people: regions to counties", large, small, y, people)
        k = max(5, len(here) // 4)
        first, second = districts(small, k, 1), districts(small, k, 2)
        one, two = merge(small, first), merge(small, second)
        yield Task(
            "Counties, people: groups to other groups",
            one,
            two,
            np.bincount(first, people),
            np.bincount(second, people),
        )
        homes = number["owner-occupied homes"]
        rng = np.random.default_rng(int(state))
        # published margins, tripled: counties' own are small beside what interpolation costs
        error = 3.0 * np.sqrt(np.bincount(first, margin**2))
        noisy = np.maximum(np.rint(np.bincount(first, homes) + error * rng.standard_normal(len(error))), 0.0)
        yield Task(
            "Counties, homes with sampling errors: groups to other groups",
            one,
            two,
            noisy,
            np.bincount(second, homes),
            error,
        )
        for name in SHARES:
            yield Task(
                f"Counties, {name}: by people",
                large,
                small,
                np.bincount(own, number[name]),
                number[name],
                population=people,
            )


def read_topology(path: Path, layer: str) -> dict[str, Any]:
    """Read the polygons of a TopoJSON file by their ids, in degrees."""
    source = json.loads(path.read_text(encoding="utf-8"))
    scale, shift = (np.array(source["transform"][n]) for n in ("scale", "translate"))
    arcs = [np.cumsum(np.array(a), axis=0) * scale + shift for a in source["arcs"]]

    def ring(numbers: Sequence[int]) -> FloatArray:
        pieces = [arcs[i] if i >= 0 else arcs[~i][::-1] for i in numbers]
        return np.concatenate([pieces[0], *(p[1:] for p in pieces[1:])])

    out = {}
    for g in source["objects"][layer]["geometries"]:
        if g.get("type") in ("Polygon", "MultiPolygon"):
            parts = [[ring(r) for r in p] for p in ([g["arcs"]] if g["type"] == "Polygon" else g["arcs"])]
            solid = [shapely.Polygon(p[0], [h for h in p[1:] if len(h) > 3]) for p in parts if len(p[0]) > 3]
            whole = shapely.union_all([shapely.buffer(polygon, 0.0) for polygon in solid])
            if not whole.is_empty:  # Falls Church is smaller than the precision of the file
                out[str(g["id"])] = whole
    return out


def table_row(name: str, found: list[dict[str, FloatArray]]) -> str:
    """Score the tasks of one name together: share of the total put in a wrong place, RMSE, coverage."""
    joined = {k: np.concatenate([f[k] for f in found]) for k in found[0]}
    truth = joined["truth"]

    def wrong(k: str) -> str:
        if k not in joined:
            return "–"
        off = joined[k] - truth
        return f"{100 * np.abs(off).sum() / (2 * truth.sum()):.1f} ({np.sqrt(np.mean(off**2)):,.0f})"

    inside = np.mean((joined["low"] <= truth) & (truth <= joined["high"]))
    return f"| {name} | {len(truth):,} | {wrong('area')} | {wrong('pycno')} | {wrong('people')} | **{wrong('ours')}** | {inside:.3f} |"


if __name__ == "__main__":
    main()
