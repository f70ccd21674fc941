"""Selection of respondents, measured on columns that survey and people both have."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import crosslevel as cl
from crosslevel.ecological.persons.learner import solve_columns, solve_selection
from crosslevel.errors import CrosslevelWarning, InputError

Q, LABELS = 40, ["owns", "works", "insured", "drives"]
PEOPLE = {"by": "town", "columns": ["race", "age"], "cluster": "house"}


def draw(rng, composition, places, n):
    """People of every town: two columns, and five answers that depend on them and on the town."""
    town = np.repeat(np.arange(Q), n)
    race = np.array([rng.choice(3, n, p=p) for p in composition]).ravel()
    age = rng.integers(0, 3, Q * n)
    frame = pd.DataFrame({"town": [f"t{i:02d}" for i in town], "race": race.astype(str), "age": age.astype(str)})
    for j, name in enumerate([*LABELS, "voted"]):
        effect = np.random.default_rng(j).normal(0, 0.7, (3, 2))
        eta = effect[race, 0] + effect[age, 1] + places[town, j]
        frame[name] = (rng.uniform(size=Q * n) < 1 / (1 + np.exp(-eta))).astype(int)
    return frame


def make(selected=0.0, n=6000, seed=0):
    """Towns with totals, and a survey in which the races answer more or less often when they say yes."""
    rng = np.random.default_rng(seed)
    composition, places = rng.dirichlet([2.0, 1.5, 1.0], Q), rng.normal(0, 0.3, (Q, 5))
    people, everybody = draw(rng, composition, places, 300), draw(rng, composition, places, 3000)
    people["house"] = np.arange(len(people)) // 2
    totals = everybody.groupby("town").voted.agg(["sum", "size"]).reset_index()
    totals.columns = ["town", "yes", "all"]
    by_race = selected * np.array([1.0, -1.0, 0.0])[everybody.race.astype(int)]
    odds = np.exp(sum(by_race * everybody[name] for name in [*LABELS, "voted"]))
    survey = everybody.iloc[rng.choice(len(everybody), n, p=odds / odds.sum())]
    return people, totals, survey


def fitted(world, **given):
    people, totals, rows = world
    survey = None if rows is None else cl.Survey(rows, outcome="voted", by="town", **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(spatial=None).fit(
            cl.People(people, **PEOPLE), cl.Places(totals, by="town", successes="yes", trials="all"), survey
        )


@pytest.fixture(scope="module")
def worlds():
    return {selected: make(selected) for selected in (0.0, 0.5)}


@pytest.fixture(scope="module")
def models(worlds):
    found = {selected: fitted(world) for selected, world in worlds.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        for model in found.values():
            model.learn_confounding(labels=LABELS, survey=True)
    return found


def test_selection_is_found_where_there_is_any(models):
    none, some = (models[s].survey_.selection for s in (0.0, 0.5))
    assert none.sd < 0.1
    assert 0.2 < some.sd < 1.2  # one column of two is selected, by half a logit either way
    assert some.origin == "measured on 4 columns that survey and people both have"
    assert some.table["label"].to_pylist() == LABELS


def test_the_column_that_is_selected_has_the_larger_selection(models):
    none, some = (models[s].survey_.selection for s in (0.0, 0.5))
    assert set(some.columns) == {"race", "age"}
    assert some.columns["race"] > some.sd > some.columns["age"]
    assert some.columns["race"] > 2.0 * some.columns["age"]
    assert max(none.columns.values()) < 0.1
    sds = models[0.5].model_.surveyed.confounding[0].selection
    names = models[0.5].model_.bins.names
    np.testing.assert_array_equal(sds, np.repeat([some.columns[name] for name in names], 3))
    said = f"race {some.columns['race']:.2g}, age {some.columns['age']:.2g}"
    assert models[0.5].convergence_["selection_by_column"] == said
    assert any(f"by column: {said}." in text for text in models[0.5].survey_.said)


@pytest.mark.parametrize("left", ["race", "age"])
def test_a_column_that_left_the_features_of_every_label_has_the_pooled_selection(worlds, left):
    """Columns are matched by their names: whichever leaves, the other is the first of those that are left."""
    model = fitted(worlds[0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model.learn_confounding(labels=LABELS, survey=True, hidden={name: [left] for name in LABELS})
    found = model.survey_.selection
    (other,) = {"race", "age"} - {left}
    assert found.sd > 0.0
    assert found.columns[left] == pytest.approx(found.sd, rel=1e-9)
    assert found.columns[other] != pytest.approx(found.sd, rel=1e-6)


def test_answers_allow_for_what_was_measured(models, worlds):
    widths = {s: models[s].estimate("race", rollup="all", n_draws=400) for s in (0.0, 0.5)}
    narrow, wide = (np.mean(found["conf_high"] - found["conf_low"]) for found in widths.values())
    assert wide > 1.5 * narrow
    assert models[0.5].convergence_["selection_sd"] == models[0.5].survey_.selection.sd
    said = [text for text in widths[0.5].warnings if "may differ from its people" in text]
    assert len(said) == 1
    assert "measured on 4 columns" in said[0]


def test_confounding_that_was_learned_is_in_the_prior(worlds):
    model = fitted(worlds[0.0], selection=0.0)
    before = model.model_.surveyed.confounding[0].covariance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        model.learn_confounding(labels=LABELS)
    assert model.survey_.selection.origin == "as stated in fit"
    assert not np.allclose(model.model_.surveyed.confounding[0].covariance, before)


def test_too_few_columns_or_respondents_leave_the_default(worlds):
    people, totals, survey = worlds[0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        few = fitted((people, totals, survey.drop(columns=LABELS[2:]))).learn_confounding(labels=LABELS, survey=True)
        small = fitted((people, totals, survey[:900])).learn_confounding(labels=LABELS, survey=True)
    assert few.survey_.selection.sd == small.survey_.selection.sd == 0.1
    assert not few.survey_.selection.columns
    assert (few.model_.surveyed.confounding[0].selection == 0.1).all()
    assert few.convergence_["selection_by_column"] == "as for all"
    assert "2 hidden column(s)" in few.survey_.selection.origin
    assert "900 respondents" in small.survey_.selection.origin
    assert any("2 hidden column(s)" in text for text in few.estimate("race", n_draws=50).warnings)


def test_what_cannot_act_is_refused(worlds, tmp_path):
    people = worlds[0.0][0]
    with pytest.raises(InputError, match="survey="):
        fitted((*worlds[0.0][:2], None)).learn_confounding(labels=LABELS, survey=True)
    with pytest.raises(InputError, match="selection="):
        fitted(worlds[0.0], selection=0.2).learn_confounding(labels=LABELS, survey=True)
    with pytest.raises(InputError, match="survey="):
        fitted(worlds[0.0]).learn_confounding(labels=LABELS, survey="yes")
    cl.save(fitted(worlds[0.0]), tmp_path / "model")
    loaded = cl.load(tmp_path / "model")
    for call in (
        lambda: loaded.learn_confounding(LABELS, people=people),
        lambda: loaded.sensitivity("race", people=people, n_draws=50),
    ):
        with pytest.raises(InputError):
            call()


def test_squared_errors_are_as_large_as_they_should_be():
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(200):
        V, K = rng.uniform(0.01, 0.05, 8), rng.uniform(0.5, 1.0, 8)
        parts.append((rng.normal(size=8) * np.sqrt(V + 0.15**2 * K), V, K))
    assert solve_selection(parts) == pytest.approx(0.15, abs=0.02)
    assert solve_selection([(0.0 * e, V, K) for e, V, K in parts]) == 0.0
    assert solve_selection([(100.0 + e, V, K) for e, V, K in parts]) == 2.0


def linear_gaussian(sds, n_labels=10, groups=8, seed=0):
    """Errors of groups of labels: what the sampling of answers leaves, and the selection of levels that all groups of a label share."""
    rng = np.random.default_rng(seed)
    levels = 4
    parts = []
    for _ in range(n_labels):
        H = rng.normal(size=(groups, len(sds), levels)) / np.sqrt(levels)
        delta = rng.normal(size=(len(sds), levels)) * np.array(sds)[:, None]
        V = rng.uniform(0.001, 0.003, groups)
        parts.append((np.einsum("gcl,cl->g", H, delta) + rng.normal(size=groups) * np.sqrt(V), V, (H**2).sum(axis=2)))
    return [np.concatenate(values) for values in zip(*parts, strict=True)]


def densities(u, e, V, K, sd, counted):
    """Log density of errors with columns' ratios u, a group counted as stated, and of the ratios themselves."""
    W = V + K @ (sd * np.exp(u)) ** 2
    return counted * stats.norm.logpdf(e, 0.0, np.sqrt(W)).sum() + stats.norm.logpdf(u).sum()


