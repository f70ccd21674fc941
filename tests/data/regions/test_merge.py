"""merge_regions: connected components by brute force, names, collapses, joins, and the sentences for bad input."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslevel.data.regions import merge_regions
from crosslevel.errors import InputError

SMALL = {"county": ["a", "a", "b", "c", "d"], "puma": [1, 2, 2, 3, 4]}

edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=25)
groups = st.sets(st.integers(0, 12), max_size=4)


def union_find(n: int, pairs: list[tuple[int, int]]) -> list[int]:
    parent = list(range(n))

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    for a, b in pairs:
        parent[root(a)] = root(b)
    return [root(i) for i in range(n)]


def partition(keys: list[object], labels: list[object]) -> set[frozenset[object]]:
    blocks: dict[object, set[object]] = {}
    for key, label in zip(keys, labels, strict=True):
        blocks.setdefault(label, set()).add(key)
    return {frozenset(block) for block in blocks.values()}


@given(edges, groups, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=3))
def test_regions_are_the_components_a_union_find_gives(pairs, together, joins):
    lefts = sorted({a for a, _ in pairs})
    together = sorted(together & set(lefts))
    joins = [(a, b) for a, b in joins if a in lefts and b in lefts]
    regions = merge_regions(
        {"l": [a for a, _ in pairs], "r": [b for _, b in pairs]},
        "l",
        "r",
        collapse={"together": together} if together else None,
        join=joins,
    )
    links = [(a, 13 + b) for a, b in pairs] + joins + [(together[0], t) for t in together]
    root = union_find(26, links)
    assert partition(regions.left["l"].to_pylist(), regions.left["region"].to_pylist()) == partition(
        lefts, [root[a] for a in lefts]
    )
    rights = regions.right["r"].to_pylist()
    labels_of_root = dict(
        zip([root[a] for a in lefts], regions.label_left({"l": lefts})["region"].to_pylist(), strict=True)
    )
    assert regions.right["region"].to_pylist() == [labels_of_root[root[13 + b]] for b in rights]
    assert regions.n_regions == len(set(labels_of_root.values())) == len(set(regions.labels))


@given(edges, st.randoms())
def test_neither_the_order_nor_the_repetition_of_rows_matters(pairs, random):
    once = merge_regions({"l": [a for a, _ in pairs], "r": [b for _, b in pairs]}, "l", "r")
    shuffled = pairs + pairs[:3]
    random.shuffle(shuffled)
    again = merge_regions({"l": [a for a, _ in shuffled], "r": [b for _, b in shuffled]}, "l", "r")
    assert once.labels == again.labels
    assert once.left.equals(again.left)
    assert once.right.equals(again.right)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_kind_of_frame_does_not_matter(make):
    assert merge_regions(make(SMALL)).labels == ("a+1", "c", "d")


def test_names_and_order_follow_the_smallest_left_key():
    regions = merge_regions({"county": ["z", "b", "m", "c"], "puma": [1, 1, 2, 3]})
    assert regions.labels == ("b+1", "c", "m")


def test_codes_are_unique_only_within_their_state():
    crosswalk = {"county": ["01001", "02001"], "state": ["01", "02"], "puma": ["100", "100"]}
    assert merge_regions(crosswalk).n_regions == 1
    assert merge_regions(crosswalk, right=["state", "puma"]).n_regions == 2


def test_a_collapse_counts_as_one_place_and_gives_its_name():
    crosswalk = {"county": ["01001", "02001", "02003", "03001"], "puma": [1, 2, 3, 4]}
    assert merge_regions(crosswalk, collapse={"AK": "02*"}).labels == ("01001", "AK", "03001")
    assert merge_regions(crosswalk, collapse={"AK": "02*"}, join=[("AK", "01001")]).labels == ("AK+1", "03001")
    assert merge_regions(crosswalk, collapse={"AK": "02*"}, join=[("02003", "01001")]).labels == ("AK+1", "03001")


@pytest.mark.parametrize(
    "rule",
    ["02*", ["02001", "02003"], ["*2001", "02003"]],
    ids=["pattern", "keys", "patterns"],
)
def test_every_way_to_write_a_rule(rule):
    crosswalk = {"county": ["01001", "02001", "02003"], "puma": [1, 2, 3]}
    assert merge_regions(crosswalk, collapse={"AK": rule}).labels == ("01001", "AK")


def test_rules_on_several_columns_and_on_integers():
    crosswalk = {"state": [1, 2, 2], "county": ["001", "001", "003"], "puma": [1, 2, 3]}
    regions = merge_regions(crosswalk, ["state", "county"], collapse={"two": "2-*"})
    assert regions.labels == ("1-001", "two")
    there = regions.label_left({"state": [2, 1], "county": ["999", "001"]})
    assert there["region"].to_pylist() == ["two", "1-001"]
    regions = merge_regions({"county": [1001, 2001, 2003], "puma": [1, 2, 3]}, collapse={"AK": [2001, 2003, 2999]})
    assert regions.label_left({"county": [2999]})["region"].to_pylist() == ["AK"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"left": []},
        {"collapse": ["a", "b"]},
        {"left": "conty"},
        {"collapse": {"X": "zz*"}},
        {"collapse": {"X": []}},
        {"collapse": {"X": "a*", "Y": ["a"]}},
        {"collapse": {"X": 7}},
        {"collapse": {"X": [("a", "b")]}},
        {"collapse": {"c": ["a", "b"]}},
        {"join": [("a", "q")]},
        {"join": ["ab", "a"]},
    ],
)
def test_bad_arguments_get_a_sentence(arguments):
    with pytest.raises(InputError):
        merge_regions(SMALL, **arguments)


@pytest.mark.parametrize(
    ("crosswalk", "options"),
    [
        ({"county": ["a", None], "puma": [1, 2]}, {}),
        ({"county": ["a"], "puma": [1.5]}, {}),
        ({"county": [], "puma": []}, {}),
        ({"county": [2001], "puma": [1]}, {"collapse": {"AK": "02*"}}),
        ({"county": ["015005", "b"], "puma": [1, 2]}, {"join": [(15005, "b")]}),
    ],
)
def test_bad_crosswalks_are_refused(crosswalk, options):
    with pytest.raises(InputError):
        merge_regions(crosswalk, **options)


def test_a_key_column_may_itself_be_called_region():
    regions = merge_regions({"region": ["n", "s"], "puma": [1, 1]}, left="region")
    assert regions.left.to_pydict() == {"region": ["n", "s"], "merged_region": ["n+1", "n+1"]}
