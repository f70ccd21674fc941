"""Small random worlds for every public estimator and function, and ways to tell the same world differently.

A world is a set of tables. Its rows in another order, its columns in another order, its places under other names, a person of weight 2
as two persons of weight 1, and another kind of dataframe are the same world: the answer must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from tests.contract.cases.distribution import _draw
from tests.ecological.margins import counted

import crosslevel as cl
from crosslevel import diagnostics, distribution, ecological, imputation
from crosslevel.binned import interpolate
from crosslevel.data.frames import to_arrow
from crosslevel.data.regions import merge_regions
from crosslevel.distribution.sampled import model as sampled
from crosslevel.results import SurveyDesign

__all__ = ["KINDS", "TELLINGS", "WORLDS", "World", "differs"]

Table = dict[str, np.ndarray]
Data = dict[str, Table]
Answer = Mapping[str, np.ndarray]
KINDS: dict[str, Callable[[Table], Any]] = {
    "arrow": lambda table: pa.table({n: pa.array(v.tolist()) for n, v in table.items()}),
    "pandas": lambda table: pd.DataFrame({n: v.tolist() for n, v in table.items()}),
    "polars": lambda table: pl.DataFrame({n: v.tolist() for n, v in table.items()}),
    "dictionary": lambda table: {n: v.tolist() for n, v in table.items()},
}


@dataclass(frozen=True)
class World:
    """One public thing on data that can be told in several ways.

    Attributes
    ----------
    name : str
    make : callable
        ``make(rng)`` gives the tables.
    answer : callable
        ``answer(frames)`` gives arrays; those as long as the array ``key`` belong to its labels.
    rows : sequence of table names
        Tables whose rows may come in any order.
    together : sequence of table names
        Tables whose rows may come in any order, the same in all of them.
    columns : sequence of table names
        Tables whose columns may come in any order.
    weight : pair of table and column, optional
        A weight that counts people.
    labels : sequence of pairs of table and column
        Where the labels of ``key`` stand; they may be other labels.
    tolerance : float
        Largest difference, relative to the largest number of the array.
    exact : sequence of laws
        Laws that hold to the bit.
    in_errors : mapping of law to number
        Laws that hold up to the noise of draws: the largest difference of an estimate in standard errors.
    problem : callable
        ``problem(data, answer)`` says what is wrong with an answer by itself.
    """

    name: str
    make: Callable[[np.random.Generator], Data]
    answer: Callable[[dict[str, Any]], Answer]
    rows: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    weight: tuple[str, str] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    tolerance: float = 1e-7
    exact: tuple[str, ...] = ()
    in_errors: Mapping[str, float] = field(default_factory=dict)
    problem: Callable[[Data, Answer], str] = field(default=lambda data, answer: "")

    def told(self, data: Data, kind: str = "arrow") -> Answer:
        """Answer from tables of one kind."""
        return self.answer({name: KINDS[kind](table) for name, table in data.items()})


# ways to tell the same world -------------------------------------------------------------------------------------------------


def _rows(world: World, data: Data, rng: np.random.Generator) -> Data | None:
    if not world.rows and not world.together:
        return None
    moved = dict(data)
    if world.together:
        order = rng.permutation(len(next(iter(data[world.together[0]].values()))))
        moved |= {t: {n: v[order] for n, v in data[t].items()} for t in world.together}
    for name in world.rows:
        order = rng.permutation(len(next(iter(data[name].values()))))
        moved[name] = {n: v[order] for n, v in data[name].items()}
    return moved


def _columns(world: World, data: Data, rng: np.random.Generator) -> Data | None:
    if not world.columns:
        return None
    moved = dict(data)
    for name in world.columns:
        moved[name] = {n: data[name][n] for n in rng.permutation(list(data[name]))}
    return moved


def _twice(world: World, data: Data, rng: np.random.Generator) -> Data | None:
    if world.weight is None:
        return None
    name, column = world.weight
    table = data[name]
    again = rng.choice(len(table[column]), size=3, replace=False)
    half = table[column].copy()
    half[again] = half[again] / 2
    twice = {n: np.concatenate([v, v[again]]) for n, v in (table | {column: half}).items()}
    return data | {name: twice}


TELLINGS: dict[str, Callable[[World, Data, np.random.Generator], Data | None]] = {
    "rows in another order": _rows,
    "columns in another order": _columns,
    "a weight of 2 as two rows": _twice,
}


def relabeled(world: World, data: Data, rng: np.random.Generator) -> tuple[Data, dict[str, str]] | None:
    """Give every place another name, and the way back."""
    if not world.labels:
        return None
    names = sorted({str(v) for table, column in world.labels for v in data[table][column]})
    other = [f"{word} {i}" for i, word in enumerate(rng.permutation(names))]
    there = dict(zip(names, rng.permutation(other), strict=True))
    moved = {name: dict(table) for name, table in data.items()}
    for table, column in world.labels:
        moved[table][column] = np.array([there[str(v)] for v in data[table][column]], dtype=object)
    return moved, {new: old for old, new in there.items()}


def renamed(answer: Answer, back: Mapping[str, str]) -> Answer:
    """Put the first names back into the key of an answer."""
    first = [str(k).split(" | ") for k in answer["key"]]
    return {**answer, "key": np.array([" | ".join(back.get(part, part) for part in parts) for parts in first])}


def differs(left: Answer, right: Answer, tolerance: float, in_errors: float = 0.0) -> str:
    """Say where two answers differ by more than the tolerance, or by so many standard errors, or nothing."""
    a, b = _sorted(left), _sorted(right)
    if in_errors:
        if a["key"].tolist() != b["key"].tolist():
            return "key differs"
        moved = float(np.nanmax(np.abs(a["estimate"] - b["estimate"]) / a["std_error"]))
        return f"an estimate moves by {moved:.2g} standard errors" if moved > in_errors else ""
    if a.keys() != b.keys():
        return f"other parts: {sorted(a.keys() ^ b.keys())}"
    for name in a:
        if a[name].shape != b[name].shape:
            return f"{name} has shape {b[name].shape}, not {a[name].shape}"
        if a[name].dtype.kind in "fiub":
            x, y = a[name].astype(float), b[name].astype(float)
            scale = max(1e-12, float(np.nanmax(np.abs(x), initial=0.0)))
            if not np.allclose(x, y, rtol=0.0, atol=tolerance * scale, equal_nan=True):
                return f"{name} differs by {np.nanmax(np.abs(x - y)) / scale:.2g} of its largest number"
        elif a[name].tolist() != b[name].tolist():
            return f"{name} differs"
    return ""


def _sorted(answer: Answer) -> dict[str, np.ndarray]:
    arrays = {n: np.asarray(v) for n, v in answer.items()}
    if "key" not in arrays:
        return arrays
    order = np.argsort(arrays["key"], kind="stable")
    return {n: v[order] if v.ndim and len(v) == len(order) else v for n, v in arrays.items()}


def _read(estimates: Any, keys: list[str] | None = None) -> Answer:
    """Lay Estimates out: their keys joined, and every column of numbers."""
    keys = list(estimates.keys) if keys is None else keys
    columns = {n: np.asarray(estimates[n]) for n in estimates.table.column_names if n not in keys}
    numbers = {n: v for n, v in columns.items() if v.dtype.kind in "fiub"}
    joined = [" | ".join(map(str, row)) for row in zip(*(estimates[k] for k in keys), strict=True)]
    return {"key": np.array(joined), **numbers}


# people and places -----------------------------------------------------------------------------------------------------------

PLACES = 8


def _nation(rng: np.random.Generator) -> Data:
    """People of a few places with two categories and a number, and a yes-no total in each place."""
    q, n = PLACES, int(rng.integers(80, 200))
    place = np.concatenate([np.arange(q), rng.integers(0, q, n - q)])
    tilt = rng.normal(size=q)
    sex = (rng.random(n) < 1 / (1 + np.exp(-0.5 * tilt[place]))).astype(int)
    age = np.round(rng.normal(45 + 5 * tilt[place], 15), 1)
    race = rng.choice(np.array(["a", "b", "c"], dtype=object), n)
    names = np.array([f"place {i}" for i in range(q)], dtype=object)
    rate = 1 / (1 + np.exp(-(0.5 * tilt + 0.3 * rng.normal(size=q))))
    votes = rng.integers(200, 900, q)
    where = rng.normal(size=(q, 2))
    return {
        "people": {"place": names[place], "sex": sex, "age": age, "race": race, "w": rng.choice([2.0, 4.0, 6.0], n)},
        "places": {
            "place": names,
            "yes": rng.binomial(votes, rate),
            "votes": votes,
            "x": where[:, 0],
            "y": where[:, 1],
        },
    }


COLUMNS = ["age", "race", "sex"]


def _people(frame: Any) -> cl.People:
    columns = [c for c in _names(frame) if c in COLUMNS]
    return cl.People(frame, by="place", weight="w", columns=columns, categorical=["sex"])


def _ecological(make: Callable[..., Any], frames: dict[str, Any]) -> Answer:
    places = cl.Places(frames["places"], "place", "yes", "votes", coords=("x", "y"))
    model = make().fit(_people(frames["people"]), places)
    found = model.estimate(by="sex", n_draws=200, people=frames["people"])
    return {n: v for n, v in _read(found).items() if n in ("key", "estimate", "std_error", "conf_low", "conf_high")}


def _informed_nation(rng: np.random.Generator) -> Data:
    """A nation with census counts by place, respondents of a survey, and shares that somebody published."""
    data = _nation(rng)
    people, names, m = data["people"], data["places"]["place"], 60
    n = len(people["place"])
    asked = rng.choice(n, m)
    survey = {c: people[c][asked] for c in ("place", "sex", "age", "race")} | {"yes": rng.integers(0, 2, m)}
    women = rng.integers(100, 400, len(names))
    voters = rng.integers(300, 900, 2)
    return data | {
        "survey": survey | {"w": rng.uniform(0.5, 2.0, m)},
        "margins": {"place": names, "sex=0": women, "sex=1": rng.integers(100, 400, len(names))},
        "evidence": {
            "subgroup": np.array(["sex == 1", "race == 'a'"], dtype=object),
            "source": np.array(["exit poll", "exit poll"], dtype=object),
            "yes": rng.binomial(voters, 0.5),
            "votes": voters,
        },
    }


def _informed(frames: dict[str, Any]) -> Answer:
    places = cl.Places(frames["places"], "place", "yes", "votes", coords=("x", "y"), margins=frames["margins"])
    survey = cl.Survey(frames["survey"], outcome="yes", by="place", weight="w", selection=0.2)
    asked = [survey, cl.PublishedShares(frames["evidence"])]
    model = cl.EcologicalInference(hyperparameters=SCALES).fit(_people(frames["people"]), places, asked)
    found = model.estimate(by="sex", n_draws=200, people=frames["people"])
    return {n: v for n, v in _read(found).items() if n in ("key", "estimate", "std_error", "conf_low", "conf_high")}


def _names(frame: Any) -> list[str]:
    names = frame.column_names if isinstance(frame, pa.Table) else frame
    return [str(n) for n in (names if isinstance(names, dict | list) else names.columns)]


def _embedded(frames: dict[str, Any]) -> Answer:
    found = cl.MeanEmbedding(n_features=16, bandwidth=1.5).fit_transform(_people(frames["people"]))
    return {"key": np.array([str(k[0] if isinstance(k, tuple) else k) for k in found.keys]), "values": found.values}


def _learned_bandwidth(frames: dict[str, Any]) -> Answer:
    model = cl.MeanEmbedding(n_features=16).fit(_people(frames["people"]))
    return {"bandwidth": np.array(model.bandwidth_)}


# bags ------------------------------------------------------------------------------------------------------------------------


def _bags(rng: np.random.Generator) -> Data:
    n = 24
    y = rng.uniform(-1, 1, n)
    sizes = rng.choice([2, 5, 12], n)
    bag = np.repeat(np.arange(n), sizes)
    names = np.array([f"bag {i}" for i in range(n)], dtype=object)
    a, b = rng.normal(y[bag], 1.0), 3.0 * rng.normal(size=len(bag)) * (1 + y[bag] ** 2)
    people = {"bag": names[bag], "a": a, "b": b, "w": rng.uniform(0.5, 2.0, len(bag))}
    return {"people": people, "labels": {"bag": names, "y": y}}


def _on_bags(cls: type, classify: bool, frames: dict[str, Any], **settings: Any) -> Answer:
    bags = cl.Bags.from_frame(frames["people"], by="bag", columns=["a", "b"], weight="w")
    labels = pd.Series(np.asarray(frames["labels"]["y"], dtype=float), index=list(map(str, frames["labels"]["bag"])))
    y = labels.map(lambda v: "high" if v > 0 else "low") if classify else labels
    model = cls(landmarks=np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 1.0]]), bandwidth_scale=1.0, **settings)
    with mock.patch.object(sampled, "sample_posterior", _draw):
        model.fit(bags, y)
    found = model.predict_proba(bags)[:, 0] if classify else np.column_stack(model.predict(bags, return_std=True))
    return {"key": np.array([str(k[0] if isinstance(k, tuple) else k) for k in bags.keys]), "found": found}


def _from_frame(frames: dict[str, Any]) -> Answer:
    bags = cl.Bags.from_frame(frames["people"], by="bag", columns=["a", "b"], weight="w")
    means = np.array(
        [np.average(bags[i : i + 1].values, axis=0, weights=bags[i : i + 1].weights) for i in range(len(bags))]
    )
    return {"key": np.array([str(k[0] if isinstance(k, tuple) else k) for k in bags.keys]), "means": means}


# bins ------------------------------------------------------------------------------------------------------------------------


def _bins(rng: np.random.Generator) -> Data:
    edges = np.cumsum(np.r_[0, rng.integers(3, 15, 8)]).astype(float)
    return {"bins": {"low": edges[:-1], "high": edges[1:], "count": rng.integers(1, 60, 8).astype(float)}}


def _binned(fit: Callable[..., Any], frames: dict[str, Any]) -> Answer:
    bins = {n: np.asarray(frames["bins"][n], dtype=float) for n in ("low", "high", "count")}
    found = fit(cl.Intervals(bins["low"], bins["high"]), bins["count"]).estimate(cl.Intervals([1.0, 7.0], [9.0, 20.0]))
    return {n: np.asarray(found[n]) for n in ("estimate", "std_error", "conf_low", "conf_high")}


def _strips(rng: np.random.Generator) -> Data:
    inner, outer = np.sort(rng.choice(np.arange(1, 12), (2, 3), replace=True), axis=1)
    edges = {"source": np.unique([0, *inner, 12]), "target": np.unique([0, *outer, 12])}
    made = {n: {"low": e[:-1].astype(float), "high": e[1:].astype(float)} for n, e in edges.items()}
    values = rng.integers(50, 900, len(made["source"]["low"])).astype(float)
    made["source"] |= {"value": values, "error": np.round(values * 0.05, 1)}
    made["target"] |= {"people": rng.integers(1000, 3000, len(made["target"]["low"])).astype(float)}
    return made


def _interpolated(by_people: bool, frames: dict[str, Any]) -> Answer:
    def strips(name: str) -> Any:
        ends = zip(frames[name]["low"], frames[name]["high"], strict=True)
        return cl.Polygons([[[a, 0], [b, 0], [b, 1], [a, 1]] for a, b in ((float(a), float(b)) for a, b in ends)])

    values, error = ([float(v) for v in frames["source"][n]] for n in ("value", "error"))
    people = [float(v) for v in frames["target"]["people"]] if by_people else None
    found = interpolate(strips("source"), strips("target"), values, error, population=people)
    key = np.array([f"from {float(v):02.0f}" for v in frames["target"]["low"]])
    plain = "people_weighted" if by_people else "area_weighted"
    return {"key": key, **{n: np.asarray(found[n]) for n in ("estimate", "std_error", plain)}}


def _carries_all(data: Data, answer: Answer) -> str:
    total = float(data["source"]["value"].sum())
    for name in ("estimate", *(n for n in answer if n.endswith("_weighted"))):
        found = float(np.sum(answer[name]))
        if abs(found - total) > 1e-6 * total:
            return f"{name} of the targets adds up to {found:g}, not {total:g}"
    return ""


def _adds_up(data: Data, answer: Answer) -> str:
    found, total = float(np.sum(answer["estimate"])), float(np.sum(data["large"]["total"]))
    return "" if abs(found - total) < 1e-6 * total else f"the parts add up to {found:g}, not {total:g}"


# imputation ------------------------------------------------------------------------------------------------------------------


def _hidden(rng: np.random.Generator) -> Data:
    q, n = 10, 160
    place = np.concatenate([np.arange(q), rng.integers(0, q, n - q)])
    tilt = rng.normal(size=q)[place]
    ill = (rng.random(n) < 1 / (1 + np.exp(-tilt))).astype(float)
    names = np.array([f"place {i}" for i in range(q)], dtype=object)
    means = np.array([ill[place == i].mean() for i in range(q)])
    number = np.array([f"n{i:03d}" for i in range(n)], dtype=object)
    people = {"number": number, "place": names[place], "age": np.round(rng.normal(40 + 5 * tilt, 9)), "ill": ill}
    people["sex"] = rng.choice(np.array(["f", "m"], dtype=object), n)
    return {"people": people, "means": {"place": names, "ill": np.clip(means, 0.02, 0.98)}}


def _imputed(make: Callable[[], Any], frames: dict[str, Any]) -> Answer:
    people, table = frames["people"], to_arrow(frames["people"])
    known = cl.People(people, by="place", columns=[c for c in table.column_names if c in ("age", "sex")])
    model = make().fit(known, cl.Places(frames["means"], by="place", means=["ill"]))
    numbers = np.array([str(v) for v in table["number"].to_pylist()])
    return {"key": numbers, "values": np.asarray(model.transform(known)["ill"], dtype=float)}


# kernel regression -----------------------------------------------------------------------------------------------------------


def _survey(rng: np.random.Generator) -> Data:
    n = 60
    age, arm = np.round(rng.normal(50, 15, n), 1), rng.choice(np.array(["a", "b", "c"], dtype=object), n)
    y = np.round(0.03 * age + (arm == "b") + 0.5 * rng.normal(size=n), 3)
    return {"rows": {"age": age, "treated": rng.integers(0, 2, n), "arm": arm, "y": y, "w": rng.choice([2.0, 4.0], n)}}


def _krls(frames: dict[str, Any]) -> Answer:
    rows = frames["rows"]
    X = {c: rows[c] for c in _names(rows) if c in ("age", "treated", "arm")}
    y, w = (np.asarray(rows[c], dtype=float) for c in ("y", "w"))
    model = cl.KRLS().fit(pa.table(X) if isinstance(rows, pa.Table) else pd.DataFrame(X), y, w)
    found = _read(model.effects())
    return {n: v for n, v in found.items() if n in ("key", "estimate", "std_error")}


# counts by unit --------------------------------------------------------------------------------------------------------------


def _units(groups: int, outcomes: int, rng: np.random.Generator) -> Data:
    n = 12
    rates = rng.dirichlet(np.full(outcomes, 2.0), groups)
    X = np.array([rng.multinomial(rng.integers(200, 900), rng.dirichlet(np.full(groups, 2.0))) for _ in range(n)])
    T = np.array([sum(rng.multinomial(k, rng.dirichlet(20 * p)) for k, p in zip(x, rates, strict=True)) for x in X])
    names = np.array([f"unit {i}" for i in range(n)], dtype=object)
    return {
        "units": {"unit": names},
        "groups": {f"g{j}": X[:, j] for j in range(groups)},
        "outcomes": {f"o{j}": T[:, j] for j in range(outcomes)},
    }


def _table(function: Callable[..., Any], frames: dict[str, Any]) -> Answer:
    found = function(counted(frames["groups"], frames["outcomes"]))
    answer = {n: v for n, v in _read(found).items() if n in ("key", "estimate", "bound_low", "bound_high")}
    return answer


def _after_rxc(function: Callable[..., Any], frames: dict[str, Any], **options: Any) -> Answer:
    """Ask a court's question of a table that ``rxc`` filled in."""
    return _read(function(ecological.rxc(counted(frames["groups"], frames["outcomes"])), **options))


