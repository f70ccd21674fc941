import numpy as np
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from tests.imputation.nouns import mean, people_of, places_of, values

from crosslevel import People, Places
from crosslevel.errors import CrosslevelWarning, InputError
from crosslevel.imputation.persons.estimator import CrossLevelImputer
from crosslevel.results import load, save


def _log_likelihood(p, y):
    return np.mean(np.log(np.where(y == 1, p, 1 - p)))


@pytest.fixture(scope="module")
def fitted(world):
    return CrossLevelImputer().fit(world.people, world.places)


def test_means_are_met_exactly_by_values_and_by_every_draw(world, fitted):
    p = values(fitted, world.people)
    assert fitted.transform(world.people).column_names == ["ill"]
    np.testing.assert_allclose(mean(p, world.group), world.means, atol=1e-10)
    draws = fitted.sample(world.people, n_draws=5)
    assert draws.shape == (5, len(world.y), 1)
    assert set(np.unique(draws)) == {0.0, 1.0}
    chances = fitted.sample(world.people, n_draws=3, values=False)
    for d in (*draws, *chances):
        np.testing.assert_allclose(mean(d[:, 0], world.group), world.means, atol=1e-10)
    assert ((chances > 0) & (chances < 1)).all()


def test_it_tells_persons_apart_far_better_than_the_groupmean(world, fitted):
    naive = _log_likelihood(world.means[world.group], world.y)
    best = _log_likelihood(world.p, world.y)
    found = _log_likelihood(values(fitted, world.people), world.y)
    assert (found - naive) / (best - naive) > 0.8


def test_intervals_cover_cells_and_have_the_naive_answer_beside(world, fitted):
    est = fitted.estimate(by=["age", "school"])
    assert est.keys == ("feature", "age", "school")
    keys = pa.table({"age": world.X["age"], "school": world.X["school"], "truth": world.y})
    truth = keys.group_by(["age", "school"]).aggregate([("truth", "mean")]).rename_columns(["age", "school", "truth"])
    truth = truth.append_column("feature", pa.array(["ill"] * truth.num_rows))
    score = est.with_truth(truth).score()
    assert score["coverage"] >= 0.9
    codes = np.unique(np.column_stack([world.X["age"], world.X["school"]]), axis=0, return_inverse=True)[1].reshape(-1)
    np.testing.assert_allclose(est["naive"], mean(world.means[world.group], codes), atol=1e-12)
    np.testing.assert_allclose(est["estimate"], mean(values(fitted, world.people), codes), atol=1e-12)
    np.testing.assert_array_equal(est["people"], np.bincount(codes))


def test_whole_groups_are_known(world, fitted):
    est = fitted.estimate(by="place")
    np.testing.assert_allclose(est["estimate"], world.means, atol=1e-10)
    np.testing.assert_allclose(est["conf_high"] - est["conf_low"], 0, atol=1e-6)


def test_probabilities_are_surer_than_shares(fitted):
    shares, chances = (fitted.estimate(by=["place", "age"], sampling=s) for s in (True, False))
    assert np.median(chances["std_error"] / shares["std_error"]) < 0.95
    assert "probability" in chances.interval


def test_draws_scatter_as_the_intervals_say(world, fitted):
    est = fitted.estimate(by="age")
    draws = fitted.sample(world.people, n_draws=300, random_state=3)[:, :, 0]
    age = np.asarray(world.X["age"])
    means = np.array([mean(d, age) for d in draws])
    np.testing.assert_allclose(means.std(axis=0), est["std_error"], rtol=0.2)
    np.testing.assert_allclose(means.mean(axis=0), est["estimate"], atol=0.02)


