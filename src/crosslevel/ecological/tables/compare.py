"""Several methods on the same counts, in one table."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel import ecological
from crosslevel.data import checks
from crosslevel.ecological.tables.unit_tables import UnitTables, unit_tables
from crosslevel.errors import ConvergenceError, InputError, unknown_name
from crosslevel.results import Estimates, Provenance

__all__ = ["METHODS", "compare", "comparison_words"]

METHODS = (
    "bounds",
    "neighborhood",
    "homogeneous",
    "goodman",
    "lp",
    "rxc_em",
    "rxc",
    "king",
    "multinomial_dirichlet",
)
"""Functions of ``crosslevel.ecological`` that take counts by unit; each is loaded when it is called."""

WITH_LEVEL = ("goodman", "rxc", "king", "multinomial_dirichlet")
COLUMNS = ("estimate", "std_error", "conf_low", "conf_high", "lower", "upper", "count")


def compare(
    groups: object,
    outcomes: object = None,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("bounds", "neighborhood", "goodman", "rxc_em", "rxc"),
    *,
    units: Sequence[object] | None = None,
    level: float = 0.95,
) -> Estimates:
    """Answer by several methods, one table.

    Parameters
    ----------
    groups, outcomes : dataframe or array
        Counts, units x groups and units x outcomes; or ``groups`` alone, the result of :func:`unit_tables`.
    methods : sequence of str, or mapping of str to options
        Names of functions of ``crosslevel.ecological``; a mapping gives each its options,
        ``{"rxc": {"symmetric": True}, "rxc_em": {}}``.
    units : sequence, optional
        Names of the units.
    level : float, default 0.95
        Level of the intervals of those methods that have one.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``, ``method``. Diagnostics hold the seconds of each method, and its warnings and
        certificate.

    Examples
    --------
    >>> people = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10]}
    >>> votes = {"yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> both = compare(people, votes, methods=["neighborhood", "goodman"])
    >>> both.select(group="young", outcome="yes")["estimate"].round(3).tolist()
    [0.48, 0.6]
    """
    if isinstance(methods, str):
        raise InputError(f"methods={methods!r} is one string; pass a list, [{methods!r}].")
    if not isinstance(methods, Sequence | Mapping):
        raise InputError(f"methods={methods!r} is not a list of names; pass for example ['bounds', 'goodman'].")
    chosen = dict(methods) if isinstance(methods, Mapping) else {name: {} for name in methods}
    if not chosen:
        raise InputError("methods is empty; name at least one method.")
    level = checks.check_level(level)
    for name in chosen:
        if name not in METHODS:
            raise unknown_name("methods", name, list(METHODS), "method")
    tables = unit_tables(groups, outcomes, units)
    answers, seconds = {}, {}
    for name, options in chosen.items():
        begun = time.perf_counter()
        answers[name] = _run(name, tables, level, options)
        seconds[name] = round(time.perf_counter() - begun, 3)
    with_interval = any(a.level is not None for a in answers.values())
    return Estimates.build(
        _interleaved(answers),
        keys=("group", "outcome", "method"),
        method=comparison_words(answers),
        level=level if with_interval else None,
        interval="each method's own" if with_interval else "none",
        provenance=Provenance.of(
            call=f"crosslevel.ecological.compare(groups, outcomes, methods={methods!r}, level={level!r})",
            data=tables.fingerprints,
        ),
        diagnostics={
            "units": len(tables.units),
            "seconds": seconds,
            "by_method": {n: a.diagnostics for n, a in answers.items()},
        },
        warnings=[
            *tables.notes,
            *(f"{name}: {w}" for name, a in answers.items() for w in a.warnings if w not in tables.notes),
        ],
        frame=tables.frame,
        title="Share of each group with each outcome, by method",
    )


def comparison_words(answers: Mapping[str, Estimates]) -> str:
    """Name the methods compared, with the weights and the context of those that have a choice of them."""
    words = []
    for name, answer in answers.items():
        said = answer.diagnostics
        chosen = f" ({said['weights']} weights)" if "weights" in said else ""
        words.append(name + (f" (context {said['context']:g})" if "context" in said else chosen))
    return "comparison: " + ", ".join(words)


def _run(name: str, tables: UnitTables, level: float, options: Mapping[str, Any]) -> Estimates:
    function: Callable[..., Estimates] = getattr(ecological, name)
    _check_options(name, function, options)
    given = {**({"level": level} if name in WITH_LEVEL else {}), **options}
    try:
        return function(tables, None, **given)
    except InputError as error:
        raise InputError(f"methods={name!r}: {error}") from error
    except ConvergenceError as error:
        raise ConvergenceError(f"methods={name!r}: {error}") from error


def _check_options(name: str, function: Callable[..., Estimates], options: Mapping[str, Any]) -> None:
    if not isinstance(options, Mapping):
        raise InputError(f"methods[{name!r}] is {options!r}, not a mapping of options; pass {{}} for none.")
    if "pool" in options:
        raise InputError("methods: pool= has no place in a comparison of one district; call rxc(pool=...) by itself.")
    known = [o for o in inspect.signature(function).parameters if o not in ("groups", "outcomes", "units", "pool")]
    for option in options:
        if option not in known:
            raise unknown_name(f"methods[{name!r}]", option, known, "option")


def _interleaved(answers: Mapping[str, Estimates]) -> dict[str, Any]:
    """Stack the methods' tables so that the answers to one cell stand together."""
    first = next(iter(answers.values())).table
    columns: dict[str, Any] = {
        name: np.repeat(np.array(first[name].to_pylist()), len(answers)) for name in ("group", "outcome")
    }
    columns["method"] = np.tile(np.array(list(answers)), first.num_rows)
    for name in COLUMNS:
        stacked = [
            np.asarray(a.table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)) for a in answers.values()
        ]
        columns[name] = np.column_stack(stacked).ravel()
    return columns
