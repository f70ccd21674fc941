import numpy as np
import pandas as pd
import pytest
from tests.imputation.nouns import people_of, places_of, values

import crosslevel as cl
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
    X["place"] = [f"p{i:02d}" for i in group]
    means = X.assign(ill=ill, income=income).groupby("place")[["ill", "income"]].mean().reset_index()
    return X, means, np.column_stack([ill, income])


def nouns(X, means, **told):
    """People of a frame with the column place, and places with the means of both features."""
    return cl.People(X, by="place"), cl.Places(means, by="place", means=cl.Means(["ill", "income"], **told))


def by_place(X, values):
    """Means of values by place, (groups, 2)."""
    return np.column_stack([pd.Series(v).groupby(X["place"].to_numpy()).mean() for v in values.T])


@pytest.mark.parametrize(("method", "likelihood"), WAYS)
def test_every_soft_method_beats_the_group_mean_and_all_keep_it_exactly(method, likelihood):
    X, means, truth = binary_world()
    people, places = nouns(X, means)
    model = CUDIA(3, method=method, likelihood=likelihood, n_restarts=3).fit(people, places)
    found, wanted = values(model, people), means[["ill", "income"]].to_numpy()
    naive = wanted[np.unique(X["place"], return_inverse=True)[1]]
    # hard clusters are biased where clusters overlap: at the lowest objective they are no better than the group mean here
    most = 1.05 if method == "hard" else 0.93
    assert (((found - truth) ** 2).mean(axis=0) < most * ((naive - truth) ** 2).mean(axis=0)).all()
    assert ((found[:, 0] > 0) & (found[:, 0] < 1)).all()
    assert np.abs(by_place(X, found) - wanted).max() < 1e-10
    eta = model.parameters_.H[:, 0]
    assert ((eta >= 0) & (eta <= 1)).all()
    draws = model.sample(people, n_draws=3)
    assert draws.shape == (3, len(X), 2)
    assert set(np.unique(draws[:, :, 0])) == {0.0, 1.0}
    for draw in draws:
        assert np.abs(by_place(X, draw) - wanted).max() < 1e-10


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
        people = people_of({"x": x}, group)
        model = CUDIA(2, method=method, n_restarts=2, **options).fit(people, places_of(s, name="u"))
        errors.append(np.mean((u - values(model, people, match_means=False)) ** 2))
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
        people = people_of({"x": x}, group)
        model = CUDIA(2, method=method, n_restarts=2).fit(people, places_of(s, name="u"))
        errors.append(np.mean((u - values(model, people, match_means=False)) ** 2))
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


@pytest.fixture(scope="module")
def fitted():
    """Two stages on a world, and that world."""
    X, means, truth = binary_world()
    people, places = nouns(X, means)
    return CUDIA(3, method="two_stage").fit(people, places), X, means, truth


def test_weights_of_two_are_people_twice(fitted):
    model, X, means, _ = fitted
    people = cl.People(X.assign(w=2.0), by="place", weight="w")
    twice = CUDIA(3, method="two_stage").fit(people, nouns(X, means)[1])
    assert values(twice, people) == pytest.approx(values(model, people), abs=1e-9)


def test_missing_values_and_missing_means_are_left_out():
    X, means, _ = binary_world()
    X = X.astype({"number": float})
    X.loc[::7, "number"] = np.nan
    means.loc[3, "ill"] = np.nan
    people, places = nouns(X, means)
    model = CUDIA(3, method="map").fit(people, places)
    assert np.isfinite(values(model, people)).all()
    assert model.clusters()["estimate"].shape == (6,)


@pytest.mark.parametrize("likelihood", ["cudia", "count"])
def test_a_partition_per_feature(likelihood):
    X, means, truth = binary_world()
    X["region"] = [f"r{int(p[1:]) // 4}" for p in X["place"]]
    by_region = X.assign(income=truth[:, 1]).groupby("region")["income"].mean().reset_index()
    people = cl.People(X, by=["place", "region"])
    places = [cl.Places(means, by="place", means="ill"), cl.Places(by_region, by="region", means="income")]
    with pytest.warns(CrosslevelWarning):
        model = CUDIA(3, n_restarts=2, likelihood=likelihood, allow_unconverged=True).fit(people, places)
    for found in (values(model, people), model.sample(people, n_draws=2)[1]):
        own = pd.Series(found[:, 1]).groupby(X["region"].to_numpy()).mean()
        assert own.to_numpy() == pytest.approx(by_region["income"].to_numpy(), abs=1e-10)
        assert by_place(X, found)[:, 0] == pytest.approx(means["ill"].to_numpy(), abs=1e-10)
    with pytest.raises(InputError):
        model.fit(people, [cl.Places(means, by="place", means=["ill", "income"]), places[1]])


def test_the_error_of_a_mean_left_out_is_small_where_clusters_tell_the_means(fitted):
    model, X, means, _ = fitted
    loose, tight = (CUDIA(3, method="two_stage", ridge=r).fit(*nouns(X, means)).leave_one_out_ for r in (1.0, 1e6))
    assert model.leave_one_out_.shape == (2,)
    assert (model.leave_one_out_ < 0.8).all()
    assert (loose < tight).all()


def test_published_errors_weaken_what_is_learned():
    X, means, _ = binary_world()
    unsure = nouns(X, means.assign(a=0.5, b=5.0), se={"ill": "a", "income": "b"})
    sharp, loose = (CUDIA(3, method="two_stage", ridge=5.0).fit(*given) for given in (nouns(X, means), unsure))
    assert np.ptp(loose.parameters_.H[:, 1]) < 0.5 * np.ptp(sharp.parameters_.H[:, 1])
    assert loose.identifiability_[1].effective_df < sharp.identifiability_[1].effective_df


