"""From checked inputs to the arrays of a problem: families, pairs of people, atoms of places, blocks of published means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslevel.data import checks
from crosslevel.data.cells import Cells
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cudia.families import learn_families, recode
from crosslevel.imputation.cudia.model import Block, Problem
from crosslevel.imputation.inputs import Inputs, read_range
from crosslevel.typing import BoolArray, Int64Array, IntArray


def check_choices(model: Any, methods: tuple[str, ...]) -> None:
    """Check the parameters of a ``CUDIA`` before any data are read."""
    options = {"method": methods, "likelihood": ("cudia", "count"), "aggregates_from": ("sample", "population")}
    for name, known in options.items():
        if getattr(model, name) not in known:
            raise unknown_name(name, getattr(model, name), known, "choice")
    checks.check_flags(model)
    if model.likelihood == "count" and (model.aggregates_from == "population" or model.method == "map"):
        raise InputError(
            "likelihood='count' is for means computed on these very people, whose clusters are drawn or assigned; with "
            "aggregates_from='population' or method='map' pass likelihood='cudia'."
        )
    if checks.check_whole(model.n_clusters, "n_clusters", 1) == 1:
        raise InputError(
            "n_clusters=1 gives everybody the mean of the group, which is the naive answer; pass at least 2."
        )
    checks.check_whole(model.n_restarts, "n_restarts", 1)
    if model.ridge is not None:
        checks.check_positive(model.ridge, "ridge")
    if not _is(model.alpha, "learn"):
        checks.check_positive(model.alpha, "alpha")
    if not _is(model.place_sd, "auto"):
        checks.check_between(model.place_sd, "place_sd", 0.0, 1e6)


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def hidden_families(given: Inputs, families: Any) -> tuple[Any, BoolArray]:
    """Tell families of columns from those of hidden features, which are binary by default when their means lie in [0, 1]."""
    chosen = {k: v for k, v in families.items() if k in given.hidden} if isinstance(families, Mapping) else {}
    out = []
    for published in given.published:
        name, mean = published.name, published.mean[~np.isnan(published.mean)]
        kind = chosen.get(name, "bernoulli" if (mean == np.clip(mean, 0.0, 1.0)).all() else "gaussian")
        if kind not in ("bernoulli", "gaussian"):
            raise unknown_name(f"families[{name!r}]", kind, ["bernoulli", "gaussian"], "family of a hidden feature")
        if kind == "bernoulli":
            read_range(given, published)
        out.append(kind == "bernoulli")
    rest = {k: v for k, v in families.items() if k not in chosen} if chosen else families
    return rest, np.array(out)


def build(given: Inputs, cells: Cells, families: Any, likelihood: str) -> Problem:
    """Lay out the problem."""
    of_columns, binary = hidden_families(given, families)
    reading = learn_families(given.people.X, given.schema.columns, of_columns)
    places, atom = np.unique(cells.pair_group, axis=0, return_inverse=True)
    atom = atom.reshape(-1)
    weight = cells.weight * (cells.count.sum() / cells.weight.sum())
    used = weight > 0
    size = np.bincount(atom, weight, len(places)).astype(np.float64)
    if (size <= 0).any():
        raise InputError("sample_weight is zero for everybody in one combination of groups; leave these people out.")
    blocks = []
    for p, partition in enumerate(given.schema.partitions):
        features = np.flatnonzero([q.partition == p for q in given.published])
        if len(features):
            people = cells.sizes(p, len(partition))[1]
            group = places[:, p].astype(np.int64)
            share = size / np.bincount(group, size, len(people))[group]
            S, se = (np.column_stack([getattr(given.published[j], n) for j in features]) for n in ("mean", "se"))
            blocks.append(Block(p, features, group, share, S, people, se))
    return Problem(
        X=recode(cells.X, reading, given.schema.names),
        families=reading,
        cell=cells.pair_cell[used].astype(np.int64),
        atom=atom[used].astype(np.int64),
        weight=weight[used],
        count=cells.count[used].astype(np.int64),
        size=size,
        places=places.astype(np.int64),
        blocks=tuple(blocks),
        binary=binary,
        likelihood=likelihood,
    )


def atoms_of(group: IntArray, places: Int64Array) -> Int64Array:
    """Find the atom of each person, (n,); a combination of groups the fit did not have is number A.

    Examples
    --------
    >>> atoms_of(np.array([[1], [0], [7]]), np.array([[0], [1]])).tolist()
    [1, 0, 2]
    """
    number = {tuple(row): i for i, row in enumerate(places.tolist())}
    rows, place = np.unique(np.asarray(group), axis=0, return_inverse=True)
    return np.array([number.get(tuple(r), len(places)) for r in rows.tolist()], dtype=np.int64)[place.reshape(-1)]
