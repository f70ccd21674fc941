"""Every estimator over bags, on forty bags of two columns.

The sampled models draw from Laplace's approximation in place of NUTS: whether a parameter reaches the sampler and the answer does not
depend on how the draws are made, and compiling NUTS takes a minute.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
from tests.contract.case import Case, With

from crosslevel import distribution as room
from crosslevel.data.bags import Bags
from crosslevel.distribution.sampled import model as sampled
from crosslevel.distribution.sampled.sampler import Draws
from crosslevel.numerics.chains import ChainDiagnostics


def _bags() -> tuple[Bags, np.ndarray]:
    rng = np.random.default_rng(5)
    y = rng.uniform(-1, 1, 40)
    sizes = rng.choice([2, 6, 20], 40)
    values = np.column_stack(
        [rng.normal(np.repeat(y, sizes), 1.0), 3.0 * rng.normal(size=sizes.sum()) * np.repeat(1 + y**2, sizes)]
    )
    return Bags(values, np.append(0, np.cumsum(sizes)), weights=rng.uniform(0.5, 2.0, sizes.sum())), y


BAGS, Y = _bags()
NEW = BAGS[:8]
SMALL = {"n_landmarks": 6, "bandwidth_scale": 1.0}
FEATURES = {
    "n_landmarks": [9, (5, 9), 0],
    "landmarks": ["paper", np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 1.0]]), "k-means"],
    "bandwidth": [2.0, -1.0],
    "bandwidth_scale": [1.5, "auto"],
    "standardize": [False],
    "random_state": [5, -1],
}
SECOND = {"second_level": ["rbf", "cubic"]}


def _draw(problem, fit, prior, settings):
    rng = np.random.default_rng([settings.seed, settings.n_warmup])
    shape = (settings.n_chains, settings.n_draws)
    w = rng.normal(np.r_[fit.b, fit.a], 0.1, size=(*shape, len(fit.a) + 1))
    logs = rng.normal(prior.location, prior.scale, size=(*shape, len(prior.location)))
    well = ChainDiagnostics(1.0, 1000.0 * (settings.n_draws > 20), 1000.0, 0, *shape)
    steps = np.ones(shape, dtype=np.int64)
    return Draws(w, logs, np.zeros(shape, dtype=bool), steps, rng.normal(size=shape), rng.uniform(size=shape), well)


def _fit(model, y):
    with mock.patch.object(sampled, "sample_posterior", _draw):
        return model.fit(BAGS, y)


def _regression(model):
    mean, std = model.predict(NEW, return_std=True)
    found = {"mean": mean, "std": std, "density": model.log_density(NEW, Y[:8]), "table": model.estimate(NEW)}
    return found | {"starts": model.convergence_.get("n_searches", 0)}


def _classification(model):
    found = {"probability": model.predict_proba(NEW), "table": model.estimate(NEW)}
    return found | {"starts": model.convergence_.get("n_searches", 0)}


def _case(cls, variants, classes=2, **settings):
    own = (
        Y
        if hasattr(cls, "predictive")
        else np.array(["low", "middle", "high"])[np.digitize(Y, [-0.2, 0.4][: classes - 1])]
    )
    return Case(
        name=cls.__name__ if classes == 2 else f"{cls.__name__} of {classes} classes",
        make=lambda **given: cls(**SMALL | settings | given),
        fit=lambda model: _fit(model, own),
        answer=_regression if hasattr(cls, "predictive") else _classification,
        variants=FEATURES | variants,
        people={"a": BAGS.values[:, 0], "b": BAGS.values[:, 1], "weight": BAGS.weights},
    )


SHRINKAGE = {"shrinkage_kernel": ["integral", "k"], "n_restarts": [0, -1]}
SAMPLED = {
    "shrinkage_kernel": ["integral", "k"],
    "n_chains": [3, 1],
    "n_warmup": [12, 0],
    "n_draws": [50, 1],
    "prior_scale": [0.5, 0.0],
    "allow_unconverged": [With(False, n_draws=10)],
}
SHORT = {"n_chains": 2, "n_warmup": 10, "n_draws": 40, "allow_unconverged": True}

CASES = [
    _case(room.BayesianLinear, SECOND | {"prior": ["iid", "flat"], "fit_intercept": [False]}),
    _case(room.BayesianLinearClassifier, SECOND | {"prior": ["iid"]}),
    _case(room.BayesianLinearClassifier, SECOND | {"prior": ["iid"]}, classes=3),
    _case(
        room.RBFNetwork,
        SECOND
        | {
            "penalty": [0.1, -1.0],
            "rule": ["gcv", "cv"],
            "norm": ["rkhs", "l1"],
        },
    ),
    _case(
        room.FrequentistShrinkage,
        {"filter": ["simple", "none"], "rule": ["gcv"]},
    ),
    _case(room.MeanShrinkage, SHRINKAGE),
    _case(room.MeanShrinkageClassifier, SHRINKAGE),
    _case(room.FullBayes, SAMPLED, **SHORT),
    _case(room.FullBayesClassifier, SAMPLED, **SHORT),
]
