import numpy as np
import pytest

from crosslevel.imputation.cudia import posterior
from crosslevel.imputation.cudia.families import Exponential, Gaussian, Poisson
from crosslevel.imputation.cudia.levels import Categorical, Multinomial, Ordinal
from crosslevel.imputation.cudia.model import Block, Parameters, Problem, plain_block
from crosslevel.imputation.cudia.posterior import MixPrior, ascend, log_posterior
from crosslevel.imputation.cudia.regression import eta_prior

FAMILIES = (
    Gaussian("g", 0, 0.2, 1.1),
    Categorical("c", 1, ("a", "b", "c")),
    Poisson("p", 2, 2.0),
    Exponential("e", 3, 1.5),
    Multinomial("m", (4, 5), ("m1", "m2")),
    Ordinal("o", 6, ("1", "2", "3", "4"), (-0.7, 0.1, 1.0)),
)


def rows(n, rng):
    X = np.column_stack(
        [
            rng.normal(size=n),
            rng.integers(0, 3, n),
            rng.poisson(2, n),
            rng.exponential(1.5, n),
            rng.poisson(3, n),
            rng.poisson(2, n),
            rng.integers(0, 4, n),
        ]
    ).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def problem_of(hidden=("bernoulli", "gaussian"), nested=False, seed=0):
    rng = np.random.default_rng(seed)
    n, A = 40, 4
    X = rows(n, rng)
    atom = np.concatenate([np.arange(A), rng.integers(0, A, n - A)])
    S = np.column_stack([rng.uniform(0.2, 0.8, A), rng.normal(1.5, 0.3, A)])
    S[1, 0] = np.nan
    blocks = [plain_block(S, np.bincount(atom).astype(float), se=np.array([[np.nan, np.nan]] * 3 + [[np.nan, 0.2]]))]
    if nested:
        weight = np.bincount(atom).astype(float)
        group = np.array([0, 0, 1, 1])
        share = weight / np.bincount(group, weight)[group]
        blocks.append(
            Block(
                np.array([1]),
                group,
                share,
                np.array([[1.4], [1.7]]),
                np.bincount(group, weight),
                np.full((2, 1), np.nan),
            )
        )
    return Problem(
        X, FAMILIES, np.arange(n), atom, rng.uniform(0.5, 2, n), np.ones(n, dtype=np.int64), A, tuple(blocks), hidden
    )


def random_parameters(problem, K, rng):
    theta = tuple(0.3 * rng.normal(size=(K, f.n_free)) for f in FAMILIES)
    H = np.column_stack(
        [rng.uniform(0.1, 0.9, K) if kind == "bernoulli" else rng.uniform(0.5, 2, K) for kind in problem.hidden]
    )
    return Parameters(theta, rng.dirichlet(np.ones(K), problem.n_atoms), H, np.array([0.2, 0.3]))


@pytest.mark.parametrize("law", ["cudia", "count"])
@pytest.mark.parametrize("hidden", [("bernoulli", "gaussian"), ("poisson", "exponential")])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["ridge", "logit"])
def test_the_gradient_is_that_of_finite_differences(law, hidden, nested, kind, monkeypatch):
    problem = problem_of(hidden, nested)
    rng = np.random.default_rng(1)
    at = random_parameters(problem, 3, rng)
    prior = eta_prior(problem, 2.0, "mean", kind)
    caught = {}

    class StopError(Exception):
        pass

    def catch(loss, x0, **_):
        caught.update(loss=loss, x0=x0)
        raise StopError

    monkeypatch.setattr(posterior, "minimize", catch)
    mix = (
        MixPrior("logistic_normal", np.ones(3), np.zeros(3), np.full(3, 0.5))
        if nested
        else MixPrior.dirichlet(np.full(3, 1.7))
    )
    with pytest.raises(StopError):
        ascend(problem, at, mix, prior, law)
    loss, x = caught["loss"], caught["x0"] + 0.01 * rng.normal(size=len(caught["x0"]))
    step = 1e-6
    numeric = np.array([(loss(x + step * e)[0] - loss(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))])
    assert loss(x)[1] == pytest.approx(numeric, abs=2e-7 * max(1.0, np.abs(numeric).max()))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_the_m_step_is_a_maximum(family):
    rng = np.random.default_rng(2)
    X, W = rows(60, rng), rng.random((60, 2))
    free = family.maximize(W, X, None)
    for _ in range(30):
        free = family.maximize(W, X, free)
    slope = family.gradient(free, X, W) + family.log_prior(free)[1]
    assert np.abs(slope).max() < 1e-3

    def value(at):
        return float((W * family.log_density(at, X)).sum()) + family.log_prior(at)[0]

    for _ in range(20):
        assert value(free + 0.05 * rng.normal(size=free.shape)) <= value(free) + 1e-9


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_draws_surround_the_maximum(family):
    rng = np.random.default_rng(3)
    X, W = rows(400, rng), np.ones((400, 1))
    best = family.maximize(W, X, family.maximize(W, X, None))
    now, draws = best, []
    for _ in range(400):
        now = family.draw(W, X, now, rng)
        draws.append(now)
    spread = np.std(draws, axis=0)
    assert np.abs(np.mean(draws, axis=0) - best).max() < 3 * spread.max()
    assert 0.01 < spread.max() < 0.5


def test_a_missing_value_is_integrated_out():
    rng = np.random.default_rng(5)
    free = rng.normal(size=(3, 3))
    family = Categorical("c", 0, ("a", "b", "c"))
    levels = family.log_density(free, np.arange(3.0)[:, None])
    assert np.exp(levels).sum(axis=0) == pytest.approx(np.ones(3))
    assert family.log_density(free, np.array([[np.nan]])) == pytest.approx(np.zeros((1, 3)))


def test_a_weight_of_two_is_two_people():
    problem = problem_of()
    at = random_parameters(problem, 3, np.random.default_rng(0))
    mix = MixPrior.dirichlet(np.ones(3))
    from dataclasses import replace

    twice = replace(
        problem,
        cell=np.tile(problem.cell, 2),
        atom=np.tile(problem.atom, 2),
        weight=np.tile(problem.weight, 2),
        count=np.tile(problem.count, 2),
    )
    doubled = replace(problem, weight=2 * problem.weight)
    assert log_posterior(twice, at, mix, None)[0] == pytest.approx(log_posterior(doubled, at, mix, None)[0], rel=1e-12)
