import numpy as np
import pandas as pd
import pytest

from crosslevel.errors import ConvergenceError, CrosslevelWarning, InputError
from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.results import load, save

METHODS = ("two_stage", "map", "mcem", "hard")
WAYS = [(m, law) for m in METHODS for law in ("cudia", "count") if (m, law) != ("map", "count")]
few = pytest.mark.filterwarnings("ignore:.*groups only:crosslevel.errors.CrosslevelWarning")


def binary_world(seed=0, groups=24, size=60, K=3):
    """People with a category and a number, and two hidden features, one binary and one real."""
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(K, 1.5), groups)
    group = np.repeat(np.arange(groups), size)
    z = (rng.random(len(group))[:, None] > np.cumsum(pi, axis=1)[group]).sum(axis=1).clip(0, K - 1)
    table = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    kind = (rng.random(len(group))[:, None] > np.cumsum(table, axis=1)[z]).sum(axis=1).clip(0, 2)
    number = rng.integers(0, 2, len(group)) + (z == 2)
    X = pd.DataFrame({"kind": np.array(["a", "b", "c"])[kind], "number": number})
    ill = (rng.random(len(group)) < np.array([0.05, 0.3, 0.7])[z]).astype(float)
    income = np.array([1.0, 3.0, 2.0])[z] + 0.5 * rng.normal(size=len(group))
    places = pd.Series(np.array([f"p{i:02d}" for i in range(groups)])[group], name="place")
    means = pd.DataFrame({"place": places, "ill": ill, "income": income}).groupby("place").mean().reset_index()
    return X, places, means, ill, income


@pytest.mark.parametrize(("method", "likelihood"), WAYS)
def test_every_soft_method_beats_the_group_mean_and_all_keep_it_exactly(method, likelihood):
    X, places, means, ill, income = binary_world()
    model = CUDIA(3, method=method, likelihood=likelihood, n_restarts=3).fit(X, places, means)
    values = model.transform(X, places)
    naive = means.set_index("place").loc[places, ["ill", "income"]].to_numpy()
    truth = np.column_stack([ill, income])
    # hard clusters are biased where clusters overlap: at the lowest objective they are no better than the group mean here
    most = 1.05 if method == "hard" else 0.93
    assert (((values - truth) ** 2).mean(axis=0) < most * ((naive - truth) ** 2).mean(axis=0)).all()
    assert ((values[:, 0] > 0) & (values[:, 0] < 1)).all()
    own = pd.DataFrame(values, columns=["ill", "income"]).groupby(places.to_numpy()).mean()
    assert np.abs(own.to_numpy() - means[["ill", "income"]].to_numpy()).max() < 1e-10
    eta = model.parameters_.H[:, 0]
    assert ((eta >= 0) & (eta <= 1)).all()
    draws = model.sample(X, places, n_draws=3)
    assert draws.shape == (3, len(X), 2)
    assert set(np.unique(draws[:, :, 0])) == {0.0, 1.0}
    for draw in draws:
        own = pd.DataFrame(draw, columns=["ill", "income"]).groupby(places.to_numpy()).mean()
        assert np.abs(own.to_numpy() - means[["ill", "income"]].to_numpy()).max() < 1e-10


@few
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("two_stage", {}),
        ("map", {}),
        ("mcem", {}),
        ("mcem", {"likelihood": "count"}),
    ],
)
def test_soft_methods_reach_the_known_error_of_the_papers_simulation(two_gaussians_world, method, options):
    errors, oracle = [], []
    for seed in range(8):
        x, u, group, s, pi = two_gaussians_world(seed)
        model = CUDIA(2, method=method, n_restarts=2, **options).fit({"x": x}, group, s)
        errors.append(np.mean((u - model.transform({"x": x}, group, match_means=False)[:, 0]) ** 2))
        odds = pi[group, 1] / pi[group, 0] * np.exp(x / 0.07)
        oracle.append(np.mean((u - (odds / (1 + odds) - 0.5)) ** 2))
    assert np.mean(errors) - np.mean(oracle) < 0.002


