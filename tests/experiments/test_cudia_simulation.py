"""Are the worlds of the CUDIA study what their descriptions say, and does its table hold the known errors?"""

from __future__ import annotations

import numpy as np
import pytest
from tests.imputation.cudia.worlds import make_problem, plain_block

from crosslevel.imputation.cudia.estimator import CUDIA
from crosslevel.imputation.cudia.model import Parameters

pytestmark = pytest.mark.filterwarnings("ignore::crosslevel.errors.CrosslevelWarning")


@pytest.fixture
def study(experiment):
    return experiment("cudia_simulation")


@pytest.fixture
def printed(experiment):
    return experiment("cudia_printed")


def test_the_papers_world_has_the_known_errors(study):
    worlds = [study.paper_world(seed) for seed in range(50)]
    assert np.mean([study.mse(w, w.s[w.group]) for w in worlds]) == pytest.approx(0.2367, abs=0.012)
    assert np.mean([study.mse(w, w.best) for w in worlds]) == pytest.approx(0.0866, abs=0.0015)
    assert np.mean([study.mse(w, w.inside) for w in worlds]) == pytest.approx(0.07, abs=0.0015)


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


def test_the_printed_method_reaches_the_known_error(study):
    errors, oracle = [], []
    for seed in range(8):
        world = study.paper_world(seed)
        model = CUDIA(2, method="printed", n_restarts=2, allow_unconverged=True).fit(world.people, world.places)
        errors.append(study.mse(world, study.imputed(model, world.people, match_means=False)))
        oracle.append(study.mse(world, world.best))
    assert np.mean(errors) - np.mean(oracle) < 0.002
