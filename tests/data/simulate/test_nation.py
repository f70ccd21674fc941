"""The simulated nation: truth adds up, weights are right, and Goodman's regression is fooled as intended."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from crosslevel.data.simulate import Nation, nation
from crosslevel.data.simulate.map import Settings, plan_nation
from crosslevel.data.simulate.population import EDUCATION, GROUPINGS
from crosslevel.errors import InputError


@pytest.fixture(scope="module")
def world() -> Nation:
    return nation(200, 400, n_states=10, random_state=1)


def frame(table: pa.Table) -> pl.DataFrame:
    return pl.from_arrow(table)


def goodman(world: Nation, variable: str) -> tuple[dict[str, float], dict[str, float], float]:
    """Goodman's estimate and the truth per level, and the total votes his estimate implies."""
    truth = frame(world.truth).filter(pl.col("variable") == variable)
    counts = truth.pivot("level", index="region", values="count").drop("region")
    votes, dem = world.places["votes"].to_numpy(), world.places["dem"].to_numpy()
    weight = np.sqrt(votes)[:, None]
    shares, rate = counts.to_numpy() / votes[:, None], dem / votes
    beta = np.linalg.lstsq(shares * weight, rate * weight[:, 0], rcond=None)[0]
    national = truth.group_by("level").agg(pl.col("dem").sum() / pl.col("count").sum())
    total = float((counts.to_numpy() @ beta).sum())
    return dict(zip(counts.columns, beta, strict=True)), dict(national.rows()), total


def test_goodman_is_fooled_though_his_totals_are_right():
    world = nation(200, 400, n_states=10, contextual=1.0, spatial=0.35, random_state=1)
    estimate, truth, total = goodman(world, "race")
    assert total == pytest.approx(sum(world.places["dem"].to_pylist()), rel=1e-9)
    assert truth["black"] - estimate["black"] > 0.05
    assert estimate["white"] > truth["white"]


def test_goodman_is_right_about_race_where_the_place_does_not_act():
    plain = nation(200, 400, contextual=0.0, spatial=0.0, random_state=1)
    estimate, truth, _ = goodman(plain, "race")
    assert abs(truth["black"] - estimate["black"]) < 0.05


def test_parts_add_up_to_places(world):
    truth = frame(world.truth)
    places = frame(world.places)
    for by in GROUPINGS:
        sums = truth.filter(pl.col("variable") == " x ".join(by)).group_by("region", maintain_order=True)
        sums = sums.agg(pl.col("count", "dem", "population").sum())
        assert sums["region"].to_list() == places["region"].to_list()
        for ours, theirs in (("count", "votes"), ("dem", "dem"), ("population", "population")):
            assert sums[ours].to_list() == places[theirs].to_list()


def test_rates_are_what_happened(world):
    truth = frame(world.truth)
    happened = truth.filter(pl.col("count") > 0)
    assert (happened["rate"] == happened["dem"] / happened["count"]).all()
    assert truth.filter(pl.col("count") == 0)["rate"].is_null().all()
    assert (truth["dem"] <= truth["count"]).all()


def test_true_rates_agree_with_the_truth_table_at_every_level(world):
    both = frame(world.true_rates(by=["sex", "age_group"]))
    joint = frame(world.truth).filter(pl.col("variable") == "sex x age_group")
    assert both["rate"].equals(joint["rate"])
    assert [f"{s} x {a}" for s, a in both.select("sex", "age_group").rows()] == joint["level"].to_list()

    regions = frame(world.true_rates(by="race")).join(frame(world.places).select("region", "state"), on="region")
    by_state = regions.group_by("state", "race").agg(pl.col("dem", "count").sum()).sort("state", "race")
    ours = frame(world.true_rates(by="race", rollup="state")).sort("state", "race")
    assert ours["dem"].to_list() == by_state["dem"].to_list()
    assert ours["count"].to_list() == by_state["count"].to_list()

    overall = world.true_rates(rollup="all")
    assert overall.column_names == ["rate", "count", "dem", "population"]
    assert overall["dem"].to_pylist() == [sum(world.places["dem"].to_pylist())]


