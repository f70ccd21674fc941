"""Merge two overlapping geographies into the finest regions that both can be summed to.

Votes are counted by county, people are surveyed by area, and neither nests in the other. In the graph whose nodes
are the counties and the areas and whose edges are the rows of a crosswalk, the connected components are the
smallest regions that whole counties and whole areas tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from crosslevel.data.frames import as_names, to_arrow
from crosslevel.data.regions.keys import (
    Key,
    KeyColumns,
    Rule,
    as_key,
    make_rule,
    node_of,
    plain,
    read_keys,
    said,
    zero_padding,
)
from crosslevel.data.regions.sums import Regions, Side
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed, nearest

Node: TypeAlias = str | Key
"""A left place of the graph: a key, or the label of collapsed keys."""


@checked
def merge_regions(
    crosswalk: object,
    left: str | Sequence[str] = "county",
    right: str | Sequence[str] = "puma",
    collapse: Mapping[str, object] | None = None,
    join: Sequence[tuple[object, object]] | None = None,
) -> Regions:
    """Which regions can both sides of a crosswalk be summed to?

    Parameters
    ----------
    crosswalk : dataframe
        One row per overlap of a left place and a right place. Repeated rows are harmless.
    left, right : str or list of str
        The key columns of each side; several when a code is unique only within another, as in
        ``right=["state", "puma"]``.
    collapse : mapping of label to rule, optional
        Left places to treat as one node. A rule is a key or pattern (``{"AK": "02*"}``; ``*`` stands for any
        text), a list of keys and patterns, or a function that says of a key whether it belongs. With several left
        columns a key or pattern is a tuple. Rules hold beyond the crosswalk: a table's row whose key the crosswalk
        lacks (votes by district, an old code) lands on the node of the rule that matches it. Where a table reuses
        the crosswalk's codes for other places, only a collapse keeps its rows from landing on the wrong one.
    join : list of pairs, optional
        Left places, or labels of ``collapse``, to connect although no right place does.

    Returns
    -------
    Regions
        Regions in order of their smallest left key. A region of one left place is named after it; of several, after
        the smallest and how many more there are (``"01005+2"``). A collapsed node counts as one place, goes by its
        label and names its region first (``"AK"``). So the name of a region changes only when its members do.

    Examples
    --------
    >>> crosswalk = {"county": ["a", "a", "b", "c", "d"], "puma": [1, 2, 2, 3, 4]}
    >>> regions = merge_regions(crosswalk)
    >>> regions.labels
    ('a+1', 'c', 'd')
    >>> votes, report = regions.sum_left({"county": ["a", "b", "c", "d"], "dem": [10, 5, 7, 9]}, columns=["dem"])
    >>> votes["dem"].to_pylist()
    [15, 7, 9]
    >>> merge_regions(crosswalk, collapse={"C": ["c", "d"]}, join=[("C", "a")]).labels
    ('C+2',)
    """
    table = to_arrow(crosswalk, "crosswalk")
    if not table.num_rows:
        raise InputError("crosswalk has no rows; pass one row per overlap of a left and a right place.")
    lefts, rights = as_names(left, "left"), as_names(right, "right")
    found, others = read_keys(table, lefts, "left"), read_keys(table, rights, "right")
    rules = tuple(make_rule(str(k), rule, found.kinds, lefts) for k, rule in (collapse or {}).items())
    nodes = [node_of(key, rules) for key in found.keys]
    _check_rules(rules, nodes, found.keys)
    pairs = tuple((_joined(a, nodes, found, rules), _joined(b, nodes, found, rules)) for a, b in _pairs(join))
    component = _components(nodes, found.codes, others.codes, len(others.keys), pairs)

    region, other_region = _number(component, found.keys)
    members = _members(nodes, region)
    labels = tuple(_label(m) for m in members)
    _check_labels(labels)
    of_rule = {node: r for node, r in zip(nodes, region, strict=True) if isinstance(node, str)}
    sides = (
        Side("left", lefts, found.kinds, dict(zip(found.keys, region, strict=True)), rules, of_rule),
        Side("right", rights, others.kinds, dict(zip(others.keys, other_region, strict=True))),
    )
    return Regions(sides[0].table(labels), sides[1].table(labels), labels, members, pairs, *sides)


def _number(component: npt.NDArray[np.int32], keys: Sequence[Key]) -> tuple[list[int], list[int]]:
    """Number components in order of their smallest left key; answers for left keys, then for right keys."""
    by_key = sorted(range(len(keys)), key=lambda i: keys[i])
    number = {c: r for r, c in enumerate(dict.fromkeys(component[by_key].tolist()))}
    regions = [number[c] for c in component.tolist()]
    return regions[: len(keys)], regions[len(keys) :]


def _members(nodes: Sequence[Node], region: Sequence[int]) -> tuple[tuple[Node, ...], ...]:
    """List the nodes of each region: labels of collapses first, then keys, each sorted."""
    members: list[set[Node]] = [set() for _ in range(max(region) + 1)]
    for node, r in zip(nodes, region, strict=True):
        members[r].add(node)
    return tuple(tuple(sorted(m, key=lambda node: (isinstance(node, tuple), node))) for m in members)


def _pairs(join: Sequence[tuple[object, object]] | None) -> list[tuple[object, object]]:
    pairs = list(join or [])
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise InputError(f"join has the entry {pair!r}; each entry is a pair of left places, as in join=[(a, b)].")
    return pairs


def _check_rules(rules: Sequence[Rule], nodes: Sequence[Node], keys: Sequence[Key]) -> None:
    for rule in rules:
        if rule.label not in nodes:
            raise InputError(
                f"collapse[{rule.label!r}] matches no left key of the crosswalk; its keys are "
                f"{listed([plain(k) for k in keys])}. A pattern needs a '*', as in '02*'."
            )


def _joined(value: object, nodes: Sequence[Node], found: KeyColumns, rules: Sequence[Rule]) -> Node:
    if any(rule.label == value for rule in rules):
        return str(value)
    key = as_key(value)
    if key in found.keys:
        return nodes[found.keys.index(key)]
    padding = zero_padding([key], found.keys)
    raise InputError(
        f"join names {value!r}, which is neither a left key of the crosswalk nor a label of collapse."
        f"{padding or nearest(said(key), [said(k) for k in found.keys])}"
    )


def _components(
    nodes: Sequence[Node],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
    n_right: int,
    pairs: Sequence[tuple[Node, Node]],
) -> npt.NDArray[np.int32]:
    """Number the component of each left key, then of each right key; keys of one node share its place in the graph."""
    place = {node: i for i, node in reversed(list(enumerate(nodes)))}
    of_key = np.array([place[node] for node in nodes])
    n = len(nodes)
    rows = np.concatenate([of_key[left], [place[a] for a, _ in pairs]]).astype(np.int64)
    columns = np.concatenate([n + right, [place[b] for _, b in pairs]]).astype(np.int64)
    graph = coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(n + n_right,) * 2).tocsr()
    _, component = connected_components(graph, directed=False)
    component[:n] = component[of_key]
    return component


def _label(members: Sequence[Node]) -> str:
    first = members[0] if isinstance(members[0], str) else said(members[0])
    return first if len(members) == 1 else f"{first}+{len(members) - 1}"


def _check_labels(labels: Sequence[str]) -> None:
    twice = sorted({label for label in labels if labels.count(label) > 1}) if len(set(labels)) < len(labels) else []
    if twice:
        raise InputError(
            f"two regions would both be named {twice[0]!r}; choose collapse labels that are not left keys."
        )
