"""The functions for counts by unit, on tables of eighteen units."""

from __future__ import annotations

import numpy as np
from tests.contract.case import FunctionCase, With

from crosslevel import ecological

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
TWO, THREE = {"groups": PEOPLE, "outcomes": VOTES}, {"groups": GROUPS, "outcomes": OUTCOMES}
SHORT = {"o0": VOTES["o0"] - 5, "o1": VOTES["o1"]}
SIZE = np.asarray(sum(PEOPLE.values()), dtype=float)
SHARES, CHOICES = ({name: v / sum(side.values()) for name, v in side.items()} for side in (PEOPLE, VOTES))
REST = "none-of-the-above"
COVARIATE = {"z": RNG.normal(size=N)}
SEEDS = [4, np.random.default_rng(4), "zero"]
DATA = ("groups", "outcomes")
SPEED = "the answer is refused or not; where the fit converges, no number changes"
RXC = ecological.rxc(GROUPS, OUTCOMES)
EM = ecological.rxc_em(GROUPS, OUTCOMES)
STAYED = ecological.rxc_em(GROUPS, {"o0": OUTCOMES["o0"], "o1": OUTCOMES["o1"], "did not vote": OUTCOMES["o2"]})


def answer(found):
    """The table, and the units' with their names."""
    return {"district": found, "units": found.units}


def margins(tables):
    return {
        "X": tables.X,
        "T": tables.T,
        "names": np.array([*tables.groups, *tables.outcomes, *map(str, tables.units)]),
    }


def counted(found):
    counts = found[0]
    more = {"covariance": counts.covariance} if hasattr(counts, "covariance") else {}
    table = counts.to_frame() if more else counts
    return {**{name: np.array(values) for name, values in table.to_pydict().items()}, **more}


def on(result, **arguments):
    return {"result": result, **arguments}


