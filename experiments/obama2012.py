"""Who supported Obama in 2012? The paper's own election: its regions to the vote, and its people for whoever has the files.

The regions of Flaxman, Wang and Smola (KDD 2015) and of their follow-up are rebuilt from the crosswalks of counties and survey
areas, and county votes are summed to them and compared with the published tables. The microdata of 2006-10 (eleven million
people; ``csv_pus.zip``, or the files of the states, of the 5-year PUMS 2006-2010 at the Census Bureau) are read, if they are
there, and the whole model is run.

    CROSSLEVEL_DATA=... python experiments/obama2012.py                 # the regions; writes the page
    CROSSLEVEL_DATA=... python experiments/obama2012.py --pums FOLDER   # and the model
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from us2024_data import Remembering, data_folder, lay, points

import crosslevel as cl
from crosslevel.data.atomic import whole_file
from crosslevel.data.readers import read_acs_pums, read_county_votes
from crosslevel.data.readers.acs_pums import names_of, person_files
from crosslevel.data.regions import MergeReport, Regions, merge_regions
from crosslevel.ecological import DistributionRegression
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.results import Estimates

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "obama2012.md"
ALASKA = {"AK": "02*"}
"""Alaska does not publish its votes by borough."""
ORLEANS = ("01801", "01802", "01905")
KATRINA = "77777"
"""After 2005 the survey gives these three areas of Louisiana one code, since too few people were left in them; that joins
Orleans Parish with Jefferson, Plaquemines and St. Bernard."""
NUMBERS = ("AGEP", "PINCP")
CODES = ("SEX", "RAC1P", "HISP", "CIT", "SCHL", "MAR", "ESR", "COW", "MIL", "LANX", "DIS", "NATIVITY")
"""Features of the person files, as far as a file has them."""
ADULT_CITIZENS = "AGEP >= 18 and CIT != 5"
SUBGROUPS = {
    "men": "SEX == 1",
    "women": "SEX == 2",
    "18-29": "AGEP < 30",
    "30-44": "AGEP >= 30 and AGEP < 45",
    "45-64": "AGEP >= 45 and AGEP < 65",
    "65+": "AGEP >= 65",
    "income under $50,000": "PINCP < 50000",
    "income $50,000-100,000": "PINCP >= 50000 and PINCP < 100000",
    "income $100,000+": "PINCP >= 100000",
}


@dataclass(frozen=True)
class Vintage:
    """One geography of survey areas: the files of its crosswalk and of the published votes, and how areas are called."""

    name: str
    crosswalk: str
    puma: str
    published: str
    people: str


VINTAGES = {
    "2000": Vintage("2000", "county-to-puma00.csv", "puma2k", "2012-by-region.csv", "2006-10"),
    "2010": Vintage("2010", "county-to-puma10.csv", "puma12", "2012-by-region-puma10s.csv", "2012"),
}


@dataclass(frozen=True)
class Rebuilt:
    """The regions of one vintage.

    Attributes
    ----------
    vintage : Vintage
    regions : Regions
    components : int
        Of the crosswalk as it is.
    votes : pyarrow.Table
        region (the published name), label (ours), st, dem, rep, votes, lon, lat.
    report : MergeReport
    published : int
        Regions of the published table.
    matched : int
        Regions whose two counts are the published ones; all but Alaska's, which is taken from the published table.
    """

    vintage: Vintage
    regions: Regions
    components: int
    votes: pa.Table
    report: MergeReport
    published: int
    matched: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pums", type=Path, nargs="+", help="person files of the 5-year PUMS 2006-2010, or their folder"
    )
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/obama2012.md)")
    options = parser.parse_args()
    folder = data_folder()
    rebuilt = {name: rebuild(folder, vintage) for name, vintage in VINTAGES.items()}
    sections = [region_section(list(rebuilt.values()))]
    print(sections[0], "\n", flush=True)
    if options.pums:
        sections.append(model_section(options.pums, rebuilt["2000"], n_features=options.features))
        print(sections[1], flush=True)
    with whole_file(options.out) as beside:
        beside.write_text(page(sections), encoding="utf-8")


def rebuild(folder: Path, vintage: Vintage) -> Rebuilt:
    """Merge counties and areas, sum the votes of 2012, and find every region in the published table."""
    plain = read_crosswalk(folder / "regions2012" / vintage.crosswalk, vintage.puma)
    crosswalk = with_later_code(plain) if vintage.name == "2000" else plain
    sides = ("county", ["state", "puma"])
    regions = merge_regions(crosswalk, *sides, collapse=ALASKA)
    counties = read_county_votes(folder / "county_votes" / "huffpost_president_2012_county.csv", year=2012)
    sums, report = regions.sum_left(counties, "fips", ["votes_dem", "votes_rep"])
    published = pyarrow.csv.read_csv(folder / "regions2012" / vintage.published)
    votes, matched = name_regions(sums, regions, state_of(crosswalk), published)
    where = centroids(crosswalk, regions, folder / "geometry" / "county_centroids.csv")
    lon, lat = zip(*(where[label] for label in votes["label"].to_pylist()), strict=True)
    votes = votes.append_column("lon", pa.array(lon)).append_column("lat", pa.array(lat))
    raw = merge_regions(plain, *sides).n_regions
    return Rebuilt(vintage, regions, raw, votes, report, published.num_rows, matched)


def read_crosswalk(path: Path, puma: str) -> pa.Table:
    """Read a crosswalk: county, state, puma, st as text, pop as a number."""
    names = pyarrow.csv.read_csv(path).column_names
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    table = pyarrow.csv.read_csv(path, convert_options=options)
    table = table.select(["county", "state", puma, "stab", "pop10"])
    table = table.rename_columns(["county", "state", "puma", "st", "pop"])
    return table.set_column(4, "pop", pc.cast(table["pop"], pa.float64()))


def with_later_code(crosswalk: pa.Table) -> pa.Table:
    """Add the code that three areas of Louisiana carry since Hurricane Katrina."""
    few = pc.and_(pc.equal(crosswalk["state"], "22"), pc.is_in(crosswalk["puma"], pa.array(ORLEANS)))
    again = crosswalk.filter(few)
    again = again.set_column(2, "puma", pa.array([KATRINA] * again.num_rows, pa.string()))
    # the same people under another code: they must not count twice in a centroid
    again = again.set_column(4, "pop", pa.array(np.zeros(again.num_rows)))
    return pa.concat_tables([crosswalk, again])


def state_of(crosswalk: pa.Table) -> dict[str, str]:
    """Give the postal code of every state code."""
    return dict(zip(crosswalk["state"].to_pylist(), crosswalk["st"].to_pylist(), strict=True))


def name_regions(
    sums: pa.Table, regions: Regions, states: Mapping[str, str], published: pa.Table
) -> tuple[pa.Table, int]:
    """Find each region in the published table by its state and its two counts, and count how many are there.

    The table numbers the regions of a state in an order of its own, so names cannot be compared.
    """
    rows = published.to_pylist()
    known = {(r["region"][:2], r["votes_D"], r["votes_R"]): r for r in rows}
    if len(known) < len(rows):
        raise InputError("published has two regions of one state with the same votes; they cannot be told apart.")
    first = dict(zip(regions.left["region"].to_pylist(), regions.left["county"].to_pylist(), strict=True))
    found: dict[str, list[Any]] = {n: [] for n in ("region", "label", "st", "dem", "rep", "votes")}
    matched = 0
    for label, dem, rep in zip(*(sums[n].to_pylist() for n in ("region", "votes_dem", "votes_rep")), strict=True):
        state = states[first[label][:2]]
        row = known.get((state, dem, rep))
        matched += row is not None
        if row is None and dem is None:
            row = next((r for r in rows if r["region"][:2] == state), None)
        if row is None:
            continue
        values = (row["region"], label, state, row["votes_D"], row["votes_R"], row["votes_D"] + row["votes_R"])
        for name, value in zip(found, values, strict=True):
            found[name].append(value)
    return pa.table(found), matched


def centroids(crosswalk: pa.Table, regions: Regions, path: Path) -> dict[str, tuple[float, float]]:
    """Give the longitude and latitude of every region: the mean over its counties on the sphere, weighted by people."""
    table = pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types={"fips": pa.string()}))
    lon, lat = (np.deg2rad(table[n].to_numpy()) for n in ("lon", "lat"))
    xyz = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    point = dict(zip(table["fips"].to_pylist(), xyz, strict=True))
    total = {label: np.zeros(3) for label in regions.labels}
    of = dict(zip(regions.left["county"].to_pylist(), regions.left["region"].to_pylist(), strict=True))
    for county, people in zip(crosswalk["county"].to_pylist(), crosswalk["pop"].to_pylist(), strict=True):
        # counties whose codes have changed since have no point; their neighbors in the region speak for them
        total[of[county]] += people * point.get(RECODED.get(county, county), np.zeros(3))
    return {
        label: (float(np.rad2deg(np.arctan2(v[1], v[0]))), float(np.rad2deg(np.arctan2(v[2], np.hypot(v[0], v[1])))))
        for label, v in total.items()
    }


RECODED = {"46113": "46102", "51515": "51019"}
"""Shannon County, South Dakota, became Oglala Lakota in 2015; Bedford city joined Bedford County, Virginia, in 2013."""


def people_of(paths: Sequence[Path] | Path, rebuilt: Rebuilt) -> tuple[pa.Table, list[str]]:
    """Read the adult citizens with the published name of their region, and name their features.

    Parameters
    ----------
    paths : path or sequence of paths
        Person files of ACS PUMS with PUMAs of the regions' vintage.
    rebuilt : Rebuilt
    """
    there = names_of(person_files(paths)[0])
    own = f"PUMA{rebuilt.vintage.name[2:]}"
    keys = ["ST" if "ST" in there else "STATE", own if own in there else "PUMA"]
    features = [n for n in (*NUMBERS, *CODES) if n in there]
    people = read_acs_pums(paths, columns=[*keys, "PWGTP", *features], where=ADULT_CITIZENS)
    name = dict(zip(rebuilt.votes["label"].to_pylist(), rebuilt.votes["region"].to_pylist(), strict=True))
    names = pa.array([name[label] for label in rebuilt.regions.labels])
    region = rebuilt.regions.label_right(people, keys)["region"].combine_chunks()
    income = pc.max_element_wise(pc.cast(people["PINCP"], pa.float64()), 1000.0, skip_nulls=False)
    columns = {n: people[n] for n in features} | {"region": pa.DictionaryArray.from_arrays(region.indices, names)}
    columns |= {"weight": people["PWGTP"], "log_income": pc.ln(income)}
    return pa.table(columns), ["log_income", *(n for n in features if n != "PINCP")]


def fit(paths: Sequence[Path] | Path, rebuilt: Rebuilt, **settings: Any) -> DistributionRegression:
    """Fit the votes of 2012 to the people in the files."""
    people, columns = people_of(paths, rebuilt)
    codes = [n for n in columns if n in CODES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return DistributionRegression(**settings).fit(
            cl.People(people, by="region", weight="weight", columns=columns, categorical=codes),
            cl.Places(rebuilt.votes, by="region", successes="dem", trials="votes", coords=("lon", "lat")),
            unmatched="drop",
        )


def subgroups_of(model: DistributionRegression) -> Mapping[str, Estimates]:
    """Ask for the paper's subgroups, of the nation and by state."""
    model.embedder_ = Remembering(model.embedder_)  # type: ignore[assignment]
    return {rollup: model.estimate(subgroups=SUBGROUPS, rollup=rollup) for rollup in ("st", "all")}


