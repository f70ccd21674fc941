"""Are the worlds of the CUDIA study what their descriptions say, and does its table hold the known errors?"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from tests.imputation.cudia.worlds import as_problem, make_problem, plain_block

from crosslevel.imputation.cudia import fit
from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.imputation.cudia.model import Parameters

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("cudia_simulation")


@pytest.fixture
def printed(study):
    return importlib.import_module("cudia_printed")


def test_the_papers_world_has_the_known_errors(study):
    worlds = [study.paper_world(seed) for seed in range(50)]
    assert np.mean([study.mse(w, w.s[w.group]) for w in worlds]) == pytest.approx(0.2367, abs=0.012)
    assert np.mean([study.mse(w, w.best) for w in worlds]) == pytest.approx(0.0866, abs=0.0015)
    assert np.mean([study.mse(w, w.inside) for w in worlds]) == pytest.approx(0.07, abs=0.0015)


def test_published_means_are_those_of_the_people(study):
    for make in study.WORLDS.values():
        world = make(0)
        assert np.bincount(world.group, world.u) / np.bincount(world.group) == pytest.approx(world.s)
        assert study.mse(world, world.best) < study.mse(world, world.s[world.group])


def test_an_interval_that_is_a_point_covers_nothing(study):
    world = study.paper_world(0)

    class Fixed:
        def sample(self, X, group, n_draws):
            return np.zeros((n_draws, len(group), 1))

    class Known(Fixed):
        def sample(self, X, group, n_draws):
            return np.repeat(world.u[None, :, None], n_draws, axis=0)

    assert study.coverage(world, Fixed()) == (0.0, 0.0)
    assert study.coverage(world, Known())[0] == 1.0


ETA, TAU2 = np.array([[-0.5], [0.5]]), np.array([0.07])


def groups_of(copies, mean=-0.02, size=30.0):
    return make_problem([plain_block(np.full((copies, 1), mean), np.full(copies, size))], [False])


@pytest.mark.parametrize(("twist", "mean", "sd"), [(0.0, 0.4319, 0.0641), (2.0, 0.4227, None)])
def test_proposals_from_the_prior_are_right_with_the_corrected_ratio_and_biased_with_the_printed_one(
    printed, twist, mean, sd
):
    # twist: the power of the prior in the ratio, none, or two as the paper prints it
    rng, chains, alpha = np.random.default_rng(1), 400, np.array([3.0, 2.0])
    counts, pi, kept = np.tile([18.0, 12.0], (chains, 1)), np.full((chains, 2), 0.5), []
    for number in range(400):
        shown, at = counts + twist * (alpha - 1.0), Parameters((), pi, ETA, TAU2)
        pi, _ = printed.draw_mix_from_prior(groups_of(chains), at, shown, alpha, rng)
        if number >= 100:
            kept.append(pi[:, 1])
    assert np.mean(kept) == pytest.approx(mean, abs=0.002)
    if sd is not None:
        assert np.std(kept) == pytest.approx(sd, abs=0.0015)


def test_proposals_from_the_prior_hardly_move_in_large_groups(printed):
    counts, pi = np.tile([24_000.0, 16_000.0], (200, 1)), np.tile([0.6, 0.4], (200, 1))
    at, rng = Parameters((), pi, ETA, TAU2), np.random.default_rng(0)
    assert printed.draw_mix_from_prior(groups_of(200), at, counts, np.ones(2), rng)[1] < 0.05


def test_expected_counts_in_the_place_of_drawn_ones_understate_the_spread_of_mixes(study, printed, monkeypatch):
    monkeypatch.setattr(fit, "SWEEPS", 1)
    world = study.draw(0, (-0.5, 0.5), (-0.5, 0.5), 4, 80)
    problem = as_problem(world.X["x"], world.group, np.full(4, np.nan))
    theta, Z = np.array([[-0.5, np.log(0.5)], [0.5, np.log(0.5)]]), np.zeros((0, 2), dtype=np.int64)
    spread = []
    for e_step in (fit.expectations, printed.expectations):
        rng, pi, kept = np.random.default_rng(1), np.full((4, 2), 0.5), []
        for _ in range(4000):
            _, pi = e_step(problem, Parameters((theta,), pi, ETA, TAU2), np.ones(2), Z, rng)
            kept.append(pi[:, 1])
        spread.append(np.var(kept[100:], axis=0))
    assert (spread[1] < 0.9 * spread[0]).all()  # V / (1 + share of missing information)


def test_the_printed_method_reaches_the_known_error(study):
    errors, oracle = [], []
    for seed in range(8):
        world = study.paper_world(seed)
        model = CUDIA(2, method="printed", n_restarts=2, allow_unconverged=True).fit(world.X, world.group, world.s)
        errors.append(study.mse(world, model.transform(world.X, world.group, match_means=False)[:, 0]))
        oracle.append(study.mse(world, world.best))
    assert np.mean(errors) - np.mean(oracle) < 0.002
