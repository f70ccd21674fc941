"""People wherever they are as what a fit is given: counted by distinct row and group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosslevel.data.cells import Cells, gather, sums
from crosslevel.data.frames import fingerprint
from crosslevel.data.kinds import count_kinds
from crosslevel.data.people import People
from crosslevel.errors import InputError
from crosslevel.imputation.inputs import Inputs, read_fit


def read_counted(
    people: People, aggregates: Any, aggregate_se: Any, categorical: Sequence[str] | None, allow_missing: bool
) -> tuple[Inputs, Cells]:
    """Check everything that a fit is given, and count its people; see ``CrossLevelImputer.fit_people``."""
    if not people.features:
        raise InputError(f"people has no column beside {people.place!r}; pass what is known of each person.")
    kinds = count_kinds(people, [*people.features, people.place])
    given = read_fit(
        kinds.table,
        people.place,
        aggregates,
        kinds.weight,
        aggregate_se,
        categorical=[*(categorical or ()), *people.categorical] or None,
        allow_missing=allow_missing,
        count=kinds.count,
    )
    cells = gather(given.people.X, given.people.group, given.people.weight)
    count, squares = (sums(cells.pair, v, len(cells.count)) for v in (kinds.count, kinds.weight_squared))
    nobody = np.empty(0, dtype=np.intp)
    cells = replace(cells, row=nobody, pair=nobody, count=count, weight_squared=squares)
    told = {f"x{j}": x for j, x in enumerate(cells.X[cells.pair_cell].T)}
    data = {"people": fingerprint(told | {"group": cells.pair_group[:, 0], "people": count})}
    return replace(given, data=data), cells