def _precincts(rng: np.random.Generator) -> Data:
    """Three groups who vote or stay at home, in two contests, and districts of precincts."""
    made = _units(3, 4, rng)
    names = made["units"]["unit"]
    votes = {f"{contest} {name}": v for contest in ("first", "second") for name, v in made["outcomes"].items()}
    votes |= {f"second {name}": rng.binomial(v, 0.8) for name, v in made["outcomes"].items()}
    kept = {n: v for n, v in votes.items() if not n.endswith("o3")}
    return {
        "precincts": {"unit": names, **made["groups"], **kept},
        "districts": {"unit": names, "district": rng.permutation(np.arange(len(names)) % 2)},
    }


def _polarized(frames: dict[str, Any]) -> Any:
    contests = {c: [n for n in _names(frames["precincts"]) if n.startswith(c)] for c in ("first", "second")}
    groups = [n for n in _names(frames["precincts"]) if n.startswith("g")]
    return ecological.rpv(
        cl.Counts(frames["precincts"], unit="unit", groups=groups), contests, methods=["goodman", "rxc"]
    )


def _summarized(frames: dict[str, Any]) -> Answer:
    return _read(_polarized(frames).summary)


def _performed(frames: dict[str, Any]) -> Answer:
    districts: dict[str, list[str]] = {}
    for unit, district in zip(*(_column(frames["districts"], n) for n in ("unit", "district")), strict=True):
        districts.setdefault(f"district {district}", []).append(unit)
    found = _read(_polarized(frames).performance(districts, "g1"))
    kept = {n: found[n] for n in ("key", "estimate", "votes", "people", "group_people", "group_voters")}
    # shares of 400 draws, which columns in another order draw anew: two of them differ by a standard deviation of up to .035, so
    # that a difference of .17 is beyond chance; damped, since the tolerance is that of the counts beside them
    return kept | {"probabilities": 1.0 + 0.4 * np.asarray(found["probability_wins"])}


