"""Columns of every family, through the estimator: clusters that no other column tells apart are found."""

import numpy as np
import pandas as pd
import pytest
from tests.imputation.nouns import people_of, places_of, values

from crosslevel.errors import InputError
from crosslevel.imputation.cudia.estimator import CUDIA


def world(seed=0, groups=25, size=60):
    rng = np.random.default_rng(seed)
    mix = rng.random(groups)
    place = np.repeat(np.arange(groups), size)
    z = (rng.random(len(place)) < mix[place]).astype(int)
    u = np.where(z == 1, 0.8, 0.1) > rng.random(len(place))
    return rng, place, z, u.astype(float), np.bincount(place, u) / size


COLUMNS = {
    "gaussian": lambda rng, z: {"a": rng.normal(2.5 * z)},
    "categorical": lambda rng, z: {"a": np.where(rng.random(len(z)) < 0.85, z, 1 - z) * 2 + rng.integers(0, 2, len(z))},
    "bernoulli": lambda rng, z: {"a": np.where(rng.random(len(z)) < 0.92, z, 1 - z)},
    "poisson": lambda rng, z: {"a": rng.poisson(1.0 + 6 * z)},
    "exponential": lambda rng, z: {"a": rng.exponential(0.3 + 4.0 * z)},
    "multinomial": lambda rng, z: dict(
        zip("ab", np.array([rng.multinomial(8, [0.2 + 0.6 * k, 0.8 - 0.6 * k]) for k in z]).T, strict=True)
    ),
}


@pytest.mark.parametrize("family", COLUMNS)
def test_each_family_finds_the_clusters(family):
    rng, place, z, u, s = world()
    X = COLUMNS[family](rng, z)
    kind = {("a", "b"): family} if family == "multinomial" else {"a": family}
    if family in ("bernoulli", "categorical"):  # few values: a second look at the same person tells more
        X |= {k + "2": v for k, v in COLUMNS[family](rng, z).items()}
        kind |= {"a2": family}
    people = people_of(X, place)
    model = CUDIA(2, method="map", families=kind, n_restarts=2).fit(people, places_of(s))
    eta = np.sort(model.parameters_.H[:, 0])
    assert eta == pytest.approx([0.1, 0.8], abs=0.12)
    r = model.responsibilities(people)[:, np.argmax(model.parameters_.H[:, 0])]
    assert np.mean((r > 0.5) == z) > 0.85
    found = values(model, people)
    assert np.mean((found - u) ** 2) < 0.8 * np.mean((s[place] - u) ** 2)
    kinds = {"gaussian": "Gaussian", "poisson": "Poisson", "exponential": "Exponential"}
    assert kinds.get(family, "Levels") == type(model._problem.families[0]).__name__


def test_mixed_columns_with_gaps_are_fitted_together():
    rng, place, z, u, s = world(1)
    X = pd.DataFrame(
        {
            "g": rng.normal(1.2 * z),
            "p": rng.poisson(1 + 2 * z).astype(float),
            "o": np.digitize(rng.normal(1.0 * z), [0.0, 1.0]).astype(float),
        }
    )
    X[rng.random(X.shape) < 0.2] = np.nan
    X.loc[X.isna().all(axis=1), "g"] = 0.0
    families = {"p": "poisson"}
    people = people_of(X, place)
    model = CUDIA(2, method="mcem", families=families, n_restarts=2).fit(people, places_of(s))
    found = values(model, people)
    assert np.isfinite(found).all()
    assert np.mean((found - u) ** 2) < 0.95 * np.mean((s[place] - u) ** 2)
    draw = model.sample(people, n_draws=2)
    assert np.bincount(place, draw[1, :, 0]) / 60 == pytest.approx(s, abs=1e-10)


@pytest.mark.parametrize(
    "families",
    [{"a": "poisson"}, {"a": "exponential"}, {"a": "bernoulli"}, {"a": "multinomial"}, {("a", "b"): "multinomial"}, 3],
)
def test_columns_that_cannot_be_of_a_family(families):
    rng, place, _, _, s = world(2)
    X = {"a": rng.normal(size=len(place)), "b": rng.integers(0, 3, len(place))}
    with pytest.raises(InputError):
        CUDIA(2, method="two_stage", families=families).fit(people_of(X, place), places_of(s))


def test_small_numbers_are_no_shares():
    rng, place, z, _, s = world(5)
    people = people_of({"a": rng.normal(2.5 * z)}, place)
    near = places_of(np.where(np.arange(25) == 3, -0.4, s))
    assert values(CUDIA(2, method="two_stage", n_restarts=2).fit(people, near), people).min() < 0
