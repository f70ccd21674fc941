"""A hidden answer of people from means by place.

``X`` (people x coded columns), ``place``, ``mean`` (of places), ``asked`` (column, value) and ``cells`` (values of all columns) in; rates
of the levels asked, then of the cells, out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]


def imputer(given: Arrays) -> Answer:
    """Answer with the default."""
    import crosslevel as cl

    people = pd.DataFrame(given["X"].astype(int).astype(str), columns=[f"x{j}" for j in range(given["X"].shape[1])])
    places = pd.DataFrame({"place": np.arange(len(given["mean"])), "hidden": given["mean"]})
    names = list(people.columns)
    who = cl.People(people.assign(place=given["place"]), by="place", columns=names)
    fit = cl.CrossLevelImputer().fit(who, cl.Places(places, by="place", means=cl.Means("hidden", of="population")))
    return _asked(given, names, lambda by: fit.estimate(by=by).to_frame("pandas"))


def _asked(given: Arrays, names: list[str], estimate: Any) -> Answer:
    """Take the rows asked from tables by one column, and by all of them."""
    out, kept = [], ["estimate", "conf_low", "conf_high"]
    tables = [estimate(name).set_index(name)[kept] for name in names]
    out += [tables[int(k)].loc[str(int(v))].to_numpy(float) for k, v in given["asked"]]
    together = estimate(names).set_index(names)[kept]
    out += [together.loc[tuple(str(int(v)) for v in row)].to_numpy(float) for row in given["cells"]]
    return tuple(np.array(out, dtype=float).T)


def _rates(given: Arrays, filled: np.ndarray) -> Answer:
    """Average filled values over the groups asked."""
    X = given["X"]
    members = [X[:, int(k)] == v for k, v in given["asked"]] + [(row == X).all(axis=1) for row in given["cells"]]
    return (np.array([filled[m].mean() for m in members]),)


def place_mean(given: Arrays) -> Answer:
    """Give everybody the mean of their place."""
    return _rates(given, given["mean"][given["place"]])


def overall_mean(given: Arrays) -> Answer:
    """Give everybody the mean of all."""
    return _rates(given, np.full(len(given["X"]), given["mean"][given["place"]].mean()))


def ecological_logistic(given: Arrays) -> Answer:
    """Regress logits of means on mean columns, and carry the slopes over to people."""
    places = np.stack([np.bincount(given["place"], column) for column in given["X"].T], axis=1)
    places /= np.bincount(given["place"])[:, None]
    center = given["X"].mean(axis=0)
    design = np.column_stack([np.ones(len(places)), places - center])
    share = np.clip(given["mean"], 1e-3, 1 - 1e-3)
    logit = np.log(share / (1 - share))
    slope = np.linalg.solve(design.T @ design + 1e-3 * np.eye(design.shape[1]), design.T @ logit)
    logits = slope[0] + (given["X"] - center) @ slope[1:]
    return _rates(given, 1 / (1 + np.exp(-np.clip(logits, -30, 30))))


def iterative_imputer(given: Arrays) -> Answer:
    """Fill people by scikit-learn's IterativeImputer, which is given the places as further rows."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    places = np.stack([np.bincount(given["place"], column) for column in given["X"].T], axis=1)
    of_place = np.column_stack([places / np.bincount(given["place"])[:, None], given["mean"]])
    person = np.column_stack([given["X"], np.full(len(given["X"]), np.nan)])
    p = given["X"].shape[1]
    limits = {"min_value": [-np.inf] * p + [0.0], "max_value": [np.inf] * p + [1.0]}
    filled = IterativeImputer(random_state=0, **limits).fit_transform(np.concatenate([of_place, person]))
    return _rates(given, filled[len(places) :, -1])