def _counts_votes(data: Data, answer: Answer) -> str:
    """Say whether the districts, which hold every precinct once, do not hold every vote once."""
    for contest in ("first", "second"):
        total = sum(float(v.sum()) for n, v in data["precincts"].items() if n.startswith(contest))
        found = float(answer["votes"][[str(k).endswith(contest) for k in answer["key"]]].sum())
        if found != total:
            return f"the districts hold {found:g} votes of {contest}, not {total:g}"
    return ""


def _compared(frames: dict[str, Any]) -> Answer:
    found = ecological.compare(
        counted(frames["groups"], frames["outcomes"]), methods=["neighborhood", "goodman", "rxc_em"]
    )
    return {n: v for n, v in _read(found).items() if n in ("key", "estimate", "bound_low", "bound_high")}


def _counted(frames: dict[str, Any]) -> Answer:
    sums = ecological.group_counts(
        frames["people"], by="place", group="race", places=frames["places"], total="votes", weight="w"
    )
    names = dict(zip(sums.counts.column_names, sums.values.T, strict=True))
    return {"key": np.array([str(key) for key in sums.keys]), **{n: names[n] for n in sorted(names)}}


def _within(data: Data, answer: Answer) -> str:
    """Say whether an estimate lies outside its bounds."""
    del data
    if "bound_low" in answer and "estimate" in answer:
        low, high, found = answer["bound_low"], answer["bound_high"], answer["estimate"]
        known = np.isfinite(found)
        if (found[known] < low[known] - 1e-6).any() or (found[known] > high[known] + 1e-6).any():
            return "an estimate lies outside its bounds"
    return ""


