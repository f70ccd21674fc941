"""One answer: a tidy table, its interval, where it came from and what to know about it."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crosslevel.data.checks import align_rows, names_of
from crosslevel.data.frames import KINDS, FrameKind, from_arrow, to_arrow
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import display, forms, wide
from crosslevel.results.provenance import Provenance
from crosslevel.results.scores import scorecard
from crosslevel.results.table import (
    as_column,
    check_draws,
    check_interval,
    match_rows,
    plain,
    same_bits,
    tabulate,
    to_array,
)
from crosslevel.results.wide import Labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOTS = {
    "bag_calibration": "bag_calibration",
    "bags": "predicted_bags",
    "clusters": "cluster_profiles",
    "imputed": "imputed_means",
    "histogram": "histogram",
    "intervals": "intervals",
    "map": "estimate_map",
    "map_pair": "estimate_pair",
    "margins": "margins",
    "methods": "methods",
    "contextual_variance": "contextual_variance",
    "sensitivity": "contour",
    "transfers": "transfers",
    "unit_map": "unit_map",
}
"""Name of a plot -> function of crosslevel.charts that draws ``(estimates, ax=None, **options)`` and returns the axes."""


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """A table of estimates: one row per key, with the interval, the provenance and the warnings.

    Make one with :meth:`build`, which checks everything; the methods of crosslevel return one.

    Attributes
    ----------
    table : pyarrow.Table
        Key columns, ``estimate, std_error, conf_low, conf_high``, then what else the method has to say
        (``lower`` and ``upper`` for deterministic bounds, ``truth``, baselines).
    keys : tuple of str
        Names of the columns that tell the rows apart.
    method : str
        The method, in words.
    level : float or None
        Level of the interval; None when there is none.
    interval : str
        Kind of interval, in words: "wald, HC1 robust", "posterior quantile", "none".
    provenance : Provenance
        Version, call, seed and fingerprints of the data.
    diagnostics : dict
        What the fit says about itself, as plain JSON values; ``converged`` when there was an iteration.
    warnings : tuple of str
        What the reader of the numbers should know.
    units : Estimates or None
        The same for smaller units (places, wards), where the method has them.
    frame : {"pandas", "polars", "pyarrow"}
        The caller's kind of dataframe, in which :meth:`to_frame` answers.
    title : str
        A heading.
    kind : str
        What the rows are, in one word ("estimates", "effects", "bins"); charts choose by it what to show.
    draws : numpy.ndarray of shape (n_draws, n_rows) or None
        Posterior draws of ``estimate``, a column per row of the table.
    joint : object or None
        What :meth:`contrast` compares; in memory only.

    Examples
    --------
    >>> est = Estimates.build(
    ...     {"group": ["women", "men"], "estimate": [0.52, 0.47], "conf_low": [0.49, 0.43], "conf_high": [0.55, 0.51]},
    ...     keys=["group"], method="example", level=0.95, interval="wald",
    ...     provenance=Provenance.of(call="example()"),
    ... )
    >>> est
    <Estimates: 2 rows by group, example, 95 % interval (wald); see .summary(), .to_frame() or .plot()>
    >>> print(est.summary())
    example
    2 rows by group · 95 % interval: wald
    <BLANKLINE>
    group  estimate    95 % interval
    women     0.520  [0.490,  0.550]
    men       0.470  [0.430,  0.510]
    """

    table: pa.Table
    keys: tuple[str, ...]
    method: str
    level: float | None
    interval: str
    provenance: Provenance
    diagnostics: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    units: Estimates | None = None
    frame: FrameKind = "pyarrow"
    title: str = ""
    kind: str = "estimates"
    draws: npt.NDArray[np.float64] | None = None
    joint: Any = None

    _unsaved = ("joint",)

    @classmethod
    def build(
        cls,
        columns: Mapping[str, Any],
        *,
        keys: Sequence[str],
        method: str,
        level: float | None,
        interval: str,
        provenance: Provenance,
        diagnostics: Mapping[str, Any] | None = None,
        warnings: Sequence[str] = (),
        units: Estimates | None = None,
        frame: FrameKind = "pyarrow",
        title: str = "",
        kind: str = "estimates",
        draws: npt.ArrayLike | None = None,
    ) -> Estimates:
        """Check the columns and make the answer of them.

        Parameters
        ----------
        columns : mapping of str to array-like
            The key columns, ``estimate``, ``std_error``, ``conf_low``, ``conf_high`` (those missing are filled with
            null), and any others. Numbers, text or booleans; NaN becomes null, infinity is refused.
        keys : sequence of str
            The key columns; no two rows may share all of them.
        method, title, interval : str
            Words for the reader; ``interval`` is the kind of interval, "none" when there is none.
        level : float or None
            Level of the interval, in (0, 1); None if and only if ``interval`` is "none".
        provenance : Provenance
            Where the numbers came from.
        diagnostics : mapping, optional
            Plain values; NumPy numbers and arrays are converted, NaN becomes None.
        warnings : sequence of str
            What the reader should know.
        units : Estimates, optional
            The same answer for smaller units.
        frame : {"pandas", "polars", "pyarrow"}
            The caller's kind of dataframe.
        kind : str
            What the rows are, in one word.
        draws : array of shape (n_draws, n_rows), optional
            Posterior draws of ``estimate``.
        """
        if isinstance(keys, str):
            raise InputError(f"keys={keys!r} is one string; pass a list of column names, [{keys!r}].")
        if isinstance(warnings, str):
            raise InputError(f"warnings={warnings!r} is one string; pass a list of sentences.")
        if not isinstance(kind, str) or not kind.isidentifier():
            raise InputError(f"kind={kind!r} is not a word for a kind of table; pass one word, such as 'estimates'.")
        if frame not in KINDS:
            raise unknown_name("frame", frame, KINDS, "kind of frame")
        table = tabulate(columns, keys)
        check_interval(table, keys, level, interval)
        return cls(
            table=table,
            keys=tuple(keys),
            method=str(method),
            level=None if level is None else float(level),
            interval=interval,
            provenance=provenance,
            diagnostics=plain({} if diagnostics is None else diagnostics, "diagnostics"),
            warnings=tuple(str(w) for w in warnings),
            units=units,
            frame=frame,
            title=str(title),
            kind=kind,
            draws=None if draws is None else check_draws(draws, table.num_rows),
        )

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self.table.column_names:
            raise unknown_name("name", name, self.table.column_names)
        return to_array(self.table[name])

    def __repr__(self) -> str:
        return display.one_line(self)

    def _repr_html_(self) -> str:
        return display.html(self)

    @checked
    def summary(self, max_rows: int | None = 20, *, diagnostics: bool = False) -> str:
        """Write the answer as text: method, sizes, level, warnings, a line of diagnostics, then the first rows of the table.

        Parameters
        ----------
        max_rows : int or None
            How many rows to show; None for all.
        diagnostics : bool
            Write every diagnostic, a line each.
        """
        return display.summary(self, max_rows, diagnostics)

    @checked
    def with_labels(self, labels: Labels) -> Estimates:
        """Put words in the place of codes: ``est.with_labels({"eth5": {1: "white", 2: "Black"}})``.

        Parameters
        ----------
        labels : mapping of column to (mapping of code to words)
            Codes that are not named stay as they are; ``1`` and ``"1"`` are the same code.

        Examples
        --------
        >>> est = Estimates.build({"eth5": [1, 2], "estimate": [0.5, 0.7]}, keys=["eth5"], method="m", level=None,
        ...                       interval="none", provenance=Provenance.of(call="example()"))
        >>> est.with_labels({"eth5": {1: "white", 2: "Black"}})["eth5"].tolist()
        ['white', 'Black']
        """
        return wide.relabeled(self, labels)

    @checked
    def pivot(self, columns: str | None = None, *, values: str = "estimate", labels: Labels | None = None) -> Any:
        """Give the wide table, groups by candidates: a row for each combination of the other keys, in the caller's kind of frame.

        Parameters
        ----------
        columns : str, optional
            The key whose values become columns; by default ``outcome`` where there is one, else the last key.
        values : str
            The column that fills the cells. Where each row is of a candidate of its own (the summary of a study over contests), the
            candidate's name stands in a column before.
        labels : mapping, optional
            Words for codes, as in :meth:`with_labels`.

        Examples
        --------
        >>> from crosslevel import Counts, ecological
        >>> units = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
        >>> found = ecological.neighborhood(Counts(units, groups=["young", "old"], outcomes=["yes", "no"]))
        >>> found.pivot().to_pylist()
        [{'group': 'young', 'yes': 0.35, 'no': 0.65}, {'group': 'old', 'yes': 0.725, 'no': 0.275}]
        """
        named = self if labels is None else self.with_labels(labels)
        return from_arrow(wide.pivoted(named, columns, values), self.frame)

    @checked
    def to_latex(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        columns: str | None = None,
        labels: Labels | None = None,
        caption: str = "",
    ) -> str:
        r"""Write the wide table for LaTeX (package booktabs), every word escaped; wide ones continue in another table.

        Parameters
        ----------
        path : path, optional
            Where to write it too.
        columns : str, optional
            The key across the top, as in :meth:`pivot`.
        labels : mapping, optional
            Words for codes, as in :meth:`with_labels`.
        caption : str
            By default the title.

        Examples
        --------
        >>> from crosslevel import Counts, ecological
        >>> units = {"young": [30, 90], "old": [70, 10], "yes": [80, 20], "no": [20, 80]}
        >>> found = ecological.neighborhood(Counts(units, groups=["young", "old"], outcomes=["yes", "no"]))
        >>> print("\n".join(found.to_latex().splitlines()[5:8]))
        group & yes & no \\
        \midrule
        young & 35.0 & 65.0 \\
        """
        return wide.write_text("\n".join(map(wide.latex_table, self._wide(columns, labels, caption))), path)

    @checked
    def to_docx(
        self,
        path: str | os.PathLike[str],
        *,
        columns: str | None = None,
        labels: Labels | None = None,
        caption: str = "",
    ) -> Path:
        """Write the wide table into a Word file (extra ``docx``); the arguments are those of :meth:`to_latex`."""
        document = wide.new_docx()
        for table in self._wide(columns, labels, caption):
            wide.docx_table(document, table)
        return wide.save_docx(document, path)

    def _wide(self, columns: str | None, labels: Labels | None, caption: str) -> list[wide.Wide]:
        return wide.wide_tables(self if labels is None else self.with_labels(labels), columns, caption)

    def to_frame(self, kind: FrameKind | None = None) -> Any:
        """Give the table as a dataframe, by default of the caller's kind."""
        return from_arrow(self.table, self.frame if kind is None else kind)

    def plot(
        self, kind: str | None = None, ax: Axes | None = None, *, labels: Labels | None = None, **options: Any
    ) -> Axes:
        """Draw the answer; ``kind`` names a plot ("intervals" by default), ``labels`` words for codes, ``options`` go to it."""
        name = "intervals" if kind is None else kind
        if name not in PLOTS:
            raise unknown_name("kind", name, sorted(PLOTS), "plot")
        # results lie below charts, so no import may point there
        draw = getattr(importlib.import_module("crosslevel.charts"), PLOTS[name])
        drawn: Axes = draw(self if labels is None else self.with_labels(labels), ax=ax, **options)
        return drawn

    def score(self) -> dict[str, float | int | None]:
        """Compare with the column ``truth``: rmse, mae, bias, coverage and its standard error, interval score.

        Rows without an estimate or without a truth are left out; ``n`` counts the others. What needs an interval is
        None when there is none.
        """
        if "truth" not in self.table.column_names:
            raise InputError("these estimates have no column 'truth'; add it with est.with_truth(frame) first.")
        return scorecard(self["estimate"], self["conf_low"], self["conf_high"], self["truth"], self.level)

    def with_columns(self, **columns: Any) -> Estimates:
        """Give the same estimates with further columns, or with some replaced; the keys stay as they are.

        A Series whose index are the keys is matched by them.
        """
        for name in columns:
            if name in self.keys:
                raise InputError(f"{name!r} is a key of these estimates and cannot be replaced; use another name.")
        rows = list(zip(*(self.table[k].to_pylist() for k in self.keys), strict=True))
        given = {n: _in_order(v, [r[0] if len(r) == 1 else r for r in rows], n) for n, v in columns.items()}
        merged = {n: self.table[n] for n in self.table.column_names} | given
        table = tabulate(merged, self.keys)
        check_interval(table, self.keys, self.level, self.interval)
        return replace(self, table=table)

    def with_truth(self, frame: object, column: str = "truth") -> Estimates:
        """Add the column ``truth``, matched by the keys.

        Parameters
        ----------
        frame : dataframe
            The key columns of the estimates, and the truth. One row for every row of the estimates, in any order.
        column : str
            The column of ``frame`` that holds the truth.
        """
        truth = to_arrow(frame, "frame")
        for name in (*self.keys, column):
            if name not in truth.column_names:
                raise unknown_name("frame", name, truth.column_names)
        rows = match_rows(self.table, truth, self.keys)
        return self.with_columns(truth=as_column(truth[column].combine_chunks().take(rows), column, pa.float64()))

    def select(self, **values: Any) -> Estimates:
        """Keep the rows whose columns have the given value (or one of a list of values).

        Units are kept where they have the same columns. Reads ``est.select(group="women", outcome=["a", "b"])``.
        """
        keep = np.ones(len(self), dtype=bool)
        for name, wanted in values.items():
            have = self[name]
            choices = list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
            for choice in choices:
                if not (have == choice).any():
                    raise unknown_name(name, choice, list(dict.fromkeys(have.tolist())), "value")
            keep &= np.isin(have.astype(object), np.array(choices, dtype=object))
        rows = np.flatnonzero(keep)
        units = self.units
        if units is not None:
            shared = {n: v for n, v in values.items() if n in units.table.column_names}
            units = units.select(**shared)
        draws = None if self.draws is None else self.draws[:, rows]
        joint = None if self.joint is None else self.joint.take(rows)
        return replace(self, table=self.table.take(rows).combine_chunks(), units=units, draws=draws, joint=joint)

    def contrast(self, kind: str = "difference", *, reference: object = None) -> Estimates:
        """Compare subgroups within each place or roll-up, with joint uncertainty.

        For what ``estimate()`` of :class:`crosslevel.EcologicalInference` and of
        :class:`crosslevel.ecological.DistributionRegression` gave; draws of all subgroups together are in memory only.

        Parameters
        ----------
        kind : {"difference", "ratio"}
        reference : value or tuple of values, optional
            The subgroup to compare with, as the keys name it; by default each pair is compared once.

        Returns
        -------
        Estimates
            With the key ``against``.
        """
        if self.joint is None:
            raise InputError(
                "contrast needs the joint draws of the subgroups, which neither a file nor a printed table holds and other methods do not "
                "make; call it on what estimate() gave."
            )
        return self.joint.compare(self, kind, reference)

    def equals(self, other: object) -> bool:
        """Tell whether the other is the same answer, to the last bit of every number and word."""
        if not isinstance(other, Estimates):
            return False
        names = [f.name for f in fields(self) if f.name not in ("table", "units", "draws", "joint")]
        if any(getattr(self, n) != getattr(other, n) for n in names) or not same_bits(self.table, other.table):
            return False
        if (self.units is None) != (other.units is None) or not _same_draws(self.draws, other.draws):
            return False
        return self.units is None or self.units.equals(other.units)

    def to_json(self, *, draws: bool = True) -> str:
        """Write everything as strict JSON, exactly; ``draws=False`` leaves the posterior draws out."""
        return json.dumps(forms.to_document(self, draws=draws), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Estimates:
        """Read what :meth:`to_json` wrote."""
        return forms.from_document(text, cls.build)

    def _restored(self) -> None:
        """Refuse a file whose parts do not make estimates: the checks of `build`, whose table must come out the same."""
        again = Estimates.build(
            {n: self.table[n] for n in self.table.column_names},
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("table", "joint")},
        )
        if not isinstance(self.provenance, Provenance) or not again.equals(self):
            raise InputError("these estimates are damaged: their parts do not fit together.")


def _in_order(values: Any, keys: list[Any], argument: str) -> Any:
    """Put a Series whose index are the keys of rows, or their numbers, in their order."""
    names = names_of(values) or []
    if set(names) == set(range(len(keys))) and values.index.name is None:  # a frame of the estimates that was sorted
        return align_rows(values, range(len(keys)), argument)
    told = any(isinstance(n, str) for n in names) or not set(keys).isdisjoint(names)
    return align_rows(values, keys, argument) if told else values


def _same_draws(left: npt.NDArray[np.float64] | None, right: npt.NDArray[np.float64] | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right, equal_nan=True)