@pytest.mark.parametrize("variable", ["sex", "age_group", "race", "education"])
def test_weighted_people_are_unbiased_for_the_population(world, variable):
    """Pooled over regions, weighted shares lie within sampling error of the population's; plain ones do not."""
    people = frame(world.people).with_columns(pl.col(variable).cast(pl.String))
    truth = frame(world.truth).filter(pl.col("variable") == variable)
    population = dict(truth.group_by("level").agg(pl.col("population").sum()).rows())
    for level, count in population.items():
        mine = people.filter(pl.col(variable) == level)["weight"].to_numpy()
        error = np.sqrt((mine**2).sum())
        assert abs(mine.sum() - count) < 4 * error
    if variable in ("race", "age_group"):
        plain = dict(people.group_by(variable).len().rows())
        level, sign = ("white", 1) if variable == "race" else ("18-29", -1)
        excess = plain[level] / len(people) - population[level] / sum(population.values())
        assert sign * excess > 0.02


def test_weights_are_inverse_probabilities_with_the_asked_mean(world):
    weight = world.people["weight"].to_numpy()
    population = sum(world.places["population"].to_pylist())
    assert weight.min() >= 1
    assert weight.sum() == pytest.approx(population, rel=0.01)
    sizes = frame(world.people)["region"].cast(pl.String).value_counts().sort("region")["count"].to_numpy()
    expected = world.places["population"].to_numpy() * 0.1
    assert np.abs(sizes - expected).max() < 1 + 1e-6  # systematic sampling fixes sizes up to rounding


def test_the_whole_population_is_the_truth_when_everybody_is_asked():
    world = nation(12, 300, sampling_rate=1.0, random_state=3)
    people = frame(world.people)
    assert (people["weight"] == 1.0).all()
    for variable in ("sex", "age_group", "race", "education"):
        counts = people.group_by(
            pl.col("region").cast(pl.String), pl.col(variable).cast(pl.String).alias("level")
        ).len()
        known = frame(world.truth).filter((pl.col("variable") == variable) & (pl.col("population") > 0))
        both = known.join(counts, on=["region", "level"], how="full")
        assert both["len"].to_list() == both["population"].to_list()


def test_people_have_the_promised_columns(world):
    people = frame(world.people)
    assert people.columns == [
        "region", "weight", "sex", "age", "age_group", "race", "education", "income", "urban", "hours",
    ]  # fmt: skip
    assert set(people["sex"].unique()) == {1, 2}
    assert (people["age"].min(), people["age"].max()) == (18, 89)
    assert 0.02 < people["income"].null_count() / len(people) < 0.1
    assert people.drop("income").null_count().sum_horizontal().item() == 0
    starts = {"18-29": 18, "30-44": 30, "45-64": 45, "65+": 65}
    ends = {"18-29": 29, "30-44": 44, "45-64": 64, "65+": 89}
    ages = people.group_by(pl.col("age_group").cast(pl.String)).agg(
        pl.col("age").min().alias("a"), pl.col("age").max().alias("b")
    )
    assert {group: (a, b) for group, a, b in ages.rows()} == {group: (starts[group], ends[group]) for group in starts}


def test_composition_clusters_in_space(world):
    shares = frame(world.true_rates(by="race")).filter(pl.col("race") == "black")["population"].to_numpy()
    shares = shares / world.places["population"].to_numpy()
    xy = np.stack([world.places["lon"].to_numpy(), world.places["lat"].to_numpy()], axis=1)
    gaps = np.linalg.norm(xy[:, None] - xy, axis=2)
    nearest = np.where(gaps > 0, gaps, np.inf).argmin(axis=1)
    assert np.corrcoef(shares, shares[nearest])[0, 1] > 0.7


def test_turnout_makes_voters_fewer_and_older():
    world = nation(60, 300, turnout=0.6, random_state=2)
    votes, population = world.places["votes"].to_numpy(), world.places["population"].to_numpy()
    assert votes.sum() / population.sum() == pytest.approx(0.6, abs=0.01)
    ages = frame(world.true_rates(by="age_group", rollup="all"))
    rate = dict(ages.select("age_group", pl.col("count") / pl.col("population")).rows())
    assert rate["65+"] > rate["18-29"] + 0.03


