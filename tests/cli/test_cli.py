from __future__ import annotations

import html
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from crosslevel import ecological, save
from crosslevel.cli.demo import estimate_subgroups
from crosslevel.data.simulate import nation


def crosslevel(*arguments, cwd=None, code=0):
    """Run the command line as a person would."""
    done = subprocess.run(
        [sys.executable, "-m", "crosslevel", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def found():
    return ecological.bounds({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]})


def test_help_names_the_verbs_and_imports_no_numerics():
    out = crosslevel("--help").stdout
    for verb in ("demo", "ecological", "info", "report"):
        assert verb in out
    code = (
        "import sys\nfrom crosslevel.cli import main\nsys.argv = ['crosslevel', '--help']\n"
        "try: main()\nexcept SystemExit as e: assert not e.code\n"
        "print(sorted({'numpy','scipy','pyarrow','matplotlib','numba','pandas','sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_info_tells_the_versions():
    facts = json.loads(crosslevel("info", "--json").stdout)
    assert facts["packages"]["numpy"]
    assert facts["cores"] >= 1
    assert facts["memory_gib"] > 0
    assert set(facts["extras"]) == {"bayes", "geo", "report", "dask", "spark", "readers"}
    assert "numpy" in crosslevel("info").stdout


def test_demo_prints_the_table_and_writes_the_report(tmp_path):
    out = crosslevel("demo", "--regions", "40", "--people", "10000", cwd=tmp_path).stdout
    assert "95 % interval" in out
    for word in ("women", "truth", "coverage", "neighborhood", "bound_low", "goodman", "rxc", "allow for conf"):
        assert word in out
    path = tmp_path / "demo" / "report.html"
    assert f"Report: {path.resolve()}" in out
    page = path.read_text()
    for words in (
        "Men and women in each region",
        "First subgroup",
        "Difference: the first less the second",
        "The nation",
    ):
        assert words in page
    assert "default-src 'none'" in html.unescape(page)
    assert "unsafe-eval" not in page


def test_demo_as_json_has_the_same_numbers(tmp_path):
    out = crosslevel("demo", "--regions", "40", "--people", "10000", "--json", cwd=tmp_path).stdout
    from crosslevel import Estimates

    told = Estimates.from_json(json.dumps(json.loads(out)["estimates"]))
    world = nation(40, 250, random_state=0)
    with threadpool_limits(1, user_api="blas"):  # as the demo does; threads change the last bits of a sum
        expected = estimate_subgroups(world, seed=0).national
    assert told.keys == expected.keys
    for name in ("estimate", "conf_low", "conf_high", "truth", "coverage", "rxc", "bound_low"):
        np.testing.assert_allclose(told[name], expected[name], rtol=1e-9)


def test_the_demo_tells_how_far_off_it_is_and_the_bounds_hold():
    world = nation(60, 200, random_state=2)
    found = estimate_subgroups(world, ("sex", "race"), seed=2)
    made = found.national
    truth = made["truth"]
    assert made["variable"].tolist() == ["sex"] * 2 + ["race"] * 4
    assert made["subgroup"].tolist()[:2] == ["men", "women"]
    assert (made["bound_low"] <= truth + 0.02).all()  # the composition is a survey's, so the bounds carry its noise
    assert (made["bound_high"] >= truth - 0.02).all()
    assert (made["bound_low"] <= made["conf_low"]).all()
    assert (made["conf_high"] <= made["bound_high"]).all()
    real = {r["race"]: r["rate"] for r in world.true_rates(by="race", rollup="all").to_pylist()}
    assert truth[2:].tolist() == [real[v] for v in made["subgroup"].tolist()[2:]]
    inside = ((made["conf_low"] <= truth) & (truth <= made["conf_high"])).sum()
    said = made.warnings[0]
    assert f"{inside} of 6 intervals contain it" in said
    for name, words in (
        ("estimate", "are {} points"),
        ("neighborhood", "region {}"),
        ("goodman", "Goodman {}"),
        ("rxc", "rxc {}"),
    ):
        assert words.format(f"{100 * abs(made[name] - truth).mean():.0f}") in said
    assert "Totals cannot check that" in said
    women = found.by_region.select(sex=2)
    held = (women["conf_low"] <= women["truth"]) & (women["truth"] <= women["conf_high"])
    assert made["coverage"][1] == pytest.approx(held.mean())
    assert held.mean() > 0.9
    assert (women["model_low"] > women["conf_low"]).mean() > 0.9
    groups, regions = ecological.group_counts(
        world.people, by="region", group="race", places=world.places, total="votes", weight="weight"
    )
    dem, votes = (np.asarray(world.places[c], dtype=float) for c in ("dem", "votes"))
    contextual = ecological.rxc(groups, {"dem": dem, "other": votes - dem}, units=regions).select(outcome="dem")
    assert made["rxc"][2:].tolist() == contextual["estimate"].tolist()


def test_report_of_saved_estimates(tmp_path, found):
    save(found, tmp_path / "a.crosslevel")
    (tmp_path / "a.json").write_text(found.to_json())
    for name in ("a.crosslevel", "a.json"):
        told = json.loads(crosslevel("report", name, "--out", f"{name}.html", "--json", cwd=tmp_path).stdout)
        assert "young" in (tmp_path / told["report"]).read_text()


def test_exit_codes_and_messages(tmp_path):
    assert "does not exist" in crosslevel("report", "nothing.json", cwd=tmp_path, code=2).stderr
    (tmp_path / "bad.crosslevel").write_bytes(b"not a zip")
    assert "bad.crosslevel" in crosslevel("report", "bad.crosslevel", cwd=tmp_path, code=2).stderr
    (tmp_path / "taken").write_text("")
    message = crosslevel("demo", "--regions", "20", "--people", "10000", "--out", "taken", cwd=tmp_path, code=2).stderr
    assert "is a file; name a folder" in message
    assert crosslevel("frobnicate", code=2).stderr
    assert "cannot be made" in crosslevel("demo", "--out", "taken/x", cwd=tmp_path, code=2).stderr
    (tmp_path / "bytes.JSON").write_bytes(b"\xff\xfe\x00")
    assert "is not JSON text" in crosslevel("report", "bytes.JSON", cwd=tmp_path, code=2).stderr
    assert list(tmp_path.glob("*.html")) == []


def test_an_unconverged_fit_leaves_with_1(monkeypatch, capsys):
    from crosslevel import cli
    from crosslevel.cli import app as module
    from crosslevel.errors import ConvergenceError

    def fail():
        raise ConvergenceError("the fit did not converge")

    monkeypatch.setattr(module, "app", fail)
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    assert leaving.value.code == 1
    assert "did not converge" in capsys.readouterr().err
