"""The 2024 American Community Survey tied to county votes, for ``us2024.py`` and ``exit_polls.py``.

People are the adult citizens of CROSSLEVEL_DATA/us2024/persons. Places are the 998 regions that whole counties and whole
survey areas (PUMAs) tile.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import environ
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds

from crosslevel import People
from crosslevel.data.regions import MergeReport, Regions, merge_regions
from crosslevel.embedding import Embeddings, MeanEmbedding

COLUMNS = ("age", "log_income", "female", "eth5", "educ6", "tenure", "naturalised", "disability")
"""Features of a person; household income and tenure are missing in group quarters, which is a level of its own."""
CATEGORICAL = ("female", "eth5", "educ6", "tenure", "naturalised", "disability")
READ = ("region", "weight", "age", "female", "eth5", "educ6", "tenure", "citizenship", "disability", "hh_income")
NATURALISED = 4
LEAST_INCOME = 1000.0
"""Dollars a year below which household incomes (losses among them) are alike."""

SUBGROUPS: dict[str, dict[str, str]] = {
    "sex": {"men": "female = 0", "women": "female = 1"},
    "age": {
        "18-29": "age < 30",
        "30-44": "age >= 30 and age < 45",
        "45-64": "age >= 45 and age < 65",
        "65+": "age >= 65",
    },
    "household income": {
        "under $50,000": "hh_income < 50000",
        "$50,000-100,000": "hh_income >= 50000 and hh_income < 100000",
        "$100,000+": "hh_income >= 100000",
    },
    "race and ethnicity": {
        name: f"eth5 = {k}" for k, name in enumerate(("white", "black", "Hispanic", "Asian", "other"), start=1)
    },
    "education": {
        name: f"educ6 = {k}"
        for k, name in enumerate(
            ("no diploma", "high school", "some college", "associate", "bachelor", "graduate"), start=1
        )
    },
}
"""Conditions on people, by question and answer."""

COLLAPSE = {"AK": "02*", "CT": "09*", "DC": "11*"}
"""Votes of 2024 are by house district in Alaska, planning region in Connecticut and ward in Washington."""
JOIN = (("15005", "15009"),)
"""Kalawao has no returns of its own; it votes with Maui."""
TEXT = {n: pa.string() for n in ("state_fips", "puma", "puma_geoid", "county_fips", "fips", "county", "state")}


def data_folder() -> Path:
    """Find the real data."""
    folder = environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    return Path(folder)


def all_subgroups(questions: Iterable[str] = tuple(SUBGROUPS)) -> dict[str, str]:
    """Give the subgroups of several questions in one mapping, so that one pass over the people answers all."""
    return {name: query for question in questions for name, query in SUBGROUPS[question].items()}


def read_people(path: Path, states: Sequence[str] | None = None) -> pa.Table:
    """Read the adult citizens, with the columns of ``COLUMNS``, ``hh_income``, ``region`` and ``weight``.

    Parameters
    ----------
    path : path
        The folder us2024/persons.
    states : sequence of str, optional
        Two-digit codes of states; all when not given.
    """
    files = sorted(path.glob("p_*.parquet")) if states is None else [path / f"p_{code}.parquet" for code in states]
    kept = ds.dataset(files).to_batches(columns=list(READ), filter=pc.field("adult_citizen") == 1)
    found = [_columns(batch) for batch in kept]
    return pa.Table.from_batches(found).unify_dictionaries().combine_chunks()


def _columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    income = pc.cast(batch["hh_income"], pa.float32())
    columns = {name: batch[name] for name in READ if name != "citizenship"}
    # the files count their regions in 8 bits, the nation needs more
    columns["region"] = pc.cast(batch["region"], pa.dictionary(pa.int16(), pa.string()))
    columns["log_income"] = pc.ln(pc.max_element_wise(income, pa.scalar(LEAST_INCOME, pa.float32()), skip_nulls=False))
    columns["naturalised"] = pc.equal(batch["citizenship"], NATURALISED).cast(pa.int8())
    return pa.RecordBatch.from_pydict(columns)


def read_regions(folder: Path) -> pa.Table:
    """Read the regions with their votes; ``votes`` are those of the two parties in 2024."""
    table = pyarrow.csv.read_csv(folder / "us2024" / "regions_2024.csv")
    return table.append_column("votes", pc.add(table["votes_dem_2024"], table["votes_gop_2024"]))


def merge_counties(folder: Path) -> tuple[Regions, int]:
    """Rebuild the regions from the crosswalk of counties and PUMAs; also the components before anything is collapsed."""
    crosswalk = _read_text(folder / "us2024" / "crosswalk_puma20_county20.csv")
    sides = ("county_fips", ["state_fips", "puma"])
    return merge_regions(crosswalk, *sides, collapse=COLLAPSE, join=JOIN), merge_regions(crosswalk, *sides).n_regions


def region_of_county(folder: Path) -> dict[str, str]:
    """Name the published region of every county code."""
    named = _read_text(folder / "us2024" / "region_of_county.csv")
    return dict(zip(named["county_fips"].to_pylist(), named["region"].to_pylist(), strict=True))


def votes_by_region(folder: Path, year: int) -> tuple[pa.Table, MergeReport]:
    """Sum county votes of a year onto the regions, named as in regions_2024.csv: region, votes_dem, votes_gop, votes_total.

    Regions without any row of that year have null votes. Counties of codes that have changed since are recoded.
    """
    table = _read_text(folder / "county_votes" / "presidential_county_2008_2024.csv")
    table = table.filter(pc.equal(table["year"], year))
    codes = [RECODED.get(code, code) for code in table["fips"].to_pylist()]
    table = table.set_column(table.column_names.index("fips"), "fips", pa.array(codes))
    regions, _ = merge_counties(folder)
    sums, report = regions.sum_left(table, "fips", ["votes_dem", "votes_gop", "votes_total"], unmatched="report")
    name = region_of_county(folder)
    published = dict(
        zip(regions.left["region"].to_pylist(), (name[c] for c in regions.left["county_fips"].to_pylist()), strict=True)
    )
    return sums.set_column(0, "region", pa.array([published[r] for r in sums["region"].to_pylist()])), report


RECODED = {"46113": "46102", "51515": "51019"}
"""Shannon County, South Dakota, became Oglala Lakota in 2015; Bedford city joined Bedford County, Virginia, in 2013."""


def _read_text(path: Path) -> pa.Table:
    """Read a CSV with its codes as text."""
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=TEXT))


class Remembering:
    """An embedding that keeps its last answer, so that regions, states and the nation are asked from one pass over the people.

    Parameters
    ----------
    embedder : MeanEmbedding
        Fitted.

    Attributes
    ----------
    passes : int
        How often people were gone over.
    """

    def __init__(self, embedder: MeanEmbedding) -> None:
        self._embedder = embedder
        self._asked: object = None
        self._found: Embeddings | None = None
        self.passes = 0

    def ask(self, people: People, by: Sequence[str], subgroups: Mapping[str, str]) -> Embeddings:
        """Embed as an estimate of these subgroups will."""
        return self.transform(replace(people.kept(None), by=list(by), columns=None), subgroups=dict(subgroups))

    def transform(self, people: People, subgroups: Mapping[str, str] | None = None, progress: Any = None) -> Embeddings:
        """Embed, or give what the same question gave before."""
        question = (people.table, people.roles(), subgroups)  # a table equals itself alone
        if self._found is None or question != self._asked:
            self._found = None  # two answers would not fit into memory
            self._found = self._embedder.transform(people, subgroups=subgroups, progress=progress)
            self._asked = question
            self.passes += 1
        return self._found


def describe(people: pa.Table, columns: Sequence[str] = COLUMNS) -> People:
    """Say what the columns of people mean."""
    codes = [name for name in CATEGORICAL if name in columns]
    return People(people, by="region", weight="weight", columns=list(columns), categorical=codes)


def peak_memory() -> float:
    """Give the most memory this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def lay(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as a table of Markdown."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in cells) + " |" for cells in lines)


def points(share: float, digits: int = 1) -> str:
    """Write a share in percent."""
    return f"{100 * share:.{digits}f}" if np.isfinite(share) else "–"
