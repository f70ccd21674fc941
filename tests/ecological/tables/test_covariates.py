"""Covariates of units in the contextual model."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ecological.margins import counted

from crosslevel.ecological import rpv, rxc
from crosslevel.ecological.tables.contextual.adjustments import PENALTIES, SHRUNK, ridge_fit
from crosslevel.errors import InputError


def world(n=60, effect=0.15, seed=4):
    """Units where a covariate that goes along with composition moves the rates of both groups."""
    rng = np.random.default_rng(seed)
    share = rng.beta(1.5, 2.0, n)
    z = (share - share.mean()) / share.std() + rng.normal(0, 0.7, n)
    people = np.column_stack([np.round(600 * share), np.round(600 * (1 - share))])
    rate = np.clip(np.array([0.6, 0.4]) + effect * z[:, None] / z.std(), 0.02, 0.98)
    cells = np.array(
        [[rng.binomial(int(k), p) for k, p in zip(*pair, strict=True)] for pair in zip(people, rate, strict=True)]
    )
    yes = cells.sum(axis=1)
    groups = {"a": people[:, 0], "b": people[:, 1]}
    votes = {"yes": yes, "no": people.sum(axis=1) - yes}
    return groups, votes, z, cells.sum(axis=0) / people.sum(axis=0)


def test_a_covariate_that_moves_everybody_takes_its_part_out_of_the_groups():
    groups, votes, z, truth = world()
    without, found = rxc(counted(groups, votes)), rxc(counted(groups, votes, covariates=z))
    off = [np.abs(est["estimate"][[0, 2]] - truth).sum() for est in (without, found)]
    assert off[1] < 0.75 * off[0]
    assert "with covariates" in found.method
    told = found.diagnostics["covariates"]
    assert told["gain"] > 0.3
    assert told["effects"]["z"][0][0] > 0.05
    np.testing.assert_allclose(told["move"], found["estimate"] - without["estimate"], atol=0.01)
    # what covariates move is part of the interval
    assert (found["std_error"] > np.abs(told["move"])).all()


def test_a_study_of_contests_takes_the_covariates_of_its_counts():
    groups, votes, z, _ = world(n=20)
    counts = counted(groups, votes, covariates=z)
    contest = {name: f"outcomes {name}" for name in votes}
    study = rpv(counts, {"c": contest}, methods=["rxc"])
    np.testing.assert_array_equal(study.contests["c"].voters["rxc"]["estimate"], rxc(counts)["estimate"])
    for kind, pool in (("symmetric votes", None), (None, "unit")):
        with pytest.raises(InputError):
            rxc(counted(groups, votes, units=range(20), covariates=z), kind=kind, pool=pool)


def test_a_covariate_of_noise_is_left_out():
    groups, votes, _, _ = world(n=60, effect=0.0)
    noise = np.random.default_rng(9).normal(size=60)
    fit = ridge_fit(np.column_stack(list(groups.values())), np.column_stack(list(votes.values())), noise[:, None])
    assert np.abs(fit.moved).max() < 0.01
    if not np.isfinite(fit.penalty):
        assert fit.gain == 0


def test_the_penalty_is_that_of_units_left_out_one_by_one():
    groups, votes, z, _ = world(n=25)
    X, T = (np.column_stack(list(side.values())).astype(float) for side in (groups, votes))
    Z = np.column_stack([z, np.random.default_rng(1).normal(size=25)])
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    fit = ridge_fit(X, T, Z)
    N = X.sum(axis=1)
    w = N / N.mean()
    A, t = X / N[:, None], T / N[:, None]

    def solve(rows, penalty):
        D = np.column_stack([A, Z])[rows]
        P = np.diag([0.0, 0.0, penalty, penalty])
        return np.linalg.solve(D.T @ (w[rows][:, None] * D) + P, D.T @ (w[rows][:, None] * t[rows]))

    def left_out(penalty):
        total = 0.0
        for i in range(25):
            rows = np.delete(np.arange(25), i)
            total += w[i] * ((t[i] - np.concatenate([A[i], Z[i]]) @ solve(rows, penalty)) ** 2).sum()
        return total

    np.testing.assert_allclose(fit.G, SHRUNK * solve(np.arange(25), fit.penalty)[2:], rtol=1e-6)
    step = PENALTIES[1] / PENALTIES[0]
    assert left_out(fit.penalty) <= min(left_out(fit.penalty * step), left_out(fit.penalty / step))
