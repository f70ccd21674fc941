"""Pictures of a fitted model: effects at rows against a covariate, their distributions, their ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from crosslevel.charts import effects as pictures
from crosslevel.data import checks
from crosslevel.data.frames import FrameKind
from crosslevel.errors import unknown_name
from crosslevel.krls.columns import Encoding
from crosslevel.krls.effects import Effect
from crosslevel.krls.logistic import refuse
from crosslevel.krls.model import Fit
from crosslevel.krls.subgroups import RowFacts
from crosslevel.krls.table import band_table
from crosslevel.krls.variants import Inference
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EffectPictures"]


class EffectPictures:
    """What a fitted `KRLS` holds, and the methods that draw it."""

    inference: str
    missing: str
    penalty_: float
    effect_names_: tuple[str, ...]
    encoding_: Encoding
    _model: Fit
    _effects: tuple[Effect, ...]
    _pointwise: FloatArray
    _frame: FrameKind
    _used: npt.NDArray[np.bool_]
    _rows: RowFacts
    _inferred: Inference | None

    def plot_effect(
        self,
        column: str,
        along: str | None = None,
        ax: Axes | None = None,
        *,
        level: float = 0.95,
        simultaneous: bool = False,
        max_rows: int = 500,
        random_state: int = 0,
    ) -> Axes:
        """Draw the effect of a term at every row against a covariate, with a band, coloured by the fitted outcome.

        Parameters
        ----------
        column : str
            A term of :meth:`effects`.
        along : str, optional
            The covariate of the horizontal axis, a column of the matrix; its own when not given.
        ax : matplotlib.axes.Axes, optional
        level : float, default 0.95
            Of the bars around the points: held on average over the curve, or by all rows with ``simultaneous``.
        simultaneous : bool
        max_rows : int
            Draw at most so many distinct rows, a random part of them.
        random_state : int

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-2, 2, 40)[:, None]
        >>> ax = KRLS(0.1).fit(x, np.sin(x[:, 0]) + 0.1 * np.cos(9 * x[:, 0])).plot_effect("x0")
        >>> ax.get_title(loc="left"), ax.get_ylabel()
        ('95 % on average over the curve', 'effect of x0')
        """
        check_is_fitted(self, "penalty_")
        refuse(self._model, "plot_effect()")
        place = self._term_places(column)[0]
        names = list(self.encoding_.names)
        x_name = names[self._effects[place].column] if along is None else along
        if x_name not in names:
            raise unknown_name("along", x_name, names)
        cells, model = self._model.cells, self._model
        rows = np.arange(len(cells.m))
        if len(rows) > max_rows:
            rows = np.sort(np.random.default_rng(random_state).choice(len(rows), max_rows, replace=False))
        band = band_table(
            model,
            [self._effects[place]],
            cells.X[rows],
            level=checks.check_level(level),
            simultaneous=simultaneous,
            draws=400,
            seed=random_state,
            frame=self._frame,
            provenance=self._provenance("plot_effect(...)", seed=random_state),
        )
        return pictures.effect_curve(
            cells.X[rows, names.index(x_name)],
            band["estimate"],
            band["conf_low"],
            band["conf_high"],
            ax,
            color=model.solution.fitted[rows] * model.y_sd + model.y_mean,
            x_label=x_name,
            y_label=f"effect of {column}",
            level=level,
            simultaneous=simultaneous,
            left_out=len(cells.m) - len(rows),
        )

    def plot_effects(self, kind: str = "distribution", ax: Axes | None = None) -> Axes:
        """Draw all effects: their distribution over the rows, or their averages by size.

        Parameters
        ----------
        kind : {"distribution", "ranking"}
        ax : matplotlib.axes.Axes, optional

        Examples
        --------
        >>> from crosslevel import KRLS
        >>> x = np.linspace(-2, 2, 40)[:, None]
        >>> KRLS(0.1).fit(x, np.sin(x[:, 0])).plot_effects().get_title(loc="left")
        'Distribution of effects'
        """
        check_is_fitted(self, "penalty_")
        if kind == "ranking":
            return pictures.effect_ranking(self.effects(), ax)
        if kind != "distribution":
            raise unknown_name("kind", kind, ["distribution", "ranking"], "picture")
        cells = self._model.cells
        return pictures.effect_distributions(self._pointwise, self.effect_names_, ax, weights=cells.m)

    def _term_places(self, columns: str | Sequence[str] | None, argument: str = "columns") -> list[int]:
        names = list(self.effect_names_)
        wanted = names if columns is None else [columns] if isinstance(columns, str) else list(columns)
        for name in wanted:
            if name not in names:
                raise unknown_name(argument, name, names, "term")
        return [names.index(name) for name in wanted]

    def effects(self) -> Estimates:
        """Give the average effects; see `EffectAnswers.effects`."""
        raise NotImplementedError

    def _provenance(self, call: str, seed: int | None = None) -> Provenance:
        raise NotImplementedError
