from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import crosslevel as cl
from crosslevel.cli.job import quiet
from crosslevel.data.simulate import nation


@pytest.fixture(scope="module")
def world():
    return nation(16, 40, n_states=4, turnout=0.6)


@pytest.fixture(scope="module")
def folder(world, tmp_path_factory):
    where = tmp_path_factory.mktemp("ecological")
    pq.write_table(world.people, where / "people.parquet", row_group_size=500)
    pacsv.write_csv(world.places, where / "places.csv")
    (where / "map.geojson").write_text(json.dumps(world.polygons))
    return where


@pytest.fixture(scope="module")
def model(world):
    return cl.EcologicalInference(n_bins=4, random_state=3).fit(*nouns(world))


def nouns(world, **people):
    return (
        cl.People(world.people, by="region", weight="weight", categorical=["sex"], **people),
        cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat")),
    )


FILES = ("ecological", "people.parquet", "places.csv", "--by", "region", "--weight", "weight")
SETTINGS = ("--lon", "lon", "--lat", "lat", "--categorical", "sex", "--seed", "3", "--n-draws", "60")
ASKED = (*FILES, *SETTINGS, "--n-bins", "4", "--successes", "dem", "--trials", "votes")


def same(found, expected):
    assert found.keys == expected.keys
    for name in expected.table.column_names:
        if name in expected.keys:
            assert found[name].tolist() == expected[name].tolist()
        else:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-9)


def test_the_answers_are_those_of_the_library(crosslevel, folder, model):
    asked = ("--estimate", "sex", "--estimate", "age >= 65", "--estimate", "young=age < 30", "--estimate", "sex*race")
    done = crosslevel(*ASKED, *asked, "--rollup", "state", "--rollup", "all", "--out", "run", cwd=folder)
    written = sorted(p.name for p in (folder / "run").iterdir())
    stems = [
        f"{what}-{where}"
        for what in ("sex", "sex-x-race", "subgroups")
        for where in ("by-region", "by-state", "everywhere")
    ]
    assert written == sorted([*(f"{s}{e}" for s in stems for e in (".csv", ".crosslevel")), "model.crosslevel"])
    out = folder / "run"
    same(cl.load(out / "sex-everywhere.crosslevel"), model.estimate(by="sex", rollup="all", n_draws=60))
    same(cl.load(out / "sex-by-region.crosslevel"), model.estimate(by="sex", n_draws=60))
    same(
        cl.load(out / "sex-x-race-by-state.crosslevel"), model.estimate(by=["sex", "race"], rollup="state", n_draws=60)
    )
    queries = {"age >= 65": "age >= 65", "young": "age < 30"}
    same(cl.load(out / "subgroups-by-state.crosslevel"), model.estimate(subgroups=queries, rollup="state", n_draws=60))
    table = pacsv.read_csv(out / "subgroups-by-state.csv")
    assert set(table["subgroup"].to_pylist()) == set(queries)
    again = cl.load(out / "model.crosslevel").estimate(
        by="sex", rollup="all", n_draws=60, people=folder / "people.parquet"
    )
    same(again, model.estimate(by="sex", rollup="all", n_draws=60))
    assert "Fitted 16 places" in done.err
    for words in ("95 % interval", "neighborhood", "bound_low", "allow for conf", "young", "length", "converged yes"):
        assert words in done.out
    assert done.out.count("Intervals allow for confounding with the shipped constants") == 1
    assert "R0001" not in done.out  # the tables by place are in the files


def test_the_report_shows_intervals_maps_and_convergence(crosslevel, folder):
    asked = ("--estimate", "sex", "--rollup", "state", "--leave-out", "state", "--polygons", "map.geojson")
    done = crosslevel(*ASKED, *asked, "--out", "page", "--report", cwd=folder)
    page = (folder / "page" / "report.html").read_text()
    for words in (
        "sex by region",
        "sex by state",
        "Difference: the first less the second",
        "gray bars are bounds",
        "Places predicted from the others",
        "neighborhood",
        "log_evidence",
        "decrement_at_mode",
        "one state left out at a time",
    ):
        assert words in page
    maps = re.findall(r'<figure class="view \w+" data-view="\d+">\s*<h3>(.*?)</h3>', page)
    assert maps.count("First subgroup") == 2
    assert "Places predicted from others: rmse" in done.out
    assert (folder / "page" / "cross-validation.csv").exists()


