"""Read rates of subgroups of all people: which pairs of cell and group each is a mean of, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from crosslevel.data import frames
from crosslevel.data.cells import read_matrix
from crosslevel.errors import InputError, listed
from crosslevel.imputation.inputs import Inputs
from crosslevel.imputation.persons.model import Known, inner, sampling_variance
from crosslevel.typing import FloatArray


def read_known(table: pa.Table, given: Inputs, families: Mapping[str, str]) -> dict[str, Known]:
    """Give the known rates of every hidden feature that has some.

    Parameters
    ----------
    table : pyarrow.Table
        Columns of people that define subgroups, columns named after hidden features, and their ``<feature>_se``.
    given : Inputs
    families : mapping of hidden feature to family

    Examples
    --------
    >>> from crosslevel.imputation.inputs import People, Places, read_fit
    >>> places = Places({"town": ["a", "b"], "ill": [0.5, 0.1]}, by="town", means="ill")
    >>> given = read_fit(People({"age": [1, 2, 1, 2], "town": ["a", "a", "b", "b"]}, by="town"), places)
    >>> known = read_known(pa.table({"age": [1, 2], "ill": [0.1, 0.3]}), given, {"ill": "bernoulli"})["ill"]
    >>> known.W.toarray().tolist(), known.rate.tolist()
    ([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]], [0.1, 0.3])
    """
    cells = given.cells
    columns = {c.name: (j, c) for j, c in enumerate(given.schema.columns)}
    by, features = [n for n in table.column_names if n in columns], [n for n in table.column_names if n in families]
    spare = [n for n in table.column_names if n not in (*by, *features, *(f"{f}_se" for f in features))]
    if not by or not features or spare:
        raise InputError(
            f"known_rates has the columns {listed(table.column_names)}; pass columns of people ({listed(columns)}) for the subgroups, "
            f"hidden features ({listed(families)}) and <feature>_se, and nothing else."
        )
    if not table.num_rows:
        raise InputError("known_rates has no rows; leave it out where no rates are known.")
    value = read_matrix(table, [columns[n][1] for n in by], "known_rates")
    own = cells.X[:, [columns[n][0] for n in by]]
    rows = np.array([(own == v).all(axis=1) for v in value])[:, cells.pair_cell]
    name = [dict(zip(by, v, strict=True)) for v in zip(*(table[n].to_pylist() for n in by), strict=True)]
    W = sparse.csr_array(rows * cells.weight)
    total = W.sum(axis=1)
    if not (total > 0).all():
        raise InputError(
            f"known_rates has {name[int(np.argmin(total > 0))]}, of whom people has nobody; leave this row out."
        )
    if len({tuple(v) for v in value.tolist()}) < len(value):
        raise InputError("known_rates names a subgroup twice; give each one row.")
    people = total**2 / (rows @ cells.weight_squared)
    share = sparse.csr_array(W / total[:, None])
    return {f: _known(table, f, families[f] == "bernoulli", given, share, people, name) for f in features}


def _known(
    table: Any,
    feature: str,
    binary: bool,
    given: Inputs,
    W: sparse.csr_array,
    people: FloatArray,
    name: Any,
) -> Known:
    rate = frames.column(table, feature, "known_rates")
    own = f"{feature}_se" in table.column_names
    se = frames.column(table, f"{feature}_se", "known_rates") if own else np.full(len(rate), np.nan)
    bad = ~np.isfinite(rate) | (se <= 0) | np.isinf(se)
    # a missing error of a rate is that of as many people as are here; a number has none
    bad |= (rate < 0) | (rate > 1) if binary else np.isnan(se)
    if bad.any():
        r = int(np.argmax(bad))
        raise InputError(
            f"known_rates of {name[r]}: {feature!r} is {rate[r]:g} with standard error {se[r]:g}; pass "
            f"{'rates between 0 and 1' if binary else 'means'} and, as '{feature}_se', standard errors above 0."
        )
    variance = sampling_variance(rate, people, se) if binary else se**2
    if binary:
        rate = np.where((rate <= 0.0) | (rate >= 1.0), inner(rate, people), rate)
    published = given.published[given.hidden.index(feature)]
    return Known(W, given.cells.pair_cell, given.cells.pair_group[:, published.partition], rate, variance)
