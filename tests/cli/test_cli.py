from __future__ import annotations

import html
import importlib
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
from tests.ecological.margins import counted
from threadpoolctl import threadpool_limits

from crosslevel import ecological, load, save
from crosslevel.cli.app import VERBS
from crosslevel.cli.demo import estimate_subgroups
from crosslevel.cli.options import spelled
from crosslevel.data.simulate import nation
from crosslevel.errors import ConvergenceError, FileError, InputError


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


@pytest.fixture(name="crosslevel_here")
def crosslevel_here_fixture(request):
    """Run in this process, as the other tests of verbs do."""
    return request.getfixturevalue("crosslevel")


@pytest.fixture(scope="module")
def found():
    return ecological.bounds(counted({"young": [30, 90], "old": [70, 10]}, {"yes": [80, 20], "no": [20, 80]}))


def test_help_names_the_verbs_and_imports_no_numerics():
    out = crosslevel("--help").stdout
    for verb in VERBS:
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
    assert set(facts["extras"]) == {"bayes", "geo", "report", "docx", "spark", "readers"}
    assert facts["engines"]["local"] == "ready"
    assert (
        facts["engines"]["spark"] in ("ready", "pip install crosslevel[spark]") or "Java" in facts["engines"]["spark"]
    )
    assert "numpy" in crosslevel("info").stdout


@pytest.fixture(scope="module")
def demo():
    """The smallest world the demo takes, and what is found in it."""
    world = nation(20, 500, random_state=0)
    with threadpool_limits(1, user_api="blas"):  # as the demo does; threads change the last bits of a sum
        return world, estimate_subgroups(world, seed=0)


NUMBERS = ("estimate", "conf_low", "conf_high", "truth", "with_survey", "with_survey_high", "bound_low")


def test_demo_prints_the_table_and_writes_the_report(tmp_path, demo):
    out = crosslevel("demo", "--regions", "20", "--people", "10000", cwd=tmp_path).stdout
    assert "95 % interval" in out
    assert "Warning" not in out
    for word in ("women", "truth", "like region", "Goodman", "with survey", "points off on average", "Be careful"):
        assert word in out
    saved = load(tmp_path / "demo" / "demo.crosslevel")
    for name in NUMBERS:
        np.testing.assert_allclose(saved[name], demo[1].national[name], rtol=1e-9)
    path = tmp_path / "demo" / "report.html"
    assert "demo/report.html" in out
    page = path.read_text()
    for words in ("By race in each region", "First subgroup", "Difference: the first less the second", "The nation"):
        assert words in page
    assert "default-src 'none'" in html.unescape(page)
    assert "unsafe-eval" not in page


def test_demo_as_json_has_the_same_numbers(crosslevel_here, tmp_path, demo, monkeypatch):
    known, found = demo
    asked = []

    def estimate(world, seed, respondents):
        asked.append((world.people.equals(known.people), world.places.equals(known.places), seed))
        return found

    monkeypatch.setattr("crosslevel.cli.demo.estimate_subgroups", estimate)
    out = crosslevel_here("demo", "--regions", "20", "--people", "10000", "--json", cwd=tmp_path).out
    assert asked == [(True, True, 0)]
    rows = json.loads(out)["answers"]["demo"]["rows"]
    for name in NUMBERS:
        np.testing.assert_allclose([row[name] for row in rows], found.national[name], rtol=1e-9)


def test_the_demo_tells_how_far_off_it_is_and_the_bounds_hold():
    world = nation(40, 150, random_state=2)
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
    helped = ((made["with_survey_low"] <= truth) & (truth <= made["with_survey_high"])).sum()
    assert f"{inside} of 6 intervals contain the truth" in said
    for name, words in (
        ("estimate", "estimates are {:.1f} points"),
        ("neighborhood", "rate is {:.1f} off"),
        ("goodman", "regression {:.0f}."),
        ("with_survey", f"2,000: {{:.1f}} points off, {helped} of 6"),
    ):
        assert words.format(100 * abs(made[name] - truth).mean()) in said
    assert "totals cannot check" in made.warnings[1]
    assert found.by_region.title == "How each race voted in each region, from totals and a survey"
    black = found.by_region.select(race="black")
    held = (black["conf_low"] <= black["truth"]) & (black["truth"] <= black["conf_high"])
    assert held.mean() > 0.8