def test_weights_of_two_are_two_people(world):
    w = np.random.default_rng(0).integers(1, 4, len(world.y))
    twice = np.repeat(np.arange(len(w)), w)
    means = places_of(mean(world.y, world.group, w))
    weighted = people_of(world.X, world.group, w)
    a = CrossLevelImputer().fit(weighted, means)
    b = CrossLevelImputer().fit(people_of(world.X.take(twice), world.group[twice]), means)
    # effective people differ, and they hardly matter
    np.testing.assert_allclose(a.hidden_[0].fit.beta, b.hidden_[0].fit.beta, atol=0.02)
    np.testing.assert_allclose(mean(values(a, weighted), world.group, w), means.table["ill"], atol=1e-10)
    for d in a.sample(weighted, n_draws=2)[:, :, 0]:
        off = mean(d, world.group, w) - means.table["ill"].to_numpy()
        assert np.abs(off).max() <= 3 / np.bincount(world.group, w).min()


def test_published_errors_make_a_mean_count_less(world):
    odd, se = world.means.copy(), np.full(len(world.means), 1e-4)
    odd[0], se[0] = 0.95, 10.0
    without = np.where(np.arange(30) == 0, np.nan, odd)
    people = people_of(world.X, world.group)
    with pytest.warns(CrosslevelWarning):
        unsure = CrossLevelImputer().fit(people, places_of(odd, se=se, of="population"))
    plain, none = (CrossLevelImputer().fit(people, places_of(m)) for m in (odd, without))
    gap = [np.abs(m.hidden_[0].fit.beta - none.hidden_[0].fit.beta).max() for m in (plain, unsure)]
    assert gap[1] < 0.2 * gap[0]


def test_a_missing_mean_leaves_a_group_with_the_model_alone(world):
    means, people = np.where(np.arange(30) == 3, np.nan, world.means), people_of(world.X, world.group)
    model = CrossLevelImputer().fit(people, places_of(means))
    assert abs(values(model, people)[world.group == 3].mean() - world.means[3]) < 0.08
    est = model.estimate(by="place")
    assert np.argmax(est["std_error"]) == 3
    assert est["std_error"][3] > 0.02
    assert np.isnan(est["naive"][3])


def test_new_people_get_the_constant_of_their_group(world, fitted):
    all_ = values(fitted, world.people, match_means=False)
    np.testing.assert_allclose(all_, values(fitted, world.people), atol=1e-9)
    few = world.kept(np.arange(len(world.y)) < 3)
    np.testing.assert_allclose(values(fitted, few, match_means=False), all_[:3], atol=1e-12)
    assert np.isclose(values(fitted, few).mean(), world.means[0])


def test_groups_of_none_and_all():
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(6), 40)
    people = people_of({"x": rng.integers(0, 3, 240)}, group)
    with pytest.warns(CrosslevelWarning):
        model = CrossLevelImputer().fit(people, places_of([0.0, 1.0, 0.3, 0.4, 0.2, 0.25]))
    for match in (True, False):
        p = values(model, people, match_means=match)
        assert p[group == 0].max() < 1e-10
        assert p[group == 1].min() > 1 - 1e-10
    assert (model.sample(people, n_draws=1)[0, group == 1, 0] == 1).all()


def test_several_hidden_features_are_those_fitted_alone(world):
    two = {"place": np.arange(30), "yes": world.means, "no": 1 - world.means}
    people = people_of(world.X, world.group)
    both = CrossLevelImputer().fit(people, Places(two, by="place", means=["yes", "no"]))
    assert both.hidden_names_ == ("yes", "no")
    p = values(both, people)
    alone = CrossLevelImputer().fit(people, places_of(world.means))
    np.testing.assert_allclose(p[:, 0], values(alone, people), atol=1e-12)
    # no is as well told as yes
    np.testing.assert_allclose(p[:, 0] + p[:, 1], 1, atol=1e-8)
    assert both.sample(people, n_draws=2).shape == (2, len(world.y), 2)


def test_a_partition_per_feature(world):
    coarse = world.group // 10
    people = People(
        {**dict(zip(["age", "school"], world.X, strict=True)), "place": world.group, "region": coarse},
        by=["place", "region"],
    )
    places = [places_of(world.means), places_of([0.2, 0.3, 0.4], by="region", name="old")]
    with pytest.warns(CrosslevelWarning):
        model = CrossLevelImputer().fit(people, places)
    p = values(model, people)
    np.testing.assert_allclose(mean(p[:, 0], world.group), world.means, atol=1e-10)
    np.testing.assert_allclose(mean(p[:, 1], coarse), [0.2, 0.3, 0.4], atol=1e-10)


