"""The imputers on a few hundred people of 24 places, one of them with a missing age."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tests.contract.case import Case, FunctionCase, With

from crosslevel import People, Places
from crosslevel.imputation import CUDIA, CrossLevelImputer, pool


def _people() -> tuple[pd.DataFrame, dict[str, list]]:
    rng = np.random.default_rng(5)
    place = np.repeat(np.arange(24), 15)
    tilt = rng.normal(size=24)[place]
    cluster = rng.random(len(place)) < 1 / (1 + np.exp(-tilt))
    age = rng.binomial(4, np.where(cluster, 0.8, 0.2)).astype(float)
    code = np.where(rng.random(len(place)) < 0.75, cluster, rng.integers(0, 3, len(place)))
    ill = (rng.random(len(place)) < np.where(cluster, 0.7, 0.1)).astype(float)
    income = np.where(cluster, 3.0, 1.0) + 0.5 * rng.normal(size=len(place))
    X = pd.DataFrame({"age": age, "code": code, "sex": rng.choice(["f", "m"], len(place))})
    X.loc[3, "age"] = np.nan
    names = pd.Series([f"p{i:02d}" for i in place], name="place")
    frame = pd.DataFrame({"place": names, "ill": ill, "income": income}).groupby("place").mean().reset_index()
    return X.assign(place=names, w=rng.random(len(place)) + 0.5), {n: frame[n].tolist() for n in frame}


X, MEANS = _people()
KNOWN = {"by": "place", "columns": ["age", "code", "sex"]}
PEOPLE = People(X, **KNOWN, weight="w")
PLACES = Places(MEANS, by="place", means=["ill", "income"])
FITS = [(1.0, 0.7), (2.0, 0.6), (3.0, 0.7)]


def _imputed(model):
    return {
        "values": model.transform(PEOPLE).to_numpy(),
        "fitted": model.transform(PEOPLE, match_means=False).to_numpy(),
        "drawn": model.sample(PEOPLE, n_draws=2),
        "warnings": list(model.warnings_),
    }


def _clusters(model):
    found = {"clusters": model.clusters(), "means": model.estimate("sex", PEOPLE, n_draws=4)}
    return _imputed(model) | found | {"restarts": [model.convergence_["restarts"]]}


def _persons(model):
    steps = list(model.convergence_["steps"].values())
    return _imputed(model) | {"means": model.estimate("sex"), "slopes": model.slopes(), "steps": steps}


def _pooled(found):
    return {"table": found, "warnings": list(found.warnings)}


COMPARED = {
    "imputer": [["age"], "age"],
    "outcome": [With("age", imputer=["age"]), "age"],
    "allow_unseen": [With(False, allow_unseen=True, imputer=["age"], names=["bmi"], outcome="age"), True],
}
"""Arguments that compare the columns of an analysis with those of the imputer."""

CASES = [
    Case(
        name="CrossLevelImputer",
        people=dict(X),
        make=lambda **given: CrossLevelImputer(
            **{"family": {"income": "gaussian"}, "scale": {"income": 1.2}, "missing": "mean"} | given
        ),
        fit=lambda model: model.fit(PEOPLE, PLACES),
        answer=_persons,
        variants={
            "slope_sd": [0.3, 0.0],
            "shrinkage_groups": [16.0, "32"],
            "curvature": [0.0, -1.0],
            "family": [With("gaussian", scale=1.2), "bernoulli", {"ilness": "bernoulli"}],
            "scale": [{"income": 2.0}, 2.0, {"ill": 1.0}, {"incme": 1.0}],
            "missing": ["error", "drop"],
            "n_restarts": [0, 1.5],
            "random_state": [3, -1],
        },
    ),
    Case(
        name="CUDIA",
        people=dict(X),
        make=lambda **given: CUDIA(
            **{"n_clusters": 2, "method": "two_stage", "n_restarts": 1, "allow_unconverged": True} | given
        ),
        fit=lambda model: model.fit(PEOPLE, PLACES),
        answer=_clusters,
        variants={
            "n_clusters": [3, 1, 2.5],
            "method": ["map", "mcem", "hard", "printed", With("map", likelihood="count")],
            "likelihood": ["count", "law"],
            "families": [{"age": "poisson"}, {"aeg": "poisson"}, "normal"],
            "ridge": [20.0, "auto", -1.0],
            "alpha": [2.0, [1.0, 3.0], "learn", "logistic_normal", 0.0],
            "n_restarts": [2, 0],
            "random_state": [3, -1],
            "place_sd": [0.0, 0.3, -1.0],
        },
        neutral={
            "allow_unconverged": "decides whether a fit that did not converge raises or warns; no number depends on it"
        },
    ),
]

FUNCTIONS = [
    FunctionCase(
        function=pool,
        arguments={"fits": FITS},
        answer=_pooled,
        variants={
            "fits": [FITS[::-1][:2], FITS[:1]],
            "names": [["difference"], ["a", "b"]],
            "level": [0.5, 95],
            "n_complete": [20.0],
            **COMPARED,
        },
    ),
]
