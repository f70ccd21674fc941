"""Ecological inference from people: persons who decide one by one, and the regression on mean embeddings."""

from __future__ import annotations

from tests.contract.case import Case, With

from crosslevel.data.simulate import nation
from crosslevel.ecological import DistributionRegression, EcologicalInference

WORLD = nation(20, 60, n_states=4)
COUNTS = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes"}
COLUMNS = ["age", "sex", "race"]
SCALES = {"effect_variance": 0.3, "spatial": 0.1, "length": 400.0, "nugget": 0.02}
FEATURES = {"effect_variance": 2.0, "spatial": 0.1, "length": 400.0, "nugget": 0.02}
BARE = {"effect_variance": 0.3, "nugget": 0.02}
THREADS = {"n_jobs": "threads change no bit"}
PEOPLE = {n: WORLD.people[n].to_numpy() for n in (*COLUMNS, "weight", "income")}


def fit(model):
    where = {"coords": ("lon", "lat")} if model.spatial is not None else {}
    return model.fit(WORLD.people, WORLD.places, **COUNTS, **where, columns=COLUMNS)


def answer(model):
    """Read the subgroups of every place and the places themselves."""
    return {"sex": model.estimate(by="sex", n_draws=50, people=WORLD.people), "places": model.predict_places()}


CASES = [
    Case(
        name="EcologicalInference",
        make=lambda **p: EcologicalInference(**{"categorical": ["sex"], "hyperparameters": SCALES, **p}),
        fit=fit,
        answer=answer,
        variants={
            "categorical": [None, ["age", "sex"], ["nonsense"]],
            "spatial": ["matern12", "nonsense", With(None, hyperparameters=None)],
            "metric": ["plane", "nonsense", With("plane", spatial=None, hyperparameters=BARE)],
            "nugget_by": [
                "state",
                With("state", hyperparameters=None),
                With("nonsense", hyperparameters=None),
            ],
            "group": [
                "nonsense",
                With("state", hyperparameters=None),
                With(["state", "lat", "lon"], hyperparameters=None),
            ],
            "inducing_points": [
                4,
                1,
                With(4, spatial=None, hyperparameters=BARE),
            ],
            "n_bins": [4, 1],
            "interactions": [[("sex", "race")], [("sex", "nonsense")]],
            "hyperparameters": [{**SCALES, "nugget": 0.2}, {**SCALES, "group": 0.1}, {"effect_variance": -1.0}],
            "random_state": [1, -1],
            "engine": ["nonsense", 3],
        },
        neutral=THREADS,
        people=PEOPLE,
    ),
    Case(
        name="DistributionRegression",
        make=lambda **p: DistributionRegression(
            **{"n_features": 32, "categorical": ["sex"], "hyperparameters": FEATURES, **p}
        ),
        fit=fit,
        answer=answer,
        variants={
            "n_features": [64, 0, With(64, feature_map="linear", n_features=4096)],
            "feature_map": ["rff", "nonsense"],
            "bandwidth": [1.0, "nonsense", With(1.0, feature_map="linear", n_features=4096)],
            "categorical": [None, ["nonsense"]],
            "spatial": ["matern52", "nonsense", With(None, hyperparameters=None)],
            "metric": ["plane", With("plane", spatial=None, hyperparameters=None)],
            "nugget": [With(False, hyperparameters=None), "yes"],
            "rank": [4, 0],
            "group": ["nonsense", With("state", hyperparameters=None)],
            "match_totals": [False, None],
            "sampling_error": [False, 2],
            "hyperparameters": [{**FEATURES, "nugget": 0.2}, {"effect_variance": -1.0}],
            "n_restarts": [3, With(0, hyperparameters=None)],
            "random_state": [1, -1],
        },
        neutral=THREADS,
        people=PEOPLE,
    ),
]

FUNCTIONS = []
