"""The imputers on a few hundred people of 24 places, one of them with a missing age."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tests.contract.case import Case, FunctionCase, With, method

from crosslevel.imputation import (
    CUDIA,
    AddImputed,
    CrossLevelImputer,
    LabelProportions,
    evaluate,
    evaluate_downstream,
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
            **{"n_clusters": 2, "method": "map", "n_restarts": 1, "n_draws": 6, "allow_unconverged": True} | given
        ),
        fit=lambda model: model.fit(X, PLACE, MEANS, sample_weight=WEIGHT),
        answer=_clusters,
        variants={
            "n_clusters": [3, 1, 2.5],
            "method": ["two_stage", "mcem", "gibbs", "hard", "printed"],
            "likelihood": ["count", "law"],
            "families": [{"age": "poisson"}, {"aeg": "poisson"}, "normal"],
            "ridge": [20.0, "auto", -1.0],
            "ridge_target": ["zero", 0.5, "center"],
            "alpha": [2.0, [1.0, 3.0], [1.0, 2.0, 3.0], "learn", "logistic_normal", 0.0],
            "n_restarts": [2, 0],
            "random_state": [3, -1],
            "beta": [With(10.0, method="hard"), 10.0],
            "logit_sd": [0.5, With(0.5, place_sd=0.0, ridge=5.0)],
            "aggregates_from": ["population", With("population", likelihood="count")],
            "n_draws": [8, 1],
            "place_sd": [0.0, 0.3, -1.0],
        },
        neutral={
            "allow_unconverged": "decides whether a fit that did not converge raises or warns; no number depends on it"
        },
    ),
    Case(
        name="CUDIA, yes or no only",
        people=dict(X) | {"weight": WEIGHT},
        make=lambda **given: CUDIA(
            **{"n_clusters": 2, "method": "two_stage", "n_restarts": 1, "n_draws": 6, "allow_unconverged": True} | given
        ),
        fit=lambda model: model.fit(X, PLACE, ONE),
        answer=_clusters,
        variants={"ridge_target": [With("zero", ridge=5.0), "zero"], "logit_sd": [With(0.5, place_sd=0.0)]},
        neutral=dict.fromkeys(
            set(CUDIA().get_params()) - {"ridge_target", "logit_sd"},
            "as in the case before; here only the prior of eta differs",
        ),
    ),
    Case(
        name="LabelProportions",
        people=dict(X) | {"weight": WEIGHT},
        make=lambda **given: LabelProportions(**{"n_features": 8, "missing": "mean"} | given),
        fit=lambda model: model.fit(X, PLACE, ONE, sample_weight=WEIGHT),
        answer=lambda model: {
            "values": model.predict_proba(X),
            "means": model.estimate(X, "sex"),
            "sd": list(model.convergence_["bag_sd"].values()),
        },
        variants={
            "n_features": [0, 12, -1],
            "assignment": ["places", "chance"],
            "categorical": [["code"], ["cod"]],
            "missing": ["error", "drop"],
            "random_state": [3, -1],
        },
    ),
    Case(
        name="AddImputed",
        people=dict(X) | {"weight": WEIGHT},
        make=lambda **given: AddImputed(**{"partition": "place", "aggregates": ONE} | given),
        fit=lambda model: model.fit(WHOLE.assign(place=WHERE)),
        answer=lambda model: (
            model.transform(WHOLE.assign(place=WHERE).iloc[::2])
            .drop(columns=["sex", "place"], errors="ignore")
            .assign(n=len(model.get_feature_names_out()))
            .to_numpy(float)
        ),
        variants={
            "partition": ["plaec", 7],
            "aggregates": [{**ONE, "ill": [p / 2 for p in ONE["ill"]]}, None],
            "imputer": [CrossLevelImputer(shrinkage_groups=4.0), CUDIA(2, method="two_stage", n_restarts=1)],
            "columns": [["age"], ["aeg"]],
            "keep_partition": [True],
            "match_means": [True],
        },
        transformer=True,
    ),
]

FUNCTIONS = [
    FunctionCase(
        function=LabelProportions(n_features=8, missing="mean").fit,
        arguments={"X": X, "bags": PLACE, "proportions": ONE},
        answer=lambda model: model.predict_proba(X),
        variants={"sample_weight": [WEIGHT, WEIGHT[:5], -WEIGHT]},
        neutral={"progress": "tells how many rounds are done"},
        data=["X", "bags", "proportions"],
    ),
    FunctionCase(
        function=method(
            LabelProportions,
            "estimate",
            lambda: LabelProportions(n_features=8, missing="mean").fit(X, PLACE, ONE),
        ),
        arguments={"X": X, "by": "sex"},
        answer=lambda found: found,
        variants={"sample_weight": [WEIGHT, WEIGHT[:5], -WEIGHT], "level": [0.5, 95], "by": ["code", "cod"]},
        data=["X"],
    ),
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
        variants={"random_state": [1], "aggregates": [ONE]},
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
            "aggregates": [{**ONE, "ill": [0.9 * p for p in ONE["ill"]]}],
            "sample_weight": [np.delete(WEIGHT, 3)],
            "categorical": [["code"], ["cod"]],
            "level": [0.5, 95],
            "progress": [print],
        },
        data=["X", "partition", "truth"],
    ),
    FunctionCase(
        function=evaluate_downstream,
        arguments={
            "X": WHOLE,
            "partition": WHERE,
            "y": np.delete(ILL, 3),
            "imputed": {"age": WHOLE["age"].to_numpy() ** 2},
        },
        answer=lambda found: found,
        variants={
            "true_values": [WHOLE["code"].to_numpy()],
            "naive": [WHOLE["code"].to_numpy()],
            "sample_weight": [np.delete(WEIGHT, 3)],
            "categorical": [["code"], ["cod"]],
            "level": [0.5, 95],
        },
        data=["X", "partition", "y", "imputed"],
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
