"""Several methods on the same counts, in one table."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosslevel import ecological
from crosslevel.data import checks
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.ecological.tables.counts import Counts
from crosslevel.ecological.tables.layout import describe_call
from crosslevel.errors import ConvergenceError, InputError, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import Progress

METHODS = ("bounds", "neighborhood", "homogeneous", "goodman", "rxc_em", "rxc", "king", "multinomial_dirichlet")
"""Functions of ``crosslevel.ecological`` that take counts by unit; each is loaded when it is called."""

TAKEN = ("counts", "pool")
"""What a method is given, or has no place in a comparison of one district."""
COLUMNS = ("estimate", "std_error", "conf_low", "conf_high", "lower", "upper", "count", "voters", "turnout", "people")


@checked
def compare(
    counts: Counts,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("bounds", "neighborhood", "goodman", "rxc_em", "rxc"),
    *,
    level: float = 0.95,
    progress: Progress | None = None,
) -> Estimates:
    """Estimate by several methods and put their answers in one table.

    Parameters
    ----------
    counts : Counts
    methods : sequence of str, or mapping of str to options
        Names of functions of ``crosslevel.ecological``; a mapping gives each its options,
        ``{"rxc": {"kind": "votes"}, "rxc_em": {}}``.
    level : float, default 0.95
        Level of the intervals of those methods that have one.
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the methods done and of all.

    Returns
    -------
    Estimates
        Keys ``group``, ``outcome``, ``method``. Diagnostics hold the seconds of each method and its own diagnostics.

    Examples
    --------
    >>> data = {"young": [10, 40, 70, 90], "old": [90, 60, 30, 10], "yes": [24, 36, 48, 56], "no": [76, 64, 52, 44]}
    >>> both = compare(Counts(data, groups=["young", "old"], outcomes=["yes", "no"]), methods=["neighborhood", "goodman"])
    >>> both.select(group="young", outcome="yes")["estimate"].round(3).tolist()
    [0.48, 0.6]
    """
    level = checks.check_level(level)
    chosen = read_methods(methods, {name: {} for name in METHODS}, TAKEN)
    tables = counts.tables
    answers, seconds = {}, {}
    with count_steps(progress, "Comparing methods", len(chosen)) as step:
        for name, options in chosen.items():
            begun = time.perf_counter()
            answers[name] = _run(name, counts, level, options)
            seconds[name] = round(time.perf_counter() - begun, 3)
            if step is not None:
                step()
    made = side_by_side(answers, "Share of each group with each outcome, by method")
    call = describe_call("compare", counts, {"methods": methods, "level": level})
    return replace(
        made,
        provenance=Provenance.of(call=call, data=tables.data),
        diagnostics={"units": len(tables.units), "seconds": seconds, **made.diagnostics},
    )


def side_by_side(answers: Mapping[str, Estimates], title: str, notes: Sequence[str] = ()) -> Estimates:
    """Put the answers of several methods in one table, those to one cell together.

    Parameters
    ----------
    answers : mapping of method to Estimates
        With the same keys and the same rows.
    title : str
    notes : sequence of str
        What the reader should know beside the methods' own warnings.
    """
    first = next(iter(answers.values()))
    shared = [n for n in first.table.column_names if all(n in a.table.column_names for a in answers.values())]
    made: dict[str, Any] = {k: np.repeat(first[k], len(answers)) for k in first.keys}
    made["method"] = np.tile(np.array(list(answers)), len(first))
    for name in (n for n in COLUMNS if n in shared):
        made[name] = np.column_stack([np.asarray(a[name], dtype=float) for a in answers.values()]).ravel()
    levels = {name: a.level for name, a in answers.items() if a.level is not None}
    level = next(iter(levels.values()), None)
    if len(set(levels.values())) > 1:
        raise InputError(
            f"level differs between the methods ({levels}), and one table has one; pass one level for all."
        )
    common = [w for w in first.warnings if all(w in a.warnings for a in answers.values())]
    own = [f"{name}: {w}" for name, a in answers.items() for w in a.warnings if w not in common]
    return Estimates.build(
        made,
        keys=(*first.keys, "method"),
        kind="comparison",
        method=describe_comparison(answers),
        level=level,
        interval="none" if level is None else "each method's own",
        provenance=Provenance.of(
            call=f"methods {', '.join(answers)}", seed=first.provenance.seed, data=first.provenance.data
        ),
        diagnostics={"by_method": {n: a.diagnostics for n, a in answers.items()}},
        warnings=[*common, *own, *notes],
        frame=first.frame,
        title=title,
    )


def describe_comparison(answers: Mapping[str, Estimates]) -> str:
    """Name the methods compared, with the weights and the contextual slope of those that have a choice of them."""
    said = []
    for name, answer in answers.items():
        slope, weights = (answer.diagnostics.get(key) for key in ("contextual_slope", "weights"))
        chosen = "" if weights is None else f" ({weights} weights)"
        said.append(name + (chosen if slope is None else f" (contextual slope {slope:g})"))
    return "comparison: " + ", ".join(said)


def read_methods(
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    defaults: Mapping[str, Mapping[str, Any]],
    taken: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Read the methods with their options, of those in ``defaults``; one named without options has its default ones.

    Options that are ``taken`` are not the caller's.
    """
    if isinstance(methods, str) or not isinstance(methods, Sequence | Mapping) or not methods:
        raise InputError(f"methods={methods!r} is not a list of names; pass for example ['goodman', 'rxc'].")
    given = dict(methods) if isinstance(methods, Mapping) else {name: defaults.get(name, {}) for name in methods}
    for name, options in given.items():
        if name not in defaults:
            raise unknown_name("methods", name, list(defaults), "method")
        if not isinstance(options, Mapping):
            raise InputError(f"methods[{name!r}] is {options!r}, not a mapping of options; pass {{}} for none.")
        known = [o for o in inspect.signature(getattr(ecological, name)).parameters if o not in taken]
        for option in options:
            if option not in known:
                raise unknown_name(f"methods[{name!r}]", option, known, "option")
    return {name: dict(options) for name, options in given.items()}


def answer_by(name: str, counts: Counts, options: Mapping[str, Any], **common: Any) -> Estimates:
    """Answer by one method, with the common options that it has; a bounded regression has no interval, and no level."""
    function: Callable[..., Estimates] = getattr(ecological, name)
    known = inspect.signature(function).parameters
    more = {o: v for o, v in common.items() if o in known and not (o == "level" and options.get("bounded"))}
    return function(counts, **{**more, **options})


def _run(name: str, counts: Counts, level: float, options: Mapping[str, Any]) -> Estimates:
    try:
        return answer_by(name, counts, options, level=level)
    except (InputError, ConvergenceError) as error:
        raise type(error)(f"methods={name!r}: {error}") from error
