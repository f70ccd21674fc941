"""Arguments of a kind that the signature does not name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

from crosslevel.data.signatures import checked
from crosslevel.errors import InputError


@checked
def draw(
    label: str = "",
    names: Sequence[str] | None = None,
    level: float = 0.9,
    rows: int = 3,
    legend: bool = True,
    values: Mapping[Any, float] | None = None,
    ends: tuple[float, float] | None = None,
    call: Callable[[int], int] | None = None,
    path: Path | None = None,
    sort: Literal["up", "down"] = "up",
    anything: Any = None,
    *more: int,
) -> str:
    del names, level, rows, legend, values, ends, call, path, sort, anything, more
    return label


@pytest.mark.parametrize(
    "given",
    [
        {"label": 2.5},
        {"names": "age"},
        {"names": np.array("age")},
        {"level": "x" * 1000},
        {"rows": 2.5},
        {"legend": "no"},
        {"values": [1.0]},
        {"ends": (1.0,)},
        {"ends": {"a": 1.0, "b": 2.0}},
        {"call": 3},
        {"path": "here"},
        {"sort": 1},
    ],
)
def test_what_the_signature_does_not_name_is_refused(given):
    with pytest.raises(InputError):
        draw(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"names": ["a"]}, {"names": np.array(["a"])}, {"names": pd.Index(["a"])}, {"names": {"a"}}, {"names": None},
        {"level": 1}, {"level": np.float32(0.5)}, {"rows": np.int64(3)}, {"legend": np.True_}, {"values": {"a": 1.0}},
        {"values": pd.Series([1.0], index=["a"])}, {"ends": [0, 1]}, {"ends": np.zeros(2)}, {"call": len}, {"sort": "up"},
        {"anything": object()},
    ],
)  # fmt: skip
def test_what_it_names_is_taken(given):
    assert draw("age", **given) == "age"


def test_a_wrong_call_is_still_a_type_error():
    with pytest.raises(TypeError):
        draw(lable="age")
