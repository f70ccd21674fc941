"""What is known of subgroups: read and checked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crosslevel.data.places import read_places
from crosslevel.data.surveys import PublishedShares
from crosslevel.ecological.claims import read_evidence
from crosslevel.errors import InputError

SCHEMA = pa.schema({"sex": pa.int64(), "age": pa.int64(), "town": pa.string()})

TOWNS = read_places(
    {"town": ["a", "b", "c"], "state": ["S", "S", "T"], "number": [1, 2, 3], "yes": [3, 5, 1], "all": [9, 9, 4]},
    "town",
    "yes",
    "all",
)


def read(frame, places=TOWNS, **options):
    options = {"successes": "yes", "trials": "all"} | options
    return read_evidence(PublishedShares(frame), places, SCHEMA, **options)


def poll(**changed):
    return {"subgroup": ["sex == 2", None], "state": ["S", None], "yes": [4.5, 2], "all": [10, 5]} | changed


def test_rows_say_who_where_and_how_many():
    found = read(poll())
    assert sorted(found.label(r) for r in range(2)) == ["'sex == 2', state='S'", "everybody"]
    assert list(found.queries.values()) == ["sex == 2"]
    assert sorted(found.n) == [5, 10]
    assert found.notes == ()


def test_the_order_of_the_rows_means_nothing():
    frame = poll(subgroup=["sex == 2", "sex == 1"], state=["S", "T"])
    back = {name: values[::-1] for name, values in frame.items()}
    one, two = read(frame), read(back)
    assert one.where == two.where
    assert one.n.tolist() == two.n.tolist()
    assert [one.label(r) for r in range(2)] == [two.label(r) for r in range(2)]


def test_rows_without_trials_are_left_out_and_said():
    found = read(poll(yes=[0, 2], all=[0, 5], subgroup=["no such column == 1", ""]))
    assert (found.rows, found.queries) == ([1], {})
    assert found.notes == ("1 row(s) of evidence without any trials were left out.",)


@pytest.mark.parametrize(
    "frame",
    [
        poll(subgroup=["sx == 2", None]),
        poll(subgroup=[None, "sex =="]),
        poll(subgroup=[1.0, None]),
        poll(state=["U", None]),
        poll(state=[None, "s"]),
        poll(number=["1", None]),
        poll(sate=["S", "S"]),
        poll(yes=[11, 2]),
        poll(yes=[-1, 2]),
        poll(all=[None, 5]),
        {"subgroup": ["sex == 2"], "yes": [1]},
        [1, 2],
    ],
)
def test_what_cannot_be_used_is_refused(frame):
    with pytest.raises(InputError):
        read(frame)


def test_counts_and_coordinates_of_places_do_not_say_where():
    places = read_places(
        {"town": ["a", "b"], "lon": [0.0, 1.0], "lat": [0.0, 1.0], "yes": [1, 1], "all": [2, 2], "adults": [3, 3]},
        "town",
        "yes",
        "all",
        coords=("lon", "lat"),
        population="adults",
    )
    for column in ("lon", "adults"):
        with pytest.raises(InputError):
            read({"subgroup": [None], "yes": [1], "all": [2], column: [3]}, places, population="adults")


def test_outcomes_that_add_up_in_places_must_add_up_here():
    places = read_places({"town": ["a"], "x": [1], "y": [2]}, "town", None, None, outcomes=["x", "y"])
    options = {"successes": None, "trials": "n", "outcomes": ["x", "y"]}
    with pytest.raises(InputError):
        read({"subgroup": [None], "x": [1], "y": [1], "n": [3]}, places, **options)
    assert read({"subgroup": [None], "x": [1], "y": [2], "n": [3]}, places, **options).n.tolist() == [3]