@few
@pytest.mark.slow
@pytest.mark.parametrize("method", ["two_stage", "map", "mcem"])
def test_fifty_seeds_of_the_papers_simulation(two_gaussians_world, method):
    errors = []
    for seed in range(50):
        x, u, group, s, _ = two_gaussians_world(seed)
        model = CUDIA(2, method=method, n_restarts=2).fit({"x": x}, group, s)
        errors.append(np.mean((u - model.transform({"x": x}, group, match_means=False)[:, 0]) ** 2))
    assert np.mean(errors) == pytest.approx(0.0866, abs=0.002)


@pytest.fixture
def two_gaussians_world():
    def draw(seed, groups=6, size=160):
        rng = np.random.default_rng(seed)
        pi = np.maximum(rng.dirichlet([1, 1], groups), 1e-9)
        group = np.repeat(np.arange(groups), size)
        z = rng.random(len(group)) < pi[group, 1]
        xu = np.where(z, 0.5, -0.5)[:, None] + rng.normal(size=(len(group), 2)) * np.sqrt(0.07)
        return xu[:, 0], xu[:, 1], group, np.bincount(group, xu[:, 1]) / size, pi

    return draw


def test_the_answer_does_not_depend_on_the_order_of_people_or_names_of_groups():
    X, places, means, _, _ = binary_world()
    model = CUDIA(3, method="map").fit(X, places, means)
    order = np.random.default_rng(1).permutation(len(X))
    renamed = places.map(lambda v: f"z{v}")
    other = CUDIA(3, method="map").fit(
        X.iloc[order],
        renamed.iloc[order].to_numpy(),
        means.assign(partition="z" + means["place"]).drop(columns="place"),
    )
    a = model.transform(X, places)
    b = other.transform(X.iloc[order], renamed.iloc[order].to_numpy())
    assert b == pytest.approx(a[order], abs=1e-6)


def test_weights_of_two_are_people_twice():
    X, places, means, _, _ = binary_world(size=40)
    model = CUDIA(3, method="two_stage").fit(X, places, means)
    twice = CUDIA(3, method="two_stage").fit(X, places, means, sample_weight=np.full(len(X), 2.0))
    assert twice.transform(X, places) == pytest.approx(model.transform(X, places), abs=1e-9)


def test_missing_values_and_missing_means_are_left_out():
    X, places, means, _, _ = binary_world()
    X = X.astype({"number": float})
    X.loc[::7, "number"] = np.nan
    means.loc[3, "ill"] = np.nan
    model = CUDIA(3, method="map").fit(X, places, means)
    values = model.transform(X, places)
    assert np.isfinite(values).all()
    assert model.clusters()["estimate"].shape == (6,)


@pytest.mark.parametrize("likelihood", ["cudia", "count"])
def test_a_partition_per_feature(likelihood):
    X, places, means, _, income = binary_world()
    region = pd.Series([f"r{int(p[1:]) // 4}" for p in places], name="region")
    by_region = pd.DataFrame({"region": region, "income": income}).groupby("region").mean().reset_index()
    labels = pd.DataFrame({"place": places, "region": region})
    tables = {"place": means[["place", "ill"]], "region": by_region}
    with pytest.warns(CrosslevelWarning):
        model = CUDIA(3, n_restarts=2, likelihood=likelihood, allow_unconverged=True).fit(X, labels, tables)
    for values in (model.transform(X, labels), model.sample(X, labels, n_draws=2)[1]):
        own = pd.Series(values[:, 1]).groupby(region.to_numpy()).mean()
        assert own.to_numpy() == pytest.approx(by_region["income"].to_numpy(), abs=1e-10)
        own = pd.Series(values[:, 0]).groupby(places.to_numpy()).mean()
        assert own.to_numpy() == pytest.approx(means["ill"].to_numpy(), abs=1e-10)
    with pytest.raises(InputError):
        model.fit(X, labels, {"place": means, "region": by_region})


