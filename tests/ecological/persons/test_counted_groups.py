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
    counts = np.maximum((rng.dirichlet([2, 2, 1], q) * 60).astype(int), 1)
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
    return model.fit(None, table, **TOTALS, composition=composition or {"race": LEVELS}, **options)


def test_counts_are_people_whose_shares_are_known(table):
    rows = table.loc[table.index.repeat(3), ["town"]].assign(race=list(LEVELS) * len(table))
    n = table[list(LEVELS.values())].to_numpy().ravel()
    people = rows.iloc[np.repeat(np.arange(len(rows)), n)]
    known = table[["town", *LEVELS.values()]].rename(columns={v: f"race={k}" for k, v in LEVELS.items()})
    model = cl.EcologicalInference(spatial=None, hyperparameters=SCALES)
    one = model.fit(people, table, **TOTALS, margins=known)
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
    model = fit(table.assign(men=table["everybody"] // 2, women=table["everybody"] - table["everybody"] // 2), both)
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
    with pytest.warns(CrosslevelWarning, match="40 locations stands on 12 points"):
        model = fit(
            table,
            coords=("x", "y"),
            model={"spatial": "matern32", "metric": "plane", "hyperparameters": None, "inducing_points": 12},
        )
    assert model.convergence_["cells_of_places"] == 40
    assert 0.0 < model.convergence_["approximated_mean"] < 2.0
    assert any("points" in text for text in model.estimate(by="race", n_draws=50).warnings)


def test_more_places_than_a_matrix_holds_are_refused_where_one_is_held(table, monkeypatch):
    monkeypatch.setattr("crosslevel.ecological.estimate.MOST_DISTANCES", 30)
    assert fit(table).places_.keys
    with pytest.raises(InputError, match="places has 40 rows.*at most 30"):
        fit(table, model={"likelihood": "exact"})


def test_what_cannot_be_counted_is_refused(table):
    def refused(match, composition=None, people=None, frame=table, **options):
        model = cl.EcologicalInference(spatial=None, hyperparameters=SCALES)
        with pytest.raises(InputError, match=match):
            model.fit(people, frame, **TOTALS, composition=composition or {"race": LEVELS}, **options)

    refused("people and composition", people=table)
    refused("cluster='density'", cluster="density")
    refused(r"composition\['race'\].*'adults_a'", {"race": ["adults_a"]})
    refused("composition='race'", "race")
    refused("n_people", {"n_people": ["adults_a", "adults_b"]})
    refused("composition column 'adults_a'.*-979 in 't00'", frame=table.assign(adults_a=table["adults_a"] - 1000))
    refused("covariates column 'votes' is 900", covariates=["votes"])
    empty = table.assign(**dict.fromkeys(LEVELS.values(), 0))
    refused("'race'.*first 't00'", frame=empty, weight="everybody")
    nobody = table.assign(**{v: table[v].where(table.index > 0, 0) for v in LEVELS.values()})
    refused("no people of positive weight.*'t00'", frame=nobody)
    with pytest.raises(InputError, match="learn_confounding"):
        fit(table).learn_confounding()


def test_shares_need_the_number_of_people_and_everybody_a_group(table):
    shares = table.assign(**{v: table[v] / table["everybody"] for v in LEVELS.values()})
    with pytest.raises(InputError, match=r"composition\['race'\].*these are shares; pass weight="):
        fit(shares)
    two = {"race": {"a": "adults_a", "b": "adults_b"}}
    a, n = table["adults_a"][0] + table["adults_b"][0], table["everybody"][0]
    with pytest.raises(
        InputError, match=rf"composition\['race'\] adds up to {a} in 't00'.*the {n} of weight='everybody'"
    ):
        fit(table, two, weight="everybody")
    assert fit(table, two).place_weight_[0] == a
    np.testing.assert_allclose(fit(table, weight="everybody").place_weight_, table["everybody"])


def test_a_level_of_a_new_place_is_known_or_said(table):
    table = table.assign(kind=np.where(table["county"] < 4, "city", "land"))
    model = fit(table.iloc[:30], covariates=["kind"])
    new = table.iloc[30:].copy()
    with pytest.warns(CrosslevelWarning, match="covariates column 'kind' has 'island'"):
        model.predict_places(new.assign(kind=new["kind"].where(new.index > 31, "island")))
    with pytest.raises(InputError, match="covariates column 'kind' has 2 missing values"):
        model.predict_places(new.assign(kind=new["kind"].where(new.index > 31, None)))
