"""Households and census counts through the front door; and whole worlds in which the truth is known."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special

import crosslevel as cl
from crosslevel.data import place_cells
from crosslevel.errors import CrosslevelWarning, InputError


def households(q=40, n_households=60, seed=0, race_sd=1.0):
    """Two people each, of one race; places differ in race and not in sex."""
    rng = np.random.default_rng(seed)
    place_logit = race_sd * rng.normal(size=q)
    race = rng.random((q, n_households)) < special.expit(place_logit)[:, None]
    n = 2 * n_households
    frame = pd.DataFrame(
        {
            "town": np.repeat([f"t{i:03d}" for i in range(q)], n),
            "home": np.repeat([f"h{i}" for i in range(q * n_households)], 2),
            "race": np.repeat(np.where(race, "b", "a").ravel(), 2),
            "sex": rng.integers(1, 3, q * n),
            "w": np.repeat(rng.uniform(0.5, 1.5, q * n_households), 2),
        }
    )
    share = np.array([np.average(g.race == "b", weights=g.w) for _, g in frame.groupby("town")])
    rate = share * special.expit(1.0 + 0.1 * place_logit) + (1 - share) * special.expit(-0.5)
    places = pd.DataFrame({"town": sorted(frame.town.unique()), "yes": (5000 * rate).round(), "all": 5000})
    return frame, places


def fit(people, places, margins=None, **more):
    known = cl.People(
        people, **{"by": "town", "weight": "w", "columns": ["race", "sex"], "categorical": ["sex"], **more}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(spatial=None).fit(
            known, cl.Places(places, by="town", successes="yes", trials="all", margins=margins)
        )


@pytest.fixture(scope="module")
def world():
    return households()


def test_the_covariance_is_by_household_whatever_the_order_of_rows(world):
    people, places = world
    by_home = fit(people, places, cluster="home")
    alone = fit(people, places)
    race, sex = (by_home.columns_.index(name) for name in ("race", "sex"))
    assert by_home.model_.measured.reliability[race] < alone.model_.measured.reliability[race]
    shuffled = people.sample(frac=1.0, random_state=0)
    again = fit(shuffled, places, cluster="home")
    np.testing.assert_allclose(again.model_.measured.reliability, by_home.model_.measured.reliability, atol=1e-10)
    np.testing.assert_allclose(again.model_.fits[0].beta, by_home.model_.fits[0].beta, atol=1e-8)
    assert by_home.model_.measured.reliability[sex] < 0.5
    assert any("People(cluster=" in text for text in alone.warnings_)
    assert not any("People(cluster=" in text for text in by_home.warnings_)
    assert "cluster='home'" in by_home.call_


def test_clusters_are_those_of_the_frame(world, monkeypatch):
    people, _ = world
    model = fit(*world, cluster="home")
    keys = sorted(people.town.unique())

    def by_cluster(frame):
        known = cl.People(frame, by="town", weight="w", cluster="home")
        found = place_cells.count_people(known, model.model_.bins, keys, clusters=True).clusters
        return np.bincount(found.cluster, found.weight), found

    whole, found = by_cluster(people)
    assert len(whole) == people.home.nunique()
    assert found.kept == 1.0
    np.testing.assert_allclose(np.sort(whole), np.sort(people.groupby("home").w.sum()))
    # those without a household live alone
    gaps = people.assign(home=people.home.where(people.index % 2 == 0))
    assert len(by_cluster(gaps)[0]) == len(people)
    monkeypatch.setattr(place_cells, "MOST_CLUSTERED", 3_000)
    part, found = by_cluster(people.sample(frac=1.0, random_state=1))
    assert found.kept == 0.5
    assert len(part) == pytest.approx(0.5 * len(whole), rel=0.1)


def test_census_counts_are_met(world):
    people, places = world
    share = np.linspace(0.3, 0.7, len(places))
    census = pd.DataFrame({"town": places.town, "sex=1": 1000 * share, "sex=2": 1000 * (1 - share)})
    model = fit(people, places, cluster="home", margins=census.sample(frac=1.0, random_state=0))
    found = model.estimate(by="sex", n_draws=50).to_frame("pandas").set_index(["town", "sex"])
    whole = found.population.groupby("town").sum()
    np.testing.assert_allclose((found.xs(1, level="sex").population / whole).to_numpy(), share, rtol=2e-3)
    assert model.model_.measured.reliability[model.columns_.index("sex")] == 1.0
    assert "sex=1" in model.call_


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.drop(columns="sex=2"),
        lambda c: c.rename(columns={"sex=2": "sex=3"}),
        lambda c: c.assign(**{"sex=3": 1.0}),
        lambda c: c.assign(other=1.0),
        lambda c: c.assign(**{"sex=1": -1.0}),
        lambda c: c.iloc[1:],
    ],
)
def test_census_counts_that_do_not_fit_are_refused(world, change):
    people, places = world
    census = pd.DataFrame({"town": places.town, "sex=1": 400.0, "sex=2": 600.0})
    with pytest.raises(InputError):
        fit(people, places, margins=change(census))


def test_a_model_with_households_is_saved_and_refitted(world, tmp_path):
    people, places = world
    census = pd.DataFrame({"town": places.town, "sex=1": 400.0, "sex=2": 600.0})
    model = fit(people, places, cluster="home", margins=census)
    cl.save(model, tmp_path / "m.crosslevel")
    again = cl.load(tmp_path / "m.crosslevel")
    one, two = (m.estimate(by="race", rollup="all", n_draws=50, people=people) for m in (model, again))
    np.testing.assert_array_equal(one["conf_low"], two["conf_low"])
    moved = model.sensitivity(by="race", rollup="all", n_draws=50, contextual_variance=(0.0, 0.3))
    assert len(moved) == 4


def coins(seed, q=300, homes=70):
    """Two coins of effect 1, a person's and a household's; composition from one half of households, totals from the other."""
    rng = np.random.default_rng(seed)
    n = q * homes * 4
    place, home = np.repeat(np.arange(q), homes * 4), np.repeat(np.arange(q * homes * 2), 2)
    own, shared = rng.integers(0, 2, n), rng.integers(0, 2, q * homes * 2)[home]
    rate = special.expit(-1.0 + own + shared + 0.05 * rng.normal(size=q)[place])
    did = rng.random(n) < rate
    half = rng.random(q * homes * 2)[home] < 0.5
    people = pd.DataFrame({"town": place[half], "home": home[half], "own": own[half], "shared": shared[half], "w": 1.0})
    yes, asked = (np.bincount(place[~half], v, q) for v in (did[~half], np.ones((~half).sum())))
    places = pd.DataFrame({"town": np.arange(q), "yes": yes, "all": asked})
    return people, places


def test_a_placebo_has_no_effect_and_the_prior_s_interval():
    found, sure = [], []
    for seed in range(4):
        people, places = coins(seed)
        model = fit(people, places, cluster="home", columns=["own", "shared"], categorical=["own", "shared"])
        fitted = model.model_.fits[0]
        contrast = np.kron(np.eye(2), [[-1.0, 1.0]]) @ model.model_.effects.B
        found.append(contrast @ fitted.beta)
        sure.append(np.sqrt(np.diag(contrast @ fitted.covariance @ contrast.T)))
    assert np.abs(np.mean(found, axis=0)).max() < 0.15
    assert np.mean(sure) == pytest.approx(np.sqrt(2 * 0.2), rel=0.1)
    assert sum(text.startswith(("own: ", "shared: ")) for text in model.warnings_) == 2


@pytest.mark.parametrize(("q", "people"), [(40, 400), (120, 250)])
def test_intervals_of_the_model_hold_in_worlds_of_its_own(q, people):
    """Effects drawn from the prior, composition of the places known from their people: the model's intervals hold."""
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = q * people
        place = np.repeat(np.arange(q), people)
        odds = rng.dirichlet([2.0, 2.0, 2.0], q)
        race = np.array([rng.choice(3, size=people, p=o) for o in odds]).ravel()
        sex = rng.integers(0, 2, n)
        e = np.sqrt(0.2) * rng.normal(size=5)
        logit = e[race] + e[3 + sex] + 0.2 * rng.normal(size=q)[place]
        chance = special.expit(logit)
        rate = np.bincount(place, chance) / people
        frame = pd.DataFrame({"town": place, "race": np.array(list("abc"))[race], "sex": sex, "w": 1.0})
        places = pd.DataFrame({"town": np.arange(q), "yes": (1e5 * rate).round(), "all": 1e5})
        model = fit(frame, places)
        found = model.estimate(by="race", rollup="all", interval="model", n_draws=400).to_frame("pandas")
        truth = frame.assign(chance=chance).groupby("race").chance.mean()
        inside = (found.conf_low <= truth[found.race].to_numpy()) & (truth[found.race].to_numpy() <= found.conf_high)
        covered += inside.tolist()
    assert 0.83 <= np.mean(covered) <= 1.0