def test_the_demo_of_the_stress_test_is_another_nation(crosslevel_here, tmp_path, demo, monkeypatch):
    known, found = demo
    worlds = []
    monkeypatch.setattr("crosslevel.cli.demo.estimate_subgroups", lambda world, **_: worlds.append(world) or found)
    crosslevel_here("demo", "--regions", "20", "--people", "10000", "--hard", "--json", cwd=tmp_path)
    assert worlds[0].places["votes"].equals(known.places["votes"])
    assert not worlds[0].places["dem"].equals(known.places["dem"])
    message = crosslevel_here("demo", "--respondents", "5", code=2, cwd=tmp_path).err
    assert "--respondents 5 is too few" in message


def test_report_of_saved_estimates(crosslevel_here, tmp_path, found):
    save(found, tmp_path / "a.crosslevel")
    (tmp_path / "a.json").write_text(found.to_json())
    for name in ("a.crosslevel", "a.json"):
        told = json.loads(crosslevel_here("report", name, "--out", f"{name}.html", "--json", cwd=tmp_path).out)
        assert "young" in (tmp_path / told["report"]).read_text()


def test_exit_codes_and_messages(crosslevel_here, tmp_path):
    assert "does not exist" in crosslevel("report", "nothing.json", cwd=tmp_path, code=2).stderr
    (tmp_path / "bad.crosslevel").write_bytes(b"not a zip")
    (tmp_path / "taken").write_text("")
    (tmp_path / "bytes.JSON").write_bytes(b"\xff\xfe\x00")
    for asked, words in (
        (("report", "bad.crosslevel"), "bad.crosslevel"),
        (("demo", "--regions", "20", "--people", "10000", "--out", "taken"), "is a file; name a folder"),
        (("frobnicate",), "frobnicate"),
        (("demo", "--out", "taken/x"), "cannot be made"),
        (("report", "bytes.JSON"), "is not JSON text"),
    ):
        assert words in crosslevel_here(*asked, cwd=tmp_path, code=2).err
    assert list(tmp_path.glob("*.html")) == []


def leave(monkeypatch, error, *arguments):
    """Run with a verb that fails; give the exit code."""
    from crosslevel import cli
    from crosslevel.cli import app

    def fail(given):
        raise error

    monkeypatch.setattr(app, "run", fail)
    monkeypatch.setattr(sys, "argv", ["crosslevel", "krls", *arguments])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    return leaving.value.code


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConvergenceError("the fit did not converge"), 1, "did not converge"),
        (InputError("x=3 is not a column"), 2, "x=3"),
        (FileError("a.csv does not exist"), 2, "a.csv"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_exit_codes_say_how_it_went_and_json_says_why(monkeypatch, capsys, error, code, words):
    assert leave(monkeypatch, error) == code
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""
    assert leave(monkeypatch, error, "--json") == code
    told = json.loads(capsys.readouterr().out)
    assert told["exit_code"] == code
    assert told["error"]["type"] == type(error).__name__
    assert words in told["error"]["message"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_at_least_two_examples(crosslevel_here, verb, tmp_path):
    pages = [crosslevel_here(verb, flag, cwd=tmp_path).out for flag in ("-h", "--help")]
    assert pages[0] == pages[1]
    assert pages[0].split("Examples:")[1].count(f"crosslevel {verb}") >= 2
    assert "--json" in pages[0]


@pytest.mark.parametrize("verb", VERBS)
def test_examples_name_options_that_exist(verb):
    module = importlib.import_module(f"crosslevel.cli.{verb}")
    known = {spelled(option.name) for option in module.OPTIONS}
    names = [option.name for option in module.OPTIONS]
    assert len(set(names)) == len(names)
    for example in module.EXAMPLES:
        written = {word for word in shlex.split(example) if word.startswith("--")}
        assert written <= known, written - known


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("krls",), "Missing argument"),
        (("krls", "a.csv", "--y", "y"), "--x"),
        (("krls", "a.csv", "--y", "y", "--x", "x", "--levle", "0.9"), "--levle"),
        (("binned", "--seed", "many"), "--seed"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_wrong_usage_is_bad_input(crosslevel_here, tmp_path, asked, words):
    said = crosslevel_here(*asked, "--json", cwd=tmp_path, code=2)
    assert words in said.err
    assert words in json.loads(said.out)["error"]["message"]


def test_the_version_and_no_arguments(crosslevel_here, tmp_path):
    import crosslevel as cl

    assert crosslevel_here("--version", cwd=tmp_path).out == f"crosslevel {cl.__version__}\n"
    assert "ecological" in crosslevel_here(cwd=tmp_path).out