def _inside(data: Data, answer: Answer) -> str:
    """Say whether an estimate lies outside its bounds, or the parts of an outcome do not add up to it."""
    if problem := _within(data, answer):
        return problem
    parts = dict(zip(answer["key"], answer.get("estimate", []), strict=False))
    sizes = {g: float(v.sum()) for g, v in data["groups"].items()}
    for outcome, counts in data["outcomes"].items():
        keys = [f"{g} | {outcome}" for g in sizes]
        if all(k in parts and np.isfinite(parts[k]) for k in keys):
            total = sum(sizes[g] * parts[k] for g, k in zip(sizes, keys, strict=True))
            if abs(total - counts.sum()) > 1e-4 * max(1.0, counts.sum()):
                return f"the parts of {outcome} add up to {total:.1f}, not {counts.sum():.1f}"
    return ""


def _cleaned(frames: dict[str, Any]) -> Answer:
    names = [
        str(v)
        for v in (
            frames["units"]["unit"].to_pylist() if isinstance(frames["units"], pa.Table) else frames["units"]["unit"]
        )
    ]
    found = counted(frames["groups"], frames["outcomes"], units=names).tables
    X = dict(zip(found.groups, np.asarray(found.X).T, strict=True))
    T = dict(zip(found.outcomes, np.asarray(found.T).T, strict=True))
    return {
        "key": np.array([str(u) for u in found.units]),
        **{f"x {n}": v for n, v in sorted(X.items())},
        **{f"t {n}": v for n, v in sorted(T.items())},
    }