def test_a_survey_beside_the_totals(crosslevel, folder, world):
    poll = world.survey(400, random_state=1)
    pacsv.write_csv(poll, folder / "poll.csv")
    columns = [word for name in ("age_group", "race", "sex") for word in ("--columns", name)]
    options = ("--survey", "poll.csv", "--survey-outcome", "voted_dem", "--survey-by", "state")
    options += ("--survey-selection", "0.2", "--survey-compare")
    asked = ("--estimate", "race", "--rollup", "all", "--out", "found", "--report", "--json")
    answer = crosslevel(*ASKED, *columns, *options, *asked, cwd=folder)
    told = json.loads(answer.out)
    assert "What the survey moved" in (folder / "found" / "report.html").read_text()
    assert "calibrated MRP" in {row["method"] for row in told["survey"]["compared"]}
    assert told["survey"]["surveys"][0]["respondents"] == 400
    assert told["survey"]["selection"] == {"sd": 0.2, "from": "as stated in fit", "columns": {}}
    with quiet():
        described = cl.Survey(poll, outcome="voted_dem", by="state", selection=0.2)
        made = cl.EcologicalInference(n_bins=4, random_state=3)
        made.fit(*nouns(world, columns=["age_group", "race", "sex"]), described)
    assert told["survey"]["surveys"][0]["offset"] == pytest.approx(made.survey_.surveys["offset"][0].as_py(), abs=1e-6)


def test_turnout_outcomes_effects_and_contrasts(crosslevel, folder, world):
    votes = np.asarray(world.places["votes"])
    dem = np.asarray(world.places["dem"])
    pq.write_table(world.places.append_column("rep", pa.array(votes - dem)), folder / "two.parquet")
    asked = (
        "ecological",
        "people.parquet",
        "two.parquet",
        *FILES[3:],
        *SETTINGS,
        "--outcome",
        "dem",
        "--outcome",
        "rep",
    )
    options = shlex.split("--population population --group state --n-features 32 --feature-map rff")
    options += ("--model", "regression")
    more = ("--degrees", "--where", "age >= 25", "--columns", "age", "--columns", "sex", "--estimate", "sex")
    compared = shlex.split("--rollup all --contrast difference --reference 1 --json")
    told = json.loads(crosslevel(*asked, *options, *more, *compared, cwd=folder).out)
    rows = told["answers"]["sex-everywhere"]["rows"]
    assert [(r["sex"], r["against"], r["outcome"]) for r in rows] == [(2, "1", "dem"), (2, "1", "rep")]
    model = cl.ecological.DistributionRegression(32, feature_map="rff", degrees=True, group="state", random_state=3)
    named = {"by": "region", "outcomes": ["dem", "rep"], "population": "population", "coords": ("lon", "lat")}
    with quiet():
        people = nouns(world, columns=["age", "sex"], where="age >= 25")[0]
        model.fit(people, cl.Places(folder / "two.parquet", **named))
    expected = model.estimate(by="sex", rollup="all", n_draws=60).contrast(reference=1)
    np.testing.assert_allclose([r["estimate"] for r in rows], expected["estimate"], rtol=1e-6)
    told = json.loads(
        crosslevel(*asked, *options, "--estimate", "sex", "--share-of", "turnout", "--json", cwd=folder).out
    )
    assert "outcome" not in told["answers"]["sex-by-region"]["keys"]


