"""Write a simulated nation straight to files, region by region, however many people it has."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from crosslevel.data.atomic import whole_file
from crosslevel.data.checks import check_whole
from crosslevel.data.progress import follow
from crosslevel.data.simulate.nation import PEOPLE_SCHEMA, check_settings, draw_people, people_table, places_table
from crosslevel.data.simulate.people import Cells, RegionDraw, truth_table
from crosslevel.data.simulate.places import Plan, feature_collection, plan_nation
from crosslevel.errors import FileError
from crosslevel.typing import Progress, RandomState, Tell

ROWS_PER_GROUP = 65_536
"""A row group is closed once it has this many people: small enough to hold, large enough to compress."""
PEOPLE_PER_FILE = 1_000_000
"""Sampled people per part file when ``files`` is not given."""


@dataclass(frozen=True)
class NationFiles:
    """Where :func:`write_nation` put things, and how many people there are.

    Attributes
    ----------
    people : tuple of Path
        The parts; read them together as a data set.
    places, truth, polygons : Path
        The tables of the regions and of the truth (Parquet) and the outlines (GeoJSON).
    n_people, n_population : int
        People sampled, and people simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_nation(folder, 5, 20)
    >>> written.truth.name, written.n_people
    ('truth.parquet', 99)
    """

    people: tuple[Path, ...]
    places: Path
    truth: Path
    polygons: Path
    n_people: int
    n_population: int


def write_nation(
    folder: str | os.PathLike[str],
    n_regions: int = 300,
    people_per_region: int = 1000,
    *,
    n_states: int = 12,
    sampling_rate: float = 0.1,
    turnout: float | None = None,
    contextual: float = 0.25,
    spatial: float = 0.2,
    place_sd: float = 0.15,
    random_state: RandomState = 0,
    files: int | None = None,
    progress: Progress | None = None,
) -> NationFiles:
    """Write the nation that :func:`nation` would return to Parquet and GeoJSON files.

    Memory is that of the largest region's population and of the counts per region, whatever the number of people.
    Each file appears whole or not at all, and the truth last.

    Parameters
    ----------
    folder : path
        Made if missing; must hold no people of another nation. Gets ``people/part-000.parquet`` and so on,
        ``places.parquet``, ``regions.geojson`` and ``truth.parquet``.
    n_regions, people_per_region, n_states, sampling_rate, turnout, contextual, spatial, place_sd, random_state
        As in :func:`nation`. The values do not depend on ``files``.
    files : int, optional
        Parts to cut the people into; by default one per million.
    progress : bool or callable, optional
        True for a bar on stderr; or a function, called after each region with the regions done and all regions.

    Returns
    -------
    NationFiles

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_nation(folder, 20, 50, files=2)
    ...     [path.name for path in written.people], pq.read_table(written.places).num_rows
    (['part-000.parquet', 'part-001.parquet'], 20)
    """
    settings = check_settings(
        n_regions, people_per_region, n_states, sampling_rate, turnout, contextual, spatial, place_sd, random_state
    )
    n = settings.n_regions
    parts = _check_files(files, n, n * settings.people_per_region)
    root = _fresh_folder(folder)
    plan = plan_nation(settings)
    cells = Cells.empty(n)
    paths, sampled = [], 0
    with follow(progress, "Writing people", "regions") as tell:
        for part, regions in enumerate(np.array_split(np.arange(n), parts)):
            path = root / "people" / f"part-{part:03d}.parquet"
            sampled += _write_part(path, plan, cells, regions.tolist(), tell)
            paths.append(path)
    written = NationFiles(
        people=tuple(paths),
        places=root / "places.parquet",
        truth=root / "truth.parquet",
        polygons=root / "regions.geojson",
        n_people=sampled,
        n_population=int(plan.population.sum()),
    )
    with whole_file(written.places) as beside:
        pq.write_table(places_table(plan, cells), beside)
    with whole_file(written.polygons) as beside, beside.open("w", encoding="utf-8") as stream:
        json.dump(feature_collection(plan.country, plan.regions, plan.states), stream, separators=(",", ":"))
    with whole_file(written.truth) as beside:
        pq.write_table(truth_table(cells, plan.regions), beside)
    return written


def _check_files(files: int | None, n_regions: int, n_people: int) -> int:
    if files is None:
        return min(n_regions, -(-n_people // PEOPLE_PER_FILE))
    return check_whole(files, "files", 1, n_regions)


def _fresh_folder(folder: str | os.PathLike[str]) -> Path:
    """Make the folders; refuse one with people in it, for parts of two nations would be read as one."""
    root = Path(folder)
    if root.exists() and not root.is_dir():
        raise FileError(f"folder={str(root)!r} is a file; name a folder to write the nation into.")
    people = root / "people"
    if people.is_dir() and any(people.iterdir()):
        raise FileError(f"{people} already holds files; choose another folder, or empty it first.")
    people.mkdir(parents=True, exist_ok=True)
    return root


def _write_part(path: Path, plan: Plan, cells: Cells, regions: Sequence[int], tell: Tell | None) -> int:
    """Write the people of some regions to one file, a row group at a time, and count them."""
    total = 0
    with whole_file(path) as beside, pq.ParquetWriter(beside, PEOPLE_SCHEMA, compression="zstd") as writer:
        held: list[RegionDraw] = []
        start = rows = 0
        for done, draw in enumerate(draw_people(plan, cells, regions), start=1):
            held.append(draw)
            rows += len(draw.age)
            if rows >= ROWS_PER_GROUP or done == len(regions):
                writer.write_table(people_table(plan, regions[start:done], held))
                total += rows
                held, start, rows = [], done, 0
            if tell is not None:
                tell(regions[done - 1] + 1, plan.settings.n_regions)
    return total