# judging forecasts, streams, crosswalks --------------------------------------------------------------------------------------


def _forecasts(rng: np.random.Generator) -> Data:
    n = 80
    return {"rows": {"truth": rng.normal(size=n), "mean": 0.1 * rng.normal(size=n), "std": rng.uniform(0.5, 1.0, n)}}


def _judged(frames: dict[str, Any]) -> Answer:
    rows = {n: np.asarray(frames["rows"][n], dtype=float) for n in ("truth", "mean", "std")}
    return _read(diagnostics.calibration_table(**rows))


def _asked(frames: dict[str, Any]) -> Answer:
    table = cl.People(frames["people"], where="age >= 40").answer("select number, age from people order by number")
    return {"key": np.array(table["number"].to_pylist()), "age": np.array(table["age"].to_pylist())}


def _crosswalk(rng: np.random.Generator) -> Data:
    n = 30
    return {"links": {"county": rng.integers(0, 14, n), "puma": rng.integers(0, 14, n)}}


def _merged(frames: dict[str, Any]) -> Answer:
    found = merge_regions(frames["links"])
    left = dict(zip(found.left["county"].to_pylist(), found.left["region"].to_pylist(), strict=True))
    sets: dict[str, set[int]] = {}
    for county, label in left.items():
        sets.setdefault(label, set()).add(county)
    return {"key": np.array(sorted(" | ".join(map(str, sorted(s))) for s in sets.values()))}


