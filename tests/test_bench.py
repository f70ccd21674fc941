"""The judge scores as the formulas say, every task loads or says what is missing, and no method is given the truth."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import bench
import numpy as np
import pandas as pd
import pytest
from bench import environments, page
from bench.cases import Case, Method
from bench.run import CASE_COLUMNS, ask
from bench.scoring import lines, standard_error
from bench.tasks import bags, effects, labels, tables
from scipy import stats


def test_a_case_is_judged_as_by_brute_force():
    rng = np.random.default_rng(0)
    truth, estimate, cost = rng.random(40), rng.random(40), rng.random(40)
    low, high = estimate - 0.2 * rng.random(40), estimate + 0.2 * rng.random(40)
    error = coverage = width = score = 0.0
    for t, e, c, a, b in zip(truth, estimate, cost, low, high, strict=True):
        error += c * abs(e - t)
        coverage += (a <= t <= b) / 40
        width += 100 * (b - a) / 40
        missed = a - t if t < a else t - b if t > b else 0.0
        score += 100 * (b - a + 2 / 0.05 * missed) / 40
    found = bench.judge(Case("one", {}, truth, cost), estimate, low, high)
    assert found == pytest.approx([error, coverage, width, score], rel=1e-12)
    assert bench.judge(Case("one", {}, truth, cost), estimate)[0] == pytest.approx(error)
    assert np.isnan(bench.judge(Case("one", {}, truth, cost), estimate)[1:]).all()


@pytest.mark.parametrize("wrong", [np.zeros(3), np.array([0.0, np.nan])])
def test_an_answer_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError):
        bench.judge(Case("one", {}, np.zeros(2), 1.0), wrong)


def test_differences_are_paired_by_unit_and_taken_on_what_both_answered():
    rows = [
        ("m", "a", 1.0),
        ("m", "a", 3.0),
        ("m", "b", 5.0),
        ("m", "c", 9.0),
        ("r", "a", 1.5),
        ("r", "b", 4.0),
        ("r", "d", 0.0),
    ]
    cases = pd.DataFrame([("t", m, u, e, 1.0, 0.0, e) for m, u, e in rows], columns=CASE_COLUMNS)
    mine, reference = lines(cases, "r", ["m", "r"])
    assert mine.units == 3
    assert mine.means["error"] == pytest.approx((2 + 5 + 9) / 3)
    differences = np.array([2 - 1.5, 5 - 4])
    assert mine.differences["error"] == pytest.approx((differences.mean(), differences.std(ddof=1) / np.sqrt(2)))
    assert not reference.differences
    assert np.isnan(standard_error(np.array([1.0])))


def test_the_error_of_a_table_is_the_share_of_people_in_a_wrong_cell():
    rng = np.random.default_rng(1)
    cells = rng.integers(1, 50, (6, 3, 2)).astype(float)
    case = tables.of_cells("t", cells, "demographic")
    guess = rng.dirichlet(np.ones(2), 3)
    whole = cells.sum(axis=0)
    wrong = 50 * np.abs(guess * whole.sum(axis=1, keepdims=True) - whole).sum() / whole.sum()
    assert bench.judge(case, guess)[0] == pytest.approx(wrong)
    np.testing.assert_array_equal(case.given["groups"], cells.sum(axis=2))


def _survey(n_places=6, households=400):
    rng = np.random.default_rng(2)
    household = np.repeat(np.arange(households), 2)
    frame = {c: rng.integers(0, 3, len(household)) for c in (*labels.FEATURES, *labels.ASKED)}
    frame |= {"place": household // 2 % n_places, "weight": rng.integers(1, 9, len(household)), "household": household}
    people = pd.DataFrame(frame | {"label": rng.integers(0, 2, len(household))})
    return people, pd.DataFrame({"lon": np.zeros(n_places), "lat": np.arange(n_places) * 1.0})


def test_composition_and_totals_of_a_hidden_label_come_from_different_people():
    people, places = _survey()
    first = people["household"] % 2 == 0
    case = labels.ask(people[first], people[~first], people, places, "label", "health")
    assert set(case.given["household"].tolist()) == set(people["household"][first])
    other = people[~first]
    rate = [np.average(g["label"], weights=g["weight"]) for _, g in other.groupby("place")]
    places_there = sorted(other["place"].unique())
    given = case.given["place_yes"][places_there] / case.given["place_all"][places_there]
    np.testing.assert_allclose(given, rate)
    changed = people.assign(label=np.where(first, 1 - people["label"], people["label"]))
    again = labels.ask(changed[first], changed[~first], changed, places, "label", "health")
    for name, values in case.given.items():  # the answers of those who make up the composition reach no method
        np.testing.assert_array_equal(values, again.given[name])
    assert not any("disability" in name for name in case.given)


@pytest.mark.parametrize("name", bench.TASKS)
def test_every_task_loads_or_says_what_is_missing(name, monkeypatch):
    task = bench.TASKS[name]
    assert task.reference in {m.name for m in bench.METHODS if m.answers(task)}
    if not task.missing():
        case = next(iter(task.cases(Path(os.environ.get("CROSSLEVEL_DATA", ".")), False)))
        assert np.isfinite(case.truth).all()
        assert np.shape(case.cost) in ((), case.truth.shape)
        flat = [np.ravel(v) for v in case.given.values() if np.size(v) == case.truth.size and v.dtype.kind == "f"]
        assert not any(np.allclose(v, case.truth) for v in flat)
    monkeypatch.delenv("CROSSLEVEL_DATA", raising=False)
    if task.needs:
        assert task.missing()
        with pytest.raises(FileNotFoundError):
            task.load()


def test_families_and_states_that_are_scored_are_not_those_learned_from():
    assert not set(labels.LEARNED) & set(labels.SCORED)
    assert not {n for names in labels.FRESH.values() for n in names} & {
        n for names in labels.OLD.values() for n in names
    }


TRUTH = {
    "D1, mixed": lambda x1, x2, b: [np.mean(1.5 * np.cos(1.5 * x1) + 0.4 * b), np.mean(x2), 0.8 + 0.4 * np.mean(x1)],
    "D2, smooth": lambda x1, x2, x3: [np.mean(np.cos(x1) + 0.6 * x3), np.mean(x2), 0.6 * np.mean(x1)],
    "D8, lines": lambda *x: [1.0, 0.5, -0.3, 0.0],
    "D10, nothing": lambda *x: [0.0] * 4,
    "E3, confounded": lambda x1, x2, t: [1 + 0.5 * t.mean(), x2.mean(), 1 + 0.5 * x1.mean()],
    "E4, kinks": lambda x1, x2, x3: [np.sign(x1).mean(), (x2 > 0).mean(), -0.5 * (x3 > 1).mean()],
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_is_the_average_effect_of_the_written_function(name):
    design = effects.DESIGNS[name]
    X = design.covariates(np.random.default_rng(3))
    np.testing.assert_allclose(effects.average_effects(design, X), TRUTH[name](*X.T), atol=1e-7)


def test_bags_are_those_of_the_published_experiments():
    seeds = np.random.RandomState(23).randint(2**32, size=4, dtype=np.int64)
    assert seeds.tolist() == [2221777491, 2873750246, 4067173416, 794519497]
    _, offsets, y = bags.draw(794519497, 1000, (0.5, 0.25, 0.25), 0.0)
    np.testing.assert_allclose(y[:4], [6.46668326, 7.28871316, 6.2159419, 6.47136126], atol=5e-9)
    assert sorted(set(np.diff(offsets).tolist())) == [5, 20, 100]


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_optimum_is_the_posterior_of_the_known_family(noise, monkeypatch):
    monkeypatch.syspath_prepend(str(environments.WORKER.parent))
    optimum = importlib.import_module("methods.bags").optimum
    values, offsets, _ = bags.draw(3, 8, (1.0, 0.0, 0.0), noise)
    mean, low, high = optimum({"noise": np.array(noise), "test_values": values, "test_offsets": offsets})
    c, grid = np.linspace(1e-9, 20.0, 20_001), np.linspace(4, 8, 101)
    x = values[: offsets[1]].ravel()

    def density(k):
        if noise == 0:
            return stats.gamma.pdf(x, k / 2, scale=2 / k)
        return np.trapezoid(stats.gamma.pdf(c, k / 2, scale=2 / k) * stats.norm.pdf(x[:, None] - c), c, axis=1)

    log_p = np.array([np.log(density(k)).sum() for k in grid])
    p = np.exp(log_p - log_p.max())
    assert mean[0] == pytest.approx(np.trapezoid(p * grid, grid) / np.trapezoid(p, grid), abs=0.01)
    assert (low < mean).all()
    assert (mean < high).all()


def test_a_method_in_a_process_of_its_own_is_scored_as_in_this_one(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n\n\ndef line(given):\n    if len(given['y']) == 100:\n        raise ValueError('too few')\n"
        "    assert set(given) == {'X', 'y'}\n    return np.linalg.lstsq(given['X'], given['y'], rcond=None)[0]\n"
    )
    task = bench.TASKS["effects"]
    cases = [c for c in task.load() if c.unit in ("D2, smooth", "E10, one column")]
    done = ask(Method("line", "effects", f"{file}:line"), task, cases, 60, False)
    assert [done.summary[i] for i in (2, 3, 6)] == [8, 4, "ValueError: too few"]
    for row, case in zip(done.rows, cases, strict=False):
        estimate = np.linalg.lstsq(case.given["X"], case.given["y"], rcond=None)[0]
        assert row[3] == pytest.approx(bench.judge(case, estimate)[0], abs=1e-4)
    shown = page.tables([done], [task])
    assert "line (4 of 8 cases)" in shown


def test_what_is_not_installed_keeps_its_row(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    environments.r_version.cache_clear()
    task = bench.TASKS["effects"]
    done = ask(Method("R KRLS", "effects", "krls", "R:KRLS"), task, task.load()[:1], 60, False)
    assert done.rows == []
    assert "not installed" in page.tables([done], [task])
    environments.r_version.cache_clear()


def test_methods_import_nothing_of_the_benchmark():
    names = {m.function.partition(":")[0] for m in bench.METHODS if not m.environment.startswith("R:")}
    folder = environments.WORKER.parent
    for name in names:
        assert "bench" not in (folder / f"{name.replace('.', '/')}.py").read_text().replace("benchmark", "")
    assert sys.executable == environments.interpreter("")[0]
