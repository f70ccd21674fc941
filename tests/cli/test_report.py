from __future__ import annotations

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from tests.ecological.margins import counted

import crosslevel as cl
from crosslevel import ecological
from crosslevel.krls import KRLS

PLACES = ["north", "south", "west"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Saved results of several kinds, and a map."""
    folder = tmp_path_factory.mktemp("results")
    found = ecological.bounds(counted({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]}))
    cl.save(found, folder / "bounds.crosslevel")
    (folder / "bounds.json").write_text(found.to_json())
    rng = np.random.default_rng(0)
    X = {"age": rng.normal(size=60), "treated": rng.integers(0, 2, 60)}
    model = KRLS(penalty=0.5).fit(X, X["age"] + X["treated"] + rng.normal(size=60))
    cl.save(model, folder / "model.crosslevel", allow_rows=True)
    cl.save(model.effects(by={"place": rng.choice(PLACES, 60)}), folder / "places.crosslevel")
    bins = cl.BinnedGP(lengthscale=10.0, noise=1.0).fit(
        cl.Intervals.from_edges([0, 10, 20, 30]), [3, 5, 4], quantity="total"
    )
    cl.save(bins, folder / "bins.crosslevel")
    features = [
        {
            "type": "Feature",
            "properties": {"place": name},
            "geometry": {"type": "Polygon", "coordinates": [[[i, 0], [i + 1, 0], [i + 1, 1], [i, 0]]]},
        }
        for i, name in enumerate(PLACES)
    ]
    (folder / "map.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    (folder / "broken.geojson").write_text("{")
    (folder / "other.geojson").write_text('{"type": "Feature"}')
    return folder


def test_models_and_estimates_stand_on_one_page(crosslevel, folder):
    asked = (
        *shlex.split("report bounds.crosslevel model.crosslevel bins.crosslevel --out all.html --title"),
        "All of it",
    )
    done = crosslevel(*asked, cwd=folder)
    assert done.out == "Report: all.html\n"
    page = (folder / "all.html").read_text()
    assert "<title>All of it</title>" in page
    for words in (
        "KRLS",
        "BinnedGP",
        "Effects at rows, along a covariate",
        "What was observed, and the curve behind it",
    ):
        assert words in page


def test_words_for_codes_come_from_json(crosslevel, folder):
    frame = pd.DataFrame({"sex": [1, 2] * 30, "w": 1.0, "ill": np.arange(60) % 3 == 0})
    cl.save(cl.results.SurveyDesign("w").means(frame, "ill", by="sex"), folder / "means.crosslevel")
    (folder / "words.json").write_text(json.dumps({"sex": {"1": "all the men", "2": "all the women"}}))
    crosslevel("report", "means.crosslevel", "--labels", "words.json", "--out", "words.html", cwd=folder)
    assert "all the women" in (folder / "words.html").read_text()
    (folder / "words.json").write_text("sex")
    assert "--labels" in crosslevel("report", "means.crosslevel", "--labels", "words.json", cwd=folder, code=2).err


def test_results_of_one_name_are_told_apart_by_their_files(crosslevel, folder):
    told = json.loads(crosslevel("report", "bounds.crosslevel", "bounds.json", "bounds.json", "--json", cwd=folder).out)
    page = (folder / told["report"]).read_text()
    assert told["report"] == "report.html"
    assert page.count("(bounds)</h2>") == 1
    assert "(bounds), again</h2>" in page


def test_a_map_of_effects(crosslevel, folder):
    crosslevel("report", "places.crosslevel", "--map", "map.geojson", "--out", "map.html", cwd=folder)
    assert "The estimate in each place" in (folder / "map.html").read_text()
    crosslevel("report", "places.crosslevel", "--out", "none.html", cwd=folder)
    assert "The estimate in each place" not in (folder / "none.html").read_text()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ((), "name at least one file of saved results"),
        (("bounds.json", "--reproduce", "."), "exclude one another"),
        (("places.crosslevel", "--map", "nowhere.geojson"), "--map nowhere.geojson does not exist"),
        (("places.crosslevel", "--map", "broken.geojson"), "--map broken.geojson is not JSON"),
        (("places.crosslevel", "--map", "other.geojson"), "neither a GeoJSON FeatureCollection nor TopoJSON"),
        (("bounds.json", "--map", "map.geojson"), "shows the places of no result"),
        (("nowhere.crosslevel",), "nowhere.crosslevel"),
    ],
)
def test_what_cannot_be_is_said(crosslevel, folder, asked, words):
    before = sorted(p.name for p in folder.glob("*.html"))
    said = crosslevel("report", *asked, cwd=folder, code=2).err.replace("\n", " ")
    assert words in said
    assert sorted(p.name for p in folder.glob("*.html")) == before


def test_embeddings_have_a_page_and_their_maker_has_none(crosslevel, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "people.csv").write_text(
        "region,age\n"
        + "".join(f"{r},{a:.3f}\n" for r, a in zip(rng.choice(["a", "b"], 80), rng.normal(size=80), strict=True))
    )
    done = crosslevel(
        "embed", "people.csv", "--by", "region", "--n-features", "64", "--report", "--out", "run", cwd=tmp_path
    )
    assert "run/report.html" in done.out
    assert "People of the bags, and how many they count for" in (tmp_path / "run" / "report.html").read_text()
    crosslevel("report", "run/embeddings.crosslevel", "--out", "bags.html", cwd=tmp_path)
    assert "effective people in a bag" in (tmp_path / "bags.html").read_text()
    said = crosslevel("report", "run/embedding.crosslevel", cwd=tmp_path, code=2).err
    assert "holds a MeanEmbedding" in said


@pytest.mark.parametrize(
    "asked",
    [
        ("krls", "x.csv", "--y", "y", "--x", "x"),
        ("distribution", "m.csv", "l.csv", "--by", "g", "--label", "y"),
        ("impute", "p.csv", "m.csv", "--by", "g", "--means", "y"),
        ("binned", "b.csv", "--lower", "lo", "--upper", "hi", "--total", "n"),
    ],
)
def test_a_report_needs_a_folder(crosslevel, tmp_path, asked):
    assert "--report needs a folder" in crosslevel(*asked, "--report", cwd=tmp_path, code=2).err


def test_without_charts_the_page_has_pictures(crosslevel, tmp_path, monkeypatch):
    from crosslevel.reports import vega

    monkeypatch.setattr(vega, "available", lambda: False)
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    (tmp_path / "x.csv").write_text(
        "x,y\n" + "".join(f"{a},{a + b}\n" for a, b in zip(x, rng.normal(size=40), strict=True))
    )
    crosslevel("krls", "x.csv", "--y", "y", "--x", "x", "--out", "run", "--report", cwd=tmp_path)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "pip install" in page