def _pooled(frames: dict[str, Any]) -> Answer:
    rows = {n: np.asarray(frames["rows"][n], dtype=float)[:20] for n in ("mean", "std")}
    found = imputation.pool(list(zip(rows["mean"], rows["std"], strict=True)))
    return {n: np.asarray(found[n]) for n in ("estimate", "std_error", "conf_low", "conf_high")}


def _first_twenty(rng: np.random.Generator) -> Data:
    return {"rows": {n: v[:20] for n, v in _forecasts(rng)["rows"].items()}}


# surveys ------------------------------------------------------------------------------------------------


def _sampled(rng: np.random.Generator) -> Data:
    n = 60
    w = rng.uniform(1.0, 3.0, n)
    people = {"ill": rng.integers(0, 2, n), "group": rng.choice(np.array(["a", "b", "c"], dtype=object), n), "w": w}
    again = {f"r{i}": w * rng.choice([0.3, 1.7], n) for i in range(1, 7)}
    design = {"stratum": np.arange(n) % 3, "psu": np.arange(n) % 12}
    return {"people": people | design | again}


def _designed(design: Any, frames: dict[str, Any]) -> Answer:
    return _read(design.means(frames["people"], "ill", by="group"))


def _column(frame: Any, name: str) -> Any:
    return frame[name].to_pylist() if isinstance(frame, pa.Table) else list(frame[name])