@pytest.mark.parametrize("counted", [0.125, 0.25])
def test_selection_of_columns_is_the_mode_by_brute_force(counted):
    e, V, K = linear_gaussian([0.3, 0.05])
    sd = solve_selection([(e, V, K.sum(axis=1))])
    grid = np.linspace(-3.0, 2.0, 251)
    values = [[densities(np.array([a, b]), e, V, K, sd, counted) for b in grid] for a in grid]
    best = np.unravel_index(np.argmax(values), (251, 251))
    found = np.log(solve_columns(e, V, K, sd, counted) / sd)
    np.testing.assert_allclose(found, grid[list(best)], atol=0.02)  # the step of the grid
    assert np.max(values) <= densities(found, e, V, K, sd, counted) < np.max(values) + 1e-3


def test_selection_of_one_column_is_told_from_that_of_others():
    true, found = np.array([0.3, 0.05, 0.05]), []
    for seed in range(20):
        e, V, K = linear_gaussian(true, seed=seed)
        sd = solve_selection([(e, V, K.sum(axis=1))])
        found.append([*solve_columns(e, V, np.column_stack([K, 0.0 * e]), sd), sd])
    first, second, third, untold, pooled = np.mean(found, axis=0)
    assert first == pytest.approx(0.3, abs=0.05)
    assert max(second, third) < 0.7 * pooled  # shrunk to the pooled one, as 20 groups' worth tell
    assert untold == pytest.approx(pooled, rel=1e-6)
    assert (np.array(found)[:, 0] > np.array(found)[:, 4]).all()
