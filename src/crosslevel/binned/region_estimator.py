"""What the two estimators of this room share: regions to predict, where their numbers came from, and the picture of one axis."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel.binned.regions.base import Regions
from crosslevel.binned.regions.boxes import Intervals, as_regions
from crosslevel.binned.regions.planes import check_planes
from crosslevel.data.fingerprint import fingerprint
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RegionEstimator"]

POINTS = 301
"""Places at which a curve is drawn."""


class RegionEstimator(BaseEstimator):
    """Base of the estimators whose X are regions."""

    solver_: str
    quantity_: str
    _seed: int

    @property
    @abstractmethod
    def _observed(self) -> Regions:
        """Regions of fit, each once."""

    @abstractmethod
    def _data(self) -> tuple[Regions, FloatArray]:
        """Give the regions and y as they were passed to fit."""

    def _targets(self, regions: Any) -> Regions:
        """Read regions to predict; those of fit when None."""
        check_is_fitted(self, "solver_")
        if regions is None:
            return self._observed
        found = as_regions(regions, "regions", self._observed.dimension)
        check_planes(self._observed, found)
        return found

    def _provenance(self, call: str) -> Provenance:
        regions, y = self._data()
        lower, upper = regions.bounds()
        columns = {f"lower_{d}": lower[:, d] for d in range(lower.shape[1])}
        columns |= {f"upper_{d}": upper[:, d] for d in range(upper.shape[1])}
        return Provenance.of(call=call, seed=self._seed, data={"regions": fingerprint({**columns, "y": y})})

    def _draw_histogram(self, curve: Estimates, y: FloatArray, ax: Axes | None, options: dict[str, Any]) -> Axes:
        """Draw observed intervals with the density behind them."""
        from crosslevel.charts.histogram import histogram

        regions = self._observed
        assert isinstance(regions, Intervals)
        observed = (regions.lower, regions.upper, y)
        return histogram(curve, ax, observed=observed, totals=self.quantity_ == "total", **options)

    def _check_drawable(self) -> None:
        check_is_fitted(self, "solver_")
        if not isinstance(self._observed, Intervals):
            raise InputError(
                f"plot draws Intervals, and the model was fitted to {type(self._observed).__name__}; for areas see charts.estimate_pair."
            )