# every world -----------------------------------------------------------------------------------------------------------------

SCALES = {"effect_variance": 0.3, "spatial": 0.1, "length": 1.0, "nugget": 0.02}
WHERE = {"rows": ("people", "places"), "columns": ("people", "places")}
LABELS = (("people", "place"), ("places", "place"))
UNITS: dict[str, Any] = {
    "together": ("units", "groups", "outcomes"),
    "columns": ("groups", "outcomes"),
    "problem": _inside,
}


def _ecological_world(name: str, make: Callable[..., Any], **more: Any) -> World:
    noise = {"places under other names": 0.4} | more.pop(
        "in_errors", {}
    )  # their order decides who gets which random numbers
    return World(name, _nation, partial(_ecological, make), **WHERE, labels=LABELS, in_errors=noise, **more)


def _bag_world(cls: type, classify: bool, tolerance: float = 1e-5, **settings: Any) -> World:
    places = (("people", "bag"), ("labels", "bag"))
    answer = partial(_on_bags, cls, classify, **settings)
    return World(
        cls.__name__, _bags, answer, rows=("people", "labels"), columns=("people",), labels=places, tolerance=tolerance
    )


def _table_world(name: str, function: Callable[..., Any], groups: int = 3, **more: Any) -> World:
    return World(name, partial(_units, groups, groups), partial(_table, function), **(UNITS | more))


