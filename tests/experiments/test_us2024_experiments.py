"""Are people, votes and polls of the American studies put together rightly, and do the studies say what they found?"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from crosslevel.data.regions import merge_regions
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance


@pytest.fixture
def data(experiment):
    return experiment("us2024_data")


@pytest.fixture
def polls(experiment):
    return experiment("exit_polls")


@pytest.fixture
def obama(experiment):
    return experiment("obama2012")


@pytest.fixture
def world(data):
    """Thirty regions of three states with the columns of the study; the educated vote for the Democrats."""
    rng = np.random.default_rng(0)
    q, n = 30, 80
    tilt = rng.uniform(0.1, 0.6, q)
    degree = rng.random((q, n)) < tilt[:, None]
    income = rng.integers(5_000, 200_000, (q, n)).astype(float)
    income[:, :4] = np.nan
    people = pa.table(
        {
            "region": np.repeat([f"R{i:02d}" for i in range(q)], n),
            "weight": rng.integers(1, 9, q * n),
            "age": rng.integers(18, 90, q * n),
            "hh_income": pa.array(income.ravel(), from_pandas=True),
            "log_income": pa.array(np.log(income.ravel()), from_pandas=True),
            "female": rng.integers(0, 2, q * n),
            "eth5": rng.integers(1, 6, q * n),
            "educ6": np.where(degree.ravel(), rng.integers(5, 7, q * n), rng.integers(1, 5, q * n)),
            "tenure": rng.integers(1, 5, q * n),
            "naturalised": rng.integers(0, 2, q * n),
            "disability": rng.integers(1, 3, q * n),
        }
    )
    votes = rng.integers(20_000, 90_000, q)
    share = 0.25 + 0.6 * degree.mean(axis=1)
    places = pa.table(
        {
            "region": [f"R{i:02d}" for i in range(q)],
            "st": np.repeat(["AA", "BB", "CC"], q // 3),
            "lon": -90 + 10 * rng.random(q),
            "lat": 35 + 10 * rng.random(q),
            "votes": votes,
            "votes_dem_2024": np.round(votes * share).astype(int),
        }
    )
    return people, places


@pytest.fixture
def study(experiment, world):
    module = experiment("us2024")
    people, places = world
    return module, module.run_study(people, places, module.Clock(), n_features=64)


def test_the_study_goes_over_people_once_and_its_page_shows_what_was_measured(study, world):
    module, found = study
    people, places = world
    assert found.passes == 1
    assert len(found.answers["all"]) == 20
    assert len(found.answers["st"]) == 60
    whole = found.answers["all"]
    sex = {n: i for i, n in enumerate(whole["subgroup"].tolist())}
    both = whole["population"][[sex["men"], sex["women"]]]
    assert both.sum() == pytest.approx(pc.sum(people["weight"]).as_py())
    # two parts that make up a place add up to its total, but each is drawn against its own rest
    added = both @ whole["estimate"][[sex["men"], sex["women"]]] / both.sum()
    expected = both @ whole["neighborhood"][[sex["men"], sex["women"]]] / both.sum()
    assert added == pytest.approx(expected, abs=1e-3)
    assert whole["estimate"][sex["bachelor"]] > whole["estimate"][sex["high school"]] + 0.1
    assert list(found.clock.work) == list(found.clock.seconds)
    words = module.subgroup_section(whole, people, places)
    assert "A good score over regions says nothing about subgroups" in words
    assert len(re.findall(r"^\| (sex|age|household income|race and ethnicity|education): ", words, re.MULTILINE)) == 20
    table = module.state_section(found.answers["st"])
    assert [row.split(" | ")[0] for row in table.splitlines()[-3:]] == ["| AA", "| BB", "| CC"]
    said = found.scores.diagnostics
    words = module.region_section(found)
    assert f"| this model | {100 * said['rmse']:.2f} |" in words
    truth = found.scores["truth"]
    density, inside = (float(t) for t in module.national(found.scores))
    assert density == pytest.approx(-0.5 * np.log(2 * np.pi * np.e * truth.var()), abs=0.01)
    assert inside == pytest.approx(0.95, abs=0.08)
    assert "scipy.linalg.eigh" in module.time_section(found)


def test_polls_are_shares_of_two_parties_in_our_words(polls, tmp_path):
    file = tmp_path / "polls.csv"
    file.write_text(
        "year,state,qid,poll,question,n_question,answer,pct_electorate,pct_dem,pct_gop\n"
        "2016,OH,1,SEX,Gender,1000,Male,50,48,32\n"
        "2016,OH,1,RACE,Race,1000,Latino,4,,\n"
        "2016,OH,1,RACE,Race,1000,Other race,4,50,50\n"
        "2016,OH,1,AGE65,Age,1000,65 and older,20,30,60\n"
        "2016,OH,1,AGE,Age,1000,65 and older,20,45,45\n"
        "2012,OH,1,SEX,Gender,1000,Men,50,90,10\n"
    )
    found = polls.read_polls(file, 2016)
    assert found.share == {("OH", "men"): 0.6, ("OH", "65+"): 0.5}
    assert found.error["OH", "men"] == pytest.approx((0.24 / 500) ** 0.5)
    assert polls.read_polls(file, 2012).share == {("OH", "men"): 0.9}
    assert polls.two_party(0.0, 0.0) is None


def state_answers(values):
    """Estimates by state and subgroup with intervals two points either side."""
    keys = list(values)
    estimate = np.array([values[k] for k in keys])
    return Estimates.build(
        {
            "st": [s for s, _ in keys],
            "subgroup": [g for _, g in keys],
            "estimate": estimate,
            "std_error": np.full(len(keys), 0.01),
            "conf_low": estimate - 0.02,
            "conf_high": estimate + 0.02,
            "neighborhood": np.full(len(keys), 0.5),
        },
        keys=["st", "subgroup"],
        method="example",
        level=0.95,
        interval="example",
        provenance=Provenance.of(call="example()"),
    )


def test_estimates_equal_to_the_polls_are_right_in_every_column(polls, data):
    states = ["AA", "BB", "CC", "DD", "EE"]
    rng = np.random.default_rng(1)
    everybody = dict(zip(states, rng.uniform(0.4, 0.6, 5), strict=True))
    share = {(s, g): everybody[s] + rng.normal(0, 0.1) for s in states for g in data.all_subgroups(polls.POLLS)}
    poll = polls.Poll({k: v for k, v in share.items() if k != ("CC", "men")}, dict.fromkeys(share, 0.02))
    names = data.all_subgroups(polls.POLLS)
    exact = {n: polls.compare(state_answers(share), poll, n, everybody) for n in names}
    assert exact["men"].states == ("AA", "BB", "DD", "EE")
    rows = polls.subgroup_rows({"women": exact["women"]})
    assert rows[0][:3] == ["women", "5", "1.00"]
    assert rows[0][4] == "0.0"
    assert rows[0][8:] == ["2.0", "100", ".94"]
    matched = {n: polls.compare(state_answers(share), poll_of(polls, share), n, everybody) for n in names}
    assert [row[1] for row in polls.question_rows(matched)] == ["10", "20", "15", "25", "5"]
    for row in polls.question_rows(matched)[:-1]:
        assert row[2:5] == ["1.00", "1.00", "0.0"]
    half = {k: everybody[k[0]] + 2 * (v - everybody[k[0]]) for k, v in share.items()}
    doubled = {n: polls.compare(state_answers(half), poll_of(polls, share), n, everybody) for n in names}
    assert [row[3] for row in polls.question_rows(doubled)[:-1]] == ["0.50"] * 4


def poll_of(polls, share):
    return polls.Poll(dict(share), dict.fromkeys(share, 0.02))


CROSSWALK = pa.table(
    {
        "county": ["22051", "22071", "22071", "22075", "01001", "02013"],
        "state": ["22", "22", "22", "22", "01", "02"],
        "puma": ["01905", "01801", "01802", "01905", "00100", "00100"],
        "st": ["LA", "LA", "LA", "LA", "AL", "AK"],
        "pop": [5.0, 70.0, 74.0, 23.0, 50.0, 9.0],
    }
)


def test_regions_are_found_by_their_votes(obama):
    regions = merge_regions(CROSSWALK, "county", ["state", "puma"], collapse={"AK": "02*"})
    counties = pa.table({"county": ["22051", "22071", "22075", "01001"], "d": [4, 9, 1, 7], "r": [6, 2, 3, 8]})
    sums, _ = regions.sum_left(counties, "county", ["d", "r"])
    sums = sums.rename_columns(["region", "votes_dem", "votes_rep"])
    rows = {"region": ["AK_1", "AL_1", "LA_1", "LA_2"], "votes_D": [1, 7, 9, 5], "votes_R": [2, 8, 2, 9]}
    states = obama.state_of(CROSSWALK)
    votes, matched = obama.name_regions(sums, regions, states, pa.table(rows))
    assert matched == 3  # Alaska has no votes to compare
    assert dict(zip(votes["label"].to_pylist(), votes["region"].to_pylist(), strict=True)) == {
        "01001": "AL_1",
        "AK": "AK_1",
        "22051+1": "LA_2",
        "22071": "LA_1",
    }
    wrong = pa.table(rows | {"votes_D": [1, 7, 9, 6]})
    assert obama.name_regions(sums, regions, states, wrong)[1] == 2
    with pytest.raises(InputError):
        obama.name_regions(
            sums, regions, states, pa.table({"region": ["LA_1", "LA_2"], "votes_D": [1, 1], "votes_R": [2, 2]})
        )


@pytest.mark.data
def test_people_and_regions_of_2024(data, real_data):
    few = data.read_people(real_data / "us2024" / "persons", ["02", "10"])
    places = data.read_regions(real_data)
    counted = few.group_by("region").aggregate([("weight", "count"), ("weight", "sum")]).to_pylist()
    expected = {r["region"]: r for r in places.to_pylist()}
    assert len(counted) > 1
    for row in counted:
        assert row["weight_count"] == expected[row["region"]]["n_adult_citizens"]
        assert row["weight_sum"] == expected[row["region"]]["w_adult_citizens"]
    assert few["log_income"].null_count == few["tenure"].null_count > 0
    assert pc.min(few["age"]).as_py() == 18
    regions, raw = data.merge_counties(real_data)
    assert (raw, regions.n_regions, places.num_rows) == (1001, 998, 998)
    sums, report = data.votes_by_region(real_data, 2024)
    published = dict(zip(places["region"].to_pylist(), places["votes_dem_2024"].to_pylist(), strict=True))
    assert dict(zip(sums["region"].to_pylist(), sums["votes_dem"].to_pylist(), strict=True)) == published
    assert sum(report.unmatched_totals.values()) == 0


@pytest.mark.data
def test_votes_of_2016_and_their_polls(polls, real_data):
    places, report = polls.places_of(real_data, 2016)
    assert places.num_rows == 997  # Alaska counts no votes by county
    assert report.unmatched == ()
    assert pc.sum(places["dem"]).as_py() == 65_724_093
    assert polls.state_shares(places)["UT"] == pytest.approx(0.3762, abs=0.002)  # 310,676 of 825,848
    found = polls.read_polls(real_data / "exit_polls" / "cnn_exit_polls_2012_2016.csv", 2016)
    assert len({s for s, _ in found.share}) == 29
    assert found.share["All", "women"] == pytest.approx(54 / 95)
    assert sum(s == "OH" for s, _ in found.share) >= 11


@pytest.mark.data
def test_the_regions_of_2012_are_the_published_ones_to_the_vote(obama, real_data):
    for name, (regions, components) in {"2000": (840, 843), "2010": (979, 982)}.items():
        found = obama.rebuild(real_data, obama.VINTAGES[name])
        assert (found.regions.n_regions, found.components, found.published) == (regions, components, regions)
        assert found.matched == regions - 1
        assert found.report.empty_regions == ("AK",)
        assert found.votes.num_rows == regions
        assert len(set(found.votes["region"].to_pylist())) == regions
        assert (pc.sum(found.votes["dem"]).as_py(), pc.sum(found.votes["rep"]).as_py()) == (65_913_064, 60_935_509)


@pytest.mark.data
def test_the_centroids_of_2012_are_near_the_published_ones(obama, real_data):
    """The published table takes latitude for the angle from the pole: (sin lat cos lon, sin lat sin lon, cos lat)."""
    found = obama.rebuild(real_data, obama.VINTAGES["2010"]).votes
    table = pyarrow.csv.read_csv(real_data / "regions2012" / "centroids_cartesian_10.csv")
    x, y, z = (table[n].to_numpy() for n in "xyz")
    degrees = np.rad2deg([np.arctan2(y, x), np.arctan2(np.hypot(x, y), z)]).T
    known = dict(zip(table["region"].to_pylist(), degrees, strict=True))
    theirs = np.array([known[r] for r in found["region"].to_pylist()])
    ours = np.column_stack([found["lon"].to_numpy(), found["lat"].to_numpy()])
    km = 111 * np.hypot((ours - theirs)[:, 0] * np.cos(np.deg2rad(ours[:, 1])), (ours - theirs)[:, 1])
    assert np.median(km) < 40


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
def test_the_model_of_2012_runs_on_real_person_records(obama, real_data, tmp_path):
    rebuilt = obama.rebuild(real_data, obama.VINTAGES["2000"])
    sample = pyarrow.csv.read_csv(real_data / "pums_samples" / "us_acs2011_1yr_sample_persons.csv.gz")
    south = sample.filter(pc.is_in(sample["ST"], pa.array([1.0, 12.0, 13.0, 37.0])))
    pyarrow.csv.write_csv(south, tmp_path / "ss11pus.csv")
    words = obama.model_section([tmp_path / "ss11pus.csv"], rebuilt, n_features=32)
    assert len(re.findall(r"^\| (men|women|18-29|30-44|45-64|65\+|income [^|]*) \| \d", words, re.MULTILINE)) == 9
    found = re.search(r"([\d,]+) adult citizens in (\d+) regions", words)
    assert int(found[1].replace(",", "")) > 500
    assert int(found[2]) > 80


@pytest.mark.data
def test_every_region_has_an_outline(experiment, data, real_data):
    maps = experiment("us2024_maps")
    atlas = maps.read_map(
        real_data / "geometry" / "us-atlas_counties-albers-10m.json", data.region_of_county(real_data)
    )
    assert len(atlas["features"]) == 998
    rings = [np.array(ring) for f in atlas["features"] for ring in f["geometry"]["coordinates"]]
    # one arc of the file, in Nebraska, is gone through twice in the same direction
    assert sum(np.abs(ring[0] - ring[-1]).max() > 1e-5 for ring in rings) <= 1
