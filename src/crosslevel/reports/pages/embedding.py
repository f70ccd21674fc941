"""The page of embeddings: how many people stand behind each bag, and how many they count for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.embedding import Embeddings
from crosslevel.reports.pages.parts import BLUE, diagonal, sample, tips
from crosslevel.reports.pages.words import number
from crosslevel.reports.views import Rows, Section, View
from crosslevel.results.provenance import installed_version

__all__ = ["accepts", "section"]

FEW = 30
"""Effective people below which the mean of a bag is mostly noise."""


def accepts(result: Any) -> bool:
    """Tell whether these are embeddings."""
    return isinstance(result, Embeddings)


def section(heading: str, result: Embeddings, *, shapes: Any = None) -> Section:
    """Make the page of embeddings: keys, people and effective sizes of the bags; a vector is nothing to look at.

    Examples
    --------
    >>> keys = pa.table({"region": ["a", "b"]})
    >>> found = Embeddings(np.zeros((2, 3)), keys, np.array([9.0, 40.0]), np.array([10, 50]), np.array([8.0, 45.0]))
    >>> section("Regions", found).sentences[1]
    'There are 8 to 45 effective people in a bag, 60 people in all.'
    """
    n = len(result.n_rows)
    rows = sample(n)
    words = [" · ".join(str(v) for v in row.values()) for row in result.key_table.take(pa.array(rows)).to_pylist()]
    size = result.effective_size
    table = pa.table(
        {
            "bag": words,
            "people": result.n_rows[rows].astype(np.float64),
            "effective": size[rows],
            "weight": result.weight[rows],
        }
    )
    ends = [float(result.n_rows.min()), float(result.n_rows.max())]
    few = int((size < FEW).sum())
    answer = result.key_table
    for name, values in (("people", result.n_rows), ("effective_size", size), ("weight", result.weight)):
        answer = answer.append_column(_free(name, answer.column_names), pa.array(values))
    return Section(
        heading=heading,
        kind="table",
        sentences=[
            f"Who are the people of each bag, as one vector? {n:,} bags by {', '.join(result.key_table.column_names)}, "
            f"{result.shape[1]:,} numbers each.",
            f"There are {number(float(size.min()))} to {number(float(size.max()))} effective people in a bag, "
            f"{number(float(result.n_rows.sum()))} people in all.",
            f"A vector is a mean and as sure as a mean of so many: {few:,} bag(s) have fewer than {FEW} effective people. There is no "
            "interval.",
        ],
        answer=answer,
        keys=result.key_table.column_names,
        method="mean embedding of bags",
        level=None,
        interval="none",
        warnings=list(result.warnings),
        provenance=[("crosslevel", installed_version())],
        citation="Flaxman, S., Wang, Y.-X. and Smola, A. (2015). Who supported Obama in 2012? Ecological inference through "
        "distribution regression. KDD.",
        tables={"bags": table, "ends": pa.table({"end": ends})},
        views=[_sizes_view(len(rows), n)],
    )


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name = f"{name}_"
    return name


def _sizes_view(shown: int, n: int) -> View:
    part = f"{shown:,} bags" if shown == n else f"a random {shown:,} of {n:,} bags (seed 0)"
    return View(
        name="sizes",
        title="People of the bags, and how many they count for",
        caption=f"Each dot is a bag, {part}. On the broken line weights cost nothing; below it unequal weights make people count for "
        "fewer. No interval.",
        spec={
            "data": {"name": "rows"},
            "width": "container",
            "height": 300,
            "layer": [
                diagonal("ends"),
                {
                    "mark": {"type": "point", "filled": True, "size": 40, "color": BLUE, "opacity": 0.7},
                    "encoding": {
                        "x": {"field": "people", "type": "quantitative", "title": "people"},
                        "y": {"field": "effective", "type": "quantitative", "title": "effective people (Kish)"},
                        "tooltip": tips(
                            ("bag", "bag", "nominal"),
                            ("people", "people"),
                            ("effective", "effective people"),
                            ("weight", "weight"),
                        ),
                    },
                },
            ],
        },
        data={"rows": Rows("bags"), "ends": Rows("ends")},
    )