def test_the_error_of_a_mean_left_out_is_small_where_clusters_tell_the_means():
    X, places, means, _, _ = binary_world()
    model = CUDIA(3, method="two_stage").fit(X, places, means)
    loose, tight = (CUDIA(3, method="two_stage", ridge=r).fit(X, places, means).leave_one_out_ for r in (1.0, 1e6))
    assert model.leave_one_out_.shape == (2,)
    assert (model.leave_one_out_ < 0.8).all()
    assert (loose < tight).all()


def test_published_errors_weaken_what_is_learned():
    X, places, means, _, _ = binary_world()
    sharp = CUDIA(3, method="two_stage", ridge=5.0).fit(X, places, means)
    se = means.assign(ill=0.5, income=5.0)
    with_error = CUDIA(3, method="two_stage", ridge=5.0).fit(X, places, means, aggregate_se=se)
    assert np.ptp(with_error.parameters_.H[:, 1]) < 0.5 * np.ptp(sharp.parameters_.H[:, 1])
    assert with_error.identifiability_[1].effective_df < sharp.identifiability_[1].effective_df


def test_a_saved_model_answers_the_same(tmp_path):
    X, places, means, _, _ = binary_world()
    model = CUDIA(3, method="map", families={"number": "poisson", "ill": "bernoulli"}).fit(X, places, means)
    save(model, tmp_path / "m.crosslevel")
    again = load(tmp_path / "m.crosslevel")
    assert np.array_equal(again.transform(X, places), model.transform(X, places))
    assert np.array_equal(again.sample(X, places, 3), model.sample(X, places, 3))
    assert again.clusters().equals(model.clusters())
    assert np.array_equal(again.leave_one_out_, model.leave_one_out_)


def test_clusters_are_a_table_with_theta_and_shares():
    X, places, means, _, _ = binary_world()
    table = CUDIA(3, method="map").fit(X, places, means).clusters()
    assert table.keys == ("feature", "cluster")
    assert table["share"].reshape(2, 3).sum(axis=1) == pytest.approx(np.ones(2))
    assert (table["kind: a"] + table["kind: b"] + table["kind: c"])[:3] == pytest.approx(np.ones(3))
    eta = np.sort(table.select(feature="ill")["estimate"])
    assert eta == pytest.approx([0.05, 0.3, 0.7], abs=0.15)


def test_subgroup_intervals_hold_the_truth():
    X, places, means, ill, _ = binary_world(3)
    model = CUDIA(3, likelihood="count").fit(X, places, means)
    table = model.estimate("kind", X, places, n_draws=60).select(feature="ill")
    truth = pd.Series(ill).groupby(X["kind"].to_numpy()).mean().loc[table["kind"]].to_numpy()
    assert ((table["conf_low"] - 0.03 <= truth) & (truth <= table["conf_high"] + 0.03)).all()


def test_other_people_keep_the_level_of_their_group():
    X, places, means, _, _ = binary_world()
    model = CUDIA(3, method="map").fit(X, places, means)
    part = (X["kind"] == "c").to_numpy()
    given = (X[part], places[part])
    whole, own, raked = (
        model.estimate("kind", *people, n_draws=20, match_means=match)
        for people, match in (((X, places), None), (given, None), (given, True))
    )
    np.testing.assert_allclose(own["estimate"], whole.select(kind="c")["estimate"], rtol=1e-6)
    np.testing.assert_allclose(raked["estimate"], raked["naive"], rtol=1e-6)
    assert abs(own["estimate"][0] - raked["estimate"][0]) > 0.05
    assert ((own["conf_low"] < own["estimate"]) & (own["estimate"] < own["conf_high"])).all()
    drawn = model.sample(*given, n_draws=20, match_means=False).mean(axis=(0, 1))
    np.testing.assert_allclose(drawn, own["estimate"], atol=0.08)
    with pytest.raises(InputError, match="match_means="):
        model.estimate("kind", X, places, match_means="no")