def test_factors_and_continuous_columns():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 100)
    kind = np.array(["red", "green", "blue"])[rng.integers(0, 3, 4000) * (rng.random(4000) < (group / 40))]
    size = rng.normal(group / 20, 1.0)
    p = 1 / (1 + np.exp(1.5 - 0.8 * size + 1.0 * (kind == "red")))
    y = (rng.random(4000) < p).astype(float)
    people = people_of({"kind": kind, "size": size}, group)
    model = CrossLevelImputer().fit(people, places_of(mean(y, group)))
    naive = _log_likelihood(mean(y, group)[group], y)
    assert (_log_likelihood(values(model, people), y) - naive) / (_log_likelihood(p, y) - naive) > 0.5
    assert set(model.slopes()["term"]) == {"blue", "green", "red", "linear"}


def test_numbers_with_and_without_their_scale():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 100)
    x = rng.normal(group / 20, 1.0)
    u = 50 + 4 * x + rng.normal(0, 5, 4000)
    people, places = people_of({"x": x}, group), places_of(mean(u, group))
    with pytest.warns(CrosslevelWarning):
        plain = CrossLevelImputer(family="gaussian").fit(people, places)
    sized = CrossLevelImputer(family="gaussian", scale=u.std()).fit(people, places)
    np.testing.assert_allclose(sized.hidden_[0].fit.beta, plain.hidden_[0].fit.beta, rtol=0.02)
    found = values(sized, people)
    np.testing.assert_allclose(mean(found, group), mean(u, group), atol=1e-10)
    assert np.mean((u - found) ** 2) < 0.8 * np.mean((u - mean(u, group)[group]) ** 2)
    draws = sized.sample(people, n_draws=4)[:, :, 0]
    for d in draws:
        np.testing.assert_allclose(mean(d, group), mean(u, group), atol=1e-10)
    assert draws.std() == pytest.approx(u.std(), rel=0.1)
    assert plain.estimate(by="place").level is None
    with pytest.raises(InputError):
        plain.sample(people, n_draws=1)


def test_errors_of_means_are_no_spread_among_persons():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 60)
    age = np.clip(np.round(rng.normal(3.5 + rng.normal(0, 1, 40)[group], 1)), 1, 6)
    means, people = mean(22 + age, group), people_of({"age": age}, group)
    errors = places_of(means, name="bmi", se=np.full(40, 0.05), of="population")
    number = {"family": {"bmi": "gaussian"}}
    with pytest.warns(CrosslevelWarning):
        without = CrossLevelImputer(**number).fit(people, errors)
    assert without.estimate("age").level is None
    with pytest.raises(InputError):
        without.sample(people, n_draws=1)
    draws = CrossLevelImputer(**number, scale=5.0).fit(people, errors).sample(people, n_draws=3)[:, :, 0]
    assert np.std(draws - means[group]) == pytest.approx(5.0, rel=0.1)


def test_errors_of_means_of_a_population_reach_estimates_and_draws(world):
    people = people_of(world.X, world.group)
    sure = CrossLevelImputer().fit(people, places_of(world.means))
    unsure = CrossLevelImputer().fit(people, places_of(world.means, se=np.full(30, 0.05), of="population"))
    with pytest.warns(CrosslevelWarning):
        kept = CrossLevelImputer().fit(people, places_of(world.means, se=np.full(30, 0.05)))
    for model in (sure, kept):
        assert (model.estimate("place")["std_error"] == 0).all()
    est = unsure.estimate("place")
    np.testing.assert_allclose(est["std_error"], 0.05, rtol=1e-9)
    assert ((est["conf_low"] < world.means - 0.05) & (est["conf_high"] > world.means + 0.05)).all()
    for each in (True, False):
        drawn = unsure.sample(people, n_draws=60, values=each)[:, :, 0]
        by_group = np.array([mean(d, world.group) for d in drawn])
        assert np.sqrt((by_group.var(axis=0)).mean()) == pytest.approx(0.05, rel=0.15)
        assert abs(by_group.mean() - world.means.mean()) < 0.005
    # thirty independent errors average out over all people
    ages = [m.estimate("age", sampling=False)["std_error"] for m in (sure, unsure)]
    assert (ages[1] >= ages[0] * 0.98).all()
    assert (ages[1] < np.hypot(1.05 * ages[0], 0.03)).all()


