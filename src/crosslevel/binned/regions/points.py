"""Points: regions without extent, whose total is the value there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from crosslevel.binned.regions.base import Pieces, Regions, SineBasis
from crosslevel.data.checks import check_finite
from crosslevel.errors import InputError
from crosslevel.typing import ComplexArray, FloatArray, Int64Array

__all__ = ["Points", "as_regions"]


class Points(Regions):
    """Points in d dimensions.

    Parameters
    ----------
    x : (n,) or (n, d)

    Examples
    --------
    >>> Points([20.0, 30.0])
    <Points: 2 regions in 1 dimension>
    """

    def __init__(self, x: npt.ArrayLike) -> None:
        at = check_finite(x, "points")
        if np.ndim(x) == 0 or at.ndim > 2:
            raise InputError(f"points has shape {np.shape(x)}; pass one number or one row of coordinates per point.")
        if not len(at):
            raise InputError("points is empty; pass at least one.")
        self.x: FloatArray = at[:, None] if at.ndim == 1 else at

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.x.shape[1])

    def __len__(self) -> int:
        return len(self.x)

    @property
    def volumes(self) -> FloatArray:
        """One each: total, mean and density of a point are its value."""
        return np.ones(len(self))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Give the points twice."""
        return self.x, self.x

    def labels(self) -> dict[str, Any]:
        """Name the points by ``point``, or ``point_0``, ``point_1``, ... ."""
        if self.dimension == 1:
            return {"point": self.x[:, 0]}
        return {f"point_{d}": self.x[:, d] for d in range(self.dimension)}

    def pieces(self) -> Pieces:
        """Give each point as one piece without width."""
        return self.quadrature()

    def fourier_integrals(self, k: FloatArray) -> ComplexArray:
        """Evaluate exponentials."""
        return np.asarray(np.exp(1j * (self.x @ k.T)))

    def sine_integrals(self, basis: SineBasis) -> FloatArray:
        """Evaluate sines."""
        return basis.values(self.x)

    def quadrature(self, scale: FloatArray | None = None) -> Pieces:
        """Give the points themselves."""
        n = len(self)
        return Pieces.points(self.x, np.ones(n), np.arange(n), n)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Give the saved form."""
        return {"x": self.x}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make the points from their saved form."""
        return cls(arrays["x"])

    def _take(self, rows: Int64Array) -> Self:
        return type(self)(self.x[rows])


def as_regions(regions: Any, argument: str = "regions", dimension: int | None = None) -> Regions:
    """Take regions as they are and arrays as points; refuse a wrong number of dimensions.

    Examples
    --------
    >>> as_regions([1.0, 2.0])
    <Points: 2 regions in 1 dimension>
    """
    if isinstance(regions, Regions):
        found = regions
    elif isinstance(regions, tuple):
        raise InputError(f"{argument} is a tuple; pass Intervals(lower, upper) for bins, or an array for points.")
    else:
        try:
            found = Points(regions)
        except InputError as error:
            raise InputError(
                f"{argument} is neither regions (Intervals, Boxes, Polygons, ...) nor an array of points: {error}"
            ) from error
    if dimension is not None and found.dimension != dimension:
        raise InputError(
            f"{argument} has {found.dimension} dimension(s) and the model was fitted in {dimension}; pass regions or points there."
        )
    return found
