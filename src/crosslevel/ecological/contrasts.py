"""Subgroups compared with one another: differences and ratios of estimates that were drawn together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, IntArray

KINDS = ("difference", "ratio")


@dataclass(frozen=True, eq=False)
class Joint:
    """Posterior draws of all rows of estimates together, in memory only.

    Attributes
    ----------
    draws : (n_draws, n_rows)
    model : (n_draws, n_rows) or None
        The same without what the model does not know, where intervals allow for more.
    levels : tuple of str
        Keys that tell the subgroups of a row of ``outer`` keys apart.
    """

    draws: FloatArray
    model: FloatArray | None
    levels: tuple[str, ...]

    def take(self, rows: IntArray) -> Joint:
        """Keep some rows."""
        return replace(self, draws=self.draws[:, rows], model=None if self.model is None else self.model[:, rows])

    def compare(self, estimates: Estimates, kind: str, reference: object) -> Estimates:
        """Compare subgroups within each place or roll-up: every one with the reference, or each pair once."""
        return _compare(self, estimates, kind, reference)


def _compare(joint: Joint, estimates: Estimates, kind: str, reference: object) -> Estimates:
    if kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "contrast")
    labels = _labels(estimates, joint.levels)
    one, two = _pairs(estimates, labels, joint.levels, reference)

    def compared(values: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return values[..., one] - values[..., two] if kind == "difference" else values[..., one] / values[..., two]

    level = 0.95 if estimates.level is None else estimates.level
    draws, model = compared(joint.draws), None if joint.model is None else compared(joint.model)
    low, high, error, finite = quantile_interval(draws, level)
    if kind == "difference":
        estimate = compared(estimates["estimate"])
    else:  # as the levels themselves are estimated: what widens the interval moves nothing
        with np.errstate(invalid="ignore"):
            estimate = np.median(draws if model is None else model, axis=0)
    known = {name: estimates.table[name].take(one) for name in estimates.keys}
    columns = {**known, "against": [_words(labels[i]) for i in two], "estimate": estimate}
    columns |= {"std_error": error, "conf_low": low, "conf_high": high}
    if "neighborhood" in estimates.table.column_names:
        columns["neighborhood"] = compared(estimates["neighborhood"])
    if model is not None:
        columns["model_low"], columns["model_high"], _, _ = quantile_interval(model, level)
    blank = {n: np.where(np.isfinite(v), v, np.nan) for n, v in columns.items() if isinstance(v, np.ndarray)}
    said = [*estimates.warnings]
    if not finite.all():
        said.append(f"{int((~finite).sum()):,} ratio(s) divide by a rate that can be zero and have no interval.")
    given = f"{kind!r}" + ("" if reference is None else f", reference={reference!r}")
    return type(estimates).build(
        columns | blank,
        keys=(*estimates.keys, "against"),
        method=estimates.method,
        level=estimates.level,
        interval=estimates.interval,
        provenance=replace(estimates.provenance, call=f"{estimates.provenance.call}.contrast({given})"),
        diagnostics=estimates.diagnostics,
        warnings=said,
        frame=estimates.frame,
        title=f"{kind.capitalize()} between subgroups: {estimates.title}",
        kind="contrast",
        draws=draws if finite.all() and estimates.draws is not None else None,
    )


def _labels(estimates: Estimates, levels: Sequence[str]) -> list[tuple[object, ...]]:
    """Name the subgroup of every row."""
    return list(zip(*(estimates.table[name].to_pylist() for name in levels), strict=True))


def _words(label: Sequence[object]) -> str:
    return ", ".join(map(str, label))


def _pairs(
    estimates: Estimates, labels: Sequence[tuple[object, ...]], levels: Sequence[str], reference: object
) -> tuple[IntArray, IntArray]:
    """Give the rows that are compared, and those they are compared with."""
    outer = [estimates.table[name].to_pylist() for name in estimates.keys if name not in levels]
    places = list(zip(*outer, strict=True)) if outer else [()] * len(estimates)
    order, base = list(dict.fromkeys(labels)), None
    if reference is not None:
        asked = _words(reference if isinstance(reference, tuple | list) else (reference,))
        base = next((label for label in order if _words(label) == asked), None)
        if base is None:
            raise unknown_name("reference", asked, [_words(label) for label in order], "subgroup")
    where = {both: i for i, both in enumerate(zip(places, labels, strict=True))}
    pairs = []
    for place in dict.fromkeys(places):
        here = [label for label in order if (place, label) in where]
        if base is None:
            pairs += [(where[place, b], where[place, a]) for j, b in enumerate(here) for a in here[:j]]
        elif base in here:
            pairs += [(where[place, label], where[place, base]) for label in here if label != base]
    if not pairs:
        raise InputError("contrast compares subgroups, and no place has two of them; ask for at least two.")
    one, two = (np.array(side, dtype=np.intp) for side in zip(*pairs, strict=True))
    return one, two