def test_a_saved_model_answers_the_same_and_keeps_nobody(tmp_path):
    X, means, _ = binary_world()
    people, places = nouns(X, means)
    model = CUDIA(3, method="map", families={"number": "poisson", "ill": "bernoulli"}).fit(people, places)
    save(model, tmp_path / "m.crosslevel")
    again = load(tmp_path / "m.crosslevel")
    assert again.transform(people).equals(model.transform(people))
    assert np.array_equal(again.sample(people, 3), model.sample(people, 3))
    assert again.clusters().equals(model.clusters())
    assert np.array_equal(again.leave_one_out_, model.leave_one_out_)
    assert again.estimate("kind", people).equals(model.estimate("kind"))
    with pytest.raises(InputError):
        again.estimate("kind")


def test_clusters_are_a_table_with_theta_and_shares(fitted):
    table = fitted[0].clusters()
    assert table.keys == ("feature", "cluster")
    assert table["share"].reshape(2, 3).sum(axis=1) == pytest.approx(np.ones(2))
    assert (table["kind: a"] + table["kind: b"] + table["kind: c"])[:3] == pytest.approx(np.ones(3))
    eta = np.sort(table.select(feature="ill")["estimate"])
    assert eta == pytest.approx([0.05, 0.3, 0.7], abs=0.15)


def test_subgroup_intervals_hold_the_truth():
    X, means, truth = binary_world(3)
    table = CUDIA(3, likelihood="count").fit(*nouns(X, means)).estimate("kind", n_draws=60).select(feature="ill")
    own = pd.Series(truth[:, 0]).groupby(X["kind"].to_numpy()).mean().loc[table["kind"]].to_numpy()
    assert ((table["conf_low"] - 0.03 <= own) & (own <= table["conf_high"] + 0.03)).all()


def test_other_people_keep_the_level_of_their_group():
    X, means, _ = binary_world()
    people, places = nouns(X, means)
    model, some = CUDIA(3, method="map").fit(people, places), cl.People(X[X["kind"] == "c"], by="place")
    whole, own, raked = (
        model.estimate("kind", given, n_draws=20, match_means=match)
        for given, match in ((people, None), (some, None), (some, True))
    )
    np.testing.assert_allclose(own["estimate"], whole.select(kind="c")["estimate"], rtol=1e-6)
    np.testing.assert_allclose(raked["estimate"], raked["naive"], rtol=1e-6)
    assert abs(own["estimate"][0] - raked["estimate"][0]) > 0.05
    assert ((own["conf_low"] < own["estimate"]) & (own["estimate"] < own["conf_high"])).all()
    drawn = model.sample(some, n_draws=20, match_means=False).mean(axis=(0, 1))
    np.testing.assert_allclose(drawn, own["estimate"], atol=0.08)


def test_errors_of_means_of_the_population_reach_draws_and_others_are_told():
    X, means, _ = binary_world()
    unsure = means.assign(a=0.04, b=0.2)
    told = {"se": {"ill": "a", "income": "b"}}
    people, places = nouns(X, unsure, of="population", **told)
    model = CUDIA(3, method="map").fit(people, places)
    drawn = np.array([by_place(X, d) for d in model.sample(people, n_draws=60)])
    np.testing.assert_allclose(np.sqrt(drawn.var(axis=0).mean(axis=0)), [0.04, 0.2], rtol=0.2)
    kept = CUDIA(3, method="map").fit(*nouns(X, unsure, **told))
    assert len(kept.clusters().warnings) == len(model.clusters().warnings) + 1
    with pytest.warns(CrosslevelWarning):
        CUDIA(2, method="two_stage", n_restarts=1).fit(*nouns(X, means, of="population"))


def test_fewer_groups_than_clusters_is_allowed_and_said():
    X, means, _ = binary_world(groups=3, size=200)
    with pytest.warns(CrosslevelWarning) as caught:
        model = CUDIA(5, method="map", n_restarts=2).fit(*nouns(X, means))
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
        people = people_of({"x": x}, group)
        model = CUDIA(2, method=method, alpha=alpha, n_restarts=2).fit(people, places_of(s, name="u"))
        error = np.mean((u - values(model, people)) ** 2)
        assert error < 0.5 * np.mean((u - s[group]) ** 2)


@pytest.mark.parametrize(
    "options",
    [
        {"n_clusters": 50},
        {"n_clusters": np.array([2, 3])},
        *({"families": {n: f}} for n, f in (("kind", "gaussian"), ("number", "ordinal"), ("income", "poisson"))),
        *({"families": {n: f}} for n, f in (("ill", "categorical"), ("income", "bernoulli"))),
    ],
)
def test_bad_choices_are_refused(options):
    X, means, _ = binary_world(size=20)
    with pytest.raises(InputError):
        CUDIA(**{"n_clusters": 3} | options).fit(*nouns(X, means))


@pytest.mark.parametrize("told", [{"of": "population"}, {"known_rates": {"kind": ["a"], "ill": [0.2]}}])
def test_means_that_clusters_cannot_use(told):
    X, means, _ = binary_world(size=20)
    with pytest.raises(InputError):
        CUDIA(2, likelihood="count").fit(*nouns(X, means, **told))


def test_a_fit_that_did_not_converge_is_refused(monkeypatch):
    from crosslevel.imputation.cudia import fit

    X, means, _ = binary_world(size=20)
    monkeypatch.setattr(fit, "LARGEST_DRIFT", 0.0)
    with pytest.raises(ConvergenceError):
        CUDIA(2, method="mcem").fit(*nouns(X, means))
    with pytest.warns(CrosslevelWarning):
        CUDIA(2, method="mcem", allow_unconverged=True).fit(*nouns(X, means))
