"""The merge reproduces published regions to the vote."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from crosslevel.data.regions import Regions, merge_regions

pytestmark = pytest.mark.data

ALASKA = {"AK": "02*"}
STATES_2024 = {"AK": "02*", "CT": "09*", "DC": "11*"}
"""Votes of 2024 are by house district in Alaska, planning region in Connecticut and ward in Washington."""
KALAWAO = [("15005", "15009")]
"""Kalawao has no returns of its own; it votes with Maui."""


def text(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, infer_schema=False)


def regions_2024(real_data: Path) -> Regions:
    crosswalk = text(real_data / "us2024" / "crosswalk_puma20_county20.csv")
    return merge_regions(crosswalk, "county_fips", ["state_fips", "puma"], collapse=STATES_2024, join=KALAWAO)


def blocks(table: pl.DataFrame, key: list[str]) -> set[frozenset[tuple[str, ...]]]:
    return {frozenset(part.select(key).rows()) for part in table.partition_by("region")}


def test_votes_of_2012_reach_the_published_regions_exactly(real_data: Path):
    crosswalk = text(real_data / "regions2012" / "county-to-puma10.csv")
    assert merge_regions(crosswalk, "county", ["state", "puma12"]).n_regions == 982
    regions = merge_regions(crosswalk, "county", ["state", "puma12"], collapse=ALASKA)
    assert regions.n_regions == 979

    votes = pl.read_csv(
        real_data / "county_votes" / "huffpost_president_2012_county.csv", schema_overrides={"fips": pl.String}
    )
    sums, report = regions.sum_left(votes, by="fips", columns=["obama12", "romney12"])
    assert report.unmatched == ()
    assert report.empty_regions == ("AK",)  # Alaska does not publish by county

    # The published table names regions AL_10_01, AL_10_02 ... in an order of its own: compare within states.
    published = pl.read_csv(real_data / "regions2012" / "2012-by-region-puma10s.csv")
    published = published.filter(~pl.col("region").str.starts_with("AK"))
    state = crosswalk.select(pl.col("county").str.slice(0, 2).alias("fips"), "stab").unique()
    ours = sums.drop_nulls().with_columns(pl.col("region").str.slice(0, 2).alias("fips")).join(state, on="fips")
    assert len(ours) == len(published) == 978
    assert sorted(ours.select("stab", "obama12", "romney12").rows()) == sorted(
        published.select(pl.col("region").str.slice(0, 2), "votes_D", "votes_R").rows()
    )


def test_the_partition_of_2024_is_the_published_one(real_data: Path):
    crosswalk = text(real_data / "us2024" / "crosswalk_puma20_county20.csv")
    assert merge_regions(crosswalk, "county_fips", ["state_fips", "puma"]).n_regions == 1001
    regions = regions_2024(real_data)
    assert regions.n_regions == 998
    counties = text(real_data / "us2024" / "region_of_county.csv")
    assert blocks(pl.from_arrow(regions.left), ["county_fips"]) == blocks(counties, ["county_fips"])
    pumas = text(real_data / "us2024" / "region_of_puma.csv")
    assert blocks(pl.from_arrow(regions.right), ["state_fips", "puma"]) == blocks(pumas, ["state_fips", "puma"])


def test_votes_and_people_of_2024_all_find_their_region(real_data: Path):
    regions = regions_2024(real_data)
    names = text(real_data / "us2024" / "region_of_county.csv").select("county_fips", published="region")
    published = pl.from_arrow(regions.left).join(names, on="county_fips").select("region", "published").unique()
    assert len(published) == 998
    expected = pl.read_csv(real_data / "us2024" / "regions_2024.csv").rename({"region": "published"})

    votes = pl.read_csv(
        real_data / "county_votes" / "presidential_county_2008_2024.csv", schema_overrides={"fips": pl.String}
    ).filter(pl.col("year") == 2024)
    columns = ["votes_dem", "votes_gop", "votes_total"]
    sums, report = regions.sum_left(votes, by="fips", columns=columns)
    assert report.unmatched_totals == dict.fromkeys(columns, 0)
    assert {label: len(keys) for label, keys in report.collapsed.items()} == {"AK": 37, "CT": 9, "DC": 7}
    assert report.without_rows == ("15005",)
    both = sums.join(published, on="region").join(expected, on="published")
    assert len(both) == 998
    for ours, theirs in zip(columns, ["votes_dem_2024", "votes_gop_2024", "total_votes_2024"], strict=True):
        assert both[ours].to_list() == both[theirs].to_list()

    persons = pl.scan_parquet(real_data / "us2024" / "persons" / "*.parquet")
    people = persons.select("state_fips", "puma", "weight").collect()
    sums, report = regions.sum_right(people, columns=["weight"])
    assert len(people) == 3_422_888
    assert report.unmatched == ()
    both = sums.join(published, on="region").join(expected, on="published")
    assert both["weight"].to_list() == both["w_persons"].to_list()
