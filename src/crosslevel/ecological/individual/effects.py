"""Which effects a person has: one for the level of every column, and of pairs of columns where interactions are wanted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.data.columns import Category
from crosslevel.ecological.individual.collapse import Coarsening
from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["INTERACTION", "Effects", "effects_of"]


INTERACTION = 0.25
"""Prior variance of an effect of two columns together, in units of that of one column."""
LARGEST = 3_000
"""Most effects: their curvature is a matrix of this size, summed over all people at every step."""


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of levels and of pairs of levels.

    Attributes
    ----------
    first : (n_terms,) int32
        Number of the first effect of each term.
    pairs : tuple of (int, int)
        Columns of the terms that are interactions, after the columns themselves.
    sizes : tuple of int
        Levels of each column.
    B : (n_effects, n_effects)
        A square root of the effects' prior correlation.
    """

    first: npt.NDArray[np.int32]
    pairs: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]
    B: FloatArray

    def codes(self, levels: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Number the effects of cells, (n_cells, n_terms), from their levels, (n_cells, n_columns)."""
        crossed = [levels[:, a] * self.sizes[b] + levels[:, b] for a, b in self.pairs]
        return np.column_stack([levels[:, : len(self.sizes)], *crossed]).astype(np.int32) + self.first


def effects_of(coarsening: Coarsening, interactions: Sequence[Sequence[str]] | None = None) -> Effects:
    """Say which effects there are.

    Effects of categories are independent; those of the bins of a number follow a trend and a smooth curve, a missing value its own.
    Those of pairs of levels are independent and smaller.

    Parameters
    ----------
    coarsening : Coarsening
    interactions : sequence of (column, column), optional
    """
    sizes, names = coarsening.sizes, coarsening.names
    pairs = []
    for pair in interactions or ():
        if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise InputError(f"interactions has {pair!r}; pass pairs of two columns, interactions=[('sex', 'age')].")
        for name in pair:
            if name not in names:
                raise unknown_name("interactions", name, list(names))
        pairs.append((names.index(pair[0]), names.index(pair[1])))
    widths = [*sizes, *(sizes[a] * sizes[b] for a, b in pairs)]
    first = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
    if first[-1] > LARGEST:
        raise InputError(
            f"columns and interactions have {int(first[-1]):,} effects, and {LARGEST:,} can be learnt; leave out columns with many "
            "levels, or interactions."
        )
    B = np.zeros((first[-1], first[-1]))
    for j, (a, b) in enumerate(itertools.pairwise(first)):
        if j >= len(sizes):
            B[a:b, a:b] = np.sqrt(INTERACTION) * np.eye(b - a)
        else:
            column = coarsening.encoder.columns[j]
            B[a:b, a:b] = np.eye(b - a) if isinstance(column, Category) else _curve(int(b - a), bool(column.has_null))
    return Effects(first[:-1], tuple(pairs), sizes, B)


def _curve(n: int, missing: bool) -> FloatArray:
    """Give a square root of the prior correlation of the bins of a number."""
    block, n_bins = np.eye(n), n - missing
    if n_bins > 2:
        x = np.linspace(-1.0, 1.0, n_bins)
        smooth = np.exp(-0.5 * ((x[:, None] - x) / 0.35) ** 2)
        block[:n_bins, :n_bins] = np.linalg.cholesky(np.outer(x, x) + smooth + 1e-9 * np.eye(n_bins))
    return block