def test_the_seed_decides_everything():
    one, same, other = nation(10, 30, random_state=5), nation(10, 30, random_state=5), nation(10, 30, random_state=6)
    assert one.people.equals(same.people)
    assert one.truth.equals(same.truth)
    assert one.polygons == same.polygons
    assert not one.people.equals(other.people)
    drawn = [nation(5, 20, random_state=np.random.default_rng(3)).places for _ in range(2)]
    assert drawn[0].equals(drawn[1])
    assert not nation(5, 20, random_state=None).places.equals(nation(5, 20, random_state=None).places)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_regions": 0},
        {"n_regions": 2.5},
        {"people_per_region": True},
        {"n_states": -1},
        {"sampling_rate": 0},
        {"sampling_rate": 10},
        {"sampling_rate": None},
        {"turnout": float("nan")},
        {"contextual": float("inf")},
        {"spatial": -1},
        {"random_state": -3},
    ],
)
def test_bad_arguments_get_a_sentence(arguments):
    with pytest.raises(InputError):
        nation(**arguments)


def test_votes_follow_the_documented_formula():
    """The formula of the docstring, written out again, predicts every region's votes to within chance."""
    contextual = 0.8
    plan = plan_nation(Settings(30, 4000, 3, 1.0, None, contextual, 0.2, 7))
    world = nation(30, 4000, n_states=3, sampling_rate=1.0, contextual=contextual, random_state=7)
    people = frame(world.people).with_columns(pl.col("region", "race", "education", "urban").cast(pl.String))
    region = people["region"].str.slice(1).cast(pl.Int64).to_numpy() - 1
    race = people["race"].replace_strict({"white": 0, "black": 1, "hispanic": 2, "other": 3}).to_numpy()
    school = people["education"].replace_strict({name: i for i, name in enumerate(EDUCATION)}).to_numpy()
    woman, urban = (people["sex"] == 2).to_numpy(), (people["urban"] == "urban").to_numpy()
    c = (people["age"].to_numpy() - 18) / 72
    income = people["income"].fill_null(float("nan")).to_numpy()
    z = np.clip((np.log(np.maximum(income, 1)) - 10.5) / 0.8, -2.5, 2.5)
    first = race == 0
    f = np.array([-0.95, 1.2, 0.2, 0.0])[race]
    f += np.where(
        first, np.array([-0.5, -0.35, -0.05, 0.4, 0.8])[school], np.array([0.15, 0.1, 0, -0.1, -0.15])[school]
    )
    f += urban * np.where(first, 0.4, 0.15)
    f += 0.7 * np.cos(2.5 * np.pi * c) + woman * (0.2 + 0.5 * (1 - c)) + z * (0.25 * z - 0.1) - 0.25
    m, s = plan.minority[region], plan.school[region]
    context = np.where(first, -1.2, -0.5) * (m - 0.35) + 0.5 * s
    p = 1 / (1 + np.exp(-(f + plan.place[region] + contextual * context)))
    told = ~np.isnan(p)  # incomes that are not told hardly differ within a region
    size = np.bincount(region[told], minlength=30)
    expected = np.bincount(region[told], p[told], minlength=30) / size
    error = np.sqrt(np.bincount(region[told], (p * (1 - p))[told], minlength=30) / size**2)
    happened = world.places["dem"].to_numpy() / world.places["votes"].to_numpy()
    scores = (happened - expected) / error
    assert np.abs(scores).max() < 4
    assert 0.6 < np.sqrt((scores**2).mean()) < 1.5


def test_regions_differ_as_american_ones_do():
    """Variance of shares between regions over s (1 - s): races .02 to .2, education and age a tenth of that, sex a hundredth."""
    table = frame(nation(300, 200, random_state=0).truth)
    for variable, low, high in (
        ("sex", 0.0006, 0.002),
        ("age_group", 0.002, 0.011),
        ("race", 0.015, 0.2),
        ("education", 0.001, 0.03),
    ):
        counts = table.filter(pl.col("variable") == variable).pivot("level", index="region", values="population")
        shares = counts.drop("region").to_numpy().astype(float)
        shares /= shares.sum(axis=1, keepdims=True)
        mean = shares.mean(axis=0)
        ratio = shares.var(axis=0) / (mean * (1 - mean))
        assert (ratio > low).all(), (variable, ratio)
        assert (ratio < high).all(), (variable, ratio)
