"""The functions for counts by unit, on tables of eighteen units."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With, method
from tests.ecological.margins import counted

from crosslevel import Counts, ecological

RNG = np.random.default_rng(3)
N = 18


def table(groups, outcomes, seed):
    """Margins of units whose rates differ by chance: groups and outcomes as columns."""
    rng = np.random.default_rng(seed)
    rates = rng.dirichlet(np.full(outcomes, 2.0), groups)
    X = np.array([rng.multinomial(rng.integers(200, 900), rng.dirichlet(np.full(groups, 2.0))) for _ in range(N)])
    T = np.array([sum(rng.multinomial(k, rng.dirichlet(20 * p)) for k, p in zip(x, rates, strict=True)) for x in X])
    return {f"g{j}": X[:, j] for j in range(groups)}, {f"o{j}": T[:, j] for j in range(outcomes)}


PEOPLE, VOTES = table(2, 2, 1)
GROUPS, OUTCOMES = table(3, 3, 2)
NAMES = [f"unit {i}" for i in range(N)]
Z = RNG.normal(size=N)
PLACES = {"place": ["a", "b"] * 9, "gap": [None] * N, "w": np.arange(N), "z": Z}
TWO = counted(PEOPLE, VOTES, **PLACES)
THREE = counted(GROUPS, OUTCOMES, **PLACES)
BESIDE = counted(GROUPS, OUTCOMES, covariates={"z": Z})
SEEDS = [4, np.random.default_rng(4), "zero"]
DATA = ("counts",)
SPEED = "the answer is refused or not; where the fit converges, no number changes"
RXC = ecological.rxc(THREE)
EM = ecological.rxc_em(THREE)
STAYED = ecological.rxc_em(
    counted(GROUPS, {"o0": OUTCOMES["o0"], "o1": OUTCOMES["o1"], "did not vote": OUTCOMES["o2"]})
)


def answer(found):
    """The table, and the units' with their names."""
    return {"district": found, "units": found.units}


def margins(tables):
    return {
        "X": tables.X,
        "T": tables.T,
        "names": np.array([*tables.groups, *tables.outcomes, *map(str, tables.units)]),
    }


def sums(found):
    more = {} if found.covariance is None else {"covariance": found.covariance}
    return {**{name: np.array(values) for name, values in found.to_frame().to_pydict().items()}, **more}


def on(result, **arguments):
    return {"result": result, **arguments}


PRECINCTS = {
    "name": NAMES,
    "again": [NAMES[0], *NAMES[:-1]],
    "county": [f"c{i % 3}" for i in range(N)],
    **{f"p{j}": GROUPS[f"g{j}"] for j in range(3)},
    "people": sum(GROUPS.values()) + 30,
    **{f"v{j}": OUTCOMES[f"o{j}"] for j in range(3)},
    "all": sum(OUTCOMES.values()),
    "near": sum(OUTCOMES.values()) - 10,
    "cast": OUTCOMES["o0"] + OUTCOMES["o1"] + 3,
}
MANY = {**PRECINCTS, "v0": [5000, *OUTCOMES["o0"][1:]]}
HOLES = {**PRECINCTS, "v0": [None, *OUTCOMES["o0"][1:].tolist()]}
TWICE = {k: [*list(v), next(iter(v))] for k, v in PRECINCTS.items()}


def study(found):
    """What a reader sees of a study: its tables, notes and findings."""
    turnout = found.contests["first"].turnout
    return {
        "summary": found.summary,
        "tally": found.tally,
        "comparison": found.comparison,
        "turnout": turnout,
        "names": np.array([found.lead, *found.methods, *found.contests, *found.data_notes]),
    }


