"""Groups of people from composition and totals: ``place``, ``person_*``, ``group_*``, ``place_*`` in; a rate for each group asked out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]
NUMBERS = ("age8", "log_income")


def people_of(given: Arrays) -> tuple[pd.DataFrame, list[str]]:
    """Lay the people out as a table, and name their features."""
    features = [name.removeprefix("person_") for name in given if name.startswith("person_")]
    frame = pd.DataFrame({c: given[f"person_{c}"] for c in features})
    for name in (n for n in given if n.startswith("group_")):
        frame[name] = given[name]
    for name in ("place", "weight", "household"):
        frame[name] = given[name]
    return frame, features


def places_of(given: Arrays) -> pd.DataFrame:
    """Lay the places out as a table."""
    columns = ("all", "yes", "lon", "lat")
    return pd.DataFrame({"place": np.arange(len(given["place_all"])), **{c: given[f"place_{c}"] for c in columns}})


def pick(given: Arrays, tables: dict[str, Any]) -> Answer:
    """Take the rows asked from tables of estimates by column."""
    out = []
    for column, value in zip(given["ask_column"].tolist(), given["ask_value"].tolist(), strict=True):
        table = tables[column]
        row = table[table[f"group_{column}"].astype(int) == value].iloc[0]
        out.append([row["estimate"], row["conf_low"], row["conf_high"]])
    return tuple(np.array(out, dtype=float).T)


def _fitted(given: Arrays, model: Any, cluster: str | None, interval: str | None = None) -> Answer:
    import crosslevel as cl

    frame, features = people_of(given)
    codes = [c for c in features if c not in NUMBERS]
    who = {"by": "place", "weight": "weight", "columns": features, "categorical": codes}
    people = cl.People(frame, **who, **({"cluster": cluster} if cluster else {}))
    places = cl.Places(places_of(given), by="place", successes="yes", trials="all", coords=("lon", "lat"))
    asked = {}
    if "asked_yes" in given:
        table = pd.DataFrame({c: given[f"asked_{c}"] for c in (*features, "yes", "place")})
        asked["survey"] = cl.Survey(table, outcome="yes", by="place")
    fit = model.fit(people, places, unmatched="drop", **asked)
    words = {"interval": interval} if interval else {}
    columns = np.unique(given["ask_column"]).tolist()
    return pick(given, {c: fit.estimate(by=f"group_{c}", rollup="all", **words).to_frame("pandas") for c in columns})


def ecological_inference(given: Arrays) -> Answer:
    """Answer with the default."""
    import crosslevel as cl

    return _fitted(given, cl.EcologicalInference(n_bins=8), "household")


def under_the_model(given: Arrays) -> Answer:
    """Answer with intervals that know no confounding."""
    import crosslevel as cl

    return _fitted(given, cl.EcologicalInference(n_bins=8), "household", "model")


def totals_alone(given: Arrays) -> Answer:
    """Answer with the default, without the survey."""
    return ecological_inference({name: values for name, values in given.items() if not name.startswith("asked_")})


def respondents(given: Arrays) -> Answer:
    """Give the rate of the respondents of a group as they answered, with the usual interval."""
    yes, out = given["asked_yes"], []
    for column, value in zip(given["ask_column"].tolist(), given["ask_value"].tolist(), strict=True):
        own = yes[given[f"asked_{column}"] == value]
        rate = (own.sum() + 1) / (len(own) + 2)
        half = 1.96 * np.sqrt(rate * (1 - rate) / (len(own) + 2))
        out.append([rate, rate - half, rate + half])
    return tuple(np.array(out).T)


def raked(given: Arrays) -> Answer:
    """Rake respondents to the composition of the people and to the total, and give weighted rates."""
    columns, yes = np.unique(given["ask_column"]).tolist(), given["asked_yes"]
    weight, goals = np.ones(len(yes)), []
    for column in columns:
        for level in np.unique(given[f"group_{column}"]).tolist():
            share = given["weight"][given[f"group_{column}"] == level].sum() / given["weight"].sum()
            goals.append((given[f"asked_{column}"] == level, share))
    rate = np.average((given["place_yes"] / given["place_all"])[given["place"]], weights=given["weight"])
    goals += [(yes == 1, rate), (yes == 0, 1 - rate)]
    for _ in range(50):
        for member, share in goals:
            if (own := weight[member].sum()) > 0:
                weight[member] *= share * weight.sum() / own
    out = []
    for column, value in zip(given["ask_column"].tolist(), given["ask_value"].tolist(), strict=True):
        member = given[f"asked_{column}"] == value
        own, w = yes[member], weight[member]
        found = np.average(own, weights=w) if len(own) else rate
        half = 1.96 * np.sqrt(max(found * (1 - found), 1e-4) * (w**2).sum()) / w.sum() if len(own) else 1.0
        out.append([found, found - half, found + half])
    return tuple(np.array(out).T)


def distribution_regression(given: Arrays) -> Answer:
    """Answer with the paper's regression of places on mean embeddings."""
    import crosslevel as cl

    return _fitted(given, cl.ecological.DistributionRegression(1024), None)


def neighborhood(given: Arrays) -> Answer:
    """Give everybody the rate of their place."""
    rate = (given["place_yes"] / given["place_all"])[given["place"]]
    out = []
    for column, value in zip(given["ask_column"].tolist(), given["ask_value"].tolist(), strict=True):
        member = given[f"group_{column}"] == value
        out.append(np.average(rate[member], weights=given["weight"][member]))
    return (np.array(out),)


def goodman(given: Arrays) -> Answer:
    """Regress places' rates on their shares of the groups of one column, cut off at 0 and 1."""
    rate, found = given["place_yes"] / given["place_all"], {}
    for column in np.unique(given["ask_column"]).tolist():
        levels, code = np.unique(given[f"group_{column}"], return_inverse=True)
        counted = np.zeros((len(rate), len(levels)))
        np.add.at(counted, (given["place"], code), given["weight"])
        shares, root = counted / counted.sum(axis=1, keepdims=True), np.sqrt(counted.sum(axis=1))
        slopes = np.linalg.lstsq(shares * root[:, None], rate * root, rcond=None)[0]
        found |= {(column, level): slope for level, slope in zip(levels.tolist(), slopes, strict=True)}
    asked = zip(given["ask_column"].tolist(), given["ask_value"].tolist(), strict=True)
    return (np.clip([found[key] for key in asked], 0, 1),)
