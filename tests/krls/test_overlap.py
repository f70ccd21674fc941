"""Overlap of groups, effects where they overlap, effects sorted by size, clusters after the fit, axes of pictures."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.krls import KernelLogistic
from crosslevel.krls.overlap import alone, overlap_weights


def world(n=300, seed=0, apart=0.0, heterogeneous=True):
    """Age and income; treated are older by ``apart`` standard deviations; the effect is that of age."""
    rng = np.random.default_rng(seed)
    treated = (rng.uniform(size=n) < 0.5).astype(float)
    age = rng.normal(size=n) + apart * treated
    X = pd.DataFrame({"age": age, "income": rng.normal(size=n), "treated": treated})
    effect = age if heterogeneous else np.full(n, 0.5)
    y = 0.5 * X["income"] + treated * effect + 0.5 * rng.normal(size=n)
    return X, np.asarray(y), effect


def quiet_fit(model, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return model.fit(*given, **named)


def test_groups_that_do_not_overlap_are_said_aloud():
    X, y, _ = world(apart=5.0)
    with pytest.warns(CrosslevelWarning):
        model = cl.KRLS().fit(X, y)
    assert any("overlap little" in w for w in model.warnings_)
    assert any("overlap little" in w for w in model.effects().warnings)
    found = model.overlap()
    assert found["term"].tolist() == ["treated"]
    assert found["estimate"][0] > 0.9
    assert found["people"][0] + found["people_reference"][0] == len(X)


def test_groups_that_overlap_are_not():
    X, y, _ = world()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CrosslevelWarning)
        model = cl.KRLS().fit(X, y)
    assert model.overlap()["estimate"][0] < 0.05
    derivatives = quiet_fit(cl.KRLS(), X[["age", "income"]], y)
    with pytest.raises(InputError):
        derivatives.overlap()


def test_neighbors_are_counted_by_hand():
    """One covariate: a neighbor is within one standard deviation of the arms, here 1.01 of x."""
    x = np.array([0.0, 0.1, 0.2, 0.3, 4.0, 4.1, 0.35, 0.15])
    t = np.array([0, 0, 0, 0, 1, 1, 1, 0.0])
    model = quiet_fit(cl.KRLS(0.1), np.column_stack([x, t]), x)
    effect = next(e for e in model._effects if e.switch is not None)
    found = alone(effect, model._model.kernel.Z, model._model.cells.m)
    assert (found.n_high, found.n_low) == (3.0, 5.0)
    assert found.high == pytest.approx(2 / 3)
    assert found.low == 0.0
    assert found.share == pytest.approx(2 / 8)


def test_factors_are_compared_level_by_level_with_their_reference():
    rng = np.random.default_rng(3)
    arm = np.repeat(["control", "letter", "visit"], 60)
    age = rng.normal(size=180) + np.where(arm == "visit", 6.0, 0.0)
    model = quiet_fit(
        cl.KRLS(reference={"arm": "control"}), pd.DataFrame({"age": age, "arm": arm}), age + rng.normal(size=180)
    )
    found = dict(zip(model.overlap()["term"].tolist(), model.overlap()["estimate"].tolist(), strict=True))
    assert found["arm: letter (reference control)"] < 0.05
    assert found["arm: visit (reference control)"] > 0.9
    assert model.effects(target="overlap", by=None)["term"].tolist() == list(found)


def test_overlap_weights_are_those_of_the_propensity():
    """With a binary confounder the weight of a person is n1 n0 / n of their stratum, up to the shrinkage of the ridge."""
    rng = np.random.default_rng(1)
    z = (rng.uniform(size=2000) < 0.5).astype(float)
    t = (rng.uniform(size=2000) < np.where(z == 1, 0.9, 0.4)).astype(float)
    y = t * (1 + 2 * z) + 0.1 * rng.normal(size=2000)
    model = quiet_fit(cl.KRLS(), np.column_stack([z, t]), y)
    effect = model._effects[1]
    h = overlap_weights(effect, model._model)
    cells = model._model.cells
    assert h.sum() == pytest.approx(1.0)
    share = h[cells.X[:, 0] == 1].sum()
    n = {v: (z == v).sum() * t[z == v].mean() * (1 - t[z == v].mean()) for v in (0, 1)}
    assert share == pytest.approx(n[1] / (n[0] + n[1]), abs=0.01)
    found = model.effects(target="overlap").select(term="x1")
    assert found["estimate"][0] == pytest.approx(1 + 2 * share, abs=0.05)
    assert "overlap" in found.interval


def test_overlap_effects_cover_where_averages_extrapolate():
    inside, widths = [], []
    for seed in range(6):
        X, y, _ = world(250, seed, apart=1.5)
        model = quiet_fit(cl.KRLS(), X, y)
        term = next(e for e in model._effects if e.switch is not None)
        h = overlap_weights(term, model._model)
        truth = h @ model._model.cells.X[:, 0]
        found = model.effects(target="overlap")
        inside.append(found["conf_low"][0] <= truth <= found["conf_high"][0])
        widths.append(found["std_error"][0] / model.effects().select(term="treated")["std_error"][0])
    assert sum(inside) >= 5
    assert np.mean(widths) < 1.0


def test_overlap_by_subgroup_and_covariance_agree():
    X, y, _ = world(200)
    model = quiet_fit(cl.KRLS(), X.assign(sex=np.arange(200) % 2), y)
    found = model.effects(target="overlap", by={"young": "age < 0", "old": "age >= 0"})
    covariance = model.effects_covariance(target="overlap", by={"young": "age < 0", "old": "age >= 0"})
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), found["std_error"])
    rows = found.select(term="treated")
    assert dict(zip(rows["subgroup"].tolist(), rows["estimate"], strict=True))["old"] > 0.3
    whole = model.effects(target="overlap").select(term="treated")["estimate"][0]
    assert min(rows["estimate"]) < whole < max(rows["estimate"])


def test_nobody_in_both_groups_is_refused():
    z = np.repeat([0.0, 1.0], 30)
    X = pd.DataFrame({"z": z + 0.001 * np.arange(60), "t": z})
    model = quiet_fit(cl.KRLS(1e-6), X, z)
    weights = overlap_weights(model._effects[1], model._model)
    assert np.isfinite(weights).all()


def test_clusters_after_the_fit_are_those_of_the_fit():
    X, y, _ = world(120)
    village = np.arange(120) // 6
    w = 1.0 + (np.arange(120) % 3)
    for cls in (cl.KRLS, KernelLogistic):
        target = y if cls is cl.KRLS else (y > 0).astype(int)
        before = quiet_fit(cls(), X, target, sample_weight=w, cluster=village)
        after = quiet_fit(cls(), X, target, sample_weight=w)
        wanted, found = before.effects(), after.effects(cluster=village)
        for column in ("estimate", "std_error", "conf_low", "p_value"):
            np.testing.assert_allclose(found[column], wanted[column], rtol=1e-9)
        assert "CR3, 20 clusters" in found.interval
        np.testing.assert_allclose(after.effects_covariance(cluster=village), before.effects_covariance(), rtol=1e-9)
        assert "CR3" not in after.effects().interval
    with pytest.raises(InputError):
        after.effects(cluster=[1, 2, 3])
    with pytest.raises(InputError):
        after.effects(cluster=np.zeros(120))


def test_a_saved_model_holds_no_outcome_for_clusters(tmp_path):
    X, y, _ = world(60)
    cl.save(quiet_fit(cl.KRLS(), X, y), tmp_path / "m.crosslevel", allow_rows=True)
    again = cl.load(tmp_path / "m.crosslevel")
    assert again.overlap()["estimate"].shape == (1,)
    with pytest.raises(InputError):
        again.effects(cluster=np.arange(60) // 5)
    with pytest.raises(InputError):
        again.sorted_effects("treated", n_groups=2)


def test_sorted_effects_find_who_gains_and_hold_all_groups_at_once():
    X, y, _ = world(500, seed=4)
    model = quiet_fit(cl.KRLS(), X, y)
    found = model.sorted_effects("treated", n_groups=4, n_splits=3)
    assert found.keys == ("term", "group")
    assert (np.diff(found["estimate"]) > 0).all()
    # fourths of a standard normal effect have means -1.27, -.32, .32, 1.27; imperfect sorting pulls them together
    assert found["estimate"][-1] == pytest.approx(1.27, abs=0.35)
    assert found["estimate"][0] == pytest.approx(-1.27, abs=0.35)
    assert found["p_equal"][0] < 1e-4
    wide = (found["conf_high"] - found["conf_low"]) / (2 * found["std_error"])
    assert (wide > 2.2).all()
    again = model.sorted_effects("treated", n_groups=4, n_splits=3)
    assert again["estimate"].tolist() == found["estimate"].tolist()


def test_sorted_effects_of_one_effect_for_all_see_no_difference():
    """Sorting by noise must not make groups differ: the bands hold the common effect in all groups of every world."""
    held, small = [], []
    for seed in range(5):
        X, y, _ = world(240, seed, heterogeneous=False)
        found = quiet_fit(cl.KRLS(), X, y).sorted_effects(n_groups=3, n_splits=1, random_state=seed)
        held.append(bool(((found["conf_low"] < 0.5) & (found["conf_high"] > 0.5)).all()))
        small.append(found["p_equal"][0] < 0.02)
    assert sum(held) >= 4
    assert sum(small) <= 1


def test_the_halves_of_one_split_are_not_taken_as_independent():
    """A half is sorted by the other's errors, so that both err to the same side: the bound for any dependence is used.

    Taken as independent, 12 % of 150 worlds with one effect for all had p_equal < 0.05; differences of the halves correlate by 0.64.
    """
    X, y, _ = world(120, 1, heterogeneous=False)
    model = quiet_fit(cl.KRLS(), X, y)
    rng = np.random.default_rng([1, 0])
    side, table = rng.permutation(120) % 2 == 0, pa.Table.from_pandas(X, preserve_index=False)
    place = list(model.effect_names_).index("treated")
    found = [model._sort_half(place, table, y, ~s, s, 2, rng)[1] for s in (side, ~side)]
    wanted = np.sqrt(0.5 * np.diag(found[0] + found[1]))
    np.testing.assert_allclose(
        model.sorted_effects(n_groups=2, n_splits=1, random_state=1)["std_error"], wanted, rtol=1e-9
    )


def test_sorted_effects_keep_factors_clusters_and_weights():
    rng = np.random.default_rng(2)
    arm = rng.choice(["control", "letter", "visit"], 240)
    X = pd.DataFrame({"age": rng.normal(size=240), "arm": arm})
    y = np.where(arm == "visit", X["age"], 0.0) + 0.3 * rng.normal(size=240)
    model = quiet_fit(
        cl.KRLS(reference={"arm": "control"}), X, y, sample_weight=1 + np.arange(240) % 2, cluster=np.arange(240) // 3
    )
    found = model.sorted_effects("arm: visit", n_groups=2, n_splits=1)
    assert found["term"].tolist() == ["arm: visit (reference control)"] * 2
    assert found["estimate"][1] > found["estimate"][0] + 0.5


@pytest.mark.parametrize(
    "given",
    [{"term": "treatd"}, {"n_groups": 1}, {"n_groups": 40}, {"n_splits": 0}, {"level": 95}],
)
def test_bad_questions_are_refused(given):
    X, y, _ = world(80)
    model = quiet_fit(cl.KRLS(), X, y)
    with pytest.raises(InputError):
        model.sorted_effects(**given)
    with pytest.raises(InputError, match="target="):
        model.effects(target="everybody")


def test_several_comparisons_need_a_name():
    X, y, _ = world(80)
    model = quiet_fit(cl.KRLS(), X.assign(sex=np.arange(80) % 2), y)
    with pytest.raises(InputError, match="term="):
        model.sorted_effects(n_groups=2)


def test_pictures_do_not_open_on_two_heaps_of_dots():
    X, y, _ = world(80)
    model = quiet_fit(cl.KRLS(), X[["treated", "age", "income"]], y)
    assert model.plot_effect("treated").get_xlabel() == "age"
    assert model.plot_effect("income").get_xlabel() == "income"
    assert model.plot_effect("treated", along="treated").get_xlabel() == "treated"
    from crosslevel.charts.kinds import charts_of

    chart = charts_of(model._report_tables()["rows"])[0]
    along = {c.name: c for c in chart.choices}["along"]
    assert along.options[along.start][1] == "age"


def test_labels_after_the_fit_are_matched_by_the_index_of_x():
    X, y, _ = world(80)
    X.index = pd.Index([f"p{i}" for i in range(80)])
    village, half = pd.Series(np.arange(80) // 4, X.index), pd.Series(np.arange(80) % 2, X.index, name="half")
    model = quiet_fit(cl.KRLS(), X, y)
    wanted = model.effects(cluster=village.to_numpy(), by=half.to_frame())
    order = np.random.default_rng(0).permutation(80)
    found = model.effects(cluster=village.iloc[order], by=half.iloc[order].to_frame())
    for column in ("estimate", "std_error"):
        np.testing.assert_allclose(found[column], wanted[column], rtol=1e-12)
    with pytest.raises(InputError):
        model.effects(cluster=village.set_axis([f"q{i}" for i in range(80)]))


def test_a_subgroup_that_no_group_can_be_in_is_named():
    X, y, _ = world(90)
    region = np.array(["north", "south", "west"])[np.arange(90) % 3]
    model = quiet_fit(cl.KRLS(), X.assign(region=region), y)
    with pytest.raises(InputError):
        model.effects(target="overlap", by="region")


def test_one_effect_for_everybody_has_nothing_to_test():
    """Without another covariate the fitted effect is one number, and its differences have no covariance to invert."""
    X, y, _ = world(80)
    found = quiet_fit(cl.KRLS(), X[["treated"]], y).sorted_effects(n_groups=2, n_splits=1)
    assert found["p_equal"].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(found["estimate"][0], found["estimate"][1])