def test_errors_of_means_of_the_population_reach_draws_and_others_are_told():
    X, places, means, _, _ = binary_world()
    errors = means.assign(ill=0.04, income=0.2)
    model = CUDIA(3, method="map", aggregates_from="population").fit(X, places, means, aggregate_se=errors)
    drawn = model.sample(X, places, n_draws=60)
    by_place = np.array([pd.DataFrame(d).groupby(places.to_numpy()).mean().to_numpy() for d in drawn])
    np.testing.assert_allclose(np.sqrt(by_place.var(axis=0).mean(axis=0)), [0.04, 0.2], rtol=0.2)
    kept = CUDIA(3, method="map").fit(X, places, means, aggregate_se=errors)
    assert any("leave out their standard errors" in w for w in kept.clusters().warnings)
    assert not any("leave out their standard errors" in w for w in model.clusters().warnings)


def test_a_list_of_clusters_is_refused_by_name():
    X, places, means, _, _ = binary_world()
    with pytest.raises(InputError, match="n_clusters="):
        CUDIA(np.array([2, 3])).fit(X, places, means)


def test_fewer_groups_than_clusters_is_allowed_and_said():
    X, places, means, _, _ = binary_world(groups=3, size=200)
    with pytest.warns(CrosslevelWarning) as caught:
        model = CUDIA(5, method="map", n_restarts=2).fit(X, places, means)
    said = " ".join(str(w.message) for w in caught)
    assert "3 groups only" in said
    assert "3 published means for 5 clusters" in said
    assert model.identifiability_[0].effective_df < 3.01
    assert len(model.identifiability_[0].singular_values) == 3


@few
@pytest.mark.parametrize("alpha", [2.0, "learn"])
def test_priors_of_the_mixes(two_gaussians_world, alpha):
    x, u, group, s, _ = two_gaussians_world(1)
    for method in ("map", "mcem"):
        model = CUDIA(2, method=method, alpha=alpha, n_restarts=2).fit({"x": x}, group, s)
        error = np.mean((u - model.transform({"x": x}, group)[:, 0]) ** 2)
        assert error < 0.5 * np.mean((u - s[group]) ** 2)


@pytest.mark.parametrize(
    "options",
    [
        {"n_clusters": 1},
        {"n_clusters": 50},
        {"n_clusters": 2.5},
        {"n_clusters": "many"},
        {"method": "mcm"},
        {"likelihood": "counts"},
        {"ridge": -1.0},
        {"alpha": 0.0},
        {"alpha": "dirichlet"},
        {"alpha": [1.0, 1.0, 1.0]},
        {"likelihood": "count", "method": "map"},
        {"likelihood": "count", "aggregates_from": "population"},
        {"families": {"kind": "gaussian"}},
        {"families": {"knid": "poisson"}},
        {"families": {"number": "ordinal"}},
        {"families": {"income": "poisson"}},
        {"families": {"ill": "categorical"}},
        {"families": {"income": "bernoulli"}},
        {"n_restarts": 0},
        {"random_state": -1},
    ],
)
def test_bad_choices_get_a_sentence(options):
    X, places, means, _, _ = binary_world(size=20)
    with pytest.raises(InputError):
        CUDIA(**{"n_clusters": 3} | options).fit(X, places, means)


def test_bad_people_get_a_sentence():
    X, places, means, _, _ = binary_world(size=20)
    with pytest.raises(InputError):
        CUDIA(2).fit(X, np.full(len(X), "a"), np.array([0.3]))
    with pytest.raises(InputError):
        CUDIA(2).fit(X.assign(number=1), places, means)
    with pytest.raises(InputError):
        CUDIA(2).fit(X, places, means.iloc[1:])
    with pytest.raises(InputError, match="n_draws="):
        CUDIA(2, method="two_stage").fit(X, places, means).sample(X, places, 0)
    model = CUDIA(2, method="two_stage").fit(X, places, means)
    with pytest.raises(InputError):
        model.transform(X.assign(number=9), places)


def test_a_fit_that_did_not_converge_is_refused(monkeypatch):
    from crosslevel.imputation.cudia import fit

    X, places, means, _, _ = binary_world(size=20)
    monkeypatch.setattr(fit, "LARGEST_DRIFT", 0.0)
    with pytest.raises(ConvergenceError):
        CUDIA(2, method="mcem").fit(X, places, means)
    with pytest.warns(CrosslevelWarning):
        CUDIA(2, method="mcem", allow_unconverged=True).fit(X, places, means)
