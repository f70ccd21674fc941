"""People of a stream as what a fit is given: counted by distinct row and group in one pass, here or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosslevel.data.batches import open_batches
from crosslevel.data.cells import Cells, gather, sums
from crosslevel.data.columns import check_names
from crosslevel.data.engines import find_cluster
from crosslevel.data.frames import fingerprint
from crosslevel.data.kinds import count_kinds
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.inputs import Inputs, read_fit
from crosslevel.typing import Progress


def read_stream(
    people: Any,
    partition: str,
    aggregates: Any,
    weight: str | None,
    columns: Sequence[str] | None,
    aggregate_se: Any,
    categorical: Sequence[str] | None,
    allow_missing: bool,
    engine: Any,
    progress: Progress | None,
) -> tuple[Inputs, Cells]:
    """Check everything that a fit to a stream is given, and count its people; see ``CrossLevelImputer.fit_stream``."""
    cluster = find_cluster(engine)
    stream = open_batches(people)
    names = stream.schema.names
    for argument, name in (("partition", partition), ("weight", weight)):
        if name not in names and not (argument == "weight" and name is None):
            raise unknown_name(argument, name, names)
    apart = (partition, weight)
    chosen = [n for n in names if n not in apart] if columns is None else list(check_names(columns, names, "columns"))
    for argument, name in (("partition", partition), ("weight", weight)):
        if name in chosen:
            raise InputError(f"columns names {name!r}, which is the {argument}; leave it out.")
    if not chosen:
        raise InputError(f"people has no column beside {partition!r}; pass what is known of each person.")
    kinds = count_kinds(stream, [*chosen, partition], weight, progress=progress, engine=cluster)
    given = read_fit(
        kinds.table,
        partition,
        aggregates,
        kinds.weight,
        aggregate_se,
        categorical=categorical,
        allow_missing=allow_missing,
        count=kinds.count,
    )
    cells = gather(given.people.X, given.people.group, given.people.weight)
    count, squares = (sums(cells.pair, v, len(cells.count)) for v in (kinds.count, kinds.weight_squared))
    nobody = np.empty(0, dtype=np.intp)
    cells = replace(cells, row=nobody, pair=nobody, count=count, weight_squared=squares)
    # cells have an order of their own, whatever that of people and pieces was
    told = {f"x{j}": x for j, x in enumerate(cells.X[cells.pair_cell].T)}
    data = {"people": fingerprint(told | {"group": cells.pair_group[:, 0], "people": count})}
    return replace(given, data=data), cells