def test_other_people_keep_the_level_of_their_group(world, fitted):
    old = np.asarray(world.X["age"]) >= np.median(world.X["age"])
    some = world.kept(old)
    whole = fitted.estimate("age", sampling=False)
    part = fitted.estimate("age", some, sampling=False)
    same = np.isin(whole["age"], part["age"])
    for column in ("estimate", "std_error", "conf_low", "conf_high"):
        np.testing.assert_allclose(part[column], np.asarray(whole[column])[same], rtol=1e-6)
    # chance is of independent people: their total is not known
    chance = [fitted.estimate("age", given)["std_error"] for given in (None, some)]
    assert (chance[1] >= np.asarray(chance[0])[same]).all()
    assert (fitted.estimate("place", some)["std_error"] > 0).all()
    raked = fitted.estimate("place", some, match_means=True)
    np.testing.assert_allclose(raked["estimate"], raked["naive"], atol=1e-10)
    assert fitted.estimate("age", world.people).equals(fitted.estimate("age"))
    # draws do too
    wanted = values(fitted, some, match_means=False).mean()
    free = [fitted.sample(some, n_draws=30, match_means=False, values=v).mean() for v in (True, False)]
    np.testing.assert_allclose(free, wanted, atol=0.02)
    assert abs(fitted.sample(some, n_draws=30).mean() - wanted) > 0.05


def test_numbers_of_other_people():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 100)
    x = rng.integers(0, 5, 4000) + group // 20
    u = 50 + 4 * x + rng.normal(0, 5, 4000)
    people, high = people_of({"x": x}, group), x >= 3
    some = people_of({"x": x[high]}, group[high])
    model = CrossLevelImputer(family="gaussian", scale=u.std()).fit(people, places_of(mean(u, group)))
    whole, part = model.estimate("x", sampling=False), model.estimate("x", some, sampling=False)
    for column in ("estimate", "std_error"):
        np.testing.assert_allclose(part[column], whole[column][np.isin(whole["x"], part["x"])], rtol=1e-6)
    free = model.sample(some, n_draws=20, match_means=False).mean()
    assert free == pytest.approx(values(model, people)[high].mean(), abs=0.5)


def test_learning_says_how_little_is_known(fitted, world):
    est = fitted.slopes()
    first = est.select(term="linear")
    Z = fitted.design_.matrix(np.column_stack([world.X["age"], world.X["school"]]).astype(float))
    between = np.array([mean(Z[:, j], world.group).std() for j in fitted.design_.first])
    np.testing.assert_allclose(first["between_sd"], between, rtol=1e-9)
    np.testing.assert_allclose(first["kept"], between**2 / (between**2 + 1 / 32), rtol=1e-9)
    assert (est["std_error"] <= est["prior_sd"] + 1e-12).all()
    assert est.diagnostics["converged"]
    assert est.diagnostics["restarts_apart"]["ill"] < 1e-5


def test_totals_are_checked_group_by_group(fitted, world):
    est = fitted.check_totals()
    np.testing.assert_allclose(est["published"], world.means)
    assert np.mean((est["conf_low"] <= world.means) & (world.means <= est["conf_high"])) >= 0.9
    assert np.corrcoef(est["estimate"], world.means)[0, 1] > 0.8