def test_columns_are_hidden_to_learn_confounding(crosslevel, folder):
    labels = ("race = 'white'", "sex = 2", "education = 'bachelor'")
    asked = [word for label in labels for word in ("--learn-confounding", label)]
    told = json.loads(crosslevel(*ASKED, *asked, "--estimate", "sex", "--rollup", "all", "--json", cwd=folder).out)
    assert told["confounding"]["words"].startswith(f"tau {told['confounding']['tau']:.2f} from 3 columns")
    assert [row["label"] for row in told["confounding"]["labels"]] == list(labels)
    assert "allow for confounding" in told["answers"]["sex-everywhere"]["interval"]


def test_settings_of_the_prior_reach_the_model(crosslevel, folder):
    plain = shlex.split("--spatial none --no-nugget --no-match-totals --model regression --n-features 32 --out plain")
    done = crosslevel(*FILES, "--successes", "dem", "--trials", "votes", *plain, cwd=folder)
    made = cl.load(folder / "plain" / "model.crosslevel")
    assert (made.spatial, made.nugget, made.match_totals, made.n_features) == (None, False, False, 32)
    assert "nugget=False" in done.out
    crosslevel(*ASKED, "--spatial", "matern52", "--out", "rough", cwd=folder)
    assert cl.load(folder / "rough" / "model.crosslevel").spatial == "matern52"


def test_numbers_that_name_places_are_text_where_people_say_so(crosslevel, world, tmp_path):
    def renumbered(table):
        keys = [str(int(key[1:]) + 100) for key in table["region"].to_pylist()]
        return table.set_column(table.column_names.index("region"), "region", pa.array(keys))

    pq.write_table(renumbered(world.people), tmp_path / "people.parquet")
    pacsv.write_csv(renumbered(world.places), tmp_path / "places.csv", pacsv.WriteOptions(quoting_style="none"))
    told = json.loads(crosslevel(*ASKED, "--estimate", "sex", "--json", cwd=tmp_path).out)
    assert told["answers"]["sex-by-region"]["rows"][0]["region"] == "101"


def test_places_of_one_table_only(crosslevel, folder, world):
    pacsv.write_csv(world.places.slice(0, 13), folder / "fewer.csv")
    fewer = ("ecological", "people.parquet", "fewer.csv", *ASKED[3:], "--estimate", "sex")
    assert "people and places do not match" in crosslevel(*fewer, cwd=folder, code=2).err
    assert "Left out: " in crosslevel(*fewer, "--unmatched", "drop", cwd=folder).out


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "--rollup state --out o",
        "--estimate sx",
        "--estimate sex --share-of turnout",
        "--estimate sex --reference 1",
        "--estimate sex --polygons map.geojson",
        "--estimate sex --cross-validate 3 --leave-out state",
        "--estimate sex --survey nothing.csv --survey-outcome y",
        "--estimate sex --measure-selection",
        "--estimate sex --n-features 64",
        "--estimate sex --n-draws 5",
        "--estimate sex --learn-confounding auto --learn-confounding sex",
        "--cross-validate 1000",
    ],
)
def test_bad_input_is_told_before_a_fit(crosslevel, folder, asked):
    said = crosslevel(*ASKED, *shlex.split(asked), cwd=folder, code=2)
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "Fitted" not in said.err


@pytest.mark.parametrize(
    "asked",
    [
        "people.parquet places.csv",
        "people.parquet places.csv --by regio --spatial none",
        "people.parquet places.csv --by region",
        "people.parquet places.csv --by region --lon lon",
        "people.parquet plces.csv --by region --spatial none",
    ],
)
def test_what_is_missing_is_told(crosslevel, folder, asked):
    counts = ("--successes", "dem", "--trials", "votes", "--estimate", "sex")
    assert crosslevel("ecological", *shlex.split(asked), *counts, cwd=folder, code=2).err


