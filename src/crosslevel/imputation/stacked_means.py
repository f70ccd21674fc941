"""Tables of means by one column each, under one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crosslevel.results import Estimates

__all__ = ["stack_means"]


def stack_means(parts: Sequence[Estimates], columns: Sequence[str]) -> Estimates:
    """Put tables of means by one column each under one another: keys feature, column, value.

    Examples
    --------
    >>> from crosslevel.results import Provenance
    >>> def means(**of): return Estimates.build({"feature": ["ill"], **of, "estimate": [0.1], "naive": [0.2], "people": [9]},
    ...     keys=["feature", *of], method="m", level=None, interval="none", provenance=Provenance.of(call="m()"))
    >>> stack_means([means(age=[30]), means(sex=["w"])], ["age", "sex"]).table.select(["column", "value"]).to_pylist()
    [{'column': 'age', 'value': '30'}, {'column': 'sex', 'value': 'w'}]
    """
    rows: list[dict[str, Any]] = []
    for column, part in zip(columns, parts, strict=True):
        keep = [n for n in part.table.column_names if n != column]
        for value, row in zip(part.table[column].to_pylist(), part.table.select(keep).to_pylist(), strict=True):
            rows.append({"column": column, "value": "missing" if value is None else str(value), **row})
    order = list(dict.fromkeys(row["feature"] for row in rows))
    rows.sort(key=lambda row: order.index(row["feature"]))
    first = parts[0]
    return Estimates.build(
        {n: [row[n] for row in rows] for n in rows[0]},
        keys=["feature", "column", "value"],
        kind="imputed",
        method=first.method,
        level=first.level,
        interval=first.interval,
        provenance=first.provenance,
        diagnostics=first.diagnostics,
        warnings=first.warnings,
        title="Means of the hidden features by what is known of people",
    )
