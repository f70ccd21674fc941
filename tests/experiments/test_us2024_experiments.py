"""Are people, votes and polls of the American studies put together rightly, and do the studies say what they found?"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from crosslevel.data.regions import merge_regions
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def experiment(monkeypatch):
    """Import a script of the experiments, which are no package."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


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


def test_columns_of_people(data):
    batch = pa.RecordBatch.from_pydict(
        {
            **{n: pa.array([1, 2, 3], pa.int8()) for n in ("weight", "age", "female", "eth5", "educ6", "disability")},
            "region": pa.array(["a", "a", "b"]).dictionary_encode(),
            "citizenship": pa.array([1, 4, 3], pa.int8()),
            "tenure": pa.array([1, None, 4], pa.int8()),
            "hh_income": pa.array([-9400, None, 60000], pa.int32()),
        }
    )
    made = data._columns(batch).to_pydict()
    assert made["naturalised"] == [0, 1, 0]
    assert made["log_income"] == [pytest.approx(np.log(1000), abs=1e-6), None, pytest.approx(np.log(60000), abs=1e-6)]
    assert made["tenure"] == [1, None, 4]
    assert set(data.COLUMNS) < set(made)


def test_subgroups_have_names_of_their_own_and_cut_everybody_once(data, world):
    names = data.all_subgroups()
    assert len(names) == sum(len(groups) for groups in data.SUBGROUPS.values()) == 20
    people, _ = world
    for question, groups in data.SUBGROUPS.items():
        counted = sum(len(list(_rows(people, query))) for query in groups.values())
        missing = people["hh_income"].null_count if question == "household income" else 0
        assert counted == people.num_rows - missing


def _rows(people, query):
    from crosslevel.data.batches import open_batches

    for batch in open_batches(people, where=query):
        yield from range(batch.num_rows)


def test_an_embedding_is_made_once_for_one_question(data):
    class Counting:
        def __init__(self):
            self.asked = []

        def transform(self, people, **asked):
            self.asked.append(asked)
            return object()

    inner = Counting()
    keeper = data.Remembering(inner)
    people = pa.table({"x": [1, 2]})
    first = keeper.ask(people, ["x"], {"a": "x == 1"})
    assert keeper.ask(people, ["x"], {"a": "x == 1"}) is first
    assert keeper.ask(people, ["x"], {"a": "x == 2"}) is not first
    assert keeper.ask(pa.table({"x": [1, 3]}), ["x"], {"a": "x == 2"}) is not first
    assert keeper.passes == len(inner.asked) == 3


def test_counties_are_put_together_along_their_arcs(experiment):
    maps = experiment("us2024_maps")
    # two unit squares side by side, the common side being arc 1
    arcs = [
        np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        np.array([[1.0, 1.0], [1.0, 0.0]]),
        np.array([[1.0, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0]]),
    ]
    (ring,) = maps.outline([0, 1, ~1, ~2], arcs)
    xy = np.array(ring)
    area = 0.5 * abs(np.sum(xy[:, 0] * np.roll(xy[:, 1], -1) - np.roll(xy[:, 0], -1) * xy[:, 1]))
    assert area == pytest.approx(2.0)
    assert ring[0] == ring[-1]
    assert len(maps.outline([0, 1], arcs)) == 1
    far = [*arcs, np.array([[5.0, 5.0], [6.0, 5.0], [6.0, 6.0], [5.0, 5.0]])]
    assert len(maps.outline([0, 1, ~1, ~2, 3], far)) == 2
    found = maps.decode(
        {"transform": {"scale": [2.0, 3.0], "translate": [1.0, 0.0]}, "arcs": [[[0, 0], [1, 1], [1, 0]]]}
    )
    assert found[0].tolist() == [[1, 0], [3, 3], [5, 3]]


@pytest.fixture
def study(experiment, world):
    module = experiment("us2024")
    people, places = world
    return module, module.run_study(people, places, module.Clock(), n_features=64)


def test_the_study_goes_over_people_once_for_all_answers(study, world):
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


def test_the_page_shows_the_scores_that_were_measured(study):
    module, found = study
    said = found.scores.diagnostics
    words = module.region_section(found)
    assert f"| this model | {100 * said['rmse']:.2f} |" in words
    truth = found.scores["truth"]
    density, inside = (float(t) for t in module.national(found.scores))
    assert density == pytest.approx(-0.5 * np.log(2 * np.pi * np.e * truth.var()), abs=0.01)
    assert inside == pytest.approx(0.95, abs=0.08)
    assert "scipy.linalg.eigh" in module.time_section(found)


def test_variants_are_scored_once_and_kept(experiment, world, tmp_path, monkeypatch):
    module = experiment("us2024")
    people, places = world
    monkeypatch.setattr(
        module, "ABLATIONS", {"no field": {"spatial": None}, "a state left out": {"spatial": None, "leave_out": "st"}}
    )
    keep = tmp_path / "kept.json"
    rows = module.variants(people, places, 32, keep)
    assert [row[0] for row in rows] == ["no field", "a state left out"]
    assert rows[0][1] != rows[1][1]  # other folds, other scores
    assert rows[0][6:8] == ["", ""]  # no field, no length
    monkeypatch.setattr(module, "fit", None)  # anything fitted now would fail
    assert module.variants(people, places, 32, keep) == rows
    assert "| no field |" in module.ablation_section(rows)


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