def test_missing_values_are_average_when_asked(world):
    age = np.asarray(world.X["age"], dtype=float)
    age[::50] = np.nan
    people = people_of({"age": age, "school": world.X["school"]}, world.group)
    with pytest.raises(InputError):
        CrossLevelImputer().fit(people, places_of(world.means))
    model = CrossLevelImputer(missing="mean").fit(people, places_of(world.means))
    np.testing.assert_allclose(mean(values(model, people), world.group), world.means, atol=1e-10)


def test_intervals_cover_where_groups_differ_for_other_reasons():
    # slopes as large as the prior says, and group effects that go with the composition of the group
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(30), 300)
        tilt = 0.4 * rng.normal(size=(30, 2))
        a, b = (rng.binomial(4, 1 / (1 + np.exp(-tilt[group, j]))) for j in (0, 1))
        effect = 0.3 * rng.normal(size=30) + rng.choice([-1, 1]) * 0.5 * tilt[:, 0]
        slopes = 0.45 * rng.normal(size=2)
        f = -1.2 + slopes[0] * (a - 2) + slopes[1] * (b - 2) + effect[group]
        y = (rng.random(len(f)) < 1 / (1 + np.exp(-f))).astype(float)
        est = (
            CrossLevelImputer(n_restarts=0)
            .fit(people_of({"a": a, "b": b}, group), places_of(mean(y, group)))
            .estimate(["a", "b"])
        )
        truth = mean(y, np.unique(np.column_stack([a, b]), axis=0, return_inverse=True)[1].reshape(-1))
        inside.append(np.mean((est["conf_low"] <= truth) & (truth <= est["conf_high"])))
    assert np.mean(inside) >= 0.9


def test_people_of_any_group_get_a_probability(world, fitted, tmp_path):
    """By hand: slopes averaged over their posterior, one constant so that all people have the mean of the published means."""
    p = fitted.predict_proba(world.people)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    hidden = fitted.hidden_[0]
    table = fitted.design_.matrix(np.column_stack([world.X["age"], world.X["school"]]).astype(float))
    A = np.column_stack([np.ones(len(table)), table])
    theta = np.append(hidden.fit.intercept, hidden.fit.beta)
    f = A @ theta / np.sqrt(1 + np.pi / 8 * np.array([a @ hidden.fit.Sigma @ a for a in A]))
    np.testing.assert_allclose(p[:, 1].mean(), mean(world.y, world.group)[world.group].mean(), atol=1e-9)
    apart = np.log(p[:, 1] / p[:, 0]) - f
    np.testing.assert_allclose(apart, apart[0], atol=1e-9)
    naive = _log_likelihood(np.full(len(world.y), world.y.mean()), world.y)
    assert _log_likelihood(p[:, 1], world.y) > naive + 0.5 * (_log_likelihood(world.p, world.y) - naive)
    save(fitted, tmp_path / "model.crosslevel", allow_rows=True)
    np.testing.assert_array_equal(load(tmp_path / "model.crosslevel").predict_proba(People(world.X)), p)


def test_shares_of_one_whole_are_classes(world):
    parts = {"ill": world.means, "well": 0.7 * (1 - world.means), "unknown": 0.3 * (1 - world.means)}
    keys = {"place": [f"g{i:02d}" for i in range(len(world.means))]}
    model = CrossLevelImputer(n_restarts=0).fit(world.people, Places(keys | parts, by="place", means=list(parts)))
    p = model.predict_proba(world.people)
    assert p.shape == (len(world.y), 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p.mean(axis=0)[0], world.y.mean(), atol=0.01)
    no_whole = Places(keys | parts | {"well": 0.5 * world.means}, by="place", means=list(parts))
    with pytest.raises(InputError):
        CrossLevelImputer(n_restarts=0).fit(world.people, no_whole).predict_proba(world.people)
    with pytest.raises(InputError):
        CrossLevelImputer(family="gaussian", scale=1.0).fit(world.people, world.places).predict_proba(world.people)
    for ask in ("predict_proba", "transform", "sample"):
        with pytest.raises(NotFittedError):
            getattr(CrossLevelImputer(), ask)(world.people)
