"""What the two estimators of this room share: regions to predict, where their numbers came from, and the picture of one axis."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crosslevel.binned.regions.base import Regions, distinct_labels
from crosslevel.binned.regions.boxes import Intervals, as_regions
from crosslevel.binned.regions.planes import check_planes
from crosslevel.data.frames import fingerprint
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 301
"""Places at which a curve is drawn."""
REPORT_POINTS = 201
"""Places of the curve of a report."""


@dataclass(frozen=True)
class Answer:
    """What is told about each region.

    Attributes
    ----------
    labels : columns that name the rows
    values : estimate, std_error, conf_low and conf_high
    informed : (m,)
        Which rows the data determine; ``uninformed`` says of the others what they are.
    beside : further columns
    warnings : list of str
    """

    labels: dict[str, Any]
    values: dict[str, FloatArray]
    informed: BoolArray
    uninformed: str
    beside: dict[str, FloatArray]
    warnings: list[str]


class RegionEstimator(BaseEstimator):
    """Base of the estimators whose X are regions."""

    solver_: str
    quantity_: str
    log_evidence_: float
    hyperparameters_: dict[str, float]
    warnings_: tuple[str, ...]
    _seed: int = 0

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
        if isinstance(regions, str):
            if regions != "single_years" or not isinstance(self._observed, Intervals):
                raise InputError(
                    f"regions={regions!r} is no set of regions; pass Intervals, Boxes, Polygons or points, or, where intervals were "
                    "fitted, 'single_years'."
                )
            return self._observed.years()
        found = as_regions(regions, "regions", self._observed.dimension)
        check_planes(self._observed, found)
        return found

    def _provenance(self, call: str) -> Provenance:
        regions, y = self._data()
        lower, upper = regions.bounds()
        columns = {f"lower_{d}": lower[:, d] for d in range(lower.shape[1])}
        columns |= {f"upper_{d}": upper[:, d] for d in range(upper.shape[1])}
        return Provenance.of(call=call, seed=self._seed, data={"regions": fingerprint({**columns, "y": y})})

    def _table(
        self, answer: Answer, *, method: str, interval: str, level: float, call: str, diagnostics: dict[str, Any]
    ) -> Estimates:
        """Make the table of an answer, with the warnings of fit and those of the answer."""
        labels, names = distinct_labels(answer.labels)
        said = [*self.warnings_, *answer.warnings]
        if not answer.informed.all():
            which = listed([n for n, known in zip(names, answer.informed, strict=True) if not known], 3)
            said.append(f"{int((~answer.informed).sum())} row(s) {answer.uninformed} ({which}).")
        shared = {"solver": self.solver_, "log_evidence": self.log_evidence_, "hyperparameters": self.hyperparameters_}
        return Estimates.build(
            {**labels, **answer.values, "informed": answer.informed, **answer.beside},
            keys=list(labels),
            kind="binned",
            method=method,
            level=level,
            interval=interval,
            provenance=self._provenance(call),
            diagnostics={**shared, **diagnostics},
            warnings=said,
            title="What lies behind the bins",
        )

    def _draw_histogram(self, curve: Estimates, y: FloatArray, ax: Axes | None, options: dict[str, Any]) -> Axes:
        """Draw observed intervals with the density behind them."""
        from crosslevel.charts import histogram

        regions = self._observed
        assert isinstance(regions, Intervals)
        observed = (regions.lower, regions.upper, y)
        return histogram(curve, ax, observed=observed, totals=self.quantity_ == "total", **options)

    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """Give the ends of one axis."""

    @abstractmethod
    def estimate(self, regions: Any = None, quantity: str | None = None, level: float = 0.95) -> Estimates:
        """Estimate regions; those of fit when None."""

    def _report_tables(self, level: float = 0.95) -> dict[str, Estimates]:
        """Give the tables of a report: the regions of the fit, and the curve behind intervals."""
        tables = {"regions": self.estimate(level=level)}
        if isinstance(self._observed, Intervals):
            points = np.linspace(*self._ends(), REPORT_POINTS)
            tables["curve"] = self.estimate(points, level=level)
        return tables

    def _check_drawable(self) -> None:
        check_is_fitted(self, "solver_")
        if not isinstance(self._observed, Intervals):
            raise InputError(
                f"plot draws Intervals, and the model was fitted to {type(self._observed).__name__}; for areas see charts.estimate_pair."
            )