SHORT = {"n_chains": 2, "n_warmup": 10, "n_draws": 40, "allow_unconverged": True}
WORLDS = {
    world.name: world
    for world in (
        World("MeanEmbedding", _nation, _embedded, **WHERE, labels=LABELS, weight=("people", "w")),
        World("MeanEmbedding's bandwidth", _nation, _learned_bandwidth, rows=("people",), labels=LABELS),
        _ecological_world(
            "EcologicalInference",
            lambda: cl.EcologicalInference(hyperparameters=SCALES),
            tolerance=1e-6,
            exact=("columns in another order",),
        ),
        _ecological_world(
            "DistributionRegression",
            lambda: ecological.DistributionRegression(n_features=32, hyperparameters=SCALES),
            tolerance=1e-6,
        ),
        World(
            "EcologicalInference, margins, survey, evidence",
            _informed_nation,
            _informed,
            rows=("people", "places", "survey", "margins", "evidence"),
            columns=("people", "places", "survey", "margins", "evidence"),
            labels=(*LABELS, ("survey", "place"), ("margins", "place")),
            in_errors={"places under other names": 0.4},
            tolerance=1e-6,
        ),
        _bag_world(distribution.BayesianLinear, False),
        _bag_world(distribution.BayesianLinearClassifier, True),
        _bag_world(distribution.RBFNetwork, False, penalty=0.1),
        _bag_world(distribution.FrequentistShrinkage, False),
        _bag_world(distribution.MeanShrinkage, False, n_restarts=0),
        _bag_world(distribution.MeanShrinkageClassifier, True, n_restarts=0),
        # the draws that stand in for NUTS are made along axes that rounding may turn round
        _bag_world(distribution.FullBayes, False, 0.05, **SHORT),
        _bag_world(distribution.FullBayesClassifier, True, 0.05, **SHORT),
        World(
            "Bags.from_frame",
            _bags,
            _from_frame,
            rows=("people",),
            columns=("people",),
            labels=(("people", "bag"),),
            weight=("people", "w"),
        ),
        World(
            "BinnedGP",
            _bins,
            partial(_binned, lambda r, y: cl.BinnedGP().fit(r, y, "total")),
            rows=("bins",),
            tolerance=1e-4,
        ),
        World(
            "BinnedCountGP",
            _bins,
            partial(_binned, lambda r, y: cl.BinnedCountGP(kernel="eq").fit(r, y, cell=2.0)),
            rows=("bins",),
            tolerance=1e-4,
        ),
        *(
            World(
                "interpolate" + (", people" if by_people else ""),
                _strips,
                partial(_interpolated, by_people),
                rows=("source", "target"),
                # the order of the common parts decides who gets which random numbers
                in_errors={"rows in another order": 0.4},
                problem=_carries_all,
            )
            for by_people in (False, True)
        ),
        World(
            "CrossLevelImputer",
            _hidden,
            partial(_imputed, cl.CrossLevelImputer),
            rows=("people", "means"),
            columns=("people",),
            labels=(("people", "place"), ("means", "place")),
            tolerance=1e-5,
        ),
        World(
            "CUDIA",
            _hidden,
            partial(_imputed, lambda: cl.CUDIA(2, method="two_stage", n_restarts=1, allow_unconverged=True)),
            rows=("people", "means"),
            tolerance=1e-5,
        ),
        *(
            World(f"SurveyDesign, {name}", _sampled, partial(_designed, design), rows=("people",), columns=("people",))
            for name, design in (
                ("strata", SurveyDesign("w", strata="stratum", cluster="psu")),
                ("replicates", SurveyDesign("w", replicates="r", method="brr")),
            )
        ),
        World(
            "KRLS",
            _survey,
            _krls,
            rows=("rows",),
            columns=("rows",),
            weight=("rows", "w"),
            tolerance=1e-5,
            # where the penalty sits at its lower limit the rounding of the kernel's sums is magnified, to 3e-5 standard errors
            in_errors=dict.fromkeys(TELLINGS, 1e-3),
        ),
        _table_world("bounds", ecological.bounds, problem=_within),
        _table_world("neighborhood", ecological.neighborhood),
        _table_world("homogeneous", ecological.homogeneous, problem=lambda data, answer: ""),
        _table_world("goodman", ecological.goodman, problem=lambda data, answer: ""),
        _table_world("rxc_em", ecological.rxc_em, tolerance=1e-4),
        _table_world("rxc", ecological.rxc, tolerance=5e-3),
        _table_world("king", partial(ecological.king, n_draws=200), groups=2, columns=(), tolerance=0.05),
        _table_world(
            "king_iterated", partial(ecological.king_iterated, n_draws=100), groups=2, columns=(), tolerance=0.05
        ),
        *(
            World(
                name,
                _precincts,
                answer,
                rows=("precincts", "districts"),
                columns=("precincts", "districts"),
                labels=(("precincts", "unit"), ("districts", "unit")),
                **more,
            )
            # the draws of rxc are made in the order of units, groups and outcomes; probabilities of a sure choice have no error
            for name, answer, more in (
                ("rpv", _summarized, {"in_errors": dict.fromkeys(list(TELLINGS)[:2], 0.4)}),
                ("performance", _performed, {"tolerance": 0.05, "problem": _counts_votes}),
            )
        ),
        World(
            "counts",
            partial(_units, 3, 3),
            _cleaned,
            together=("units", "groups", "outcomes"),
            columns=("groups", "outcomes"),
            labels=(("units", "unit"),),
        ),
        *(
            World(
                function.__name__,
                partial(_units, 3, 3),
                partial(_after_rxc, function, **options),
                together=("units", "groups", "outcomes"),
                columns=("groups", "outcomes"),
                # the draws of rxc are made in the order of units, groups and outcomes
                in_errors={"rows in another order": 0.4, "columns in another order": 0.4},
            )
            for function, options in (
                (ecological.candidate_of_choice, {}),
                (ecological.polarization, {"groups": ("g0", "g1")}),
                (ecological.margin, {"outcomes": ("o0", "o1")}),
                (ecological.among_voters, {"abstain": "o2"}),
                (ecological.turnout, {"abstain": "o2"}),
            )
        ),
        World(
            "compare",
            partial(_units, 3, 3),
            _compared,
            together=("units", "groups", "outcomes"),
            tolerance=1e-4,
        ),
        World("group_counts", _nation, _counted, **WHERE, labels=LABELS, weight=("people", "w")),
        World("calibration_table", _forecasts, _judged, rows=("rows",)),
        World("pool", _first_twenty, _pooled, rows=("rows",)),
        World("People", _hidden, _asked, rows=("people",), columns=("people",)),
        World("merge_regions", _crosswalk, _merged, rows=("links",), columns=()),
    )
}
