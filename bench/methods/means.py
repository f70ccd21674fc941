"""``X`` (people x codes), ``place``, ``mean``, ``asked`` (column, value), ``cells`` (values) in; rates of levels, then cells, out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]


def imputer(given: Arrays) -> Answer:
    """Answer with the default."""
    import crosslevel as cl

    return _fitted(given, cl.CrossLevelImputer(), {"means": cl.Means("hidden", of="population")}, {})


def cudia(given: Arrays) -> Answer:
    """Answer with clusters."""
    import crosslevel as cl

    return _fitted(given, cl.CUDIA(), {"means": cl.Means("hidden", of="population")}, {})


def ecological_inference(given: Arrays) -> Answer:
    """Answer with the model of totals, taking as many to be behind a mean as are here."""
    import crosslevel as cl

    return _fitted(
        given, cl.EcologicalInference(spatial=None), {"successes": "yes", "trials": "all"}, {"rollup": "all"}
    )


def _fitted(given: Arrays, model: Any, told: dict[str, Any], words: dict[str, str]) -> Answer:
    import crosslevel as cl

    people = pd.DataFrame(given["X"].astype(int).astype(str), columns=[f"x{j}" for j in range(given["X"].shape[1])])
    names = list(people.columns)
    trials = np.bincount(given["place"], minlength=len(given["mean"])).astype(float)
    places = {"place": np.arange(len(trials)), "hidden": given["mean"], "all": trials, "yes": trials * given["mean"]}
    who = cl.People(people.assign(place=given["place"]), by="place", columns=names)
    fit = model.fit(who, cl.Places(pd.DataFrame(places), by="place", **told))
    return _asked(given, names, lambda by: fit.estimate(by=by, **words).to_frame("pandas"))


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
