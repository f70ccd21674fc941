from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.place_columns import count_groups
from crosslevel.errors import CrosslevelWarning, InputError

COUNTS = {"town": ["a", "b", "c", "d"], "white": [30, 40, 10, 25], "black": [70, 5, 20, 15]}
RACE = {"race": {"white": "white", "black": "black"}}


def counted(columns, composition=None, weight=None):
    return count_groups(pa.table(columns), "town", composition or RACE, weight)


def test_a_level_that_is_the_sum_of_the_others_is_refused():
    everybody = np.add(COUNTS["white"], COUNTS["black"])
    three = {"race": {**RACE["race"], "all": "everybody"}}
    with pytest.raises(InputError):
        counted({**COUNTS, "everybody": everybody}, three)
    assert counted({**COUNTS, "everybody": np.add(everybody, [0, 0, 1, 0])}, three).num_rows == 12
    assert counted({**COUNTS, "everybody": everybody}, weight="everybody").num_rows == 8


def test_a_place_that_is_the_sum_of_the_others_is_refused():
    total = {"town": [*COUNTS["town"], "all"], **{n: [*COUNTS[n], sum(COUNTS[n])] for n in ("white", "black")}}
    with pytest.raises(InputError):
        counted(total)
    people = np.add(total["white"], total["black"])
    shares = {"town": total["town"], **{n: np.array(total[n]) / people for n in ("white", "black")}, "n": people}
    with pytest.raises(InputError):
        counted(shares, weight="n")
    assert counted({**total, "white": [*COUNTS["white"], 106]}).num_rows == 10


def test_percentages_need_the_number_of_people():
    percent = {"town": list("abc"), "white": [30.5, 40.0, 99.9], "black": [69.5, 60.0, 0.2]}
    with pytest.raises(InputError):
        counted(percent)
    whole = {"town": list("abc"), "white": [30, 40, 99], "black": [70, 60, 1]}
    with pytest.warns(CrosslevelWarning):
        assert counted(whole).num_rows == 6
    assert counted({**whole, "black": [71, 60, 1]}).num_rows == 6