def region_section(all_rebuilt: Sequence[Rebuilt]) -> str:
    """Say how the regions were rebuilt, and that they are the published ones."""
    rows = []
    for r in all_rebuilt:
        v = r.votes
        rows.append(
            [
                f"{r.vintage.name} areas, people of {r.vintage.people}",
                f"{r.regions.left.num_rows:,}",
                f"{r.regions.right.num_rows:,}",
                str(r.components),
                str(r.regions.n_regions),
                str(r.published),
                f"{r.matched} of {r.regions.n_regions - len(r.report.empty_regions)}",
                f"{pc.sum(v['dem']).as_py():,}",
                f"{pc.sum(v['rep']).as_py():,}",
            ]
        )
    heading = ["", "counties", "areas", "components", "regions", "published", "equal to the vote", "Obama", "Romney"]
    return f"""## The regions, to the vote

{lay(heading, rows)}

*Components* are those of the crosswalk as it is, *regions* those with Alaska as one place. A region is *equal to the vote* when the
county votes that fall on it give both published counts; Alaska, without votes by borough, is taken from the published table.
The areas 01801, 01802 and 01905 of Louisiana carry one code, 77777, in the survey's files of these years, after Hurricane Katrina,
which joins Orleans Parish with Jefferson, Plaquemines and St. Bernard: without that there would be one region more than
published. The paper counts 837 regions, the table its authors published later {all_rebuilt[0].published}.

Positions are means over counties, weighted by people. The centroids published with the areas of 2010 take latitude for the angle from
the pole, so that distances between them are not those on the earth."""


