from __future__ import annotations

import json
import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.numerics.evidence import maximize

EDGES = np.array([0, 10, 20, 30, 40, 60, 90])
COUNTS = np.array([210, 340, 600, 520, 580, 300])
ASKED = ("binned", "ages.csv", "--lower", "lo", "--upper", "hi", "--total", "n")


def square(x, y, size, **properties):
    ring = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]]
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Polygon", "coordinates": [ring]}}


def write_squares(path, features):
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("binned")
    ages = pd.DataFrame({"lo": EDGES[:-1], "hi": EDGES[1:], "n": COUNTS, "people": 10 * COUNTS, "height": COUNTS / 4})
    ages.to_csv(where / "ages.csv", index=False)
    pd.concat([ages.assign(area=a, n=COUNTS // k) for a, k in (("north", 1), ("south", 3))]).to_csv(
        where / "areas.csv", index=False
    )
    pd.DataFrame({"lo": [18, 26], "hi": [25, 40]}).to_csv(where / "new.csv", index=False)
    ages.assign(hi=[*EDGES[1:-1], None]).to_csv(where / "open.csv", index=False)
    ages.head(0).to_csv(where / "empty.csv", index=False)
    rows = [(i, j) for i in range(4) for j in range(3)]
    large = [square(500 + 2 * i, 700 + 2 * j, 2, name=f"L{i}{j}", n=20 + 10 * i + j) for i, j in rows]
    every = [
        square(500 + i, 700 + j, 1, code=f"s{i}-{j}", people=100 + i, share=0.1 + 0.1 * i)
        for i in range(8)
        for j in range(6)
    ]
    write_squares(where / "large.geojson", large)
    write_squares(where / "every.geojson", every)
    write_squares(where / "degrees.geojson", [square(0.1 * i, 50, 0.1, name=str(i), n=5 + i) for i in range(6)])
    (where / "bad.geojson").write_text("{")
    write_squares(where / "text.geojson", [square(0, 0, 1, name="a", n="many")])
    return where


def test_ages_are_asked_for_as_they_are_published(crosslevel, folder):
    groups = [f"{a}-{b - 1}" for a, b in pairwise(EDGES[:-1])] + ["60+"]
    pd.DataFrame({"age": groups, "n": COUNTS}).to_csv(folder / "published.csv", index=False)
    asked = ("binned", "published.csv", "--age-groups", "age", "--total", "n", "--tail", "12")
    told = json.loads(crosslevel(*asked, "--ages", "18-24", "--ages", "26 to 39 years", "--json", cwd=folder).out)
    rows = told["answers"]["estimates"]["rows"]
    assert [(r["lower"], r["upper"]) for r in rows] == [(18, 25), (26, 40)]
    model = cl.BinnedCountGP().fit(cl.Intervals.ages(groups), COUNTS, tail=12)
    np.testing.assert_allclose([r["estimate"] for r in rows], model.predict(cl.Intervals.ages(["18-24", "26-39"])))
    printed = crosslevel(*asked, "--ages", "18-24", "--ages", "60+", cwd=folder).out
    assert "18 to under 25" in printed
    assert "60 and over" in printed


def test_single_years_are_one_option(crosslevel, folder):
    told = json.loads(crosslevel(*ASKED, "--single-years", "--json", cwd=folder).out)
    rows = told["answers"]["estimates"]["rows"]
    assert [(r["lower"], r["upper"]) for r in rows] == [(a, a + 1) for a in range(90)]
    assert sum(r["estimate"] for r in rows) == pytest.approx(COUNTS.sum())
    printed = crosslevel("binned", "open.csv", *ASKED[2:], "--tail", "8", "--single-years", cwd=folder).out
    assert "60 and over" in printed
    assert "59 to under 60" in printed


def test_areas_that_share_a_curve(crosslevel, folder):
    asked = ("binned", "areas.csv", *ASKED[2:], "--pool", "area", "--at", "18-25", "--out", "pooled", "--report")
    out = crosslevel(*asked, cwd=folder).out
    found = cl.load(folder / "pooled" / "estimates.crosslevel")
    assert found.keys == ("area", "lower", "upper")
    assert found["estimate"][0] / found["estimate"][1] == pytest.approx(3, rel=0.1)
    assert "north" in out


def test_means_shares_and_open_ends(crosslevel, folder):
    means = ("binned", "ages.csv", "--lower", "lo", "--upper", "hi", "--mean-of", "height", "--sizes", "people")
    told = json.loads(crosslevel(*means, "--at", "18-25", "--kernel", "matern32", "--json", cwd=folder).out)
    gp = cl.BinnedGP("matern32").fit(cl.Intervals.from_edges(EDGES), COUNTS / 4, quantity="mean", sizes=10 * COUNTS)
    assert told["answers"]["estimates"]["rows"][0]["estimate"] == pytest.approx(
        gp.predict(cl.Intervals([18], [25]))[0], rel=1e-6
    )
    told = json.loads(crosslevel(*ASKED, "--trials", "people", "--at", "18-25", "--json", cwd=folder).out)
    assert told["answers"]["estimates"]["rows"][0]["estimate"] == pytest.approx(0.1, rel=0.05)
    asked = ("binned", "open.csv", *ASKED[2:], "--tail", "8", "--at", "60+", "--at", "60:70", "--json")
    told = json.loads(crosslevel(*asked, cwd=folder).out)
    assert told["answers"]["estimates"]["rows"][0]["estimate"] == pytest.approx(300)
    assert told["answers"]["estimates"]["rows"][0]["upper"] is None
    assert 100 < told["answers"]["estimates"]["rows"][1]["estimate"] < 300


def test_areas_of_a_map(crosslevel, folder):
    asked = ("binned", "--polygons", "large.geojson", "--value", "n", "--to", "every.geojson", "--key", "name")
    crosslevel(*asked, "--to-key", "code", "--out", "map", "--report", cwd=folder)
    found = cl.load(folder / "map" / "estimates.crosslevel")
    assert found.keys == ("code",)
    truth = sum(20 + 10 * i + j for i in range(4) for j in range(3))
    assert found["estimate"].sum() == pytest.approx(truth, rel=0.05)
    assert cl.load(folder / "map" / "model.crosslevel").quantity_ == "total"
    assert (folder / "map" / "report.html").stat().st_size > 10_000


def test_totals_carried_over_to_other_areas(crosslevel, folder):
    asked = ("areas", "large.geojson", "every.geojson", "--value", "n", "--key", "name", "--target-key", "code")
    told = json.loads(crosslevel(*asked, "--margin", "n", "--json", cwd=folder).out)
    large = cl.Polygons(folder / "large.geojson", key="name")
    every = cl.Polygons(folder / "every.geojson", key="code")
    n = np.array([20.0 + 10 * i + j for i in range(4) for j in range(3)])
    wanted = cl.binned.interpolate(large, every, n, n / 1.6448536269514722)
    rows = told["answers"]["estimates"]["rows"]
    assert [r["code"] for r in rows] == wanted["code"].tolist()
    for column in ("estimate", "conf_low", "conf_high", "area_weighted"):
        np.testing.assert_allclose([r[column] for r in rows], wanted[column], rtol=1e-9)
    told = crosslevel(*asked, "--population", "people", "--out", "areas", "--report", cwd=folder).out
    assert "people_weighted" in told
    rates = ("areas", "every.geojson", "large.geojson", "--value", "share", "--kind", "rate", "--population", "people")
    told = json.loads(crosslevel(*rates, "--key", "code", "--target-key", "name", "--json", cwd=folder).out)
    first = next(r for r in told["answers"]["estimates"]["rows"] if r["name"] == "L00")  # squares of columns 0 and 1
    assert first["estimate"] == pytest.approx((0.1 * 100 + 0.2 * 101) / 201)
    assert (folder / "areas" / "report.html").stat().st_size > 10_000


def test_degrees_are_projected_without_a_warning_that_they_are_not(crosslevel, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crosslevel("areas", "degrees.geojson", "degrees.geojson", "--value", "n", "--key", "name", cwd=folder)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("areas", "large.geojson"), "Missing argument"),
        (("areas", "large.geojson", "every.geojson"), "--value"),
        (("areas", "large.geojson", "none.geojson", "--value", "n"), "none.geojson does not exist"),
        (("areas", "large.geojson", "every.geojson", "--value", "m"), "--value m is not a property"),
        (("areas", "text.geojson", "every.geojson", "--value", "n"), "n='many', which is no number"),
        (
            ("areas", "large.geojson", "every.geojson", "--value", "n", "--margin", "moe"),
            "--margin moe is not a property",
        ),
        (
            ("areas", "large.geojson", "every.geojson", "--value", "n", "--margin", "n", "--std-error", "n"),
            "--std-error and --margin exclude one another",
        ),
        (
            ("areas", "codes.geojson", "every.geojson", "--value", "n", "--margin", "moe"),
            "margin of error, -5.55556e+08",
        ),
    ],
)
def test_maps_that_cannot_be_used_are_refused(crosslevel, folder, asked, words):
    write_squares(folder / "codes.geojson", [square(500, 700, 8, n=5, moe=-555555555)])
    assert words in crosslevel(*asked, cwd=folder, code=2).err


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("binned",), "name a file of bins"),
        ((*ASKED, "--mean-of", "n"), "--total and --mean-of exclude one another"),
        ((*ASKED, "--at", "young"), "--at 'young' is not a bin"),
        ((*ASKED, "--at", "80-95"), "reaches outside the bins"),
        ((*ASKED, "--ages", "young"), "='young' is no age group"),
        ((*ASKED, "--pool", "aera"), "--pool aera is not a column"),
        ((*ASKED, "--out", "ages.csv"), "is a file; name a folder"),
        (("binned", "empty.csv", *ASKED[2:]), "empty.csv has no rows"),
        (("binned", "open.csv", *ASKED[2:]), "upper is missing in row 5"),
        (("binned", "--polygons", "large.geojson"), "--polygons goes with --value, which is missing"),
    ],
)
def test_bad_input_gets_a_sentence(crosslevel, folder, asked, words):
    said = crosslevel(*asked, cwd=folder, code=2)
    assert words in " ".join(said.err.split())
    assert said.out == ""


def test_a_search_that_does_not_end_leaves_with_1(crosslevel, folder, monkeypatch):
    monkeypatch.setattr("crosslevel.binned.gaussian.fit.maximize", partial(maximize, flat=-1.0))
    said = crosslevel(*ASKED, "--model", "gaussian", cwd=folder, code=1)
    assert "still rises" in said.err
    assert said.out == ""
