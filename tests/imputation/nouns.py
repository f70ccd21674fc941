"""People and places of arrays, and imputed values as arrays, for the tests of the room."""

from __future__ import annotations

from typing import Any

import numpy as np

import crosslevel as cl
from crosslevel.data.frames import to_arrow


def people_of(X: Any, group: Any, weight: Any = None, *, by: str = "place", **more: Any) -> cl.People:
    """People of a frame or a mapping, their group as one more column; all columns of X are named."""
    table = to_arrow(X)
    columns = {n: table[n] for n in table.column_names}
    own = {} if weight is None else {"w": weight}
    more = {"columns": table.column_names, "weight": None if weight is None else "w"} | more
    return cl.People({**columns, by: group, **own}, by=by, **more)


def places_of(
    means: Any, *, labels: Any = None, by: str = "place", name: str = "ill", se: Any = None, **more: Any
) -> cl.Places:
    """Places with the mean of one hidden feature, in the order of the labels."""
    labels = np.arange(len(means)) if labels is None else labels
    errors = {} if se is None else {"ill_se": se}
    told = cl.Means(name, se=None if se is None else {name: "ill_se"}, **more)
    return cl.Places({by: labels, name: means, **errors}, by=by, means=told)


def values(model: Any, people: cl.People, **more: Any) -> np.ndarray:
    """Imputed values, (n,), or (n, d_u) of several features."""
    found = model.transform(people, **more)
    out = np.column_stack([np.asarray(found[n], dtype=float) for n in model.hidden_names_])
    return out[:, 0] if out.shape[1] == 1 else out


def mean(of: Any, group: Any, weight: Any = None) -> np.ndarray:
    """Mean in every group."""
    w = np.ones(len(group)) if weight is None else weight
    return np.bincount(group, w * of) / np.bincount(group, w)