def model_section(paths: Sequence[Path], rebuilt: Rebuilt, **settings: Any) -> str:
    """Run the model: cross-validation beside the paper's figures, and subgroups of the nation."""
    model = fit(paths, rebuilt, **settings)
    said = model.cross_validate(10).diagnostics
    h = model.hyperparameters_[0]
    found = subgroups_of(model)["all"]
    rows = [
        [
            name,
            points(found["estimate"][i]),
            f"[{points(found['conf_low'][i])}, {points(found['conf_high'][i])}]",
            points(found["neighborhood"][i]),
        ]
        for i, name in enumerate(found["subgroup"].tolist())
    ]
    scores = [
        ["RMSE, points", points(said["rmse"], 2), "2.5"],
        ["RMSE of the national mean", points(said["rmse_national_mean"], 2), "8.3"],
        ["mean log density", f"{said['mean_log_density']:.2f}", "−1.9"],
        ["95 % coverage", f"{said['coverage']:.3f}", "not given"],
        ["sx2, ss2, l", f"{h.effect_variance:.3g}, {h.spatial:.3g}, {h.length:,.0f} km", "4.56, 0.18, 7.92 degrees"],
    ]
    return f"""## The model

{int(model.place_people_.sum()):,} adult citizens in {len(model.places_)} regions. Incomes are of persons; the paper does not say which.

{lay(["", "here", "the paper"], scores)}

{lay(["", "estimate", "95 % interval", "neighborhood"], rows)}

A good score over regions says nothing about subgroups: see {{doc}}`exit-polls`."""


WITHOUT = """## The model

The microdata were not at hand when this page was made. Download the person files of the 5-year PUMS 2006–2010 from the Census
Bureau (`csv_pus.zip`, or one file for each state), and run

    python experiments/obama2012.py --pums FOLDER

which reads the adult citizens with `crosslevel.data.readers.read_acs_pums`, names their regions, fits and cross-validates the
model, and puts its figures beside the paper's. The election of 2024, with people of 2024, is {doc}`us2024`."""


def page(sections: Sequence[str]) -> str:
    parts = [*sections, WITHOUT] if len(sections) == 1 else list(sections)
    body = "\n\n".join(parts)
    return f"""# The paper's election

Flaxman, Wang and Smola, *Who supported Obama in 2012?* (KDD 2015): regions that whole counties and whole survey areas tile, the
votes of 2012 on them, and the people of 2006–10 who live there.

{body}

Made by `python experiments/obama2012.py`. Data: HuffPost county votes of 2012, Geocorr 2012 crosswalks and published region tables
of pummeler.
"""


if __name__ == "__main__":
    main()
