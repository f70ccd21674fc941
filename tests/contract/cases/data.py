"""The functions of the way in, on a few people in a file, a crosswalk, and a nation of a dozen regions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from tests.contract.case import FunctionCase, With, method

from crosslevel import Bags
from crosslevel.data.readers import read_acs_pums, read_county_votes
from crosslevel.data.regions import merge_regions
from crosslevel.data.simulate import nation
from crosslevel.results import SurveyDesign

FOLDER = Path(tempfile.mkdtemp(prefix="crosslevel-contract-"))
PEOPLE = {
    "town": ["b", "a", "b", "a"],
    "age": [30, 41, 50, 60],
    "income": [1.0, 2.0, 3.0, 5.0],
    "w": [2.0, 1.0, 2.0, 4.0],
}
SURVEYED = {
    "ill": [1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1],
    "sex": [1, 2] * 6,
    "age": [1, 1, 2, 2] * 3,
    "w": [1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 3.0, 1.0, 2.0, 1.0, 2.0, 1.0],
    "r1": [2.0, 2.0, 0.0, 2.0, 1.0, 2.0, 3.0, 0.0, 2.0, 1.0, 2.0, 1.0],
    "r2": [0.0, 2.0, 2.0, 2.0, 1.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0],
    "stratum": [1, 1, 1, 2, 2, 2] * 2,
    "psu": [1, 2, 1, 1, 2, 2] * 2,
}
PUMS = FOLDER / "psam_p01.csv"
PUMS.write_text(
    "RT,SERIALNO,SPORDER,ST,PUMA,PWGTP,AGEP\nP,1,1,01,02100,25,44\nP,1,2,01,02100,20,30\nP,2,1,56,00500,10,70\n"
)
VOTES = FOLDER / "countypres.csv"
VOTES.write_text(
    "year,state,county_name,county_fips,candidate,party,candidatevotes,totalvotes\n"
    + "".join(
        f"{y},ALABAMA,AUT,{c},{n},{p},{v},100\n"
        for y in (2016, 2020)
        for c in ("1001", "1003")
        for n, p, v in (("A", "DEMOCRAT", 40), ("B", "REPUBLICAN", 50 + y % 7))
    )
)
SMALL = {"n_regions": 12, "people_per_region": 20, "n_states": 3}
WORLDS = {
    "n_regions": [10, 0],
    "people_per_region": [30, -1],
    "n_states": [2, 0],
    "sampling_rate": [0.5, 2.0],
    "turnout": [0.6, 0.0],
    "contextual": [0.0, "much"],
    "spatial": [0.0, -1.0],
    "random_state": [1, -1],
}


def bags(found):
    return {
        "values": found.values,
        "offsets": found.offsets,
        "weights": found.weights,
        "keys": found.keys,
        "columns": np.array(found.columns),
    }


def table(found):
    return {name: np.array(found[name].to_pylist(), dtype=str) for name in found.column_names}


def world(found):
    return {"people": table(found.people), "places": table(found.places)}


def regions(found):
    return {"labels": np.array(found.labels), "left": table(found.left), "right": table(found.right)}


CROSSWALK = {"county": ["a", "a", "b", "c", "d"], "puma": [1, 2, 2, 3, 4], "area": [1, 1, 1, 1, 2]}
CASES = []
FUNCTIONS = [
    *(
        FunctionCase(
            function=method(SurveyDesign, name, lambda: SurveyDesign("w", strata="stratum")),
            arguments={"people": SURVEYED, **arguments},
            answer=lambda found: found,
            variants=variants | {"level": [0.5, 95]},
            data=["people", *(n for n in ("statistic",) if n in arguments)],
        )
        for name, arguments, variants in (
            ("means", {"columns": "ill"}, {"by": ["sex", "sx"], "columns": ["age", "il"]}),
            (
                "vary",
                {"statistic": lambda w: w @ np.arange(12.0) / w.sum(), "n_replicates": 20},
                {"names": [["mean"], ["a", "b"]], "n_replicates": [30, 1], "random_state": [3, -1]},
            ),
        )
    ),
    FunctionCase(
        function=SurveyDesign,
        arguments={"weight": "w", "strata": "stratum"},
        answer=lambda design: design.means(SURVEYED, "ill"),
        variants={
            "replicates": [With("r", strata=None), "r"],
            "method": [With("brr", replicates="r", strata=None), "brr", "srs"],
            "strata": [None, "stratm"],
            "cluster": ["psu", "ps"],
            "lonely": ["none"],
        },
        data=["weight"],
    ),
    FunctionCase(
        Bags,
        {"values": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "offsets": [0, 1, 3]},
        bags,
        variants={
            "offsets": [[0, 2, 3], [0, 2]],
            "weights": [[1.0, 2.0, 3.0], [1.0]],
            "keys": [["x", "y"], ["x", "x"], "xy"],
            "columns": [["p", "q"], ["p"]],
        },
        data=["values"],
    ),
    FunctionCase(
        Bags.from_frame,
        {"people": PEOPLE, "by": "town"},
        bags,
        variants={
            "by": [With("age", columns=["income"]), "nowhere", []],
            "columns": [["age"], ["nobody"], []],
            "weight": ["w", "nobody", "town"],
            "categorical": [["age"], ["nobody"]],
            "missing": ["nonsense"],
            "like": [Bags.from_frame(PEOPLE, by="town", columns=["age"]), Bags([[1.0]], [0, 1]), 3],
        },
        data=["people"],
    ),
    FunctionCase(
        Bags.from_frame,
        {"people": {"town": [1, 1, 2, 2], "age": [30.0, None, 50.0, 20.0], "sex": ["f", "m", "m", None]}, "by": "town"}
        | {"missing": "indicate"},
        bags,
        variants={"missing": ["drop", "error", None], "categorical": [["age"]]},
        neutral=dict.fromkeys(("by", "columns", "weight", "like"), "in the case above"),
        data=["people"],
    ),
    FunctionCase(
        Bags.from_list,
        {"bags": [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]},
        bags,
        variants={
            "weights": [[[1.0], [2.0, 3.0]], [[1.0]]],
            "keys": [["x", "y"], ["x", "x"], "xy"],
            "columns": [["p", "q"], ["p"]],
        },
        data=["bags"],
    ),
    FunctionCase(nation, SMALL, world, variants=WORLDS),
    FunctionCase(
        nation(6, 20, n_states=2).survey,
        {"n": 40},
        lambda found: np.array([found.num_rows, sum(found["voted_dem"].to_pylist()), sum(found["sex"].to_pylist())]),
        variants={"n": [50, 0], "shift": [2.0, np.nan], "random_state": [1, -1]},
    ),
    FunctionCase(
        merge_regions,
        {"crosswalk": CROSSWALK},
        regions,
        variants={
            "left": ["area", "nowhere", []],
            "right": ["area", ["puma", "area"], "nowhere"],
            "collapse": [{"CD": ["c", "d"]}, {"X": ["nobody"]}, ["c"]],
            "join": [[("c", "d")], [("c", "nobody")]],
        },
        data=["crosswalk"],
    ),
    FunctionCase(
        read_county_votes,
        {"path": VOTES},
        table,
        variants={"year": [2020, 1999]},
        data=["path"],
    ),
    FunctionCase(
        read_acs_pums,
        {"path": PUMS},
        table,
        variants={
            "columns": [["AGEP"], ["nobody"]],
            "where": ["AGEP >= 40"],
        },
        data=["path"],
    ),
]