PRECINCTS = {
    "name": NAMES,
    "again": [NAMES[0], *NAMES[:-1]],
    "county": [f"c{i % 3}" for i in range(N)],
    **{f"p{j}": GROUPS[f"g{j}"] for j in range(3)},
    "people": sum(GROUPS.values()) + 30,
    **{f"v{j}": OUTCOMES[f"o{j}"] for j in range(3)},
    "votes": OUTCOMES["o0"] + OUTCOMES["o1"] + 12,
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


STUDY = ecological.rpv(PRECINCTS, ["p0", "p1", "p2"], {"first": ["v0", "v1"]}, "name", methods=["rxc"])
CASES = []
FUNCTIONS = [
    FunctionCase(
        ecological.performance,
        {"study": STUDY, "districts": {"new": NAMES[:9], "old": NAMES[9:]}, "group": "p0"},
        lambda found: {"table": found, "level": np.array([found.level])},
        variants={
            "districts": [{"new": NAMES[:4]}, NAMES[:4], ["unit 99"], "unit 1"],
            "group": ["p1", "p9"],
            "level": [0.5, 95],
        },
        data=["study"],
    ),
    FunctionCase(
        ecological.rpv,
        {
            "frame": PRECINCTS,
            "groups": {"a": "p0", "b": ["p1", "p2"]},
            "contests": {"first": {"x": "v0", "y": "v1"}},
            "methods": ["goodman", "neighborhood"],
        },
        study,
        variants={
            "groups": [{"a": ["p0", "p2"], "b": "p1"}, ["p0", "p9"], []],
            "contests": [{"first": {"x": "v0", "z": "v2"}}, {"first": ["v0", "q1"]}, {}],
            "unit": ["again", ["county", "nam"], With("name", missing="drop", frame=HOLES)],
            "total_groups": ["people", "p0", "peopl"],
            "total_outcomes": ["votes", {"first": "cast"}, {"second": "cast"}, "v0"],
            "reference": ["a", "c"],
            "methods": [["goodman"], {"goodman": {"weights": "equal"}}, ["gudman"], {"goodman": {"weight": 1}}, []],
            "lead": ["neighborhood", "king"],
            "excess": [With("drop", frame=MANY, excess="raise"), "more"],
            "missing": [With("drop", frame=HOLES, missing="zero"), "skip"],
            "duplicates": [With("sum", frame=TWICE, unit="name", duplicates="drop_identical"), "add"],
            "level": [With(0.8, methods=["rxc"]), 95],
            "random_state": [With(4, methods=["rxc"]), "zero"],
        },
        neutral={"progress": "tells how many fits are done", "n_jobs": "threads change no bit"},
        data=["frame"],
    ),
    FunctionCase(
        ecological.king_iterated,
        {**THREE, "n_draws": 60},
        lambda found: found,
        variants={"units": [["a", *NAMES], "names"], "level": [0.8, 95], "n_draws": [80, 3], "random_state": SEEDS},
        neutral={"progress": "tells how many fits are done"},
        data=DATA,
    ),
    FunctionCase(
        ecological.unit_tables,
        {"groups": PEOPLE, "outcomes": SHORT, "balance": "scale"},
        margins,
        variants={
            "units": [NAMES, ["a", *NAMES], "names"],
            "balance": ["none-of-the-above", None],
            "rest": [With("did not vote", balance="none-of-the-above"), "did not vote"],
            "excess": [
                With(
                    "drop",
                    balance="none-of-the-above",
                    excess="raise",
                    outcomes={**SHORT, "o0": [900, *SHORT["o0"][1:]]},
                ),
                "raise",
                With("more", balance="none-of-the-above"),
            ],
            "missing": [With("drop", groups={**PEOPLE, "g0": [np.nan, *PEOPLE["g0"][1:]]}, missing="zero"), "skip"],
            "duplicates": [
                With("error", units=["a", "b"] * 9, duplicates="sum"),
                With(
                    "drop_identical",
                    groups={name: [*values, values[0]] for name, values in PEOPLE.items()},
                    outcomes={name: [*values, values[0]] for name, values in SHORT.items()},
                ),
                "add",
            ],
            "merge_below": [0.9, 3],
            "total": [np.full(N, 10.0)],
            "total_groups": [np.full(N, 10.0), With(1.5 * SIZE, groups=SHARES, total_groups=SIZE)],
            "total_outcomes": [
                np.full(N, 10.0),
                With(0.9 * SIZE, outcomes=CHOICES, total_outcomes=0.7 * SIZE, balance=REST),
            ],
        },
        data=DATA,
    ),
    FunctionCase(
        ecological.table_from_frame,
        {
            "frame": {"name": NAMES, "people": sum(PEOPLE.values()), **PEOPLE, **VOTES},
            "groups": ["g0", "g1"],
            "outcomes": ["o0", "o1"],
        },
        margins,
        variants={
            "groups": [["g1", "g0"], "g0"],
            "outcomes": [["o1", "o0"], ["o0", "o9"]],
            "unit": ["name", ["name", "people"], "nam", ["name", "nam"]],
            "total": ["name", "g0"],
            "total_groups": ["name", "g0", "peple"],
            "total_outcomes": ["name", "g0", "peple"],
        },
        neutral={"cleaning_options": "those of unit_tables"},
        data=["frame"],
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
        counted,
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
        FunctionCase(function, THREE, answer, variants={"units": [NAMES, "names"]}, data=DATA)
        for function in (ecological.bounds, ecological.neighborhood)
    ),
    FunctionCase(
        ecological.homogeneous, THREE, answer, variants={"threshold": [0.55, 0.3], "units": [NAMES]}, data=DATA
    ),
    FunctionCase(
        ecological.goodman,
        THREE,
        answer,
        variants={
            "units": [NAMES],
            "weights": ["equal", np.arange(N), "pop"],
            "level": [0.8, 95, With(0.8, bounded=True)],
            "bounded": [True],
        },
        data=DATA,
    ),
    FunctionCase(
        ecological.rxc_em,
        THREE,
        answer,
        variants={
            "tol": [1e-5, 2],
            "max_iterations": [With(3, allow_unconverged=True), 0],
            "units": [NAMES],
        },
        neutral={"allow_unconverged": SPEED},
        data=DATA,
    ),
    FunctionCase(
        ecological.rxc,
        THREE,
        answer,
        variants={
            "kind": ["votes", "vote", With("demographic", symmetric=True)],
            "contextual_slope": [0.0, 5],
            "contextual_slope_sd": [0.3, -1],
            "tau": [0.3, "wide"],
            "pool": [["a", "b"] * 9, "a"],
            "labels": [{"g0": "o0"}, {"g9": "o0"}, "match"],
            "symmetric": [True],
            "units": [NAMES],
            "level": [0.8, 95],
            "covariates": [
                {"z": np.asarray(GROUPS["g0"]) ** 2.0},
                np.ones(3),
                With({"z": np.arange(N)}, symmetric=True),
            ],
            "random_state": SEEDS,
            "allow_unconverged": [With(True, pool=["a", "b"] * 9)],
        },
        neutral={"progress": "tells how many fits are done"},
        data=DATA,
    ),
    FunctionCase(
        ecological.king,
        {**TWO, "n_draws": 200},
        answer,
        variants={
            "units": [NAMES],
            "zb": [COVARIATE, np.ones(N)],
            "zw": [COVARIATE, np.ones(3)],
            "level": [0.8, 95],
            "n_draws": [300, 5],
            "erho": [0.1, -1],
            "esigma": [0.1, -1],
            "ebeta": [0.01, "wide"],
            "point": ["mean", "median"],
            "random_state": SEEDS,
        },
        neutral={"allow_unconverged": SPEED},
        data=DATA,
    ),
    FunctionCase(
        ecological.multinomial_dirichlet,
        {**TWO, "chains": 2, "n_draws": 100, "warmup": 20, "allow_unconverged": True},
        answer,
        variants={
            "units": [NAMES],
            "contextual_slope": [0.0, 5],
            "contextual_slope_sd": [0.0, -1],
            "lambda1": [2.0, 0],
            "lambda2": [1.0, -1],
            "chains": [3, 1],
            "n_draws": [150, 2.5],
            "warmup": [30, 0],
            "level": [0.8, 95],
            "random_state": SEEDS,
        },
        neutral={"allow_unconverged": SPEED, "progress": "it is called, and changes no number"},
        data=DATA,
    ),
    FunctionCase(
        ecological.compare,
        {**THREE, "methods": ["neighborhood", "goodman"]},
        lambda found: found,
        variants={
            "methods": [["bounds", "rxc_em"], {"goodman": {"weights": "equal"}}, ["king"], []],
            "level": [0.8, 95],
        },
        neutral={"units": "the table by method has no units", "progress": "tells how many methods are done"},
        data=DATA,
    ),
    FunctionCase(
        ecological.car_test,
        TWO,
        lambda found: found,
        variants={
            "covariates": [COVARIATE, {"z": np.ones(N)}],
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
        variants={"covariates": [COVARIATE, np.ones(3)], "move": [0.1, "half", "others", 5], "slope": [0.4, -1]},
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
