"""Hidden labels: columns of people whose totals alone are given, learned back by sex, age, race and education.

Households are split in halves at random. Who lives where comes from one half, the totals of the label from the other, the truth from
everybody; then the other way round, so that nothing that scores shares noise with what is fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bench.cases import Case

FILE, REGIONS = "us2024_households/people.parquet", "us2024/regions_2024.csv"
LEARNED = ("08", "13", "18", "22", "26", "37", "39", "42", "45", "51", "53")
SCORED = ("01", "05", "17", "21", "27", "29", "47", "55")
"""States in which constants may be learned, and in which methods are scored."""
FEATURES = ("age8", "log_income", "female", "eth5", "educ6", "tenure", "naturalised", "disability")
ASKED = ("female", "age4", "eth5", "educ5")
FRESH = {
    "health": ("deaf", "remember", "walk"),
    "birth": ("birth",),
    "moving": ("moved", "othstate"),
    "way to work": ("drive", "transit", "wfh", "longcom"),
    "occupation": ("stem", "mgmt", "service"),
    "employer": ("nonprofit", "retail", "construct"),
    "hours": ("fullyear", "part"),
    "degree": ("grad",),
}
OLD = {
    "home": ("own", "free"),
    "income": ("inc100", "pov150", "pinc50"),
    "education": ("ba",),
    "disability": ("dis",),
    "insurance": ("unins",),
    "work": ("emp", "h40"),
    "class of worker": ("gov", "self"),
    "industry": ("manuf", "edhealth", "profin"),
    "origin": ("black",),
    "life cycle": ("married", "never", "divsep", "widowed"),
    "language": ("otherlang",),
}
TELLS = {
    "health": ("disability",), "disability": ("disability",), "degree": ("educ6", "educ5"), "education": ("educ6", "educ5"),
    "home": ("tenure",), "income": ("log_income",), "origin": ("eth5",),
}  # fmt: skip
"""Columns that leave with a family of labels, since they tell it."""
FEWEST = 100
"""People of a group that is asked."""


def read(data: Path, states: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the adult citizens of some states and their regions."""
    people = pd.read_parquet(data / FILE, filters=[("state", "in", list(states))])
    people["age4"] = np.digitize(people["age"], [30, 45, 65])
    people["age8"] = np.digitize(people["age"], [24, 30, 37, 45, 55, 65, 75])
    people["educ5"] = np.array([0, 0, 1, 2, 2, 3, 4])[people["educ6"].to_numpy(int)]
    people["household"] = people.groupby(["region", "hh"], observed=True).ngroup()
    places = pd.read_csv(data / REGIONS, usecols=["region", "lon", "lat"])
    places = places[places["region"].isin(people["region"].unique())].sort_values("region").reset_index(drop=True)
    people["place"] = people["region"].map(pd.Series(places.index, index=places["region"])).astype(int)
    return people, places


def hide(
    data: Path, whole: bool, labels: dict[str, Sequence[str]], part: Sequence[str], readiness: float | None = None
) -> Iterator[Case]:
    """Hide labels one after another, and learn each from both halves (some of them, from one half, in the short run).

    With a ``readiness`` 2,000 respondents are added from those who are counted; of people below a bachelor's degree those with the label
    answer the more readily, by so many logits.
    """
    people, places = read(data, SCORED)
    rng = np.random.default_rng(2024)
    first = (rng.random(people["household"].max() + 1) < 0.5)[people["household"]]
    names = [(label, family) for family, own in labels.items() for label in own if whole or label in part]
    for label, family in names:
        known = people[label].notna().to_numpy()
        universe, half = people[known], first[known]
        for side in (True, False) if whole else (True,):
            other = universe[half != side]
            case = ask(universe[half == side], other, universe, places, label, family)
            yield case if readiness is None else _with_survey(case, other, label, family, rng, readiness)


def _with_survey(
    case: Case, other: pd.DataFrame, label: str, family: str, rng: np.random.Generator, readiness: float
) -> Case:
    chance = other["weight"] * np.exp(readiness * other[label].astype(float) * (other["educ5"] < 3))
    asked = other.iloc[rng.choice(len(other), 2_000, p=(chance / chance.sum()).to_numpy())]
    columns = [c for c in dict.fromkeys((*FEATURES, *ASKED)) if c not in TELLS.get(family, ())]
    given = case.given | {f"asked_{c}": asked[c].to_numpy(float) for c in columns}
    given |= {"asked_yes": asked[label].to_numpy(float), "asked_place": asked["place"].to_numpy()}
    return replace(case, given=given)


def ask(
    own: pd.DataFrame, other: pd.DataFrame, everybody: pd.DataFrame, places: pd.DataFrame, label: str, family: str
) -> Case:
    """Compose of one half, count in the other, and take the truth from everybody."""
    lost = TELLS.get(family, ())
    given: dict[str, np.ndarray] = {f"person_{c}": own[c].to_numpy(float) for c in FEATURES if c not in lost}
    given |= {f"group_{c}": own[c].to_numpy(int) for c in ASKED if c not in lost}
    given |= {c: own[c].to_numpy() for c in ("place", "weight", "household")}
    weight, yes = other["weight"].to_numpy(float), other[label].to_numpy(float)
    n = len(places)
    total, squares = (np.bincount(other["place"], w, n) for w in (weight, weight**2))
    trials = total**2 / squares  # Kish's effective number
    given |= {
        "place_all": trials,
        "place_yes": trials * np.bincount(other["place"], weight * yes, n) / total,
        "place_lon": places["lon"].to_numpy(),
        "place_lat": places["lat"].to_numpy(),
    }
    columns, values, truth = [], [], []
    for column in (c for c in ASKED if c not in lost):
        groups = [g for _, g in everybody.groupby(column) if len(g) >= FEWEST]
        for group in groups if len(groups) > 1 else []:
            columns.append(column)
            values.append(group[column].iloc[0])
            truth.append(np.average(group[label].astype(float), weights=group["weight"]))
    given |= {"ask_column": np.array(columns), "ask_value": np.array(values)}
    return Case(label, given, np.array(truth), 100 / len(truth))
