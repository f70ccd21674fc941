"""The imputers on a few hundred people of 24 places, one of them with a missing age."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tests.contract.case import Case, FunctionCase, With

from crosslevel.imputation import (
    CUDIA,
    CrossLevelImputer,
    evaluate,
    pool,
    pool_statistic,
)


def _people() -> tuple[pd.DataFrame, pd.Series, dict[str, list], np.ndarray, np.ndarray]:
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
    return X, names, {n: frame[n].tolist() for n in frame}, ill, rng.random(len(place)) + 0.5


X, PLACE, MEANS, ILL, WEIGHT = _people()
WHOLE, WHERE = X.drop(index=3), PLACE.drop(index=3)
ONE = {"place": MEANS["place"], "ill": MEANS["ill"]}
DRAWS = np.random.default_rng(0).normal(1.0, 1.0, (4, 50, 1))


def _imputed(model):
    return {
        "values": model.transform(X, PLACE),
        "fitted": model.transform(X, PLACE, match_means=False),
        "drawn": model.sample(X, PLACE, n_draws=2),
        "warnings": list(model.warnings_),
    }


def _clusters(model):
    found = {"clusters": model.clusters(), "means": model.estimate("sex", X, PLACE, n_draws=4)}
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
        people=dict(X) | {"weight": WEIGHT},
        make=lambda **given: CrossLevelImputer(
            **{"family": {"income": "gaussian"}, "scale": {"income": 1.2}, "missing": "mean"} | given
        ),
        fit=lambda model: model.fit(X, PLACE, MEANS, sample_weight=WEIGHT),
        answer=_persons,
        variants={
            "slope_sd": [0.3, 0.0],
            "shrinkage_groups": [16.0, "32"],
            "curvature": [0.0, -1.0],
            "family": [With("gaussian", scale=1.2), "bernoulli", {"ilness": "bernoulli"}],
            "scale": [{"income": 2.0}, 2.0, {"ill": 1.0}, {"incme": 1.0}],
            "categorical": [["code"], ["cod"]],
            "missing": ["error", "drop"],
            "n_restarts": [0, 1.5],
            "random_state": [3, -1],
        },
    ),
    Case(
        name="CUDIA",
        people=dict(X) | {"weight": WEIGHT},
        make=lambda **given: CUDIA(
            **{"n_clusters": 2, "method": "two_stage", "n_restarts": 1, "allow_unconverged": True} | given
        ),
        fit=lambda model: model.fit(X, PLACE, MEANS, sample_weight=WEIGHT),
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
            "aggregates_from": ["population", With("population", likelihood="count")],
            "place_sd": [0.0, 0.3, -1.0],
        },
        neutral={
            "allow_unconverged": "decides whether a fit that did not converge raises or warns; no number depends on it"
        },
    ),
]

FUNCTIONS = [
    FunctionCase(
        function=evaluate,
        arguments={
            "X": WHOLE,
            "partition": WHERE,
            "truth": np.delete(ILL, 3),
            "methods": {"imputed": CrossLevelImputer()},
            "aggregates_from": "disjoint",
        },
        answer=lambda found: found,
        variants={"random_state": [1]},
        neutral={
            "progress": "tells how many fits are done",
            **dict.fromkeys(
                ("methods", "aggregates_from", "sample_weight", "categorical", "level"), "in the case below"
            ),
        },
        data=["X", "partition", "truth"],
    ),
    FunctionCase(
        function=evaluate,
        arguments={"X": WHOLE, "partition": WHERE, "truth": np.delete(ILL, 3)},
        answer=lambda found: found,
        variants={
            "aggregates_from": ["disjoint", "population", "others"],
            "random_state": [With(1, aggregates_from="disjoint"), 1],
            "methods": [{"a half": np.full(len(WHOLE), 0.5)}, {"x + group": np.full(len(WHOLE), 0.5)}],
            "sample_weight": [np.delete(WEIGHT, 3)],
            "categorical": [["code"], ["cod"]],
            "level": [0.5, 95],
            "progress": [print],
        },
        data=["X", "partition", "truth"],
    ),
    FunctionCase(
        function=pool,
        arguments={"estimates": [1.0, 2.0, 3.0], "std_errors": [0.7, 0.6, 0.7]},
        answer=_pooled,
        variants={"names": [["difference"], ["a", "b"]], "level": [0.5, 95], "n_complete": [20.0], **COMPARED},
        data=["estimates", "std_errors"],
    ),
    FunctionCase(
        function=pool_statistic,
        arguments={"draws": DRAWS, "statistic": lambda u: (u.mean(), u.std() / 7)},
        answer=_pooled,
        variants={"names": [["mean"], ["a", "b"]], "level": [0.5, 95], "n_complete": [20.0], **COMPARED},
        neutral={"progress": "tells how many data sets are done"},
        data=["draws", "statistic"],
    ),
]
