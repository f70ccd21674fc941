"""The command line gives the numbers of the library: one test, every verb."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import crosslevel as cl
from crosslevel import ecological
from crosslevel.data.simulate import nation
from crosslevel.results import Estimates


@dataclass(frozen=True)
class Verb:
    """A command, the files it reads, and the same asked of the library."""

    name: str
    command: str
    write: Callable[[Path], Any]
    ask: Callable[[Any], dict[str, Estimates]]


def write_nation(where: Path) -> Any:
    world = nation(12, 40, n_states=3, turnout=0.6)
    pq.write_table(world.people, where / "people.parquet", row_group_size=500)
    pacsv.write_csv(world.places, where / "places.csv")
    return world


def ask_ecological(world: Any) -> dict[str, Estimates]:
    model = cl.EcologicalInference(n_bins=4, random_state=3)
    model.fit(
        cl.People(world.people, by="region", weight="weight", columns=["age", "sex"], categorical=["sex"]),
        cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat")),
    )
    return {
        "sex-everywhere": model.estimate(by="sex", rollup="all", n_draws=60, level=0.8),
        "sex-by-region": model.estimate(by="sex", n_draws=60, level=0.8),
        "subgroups-by-region": model.estimate(subgroups={"young": "age < 30"}, n_draws=60, level=0.8),
        "cross-validation": model.cross_validate(2, level=0.8, random_state=3),
    }


def write_units(where: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    people = rng.integers(100, 400, 30)
    white = rng.binomial(people, rng.uniform(0.1, 0.9, 30))
    dem = rng.binomial(white, 0.3) + rng.binomial(people - white, 0.8)
    units = pd.DataFrame(
        {"precinct": [f"p{i}" for i in range(30)], "white": white, "black": people - white, "dem": dem}
    )
    units["rep"] = people - dem
    units.to_csv(where / "units.csv", index=False)
    return units


def ask_table(units: pd.DataFrame) -> dict[str, Estimates]:
    counts = cl.Counts(units, unit="precinct", groups=["white", "black"], outcomes=["dem", "rep"])
    methods = {"goodman": {"weights": "equal"}, "rxc": {}}
    return {"comparison": ecological.compare(counts, methods=methods, level=0.8)}


def write_bags(where: Path) -> Any:
    rng = np.random.default_rng(0)
    y, sizes = rng.uniform(1.0, 3.0, 40), np.resize([3, 40], 40)
    codes = np.repeat(np.arange(40), sizes)
    members = pd.DataFrame({"group": [str(1000 + c) for c in codes], "a": rng.normal(size=len(codes)) * y[codes]})
    members["w"] = rng.uniform(0.5, 1.5, len(codes))
    labels = pd.DataFrame({"group": np.arange(40) + 1000, "y": y}).sample(frac=1.0, random_state=1)
    members.sample(frac=1.0, random_state=1).to_parquet(where / "members.parquet", index=False)
    labels.to_csv(where / "labels.csv", index=False)
    return members.sample(frac=1.0, random_state=1), y


def ask_distribution(world: Any) -> dict[str, Estimates]:
    members, y = world
    bags = cl.Bags.from_frame(members, by="group", columns=["a"], weight="w")
    model = cl.distribution.BayesianLinear(n_landmarks=6, random_state=2)
    return {"fitted": model.fit(bags, y).estimate(bags, level=0.9, y=y)}


EDGES, COUNTS = np.array([0, 10, 20, 30, 40, 60, 90]), np.array([210, 340, 600, 520, 580, 300])


def write_bins(where: Path) -> None:
    pd.DataFrame({"lo": EDGES[:-1], "hi": EDGES[1:], "n": COUNTS}).to_csv(where / "ages.csv", index=False)


def ask_binned(_: None) -> dict[str, Estimates]:
    model = cl.binned.BinnedCountGP().fit(cl.Intervals.from_edges(EDGES), COUNTS)
    return {"estimates": model.estimate(cl.Intervals([18, 26], [25, 40]), level=0.9)}


def write_imputed(where: Path) -> Any:
    rng = np.random.default_rng(3)
    place = np.repeat(np.arange(22), 60)
    age = rng.binomial(3, 1 / (1 + np.exp(-rng.normal(size=22)[place])))
    ill = rng.random(len(place)) < 1 / (1 + np.exp(1.5 - 0.8 * age))
    people = pd.DataFrame(
        {"place": [f"{i:02d}" for i in place], "age": age, "school": rng.choice(["low", "high"], len(place))}
    )
    people["w"] = rng.integers(1, 4, len(place))
    means = ill.astype(float)
    means = pd.DataFrame({"place": people["place"], "ill": means}).groupby("place").mean().reset_index().assign(se=0.05)
    people.to_parquet(where / "people.parquet", row_group_size=500)
    means.to_csv(where / "places.csv", index=False)
    return people, means


def ask_impute(world: Any) -> dict[str, Estimates]:
    people, means = world
    known = cl.People(people, by="place", weight="w", columns=["age", "school"], where="age >= 1")
    told = cl.Means("ill", se={"ill": "se"}, of="population")
    model = cl.CrossLevelImputer().fit(known, cl.Places(means, by="place", means=told))
    return {
        "age-school": model.estimate(by=["age", "school"], level=0.9),
        "place": model.estimate(by="place", level=0.9),
    }


def ask_clusters(world: Any) -> dict[str, Estimates]:
    people, means = world
    known = cl.People(people, by="place", columns=["age", "school"])
    model = cl.CUDIA(2, "map", random_state=4).fit(known, cl.Places(means, by="place", means="ill"))
    return {"age": model.estimate("age", n_draws=100)}


def write_rows(where: Path) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 80, 150), "treatment": rng.choice(["control", "visit"], 150)})
    frame = frame.assign(sex=rng.integers(1, 3, 150), household=rng.integers(0, 60, 150))
    frame["voted"] = 0.01 * frame["age"] + 0.3 * (frame["treatment"] == "visit") + 0.3 * rng.normal(size=150)
    frame.to_csv(where / "data.csv", index=False)
    return frame


def ask_krls(rows: pd.DataFrame) -> dict[str, Estimates]:
    rows = rows[rows["age"] >= 30]
    model = cl.KRLS(categorical=["sex"], reference={"sex": 2})
    model.fit(rows[["treatment", "age", "sex"]], rows["voted"], cluster=rows["household"])
    return {"effects": model.effects(0.9)}


VERBS = [
    Verb(
        "ecological",
        "ecological people.parquet places.csv --by region --weight weight --successes dem --trials votes --lon lon --lat lat --categorical "
        "sex --n-bins 4 --columns age --columns sex --seed 3 --n-draws 60 --level 0.8 --estimate sex --estimate young=age<30 --rollup all "
        "--cross-validate 2",
        write_nation,
        ask_ecological,
    ),
    Verb(
        "table",
        "table units.csv --unit precinct --group white --group black --outcome dem --outcome rep --methods goodman,rxc --weights equal "
        "--level 0.8",
        write_units,
        ask_table,
    ),
    Verb(
        "distribution",
        "distribution members.parquet labels.csv --by group --label y --weight w --model bayesian_linear --n-landmarks 6 "
        "--level 0.9 --seed 2",
        write_bags,
        ask_distribution,
    ),
    Verb("binned", "binned ages.csv --lower lo --upper hi --total n --at 18-25 --at 26-40 --level 0.9", write_bins, ask_binned),
    Verb(
        "impute",
        "impute people.parquet places.csv --by place --means ill --columns age --columns school --weight w --se ill=se --of population "
        "--estimate age*school --estimate place --where age>=1 --level 0.9 --imputations 0",
        write_imputed,
        ask_impute,
    ),
    Verb(
        "clusters",
        "impute people.parquet places.csv --by place --means ill --columns age --columns school --model cudia --n-clusters 2 "
        "--method map --seed 4 --estimate age --imputations 0",
        write_imputed,
        ask_clusters,
    ),
    Verb(
        "krls",
        "krls data.csv --y voted --x treatment --x age --x sex --categorical sex --reference sex=2 --cluster household --where age>=30 "
        "--level 0.9",
        write_rows,
        ask_krls,
    ),
]  # fmt: skip


def same(found: dict[str, np.ndarray], expected: Estimates, name: str) -> None:
    want = expected[name]
    if want.dtype.kind == "f":
        np.testing.assert_allclose(np.asarray(found[name], dtype=float), want, rtol=1e-6, atol=1e-9, err_msg=name)
    else:
        assert [str(v) for v in found[name]] == [str(v) for v in want.tolist()]


@pytest.mark.parametrize("verb", VERBS, ids=lambda v: v.name)
def test_the_command_line_gives_the_numbers_of_the_library(verb, crosslevel, tmp_path):
    expected = verb.ask(verb.write(tmp_path))
    printed = crosslevel(*verb.command.split(), "--out", "run", "--report", cwd=tmp_path)
    told = json.loads(crosslevel(*verb.command.split(), "--json", cwd=tmp_path).out)
    for name, wanted in expected.items():
        saved = cl.load(tmp_path / "run" / f"{name}.crosslevel")
        rows = told["answers"][name]["rows"]
        listed = {n: [np.nan if r[n] is None else r[n] for r in rows] for n in wanted.table.column_names}
        assert saved.keys == wanted.keys == tuple(told["answers"][name]["keys"])
        assert saved.level == wanted.level == told["answers"][name]["level"]
        assert pacsv.read_csv(tmp_path / "run" / f"{name}.csv").num_rows == len(wanted)
        for column in wanted.table.column_names:
            if column != "seconds":
                same({n: saved[n] for n in saved.table.column_names}, wanted, column)
                same(listed, wanted, column)
    assert told["files"] == {}
    assert "run/report.html" in printed.out
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    if verb.name != "table":
        assert type(cl.load(tmp_path / "run" / "model.crosslevel")).__module__.startswith("crosslevel.")
