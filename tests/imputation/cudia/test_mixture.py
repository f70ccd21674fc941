"""The mixture of x and the collapsed posterior: families, gradients, priors of the mixes, passes over pairs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln
from tests.imputation.cudia.worlds import gaussian, make_problem, plain_block

from crosslevel.imputation.cudia import mixture
from crosslevel.imputation.cudia.chain import draw_counts
from crosslevel.imputation.cudia.families import Exponential, Levels, Poisson
from crosslevel.imputation.cudia.mixture import (
    ascend,
    expected_log,
    learn_alpha,
    log_posterior,
    make_prior,
    responsibilities,
    weigh,
)
from crosslevel.imputation.cudia.model import Block, Parameters

FAMILIES = (
    gaussian("g", 0, 0.2, 1.1),
    Levels("c", (1,), np.full(3, 0.5), ("a", "b", "c")),
    Poisson("p", (2,), np.array([0.5, 1.0])),
    Exponential("e", (3,), np.array([0.5, 0.75])),
    Levels("m", (4, 5), np.full(2, 0.5), ("m1", "m2")),
)
FREE = (2, 3, 1, 1, 2)


def rows(n, rng):
    counts = [rng.poisson(rate, n) for rate in (2, 3, 2)]
    columns = [rng.normal(size=n), rng.integers(0, 3, n), counts[0], rng.exponential(1.5, n), *counts[1:]]
    X = np.column_stack(columns).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def problem_of(*, crossed=False, seed=0):
    rng = np.random.default_rng(seed)
    n, A = 40, 4
    X, atom = rows(n, rng), np.concatenate([np.arange(A), rng.integers(0, A, n - A)])
    S = np.column_stack([rng.uniform(0.2, 0.8, A), rng.normal(1.5, 0.3, A)])
    S[1, 0] = np.nan
    weight, errors = rng.uniform(0.5, 2, n), [[np.nan, np.nan]] * 3 + [[np.nan, 0.2]]
    size = np.bincount(atom, weight)
    blocks = [plain_block(S, size, errors)]
    if crossed:
        group, gap = np.array([0, 0, 1, 1]), np.full((2, 1), np.nan)
        people = np.bincount(group, size)
        blocks = [
            plain_block(S[:, :1], size),
            Block(1, np.array([1]), group, size / people[group], np.array([[1.4], [1.7]]), people, gap, gap[0] > 0),
        ]
    return make_problem(blocks, [True, False], X, atom, weight, FAMILIES)


def random_parameters(problem, K, rng):
    theta = tuple(0.3 * rng.normal(size=(K, q)) for q in FREE)
    H = np.column_stack([rng.uniform(0.1, 0.9, K), rng.uniform(0.5, 2, K)])
    return Parameters(theta, rng.dirichlet(np.ones(K), 4), H, np.array([0.2, 0.3]))


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("ridge", [2.0, None])
@pytest.mark.parametrize("means", [False, True])
def test_the_gradient_is_that_of_finite_differences(crossed, ridge, means, monkeypatch):
    problem, rng = problem_of(crossed=crossed), np.random.default_rng(1)
    prior = make_prior(problem, np.full(3, 1.7), ridge=ridge)
    caught = {}

    class StopError(Exception):
        pass

    def catch(loss, x0, **_):
        caught.update(loss=loss, x0=x0)
        raise StopError

    monkeypatch.setattr(mixture, "minimize", catch)
    with pytest.raises(StopError):
        ascend(problem, prior, random_parameters(problem, 3, rng), means=means)
    loss, x = caught["loss"], caught["x0"] + 0.01 * rng.normal(size=len(caught["x0"]))
    step = 1e-6
    numeric = np.array([(loss(x + step * e)[0] - loss(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))])
    assert loss(x)[1] == pytest.approx(numeric, abs=2e-7 * max(1.0, np.abs(numeric).max()))


def of_family(family, W, X):
    return W.T @ family.statistics(X).toarray()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_the_m_step_is_a_maximum(family):
    rng = np.random.default_rng(2)
    X, W = rows(60, rng), rng.random((60, 2))
    sums = of_family(family, W, X) + family.prior
    free = family.peak(sums)
    assert np.abs(family.slopes(sums, free)).max() < 1e-9

    def value(at):
        return float((sums * family.natural(at)).sum())

    for _ in range(20):
        assert value(free + 0.05 * rng.normal(size=free.shape)) <= value(free) + 1e-9


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_draws_surround_the_maximum(family):
    rng = np.random.default_rng(3)
    sums = of_family(family, np.ones((400, 1)), rows(400, rng)) + family.prior
    draws = [family.draw(sums, rng) for _ in range(400)]
    spread = np.std(draws, axis=0)
    assert np.abs(np.mean(draws, axis=0) - family.peak(sums)).max() < 3 * spread.max()
    assert 0.01 < spread.max() < 0.5


def test_densities_are_those_of_the_families():
    x, free = np.array([1.4]), np.array([[0.3, -0.4]])
    one = gaussian(center=5.0)
    density = one.statistics(x[None]).toarray() @ one.natural(free).T
    assert density[0, 0] == pytest.approx(-0.5 * ((1.4 - 0.3) ** 2 / np.exp(-0.4) - 0.4 + np.log(2 * np.pi)))
    mean, levels = np.exp(0.3), Levels("c", (0,), np.full(3, 0.5), ("a", "b", "c"))
    for family, log in ((Poisson, 2 * 0.3 - mean), (Exponential, -2 / mean - 0.3)):
        own = family("p", (0,), np.array([0.5, 1.0]))
        found = own.statistics(np.array([[2.0]])).toarray() @ own.natural(free[:, :1]).T
        assert found[0, 0] == pytest.approx(log)
    table = levels.natural(np.random.default_rng(5).normal(size=(3, 3)))
    found = levels.statistics(np.array([[0.0], [1.0], [2.0], [np.nan]])).toarray() @ table.T
    assert np.exp(found[:3]).sum(axis=0) == pytest.approx(np.ones(3))
    assert found[3] == pytest.approx(np.zeros(3))  # a missing value is integrated out


def test_a_weight_of_two_is_two_people():
    problem = problem_of()
    at, prior = random_parameters(problem, 3, np.random.default_rng(0)), make_prior(problem, np.ones(3))
    again = {n: np.tile(getattr(problem, n), 2) for n in ("cell", "atom", "weight", "count")}
    twice, doubled = replace(problem, **again), replace(problem, weight=2 * problem.weight)
    values = [log_posterior(p, prior, at, means=False)[0] for p in (twice, doubled)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_learned_exponents_are_a_maximum():
    rng = np.random.default_rng(0)
    mean_log = np.log(rng.dirichlet([0.7, 2.0, 4.0], 300)).mean(axis=0)

    def value(a):
        return gammaln(a.sum()) - gammaln(a).sum() + (a - 1) @ mean_log

    found = learn_alpha(mean_log, np.ones(3))
    assert found == pytest.approx([0.7, 2.0, 4.0], rel=0.25)
    for _ in range(50):
        assert value(found * np.exp(0.05 * rng.normal(size=3))) <= value(found) + 1e-12
    assert learn_alpha(mean_log, np.full(3, 30.0)) == pytest.approx(found, rel=1e-6)
    n, alpha = np.array([[3.0, 9.0]]), np.array([1.5, 0.5])
    draws = np.log(rng.dirichlet(n[0] + alpha, 200_000)).mean(axis=0)
    assert expected_log(n, alpha)[0] == pytest.approx(draws, abs=5e-3)


def test_the_update_is_the_most_probable_mix():
    n, alpha = np.array([[5.0, 1.0, 20.0], [2.0, 2.0, 1.0]]), np.array([2.0, 1.0, 3.0])
    pi, rng = mixture.update_mix(n, alpha), np.random.default_rng(1)
    for _ in range(100):
        other = pi * np.exp(0.02 * rng.normal(size=pi.shape))
        other /= other.sum(axis=1, keepdims=True)
        assert ((n + alpha - 1) * np.log(other / pi)).sum() <= 1e-9


class Pairs:
    """As much of a problem as a pass over pairs takes."""

    def __init__(self, log_f, cell, atom, weight):
        self.log_f, self.cell, self.atom, self.weight = log_f, cell, atom, weight

    def log_density(self, theta):
        return self.log_f


def test_sums_are_those_of_responsibilities():
    rng = np.random.default_rng(0)
    log_f, pi = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(3), 2)
    cell, atom, weight = np.array([0, 1, 2, 3, 4, 0]), np.array([0, 0, 0, 1, 1, 1]), rng.uniform(1, 4, 6)
    value, by_cell, by_atom = weigh(Pairs(log_f, cell, atom, weight), Parameters((), pi, None, None))
    joint = pi[atom] * np.exp(log_f[cell])
    assert value == pytest.approx(weight @ np.log(joint.sum(axis=1)))
    r = joint / joint.sum(axis=1, keepdims=True)
    assert responsibilities(log_f, pi, cell, atom) == pytest.approx(r)
    assert by_atom == pytest.approx(np.array([(weight[:, None] * r)[atom == a].sum(axis=0) for a in range(2)]))
    assert by_cell == pytest.approx(np.array([(weight[:, None] * r)[cell == c].sum(axis=0) for c in range(5)]))


def test_a_row_whose_only_cluster_has_vanished_is_no_division_by_nothing():
    log_f, pi = np.array([[0.0, -900.0]]), np.array([[0.0, 1.0]])
    one = np.zeros(1, dtype=np.int64)
    value, by_cell, by_atom = weigh(Pairs(log_f, one, one, np.ones(1)), Parameters((), pi, None, None))
    assert value < -600
    assert by_atom[0].sum() == by_cell[0].sum() == pytest.approx(1.0)
    assert np.isfinite(responsibilities(log_f, pi, one, one)).all()


def test_drawn_counts_have_the_probabilities():
    rng = np.random.default_rng(1)
    f, pi = np.array([[1.0, 0.4, 0.2], [0.1, 1.0, 0.3]]), np.array([[0.5, 0.3, 0.2]])
    cell, atom = np.array([0, 1]), np.zeros(2, dtype=np.int64)
    counts, by_cell, by_atom = draw_counts(f, pi, cell, atom, np.array([20_000, 1]), np.array([40_000.0, 1.0]), rng)
    assert counts.sum(axis=1).tolist() == [20_000, 1]
    p = pi[0] * f[0] / (pi[0] @ f[0])
    assert counts[0] / 20_000 == pytest.approx(p, abs=4 * 0.5 / np.sqrt(20_000))
    assert by_cell[0] == pytest.approx(2.0 * counts[0])
    assert by_atom[0] == pytest.approx(2.0 * counts[0] + counts[1])