def test_the_gap_is_taken_over_states_that_polled_both_sexes(polls, data):
    states = ["AA", "BB", "CC", "DD", "EE"]
    names = data.all_subgroups(polls.POLLS)
    share = {(s, g): 0.4 + 0.02 * i + (0.1 if g == "women" else 0.0) for i, s in enumerate(states) for g in names}
    poll = polls.Poll({k: v for k, v in share.items() if k != ("CC", "men")}, dict.fromkeys(share, 0.02))
    compared = {n: polls.compare(state_answers(share), poll, n, dict.fromkeys(states, 0.5)) for n in names}
    gap = polls.question_rows(compared)[-1]
    assert gap[0] == "women − men"
    assert gap[1] == "4"
    assert gap[4:] == ["0.0", "10.0", "10.0"]


def test_the_verdict_names_what_is_nearer_further_and_reversed(polls):
    rows = [["race", "9", "0.9", "1", "6.0", "20.1", ""], ["age", "9", "-0.73", "1", "13.6", "6.5", ""]]
    words = polls.verdict(rows)
    assert "neighborhood*: race (6.0 against 20.1 points); no nearer: age (13.6 against 6.5)." in words
    assert "By age the estimates point the wrong way" in words


def test_correlations_of_few_states_are_not_shown(polls):
    a = np.array([0.1, 0.2, 0.4, 0.3])
    assert polls.correlation(a, 1 - a) == "-1.00"
    assert polls.correlation(a[:3], a[:3]) == "–"
    assert polls.correlation(a, np.full(4, 0.5)) == "–"


CROSSWALK = pa.table(
    {
        "county": ["22051", "22071", "22071", "22075", "01001", "02013"],
        "state": ["22", "22", "22", "22", "01", "02"],
        "puma": ["01905", "01801", "01802", "01905", "00100", "00100"],
        "st": ["LA", "LA", "LA", "LA", "AL", "AK"],
        "pop": [5.0, 70.0, 74.0, 23.0, 50.0, 9.0],
    }
)


def test_the_code_after_the_hurricane_joins_its_parishes(obama):
    sides = ("county", ["state", "puma"])
    assert merge_regions(CROSSWALK, *sides).n_regions == 4
    later = obama.with_later_code(CROSSWALK)
    regions = merge_regions(later, *sides)
    assert regions.n_regions == 3
    assert regions.region_of_right([("22", "77777")]) == regions.region_of_left(["22071"])
    assert pc.sum(later["pop"]).as_py() == pc.sum(CROSSWALK["pop"]).as_py()


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


def test_a_region_lies_where_its_people_live(obama, tmp_path):
    file = tmp_path / "points.csv"
    file.write_text("fips,name,lon,lat\n22051,a,-90,30\n22075,b,-80,30\n22071,c,-70,10\n01001,d,179,0\n02013,e,10,20\n")
    regions = merge_regions(CROSSWALK, "county", ["state", "puma"])
    found = obama.centroids(CROSSWALK, regions, file)
    assert found["22071"] == pytest.approx((-70, 10))
    lon, lat = found["22051+1"]
    assert lon == pytest.approx(-90 + 10 * 23 / 28, abs=0.1)
    assert lat == pytest.approx(30, abs=0.1)


PERSONS = """RT,SERIALNO,ST,PUMA,PWGTP,AGEP,SEX,CIT,PINCP,RAC1P
P,1,22,01801,10,40,1,1,30000,1
P,2,22,77777,20,50,2,4,-500,2
P,3,01,00100,30,17,1,1,,1
P,4,01,00100,40,70,2,5,9000,1
P,5,01,00100,50,70,2,1,120000,1
"""


def test_adult_citizens_come_with_the_published_name_of_their_region(obama, tmp_path):
    file = tmp_path / "ss10pus.csv"
    file.write_text(PERSONS)
    regions = merge_regions(obama.with_later_code(CROSSWALK), "county", ["state", "puma"])
    votes = pa.table({"region": ["AL_1", "AK_1", "LA_1"], "label": list(regions.labels)})
    rebuilt = obama.Rebuilt(obama.VINTAGES["2000"], regions, 4, votes, None, 3, 3)
    people, columns = obama.people_of(file, rebuilt)
    for _ in range(2):  # the stream can be begun anew
        found = pa.Table.from_batches(people()).to_pydict()
        assert found["region"] == ["LA_1", "LA_1", "AL_1"]
        assert found["weight"] == [10, 20, 50]
        np.testing.assert_allclose(np.exp(found["log_income"]), [30000, 1000, 120000])
    assert columns == ["log_income", "AGEP", "SEX", "RAC1P", "CIT"]


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