def test_a_map_of_other_places_is_refused_before_anything_is_fitted(crosslevel, folder, world):
    def told(text):
        (folder / "odd.geojson").write_text(text)
        asked = ("--estimate", "sex", "--out", "odd", "--report", "--polygons", "odd.geojson")
        done = crosslevel(*ASKED, *asked, cwd=folder, code=2)
        assert "Fitted" not in done.err
        return done.err

    features = world.polygons["features"]
    others = [{"geometry": f["geometry"], "properties": {"county": f"c{i}"}} for i, f in enumerate(features)]
    assert "lacks 16 place(s)" in told(json.dumps({"features": others}))
    assert "lacks 1 place(s)" in told(json.dumps({"features": features[1:]}))
    assert "neither a GeoJSON FeatureCollection" in told("[]")
    assert "is not JSON" in told("{")
    line = [{**features[0], "geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}}]
    assert "no features with Polygons or Points" in told(json.dumps({"features": line}))


def test_counts_of_groups_in_a_table_of_places(crosslevel, tmp_path):
    """A precinct file alone is enough."""
    rng = np.random.default_rng(0)
    counts = rng.integers(20, 200, (30, 3))
    table = {"precinct": [f"p{i:02d}" for i in range(30)], "county": [f"c{i % 4}" for i in range(30)]}
    table |= {name: counts[:, k].tolist() for k, name in enumerate(("vap_white", "vap_black", "other"))}
    table |= {"votes": [400] * 30, "dem": rng.binomial(400, counts[:, 1] / counts.sum(axis=1)).tolist()}
    pacsv.write_csv(pa.table(table), tmp_path / "precincts.csv")
    asked = shlex.split("ecological precincts.csv --by precinct --successes dem --trials votes --spatial none")
    groups = ("--group-counts", "race=white:vap_white, black:vap_black,other", "--estimate", "race")
    more = ("--nugget-by", "county", "--rollup", "all", "--n-draws", "60", "--seed", "0")
    done = crosslevel(*asked, *groups, *more, "--out", "run", "--json", cwd=tmp_path)
    levels = {"race": {"white": "vap_white", "black": "vap_black", "other": "other"}}
    with quiet():
        model = cl.EcologicalInference(spatial=None, nugget_by="county", random_state=0)
        places = cl.Places(pa.table(table), by="precinct", successes="dem", trials="votes")
        model.fit(cl.GroupCounts(levels), places)
        expected = model.estimate(by="race", rollup="all", n_draws=60)
    rows = json.loads(done.out)["answers"]["race-everywhere"]["rows"]
    assert [row["estimate"] for row in rows] == pytest.approx(expected["estimate"].tolist(), abs=1e-9)
    assert [row["race"] for row in rows] == ["black", "other", "white"]
    loaded = cl.load(tmp_path / "run" / "model.crosslevel")
    same(loaded.estimate(by="race", rollup="all", n_draws=60), expected)
    for wrong, said in (
        (("--group-counts", "race=white:a,white:b"), "--group-counts race=white:a,white:b"),
        (("--group-counts", "race=vap_white"), "has the one level 'vap_white'"),
        (("--group-counts", "race=vap_white,vap_red"), "vap_red"),
        ((*groups, "--model", "regression"), "people is a GroupCounts"),
        ((), "PLACES is missing"),
    ):
        done = crosslevel(*asked, *wrong, "--out", "no", cwd=tmp_path, code=2)
        assert said in done.err
    done = crosslevel("ecological", "precincts.csv", *asked[1:], *groups, cwd=tmp_path, code=2)
    assert "name the table of places only" in " ".join(done.err.split())


def test_what_looks_wrong_is_listed_before_a_fit(crosslevel, folder, world):
    asked = ("audit", *FILES[1:], "--categorical", "sex", "--successes", "dem", "--trials", "votes", "--json")
    assert json.loads(crosslevel(*asked, "--lon", "lon", "--lat", "lat", cwd=folder).out) == {"findings": []}
    turned = json.loads(crosslevel(*asked, "--lon", "lat", "--lat", "lon", cwd=folder).out)["findings"]
    assert [one["test"] for one in turned] == ["coordinates"]
    (folder / "odd.csv").write_text("age\n" + "30\n41\n999\n" * 20)
    assert "999" in crosslevel("audit", "odd.csv", cwd=folder).out
    assert crosslevel("audit", "people.parquet", "places.csv", "--json", cwd=folder, code=2).out
