"""Draws of a sampler with their names and dimensions: an xarray DataTree.

The groups are those of the ArviZ schema: ``posterior`` and ``sample_stats``, with the dimensions chain and draw first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError
from crosslevel.results.table import plain

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["posterior_tree"]


def posterior_tree(
    posterior: Mapping[str, npt.ArrayLike],
    sample_stats: Mapping[str, npt.ArrayLike] | None = None,
    *,
    dims: Mapping[str, tuple[str, ...]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Put draws into a tree with the groups ``posterior`` and ``sample_stats``.

    Parameters
    ----------
    posterior : mapping of name to array (n_chains, n_draws, ...)
    sample_stats : mapping of name to array (n_chains, n_draws), optional
        What the sampler says of each draw, such as ``diverging``.
    dims : mapping of name to tuple of str, optional
        Names of the dimensions after chain and draw; ``name_dim_0`` and so on when not given.
    attrs : mapping, optional
        Plain values kept at the root: version, seed, diagnostics.

    Examples
    --------
    >>> tree = posterior_tree({"slope": np.zeros((2, 5, 3))}, {"diverging": np.zeros((2, 5), bool)})
    >>> dict(tree["posterior"].sizes), tree["posterior/slope"].dims
    ({'chain': 2, 'draw': 5, 'slope_dim_0': 3}, ('chain', 'draw', 'slope_dim_0'))
    """
    import xarray as xr

    groups = {"posterior": posterior, "sample_stats": {} if sample_stats is None else sample_stats}
    arrays = {group: {name: np.asarray(v) for name, v in found.items()} for group, found in groups.items()}
    shape: tuple[int, ...] | None = None
    for found in arrays.values():
        for name, values in found.items():
            shape = values.shape[:2] if shape is None else shape
            if values.ndim < 2 or values.shape[:2] != shape:
                raise InputError(
                    f"the draws of {name!r} have shape {values.shape}; all need (chains, draws, ...) with the chains and draws "
                    f"of the first, {shape}."
                )
    if shape is None:
        raise InputError("posterior is empty; pass the draws of at least one quantity.")
    sets = {}
    for group, found in arrays.items():
        columns = {name: (("chain", "draw", *_further(name, v, dims)), v) for name, v in found.items()}
        sets[group] = xr.Dataset(columns, coords={"chain": np.arange(shape[0]), "draw": np.arange(shape[1])})
    tree = xr.DataTree.from_dict(sets)
    tree.attrs.update({} if attrs is None else plain(dict(attrs), "attrs"))
    return tree


def _further(name: str, values: npt.NDArray[Any], dims: Mapping[str, tuple[str, ...]] | None) -> tuple[str, ...]:
    given = None if dims is None else dims.get(name)
    if given is None:
        return tuple(f"{name}_dim_{k}" for k in range(values.ndim - 2))
    if len(given) != values.ndim - 2:
        raise InputError(
            f"dims[{name!r}] names {len(given)} dimension(s) after chain and draw; its draws have {values.ndim - 2}."
        )
    return tuple(given)