PLAIN = {"data": PRECINCTS, "unit": "name", "groups": ["p0", "p1", "p2"], "outcomes": ["v0", "v1", "v2"]}
STUDY = ecological.rpv(Counts(**PLAIN), {"first": ["v0", "v1"]}, methods=["rxc"])
CASES = []
FUNCTIONS = [
    FunctionCase(
        Counts,
        PLAIN,
        lambda found: margins(found.tables),
        variants={
            "groups": [{"a": "p0", "b": ["p1", "p2"]}, ["p0", "p9"], []],
            "outcomes": [{"a": ["v0", "v1"], "b": "v2"}, ["v0", "q1"]],
            "unit": [["county", "name"], "again", ["county", "nam"]],
            "total_groups": [With("people", repair={"rest": "none"}), "peopl", "p0"],
            "total_outcomes": [
                With("all", outcomes=["v0", "v1"], total_outcomes="cast", repair={"rest": "none"}),
                "p0",
            ],
            "covariates": ["zz"],
            "repair": [
                With({"missing": "drop"}, data=HOLES, repair={"missing": "zero", "rest": "none"}),
                With({"duplicates": "sum"}, data=TWICE, repair={"duplicates": "drop_identical"}),
                With({"rest": "none", "excess": "drop"}, data=MANY, repair={"rest": "none", "excess": "raise"}),
                With({"rest": "none"}, outcomes=["v0", "v1"], total_outcomes="near", repair={"balance": "scale"}),
                {"rests": "none"},
                "scale",
            ],
        },
        data=["data"],
    ),
    FunctionCase(
        method(ecological.PolarizationStudy, "performance", lambda: STUDY),
        {"districts": {"new": NAMES[:9], "old": NAMES[9:]}, "group": "p0"},
        lambda found: {"table": found, "level": np.array([found.level])},
        variants={
            "districts": [{"new": NAMES[:4]}, NAMES[:4], ["unit 99"], "unit 1"],
            "group": ["p1", "p9"],
            "level": [0.5, 95],
        },
    ),
    FunctionCase(
        ecological.rpv,
        {
            "counts": Counts(PRECINCTS, groups={"a": "p0", "b": ["p1", "p2"]}),
            "contests": {"first": {"x": "v0", "y": "v1"}},
            "methods": ["goodman", "neighborhood"],
        },
        study,
        variants={
            "contests": [
                {"first": {"x": "v0", "z": "v2"}},
                {"first": {"x": "v0", "y": "v1", "total": "cast"}},
                {"first": ["q1"]},
                {},
            ],
            "reference": ["a", "c"],
            "methods": [["goodman"], {"goodman": {"weights": "equal"}}, ["gudman"], {"goodman": {"weight": 1}}, []],
            "lead": ["neighborhood", "king"],
            "level": [With(0.8, methods=["rxc"]), 95],
            "random_state": [With(4, methods=["rxc"]), "zero"],
        },
        neutral={"progress": "tells how many fits are done"},
        data=DATA,
    ),
    FunctionCase(
        ecological.king_iterated,
        {"counts": THREE, "n_draws": 60},
        lambda found: found,
        variants={"level": [0.8, 95], "n_draws": [80, 3], "random_state": SEEDS},
        neutral={"progress": "tells how many fits are done"},
        data=DATA,
    ),
    FunctionCase(
        ecological.group_counts,
        {
            "people": {
                "place": ["a", "a", "b", "b"],
                "sex": ["f", "m", "m", "f"],
                "age": list("ooyo"),
                "w": [1.0, 3, 1, 2],
                "p": [0.25, 0.5, 1.0, 0.0],
                "q": [0.75, 0.5, 0.0, 1.0],
                "r": [0.75, 0.5, 0.3, 1.0],
            },
            "by": "place",
            "group": "sex",
            "places": {"place": ["b", "a"], "votes": [10, 100], "more": [20, 100]},
            "total": "votes",
        },
        sums,
        variants={
            "by": ["plac"],
            "group": ["age", None],
            "total": ["more", "vots", None],
            "weight": ["w", "v"],
            "probabilities": [
                With({"a": "p", "b": "q"}, group=None, probabilities=["p", "q"]),
                ["p", "q"],
                With(["q", "r"], group=None, probabilities=["p", "q"]),
            ],
            "calibration_sd": [
                With(0.5, group=None, probabilities=["p", "q"]),
                0.5,
                With(-1, group=None, probabilities=["p", "q"]),
                With(1.5, group=None, probabilities=["p", "q"]),
            ],
        },
        data=["people", "places"],
    ),
    *(
        FunctionCase(function, {"counts": THREE}, answer, variants={}, data=DATA)
        for function in (ecological.bounds, ecological.neighborhood)
    ),
    FunctionCase(ecological.homogeneous, {"counts": THREE}, answer, variants={"threshold": [0.55, 0.3]}, data=DATA),
    FunctionCase(
        ecological.goodman,
        {"counts": THREE},
        answer,
        variants={
            "weights": ["equal", "w", "pop"],
            "level": [0.8, 95, With(0.8, bounded=True)],
            "bounded": [True],
        },
        data=DATA,
    ),
    FunctionCase(
        ecological.rxc_em,
        {"counts": THREE},
        answer,
        variants={
            "tol": [1e-5, 2],
            "max_iterations": [With(3, allow_unconverged=True), 0],
        },
        neutral={"allow_unconverged": SPEED},
        data=DATA,
    ),
    FunctionCase(
        ecological.rxc,
        {"counts": THREE},
        answer,
        variants={
            "kind": ["votes", "vote", "symmetric votes", With("demographic", pool="place")],
            "contextual_slope": [0.0, 5, (0.4, 0.3), (0.4, -1)],
            "pool": ["place", "gap", "nowhere"],
            "labels": [{"g0": "o0"}, {"g9": "o0"}, "match"],
            "level": [0.8, 95],
            "random_state": SEEDS,
        },
        neutral={"progress": "tells how many fits are done"},
        data=DATA,
    ),
    FunctionCase(
        ecological.king,
        {"counts": TWO, "n_draws": 200},
        answer,
        variants={
            "means": [{"g0": "z"}, {"g1": ["z"]}, {"g0": ["gap"]}, {"g9": ["z"]}],
            "level": [0.8, 95],
            "n_draws": [300, 5],
            "prior": [(0.1, 0.5, 0.5), (0.5, 0.1, 0.5), (0.5, 0.5, 0.01), (-1, 0.5, 0.5), "wide"],
            "point": ["mean", "median"],
            "random_state": SEEDS,
        },
        neutral={"allow_unconverged": SPEED},
        data=DATA,
    ),
    FunctionCase(
        ecological.multinomial_dirichlet,
        {"counts": TWO, "n_draws": 100, "allow_unconverged": True},
        answer,
        variants={
            "contextual_slope": [0.0, 5, (0.35, 0.0), (0.35, -1)],
            "prior": [(2.0, 2.0), (4.0, 1.0), (0, 2.0)],
            "n_draws": [150, 2.5],
            "level": [0.8, 95],
            "random_state": SEEDS,
        },
        neutral={"allow_unconverged": SPEED, "progress": "it is called, and changes no number"},
        data=DATA,
    ),
    FunctionCase(
        ecological.compare,
        {"counts": THREE, "methods": ["neighborhood", "goodman"]},
        lambda found: found,
        variants={
            "methods": [["bounds", "rxc_em"], {"goodman": {"weights": "equal"}}, ["king"], []],
            "level": [0.8, 95],
        },
        neutral={"progress": "tells how many methods are done"},
        data=DATA,
    ),
    FunctionCase(
        ecological.car_test,
        {"counts": TWO},
        lambda found: found,
        variants={
            "weights": ["equal", "pop"],
            "n_draws": [199, 10],
            "random_state": SEEDS,
        },
        data=DATA,
    ),
    FunctionCase(
        ecological.sensitivity,
        on(EM),
        lambda found: found,
        variants={"counts": [BESIDE, TWO], "move": [0.1, "half", "others", 5], "slope": [0.4, -1]},
        data=["result"],
    ),
    FunctionCase(
        ecological.candidate_of_choice,
        on(RXC),
        lambda found: found,
        variants={
            "exclude": ["o1", "o9"],
            "abstention": ["o1", "o9", With(None, result=STAYED)],
            "level": [0.8, 95, With(0.8, result=EM)],
        },
        data=["result"],
    ),
    FunctionCase(
        ecological.polarization,
        on(RXC, groups=("g0", "g1")),
        lambda found: found,
        variants={
            "groups": [("g1", "g0"), ("g0", "g0")],
            "outcome": ["o1", "o9"],
            "threshold": [0.2, 5, With(0.2, result=EM)],
            "exclude": ["o1", "o9"],
            "abstention": ["o1", "o9", With(None, result=STAYED)],
            "level": [0.8, 95],
        },
        data=["result"],
    ),
    FunctionCase(
        ecological.margin,
        on(RXC, outcomes=("o0", "o1")),
        lambda found: found,
        variants={"outcomes": [("o1", "o0"), ("o0", "o9")], "abstention": ["o1", "o9"], "level": [0.8, 95]},
        data=["result"],
    ),
    *(
        FunctionCase(
            function,
            on(RXC, abstain="o2"),
            answer,
            variants={"abstain": ["o1", ["o0", "o1"], "did not vote"], "level": [0.8, 95]},
            data=["result"],
        )
        for function in (ecological.among_voters, ecological.turnout)
    ),
]
