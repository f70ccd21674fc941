"""Counts of groups by place in place of people: the same fit, the same answers, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning, InputError

LEVELS = {"a": "adults_a", "b": "adults_b", "c": "adults_c"}
TOTALS = {"by": "town", "successes": "yes", "trials": "votes"}
SCALES = {"effect_variance": 0.2, "nugget": 0.05}


def make(q=40, seed=0):
    rng = np.random.default_rng(seed)
    counts = 30 * np.maximum((rng.dirichlet([2, 2, 1], q) * 60).astype(int), 1)  # more people than votes
    share = counts / counts.sum(axis=1, keepdims=True)
    rate = share @ (1 / (1 + np.exp(-np.array([-1.0, 1.5, 0.2]))))
    table = pd.DataFrame({"town": [f"t{i:02d}" for i in range(q)], **dict(zip(LEVELS.values(), counts.T, strict=True))})
    table["votes"], table["everybody"] = 900, counts.sum(axis=1)
    table["yes"] = rng.binomial(900, rate)
    table["x"], table["y"] = rng.uniform(0, 5, (2, q))
    table["state"], table["county"] = np.arange(q) % 4, np.arange(q) % 9
    table["density"] = rng.normal(size=q)
    return table


@pytest.fixture(scope="module")
def table():
    return make()


def fit(table, composition=None, **options):
    model = cl.EcologicalInference(**{"spatial": None, "hyperparameters": SCALES, **options.pop("model", {})})
    counts = cl.GroupCounts(composition or {"race": LEVELS}, weight=options.pop("weight", None))
    return model.fit(counts, cl.Places(table, **TOTALS, **options))


def test_counts_are_people_whose_shares_are_known(table):
    rows = table.loc[table.index.repeat(3), ["town"]].assign(race=list(LEVELS) * len(table))
    n = table[list(LEVELS.values())].to_numpy().ravel()
    people = rows.iloc[np.repeat(np.arange(len(rows)), n)]
    known = table[["town", *LEVELS.values()]].rename(columns={v: f"race={k}" for k, v in LEVELS.items()})
    model = cl.EcologicalInference(spatial=None, hyperparameters=SCALES)
    one = model.fit(cl.People(people, by="town"), cl.Places(table, **TOTALS, margins=known))
    two = fit(table)
    np.testing.assert_allclose(two.model_.fits[0].beta, one.model_.fits[0].beta, atol=1e-10)
    a, b = (m.estimate(by="race", rollup="all", n_draws=200) for m in (one, two))
    np.testing.assert_allclose(b["estimate"], a["estimate"], atol=1e-10)
    np.testing.assert_allclose(b["population"], a["population"])
    np.testing.assert_allclose(b["effective_size"], a["effective_size"])
    assert a["conf_low"] == pytest.approx(b["conf_low"], abs=1e-9)


def test_shares_times_people_are_counts(table):
    shares = table.assign(**{v: table[v] / table["everybody"] for v in LEVELS.values()})
    one, two = fit(table), fit(shares, weight="everybody")
    np.testing.assert_allclose(two.model_.fits[0].beta, one.model_.fits[0].beta, atol=1e-10)
    np.testing.assert_allclose(two.place_weight_, one.place_weight_)


def test_groups_add_up_to_the_totals(table):
    found = fit(table).estimate(by="race", n_draws=50).to_frame("pandas")
    added = found.assign(n=found["estimate"] * found["population"]).groupby("town")[["n", "population"]].sum()
    np.testing.assert_allclose(added["n"] / added["population"], table["yes"] / table["votes"], atol=1e-8)


def test_a_loaded_model_has_its_counts_in_the_places(table, tmp_path):
    model = fit(table, covariates=["density"])
    cl.save(model, tmp_path / "model.crosslevel")
    again = cl.load(tmp_path / "model.crosslevel")
    one, two = (m.estimate(by="race", rollup="all", n_draws=50) for m in (model, again))
    assert one["estimate"].tolist() == two["estimate"].tolist()


def test_new_places_are_predicted_from_their_counts(table):
    seen, new = table.iloc[:30], table.iloc[30:]
    model = fit(seen, covariates=["density", "county"], model={"group": "state", "hyperparameters": None})
    found = model.predict_places(new)
    share = (new["yes"] / new["votes"]).to_numpy()
    assert np.sqrt(np.mean((found["estimate"] - share) ** 2)) < 0.6 * share.std()
    other = model.predict_places(new.assign(density=new["density"] + 3.0))
    assert np.abs(other["estimate"] - found["estimate"]).max() > 1e-6


def test_a_covariate_that_acts_is_found(table):
    rate = np.clip(table["yes"] / table["votes"], 0.02, 0.98)
    logit = np.log(rate / (1 - rate)) + 0.8 * table["density"]
    moved = table.assign(yes=(table["votes"] / (1 + np.exp(-logit))).round())
    with_, without = fit(moved, covariates=["density"]), fit(moved)
    assert with_.log_evidence_ > without.log_evidence_ + 5
    a, b = (m.estimate(by="race", rollup="all", interval="model", n_draws=50)["std_error"] for m in (with_, without))
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()


def test_two_columns_count_as_independent(table):
    both = {"race": LEVELS, "sex": ["men", "women"]}
    model = fit(table.assign(men=table["everybody"] // 3, women=table["everybody"] - table["everybody"] // 3), both)
    assert len(model.cells_.codes) == 6
    found = model.estimate(by=["race", "sex"], rollup="all", n_draws=50)
    assert found["population"].sum() == pytest.approx(table["everybody"].sum())


def test_state_and_county_have_variances_of_their_own(table):
    model = fit(table, model={"group": ["state", "county"], "hyperparameters": None})
    assert {"group", "second_group"} <= set(model.convergence_)
    held = {**SCALES, "group": 0.1, "second_group": 0.02}
    assert (
        fit(table, model={"group": ["state", "county"], "hyperparameters": held}).hyperparameters_[0].second_group
        == 0.02
    )


def test_a_field_on_points_says_how_far_it_is_off(table):
    with pytest.warns(CrosslevelWarning):
        model = fit(
            table,
            coords=("x", "y"),
            model={"spatial": "matern32", "hyperparameters": None, "inducing_points": 12},
        )
    assert model.convergence_["cells_of_places"] == 40
    assert 0.0 < model.convergence_["approximated_mean"] < 2.0
    assert any("points" in text for text in model.estimate(by="race", n_draws=50).warnings)


@pytest.mark.parametrize(
    ("composition", "options"),
    [
        (None, {"margins": {"town": ["t00"], "race=a": [1]}}),
        (None, {"covariates": ["votes"]}),
        ({"race": ["adults_a"]}, {}),
        ("race", {}),
        ({"n_people": ["adults_a", "adults_b"]}, {}),
        ({"race": {"a": "adults_a", "b": "adults_b"}}, {"weight": "everybody"}),
        (None, {"frame": lambda t: t.assign(adults_a=t["adults_a"] - 1000)}),
        (None, {"frame": lambda t: t.assign(**{v: t[v].where(t.index > 0, 0) for v in LEVELS.values()})}),
        (None, {"frame": lambda t: t.assign(**{v: t[v] * 1e200 for v in LEVELS.values()})}),
    ],
)
def test_what_cannot_be_counted_is_refused(table, composition, options):
    given = {name: value for name, value in options.items() if name != "frame"}
    with pytest.raises(InputError):
        fit(options.get("frame", lambda t: t)(table), composition, **given)


def scattered(n=150, seed=0):
    """Three states whose towns scatter by .1, .3 and .9 logits, with no effect of groups."""
    rng = np.random.default_rng(seed)
    table = make(3 * n, seed)
    table[[*LEVELS.values(), "everybody"]] *= 20
    table["town"], table["state"] = [f"t{i:03d}" for i in range(3 * n)], np.repeat(["a", "b", "c"], n)
    logit = -0.3 + np.repeat([0.1, 0.3, 0.9], n) * rng.normal(size=3 * n)
    return table.assign(votes=20_000, yes=rng.binomial(20_000, 1 / (1 + np.exp(-logit))))


def test_places_of_each_state_have_a_nugget_of_their_own(tmp_path):
    table = scattered()
    test = np.arange(len(table)) % 3 == 0
    model = fit(table[~test], model={"hyperparameters": None, "nugget_by": "state"})
    h = model.hyperparameters_[0]
    found = np.sqrt(h.nugget * np.array(h.nugget_ratios))
    assert found == pytest.approx([0.1, 0.3, 0.9], rel=0.2)
    assert model.convergence_["nugget_by_level"].startswith("a 0.0")
    new = pd.concat([table[test], table.tail(1).assign(town="z", state="elsewhere")])
    at = model.predict_places(new).to_frame("pandas")
    truth = (new["yes"] / new["votes"]).to_numpy()
    inside = ((at["conf_low"] <= truth) & (truth <= at["conf_high"])).to_numpy()[:-1]
    state = new["state"].to_numpy()[:-1]
    assert all(inside[state == s].mean() > 0.8 for s in "abc")
    one = fit(table[~test], model={"hyperparameters": None}).predict_places(new).to_frame("pandas")
    both = ((one["conf_low"] <= truth) & (truth <= one["conf_high"])).to_numpy()[:-1]
    assert (
        both[state == "c"].mean() < 0.8 < 1.0 == both[state == "a"].mean()
    )  # one for all is too short there, too long here
    *known, other = at["conf_high"] - at["conf_low"]
    assert np.array(known)[state == "a"].max() < other < np.array(known)[state == "c"].min()
    cl.save(model, tmp_path / "model.crosslevel")
    again = cl.load(tmp_path / "model.crosslevel").predict_places(new)
    assert again["conf_low"].tolist() == at["conf_low"].tolist()
    held = fit(table[~test], model={"hyperparameters": h, "nugget_by": "state"}).predict_places(new)
    np.testing.assert_allclose(held["conf_low"], at["conf_low"], atol=1e-6)


def test_a_state_left_out_has_the_mean_nugget_of_the_prior():
    table = scattered(60)
    model = fit(table, model={"hyperparameters": None, "nugget_by": "state"})
    found = model.cross_validate(leave_out="state").to_frame("pandas")
    wide = (found["conf_high"] - found["conf_low"]).groupby(table["state"].to_numpy()).mean()
    assert wide["a"] > wide["c"]  # of states that scatter more, and of those that scatter less


def test_what_nugget_by_refuses(table):
    for model in (
        {"nugget_by": "state"},
        {"nugget_by": "votes", "hyperparameters": None},
        {"nugget_by": "nonsense", "hyperparameters": None},
    ):
        with pytest.raises(InputError):
            fit(table, model=model)
    shorter = fit(table, model={"hyperparameters": None, "nugget_by": "state"})
    with pytest.raises(InputError):
        shorter.predict_places(table.tail(1).assign(town="z").drop(columns="state"))


def test_groups_that_lack_people_are_said(table):
    two = {"race": {"b": "adults_b", "c": "adults_c"}}
    trials = table.assign(votes=1500, yes=table["yes"])
    with pytest.warns(CrosslevelWarning):
        fit(trials, two)
    thousands = table.assign(**{v: table[v] / 1000 for v in LEVELS.values()})
    with pytest.warns(CrosslevelWarning):
        fit(thousands)
