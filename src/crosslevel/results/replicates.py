"""Replicate weights: columns by name or by what their names begin with, and those of the rescaled bootstrap."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from crosslevel.data import frames
from crosslevel.errors import InputError, listed
from crosslevel.typing import FloatArray, IntArray

OTHER_SCALE = 3.0
"""Ratio of the sums of replicate weights and weights from which on they do not stand for the same people."""


def replicate_names(replicates: str | Sequence[str] | None, weight: str, table: pa.Table) -> list[str]:
    """Find the columns of replicate weights, in the order of their numbers; refuse one alone and numbers that are missing or there twice.

    Examples
    --------
    >>> replicate_names("w", "w", pa.table({"w": [1.0], "w2": [2.0], "w1": [0.0]}))
    ['w1', 'w2']
    """
    if not isinstance(replicates, str):
        names = list(frames.as_names(replicates or (), "replicates"))
        if len(names) < 2:
            raise InputError(f"replicates={names!r} is one column; pass all columns of replicate weights.")
        if weight in names:
            raise InputError(f"replicates names {weight!r}, the weight itself, which does not vary; leave it out.")
        return names
    pattern = re.compile(re.escape(replicates) + r"_?0*(\d+)$", re.IGNORECASE)
    # a file may number the weight itself 0
    own = [n for n in table.column_names if n != weight and not table[n].equals(table[weight])]
    found = {int(m[1]): n for n in own if (m := pattern.match(n))}
    if len(found) < 2:
        raise InputError(
            f"replicates={replicates!r}: people has {len(found)} column(s) of that name and a number; its columns are "
            f"{listed(table.column_names)}."
        )
    gaps = [i for i in range(min(1, *found), max(found)) if i not in found]
    if gaps or len(found) < sum(bool(pattern.match(n)) for n in own):
        which = f"number {gaps[0]} is missing" if gaps else "a number stands there twice"
        raise InputError(
            f"replicates={replicates!r}: of {len(found)} columns, {found[min(found)]!r} to {found[max(found)]!r}, {which}; "
            "the variance needs all of them, each once. Pass their names."
        )
    return [found[i] for i in sorted(found)]


def check_scale(replicate: FloatArray, name: str, weight: FloatArray, weight_name: str) -> FloatArray:
    """Give replicate weights back; refuse those that do not stand for as many people as the weights: factors, or another file's."""
    if not 1 / OTHER_SCALE <= replicate.sum() / weight.sum() <= OTHER_SCALE:
        raise InputError(
            f"replicates: {name!r} adds up to {replicate.sum():,.4g} and weight={weight_name!r} to {weight.sum():,.4g}, but both stand for "
            "the same people. Where the file has replicate factors, multiply them by the weight first."
        )
    return replicate


def rescaled_bootstrap(of_cluster: IntArray, n_clusters: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw n_h - 1 clusters of every stratum with replacement; give the factor of every cluster's weights.

    Parameters
    ----------
    of_cluster : (n,)
        Stratum of every cluster.
    n_clusters : (n_strata,)
        Clusters of every stratum, n_h; one alone keeps its weights.
    rng : Generator
    """
    factor = np.ones(len(of_cluster))
    for h in np.flatnonzero(n_clusters > 1):
        n = int(n_clusters[h])
        factor[of_cluster == h] = rng.multinomial(n - 1, np.full(n, 1 / n)) * n / (n - 1)
    return factor
