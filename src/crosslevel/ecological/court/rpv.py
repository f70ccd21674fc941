"""Racially polarized voting from a table of precincts: every contest, every method that courts know, one summary."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from crosslevel import ecological
from crosslevel.data import checks, frames
from crosslevel.data.frames import fingerprint
from crosslevel.data.patterns import total_column
from crosslevel.data.progress import follow
from crosslevel.data.signatures import checked
from crosslevel.ecological.court.study import (
    OTHER_CANDIDATES,
    STAYED,
    ContestStudy,
    PolarizationStudy,
    describe_notes,
    find_method,
    study_of_contest,
    summarize,
)
from crosslevel.ecological.tables.unit_tables import UnitTables, joined_names, unit_tables
from crosslevel.errors import ConvergenceError, InputError, listed, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray, IntArray, Progress, RandomState

Columns = Mapping[str, str | Sequence[str]] | Sequence[str]

METHODS: dict[str, dict[str, Any]] = {"homogeneous": {}, "goodman": {}, "king_iterated": {"n_draws": 200}, "rxc": {}}
"""Methods that are run when none are named, and the options with which each is."""

NAMED: dict[str, dict[str, Any]] = {
    **METHODS,
    # the published model, without a contextual effect, as courts have seen it
    "multinomial_dirichlet": {"contextual_slope": 0.0, "contextual_slope_sd": 0.0},
    "neighborhood": {},
    "rxc_em": {},
}
"""Methods that may be named, and the options of each where none are given."""
LEAD = "rxc"
WHY_RXC = (
    "rxc leads: on six tables whose inner cells were counted, and in whose sight its constants were chosen, its 95 % intervals hold 43 "
    "of 45 cells, those of Goodman's regression 16 of 45, of King's iterated model 10 of the 30 that it answers, of the published "
    "Multinomial-Dirichlet model 15 of 30."
)
OTHER_GROUP = "other"
WORTH_PROCESSES = 5_000
"""Precincts of all contests together from which processes save more time than they take to start, a few seconds."""


@checked
def rpv(
    frame: object,
    groups: Columns,
    contests: Mapping[str, Columns],
    unit: str | Sequence[str] | None = None,
    *,
    total_groups: str | None = None,
    total_outcomes: str | Mapping[str, str] | None = None,
    reference: str | None = None,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    lead: str | None = None,
    excess: str = "error",
    missing: str = "error",
    duplicates: str = "error",
    level: float = 0.95,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> PolarizationStudy:
    """Study racially polarized voting in one call: candidates of choice, polarization, margins and turnout in every contest.

    Parameters
    ----------
    frame : dataframe
        One row per unit (precinct).
    groups : sequence of str, or mapping of name to column(s)
        The columns with the people of each group; a mapping names them, and sums several columns: ``{"Black": "vap_black", "other":
        ["vap_asian", "vap_native"]}``. They may count people of voting age, registered voters or voters.
    contests : mapping of contest to candidates
        For each contest the columns of the candidates' votes, as a list or as a mapping of name to column(s).
    unit : str or sequence of str, optional
        The column of the units' names, or several that name a unit together.
    total_groups : str, optional
        The column of everybody of whom ``groups`` are counts or shares; people in none of them become the group "other".
    total_outcomes : str, or mapping of contest to str, optional
        The column of all votes in a contest; votes for nobody named become "other candidates".
    reference : str, optional
        The group with which the others are compared; the largest when not given.
    methods : sequence of str, or mapping of str to options, optional
        Methods run side by side; homogeneous units, Goodman, King iterated and the contextual R x C model when not given.
        ``"multinomial_dirichlet"`` is sampled, without a contextual effect unless its options say so: the model as published.
    lead : str, optional
        The method of which summary and sentences are made; ``"rxc"`` when not given, or the first of ``methods`` without it.
    excess : {"error", "raise", "drop"}, default "error"
        What to do with units in which votes exceed people: refuse them, raise their groups in proportion, or leave them out.
    missing : {"error", "zero", "drop"}, default "error"
        What to do with missing numbers; a missing total is refused, or its unit left out.
    duplicates : {"error", "drop_identical", "sum"}, default "error"
        What to do with units named more than once.
    level : float, default 0.95
        Level of the intervals, and the least probability of a candidate of choice: below it, the candidate cannot be determined.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the draws of every method.
    n_jobs : int, optional
        Fits run side by side, in processes where the contests have thousands of precincts; as many as there are cores when not
        given. The answer does not depend on it.
    progress : bool or callable, optional
        True for a bar on stderr; or a function, called with the fits done and planned.

    Returns
    -------
    PolarizationStudy
        ``summary`` has a row per contest and group, ``tally`` a row per group, ``sentences()`` the findings, ``contests[name]`` every
        method's answers. ``cl.save`` and ``cl.load`` keep it.

    See Also
    --------
    candidate_of_choice, polarization, margin, turnout : the reports it is made of, for one contest.

    Notes
    -----
    Where groups count more people than voted, those who did not vote are an outcome, and shares are of each group's voters. A method that
    cannot answer a contest is left out there, and ``contests[name].left_out`` says why; the leading method must answer.

    Examples
    --------
    >>> precincts = {
    ...     "name": list("abcdefgh"), "Black": [10, 40, 70, 90, 20, 55, 30, 80], "white": [90, 60, 30, 10, 80, 45, 70, 20],
    ...     "Ames": [14, 28, 42, 51, 19, 36, 24, 47], "Brown": [56, 39, 23, 12, 50, 30, 44, 17],
    ... }
    >>> study = rpv(precincts, ["Black", "white"], {"Mayor": ["Ames", "Brown"]}, "name", methods=["goodman", "rxc"])
    >>> study.summary["candidate"].tolist(), study.summary["won"].tolist()
    (['Ames', 'Brown'], [False, True])
    >>> study.tally.select(group="Black")["lost"].tolist()
    [1]
    """
    table = frames.to_arrow(frame, "frame")
    seed, level = checks.read_seed(random_state), checks.check_level(level)
    chosen = _methods(methods)
    asked = lead is not None
    lead = (LEAD if LEAD in chosen else next(iter(chosen))) if lead is None else find_method(list(chosen), lead, "lead")
    if not contests:
        raise InputError("contests is empty; name at least one, {'Governor 2018': ['Abrams', 'Kemp']}.")
    parts = () if unit is None else frames.as_names(unit, "unit")
    frames.check_columns(table, list(parts), "unit")
    X, holes = _margin(table, groups, "groups", total_groups, "total_groups", OTHER_GROUP, missing)
    cleaning = {"excess": excess, "missing": missing, "duplicates": duplicates}
    tables = {
        contest: _tables(
            table, X, holes, parts, contest, candidates, _total_of(total_outcomes, contest, contests), cleaning
        )
        for contest, candidates in contests.items()
    }
    for one, other in itertools.combinations(contests, 2):
        if _parts(contests[one]) == _parts(contests[other]):
            raise InputError(
                f"contests: {one!r} and {other!r} name the same columns, and would count twice; correct one."
            )
    size = {g: float(np.nansum(v)) for g, v in X.items()}
    reference = max(size, key=lambda g: size[g]) if reference is None else reference
    if reference not in size:
        raise unknown_name("reference", reference, list(size), "group")
    studies = _studies(tables, _Plan(chosen, lead, reference, level, seed), checks.count_jobs(n_jobs), progress)
    given = {"groups": _plain(groups), "contests": {c: _plain(v) for c, v in contests.items()}, "unit": unit}
    given |= {"total_groups": total_groups, "total_outcomes": total_outcomes, "reference": reference, "methods": chosen}
    given |= {"lead": lead, **cleaning, "level": level, "random_state": seed}
    call = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    provenance = Provenance.of(
        call=f"crosslevel.ecological.rpv(frame, {call})", seed=seed, data={"frame": fingerprint(table)}
    )
    summary, tally = summarize(studies, reference, provenance)
    kind = frames.frame_kind(frame) if frames.is_frame(frame) else "pyarrow"
    return PolarizationStudy(
        contests=studies,
        summary=replace(summary, frame=kind),
        tally=replace(tally, frame=kind),
        groups=tuple(X),
        reference=reference,
        lead=lead,
        lead_reason=WHY_RXC
        if lead == LEAD
        else f"{lead} leads, {'as asked for' if asked else 'the first method named'}.",
        data_notes=describe_notes(studies),
        settings=given,
        provenance=provenance,
    )


def _methods(methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]]:
    """Read the methods with their options; a method named without options has those of ``NAMED``."""
    if methods is None:
        return dict(METHODS)
    if not methods:
        raise InputError(f"methods={methods!r} names none; pass for example ['goodman', 'rxc'].")
    given = dict(methods) if isinstance(methods, Mapping) else {name: NAMED.get(name, {}) for name in methods}
    for name, options in given.items():
        if name not in NAMED:
            raise unknown_name("methods", name, list(NAMED), "method")
        if not isinstance(options, Mapping):
            raise InputError(f"methods[{name!r}] is {options!r}, not a mapping of options; pass {{}} for none.")
        known = [
            o for o in _parameters(name) if o not in ("groups", "outcomes", "units", "pool", "level", "random_state")
        ]
        for option in options:
            if option not in known:
                raise unknown_name(f"methods[{name!r}]", option, known, "option")
    return {name: dict(options) for name, options in given.items()}


def _parameters(method: str) -> Mapping[str, Any]:
    return inspect.signature(getattr(ecological, method)).parameters


def _run(method: str, tables: UnitTables, level: float, seed: int, options: Mapping[str, Any]) -> Estimates:
    function: Callable[..., Estimates] = getattr(ecological, method)
    common = {n: v for n, v in (("level", level), ("random_state", seed)) if n in _parameters(method)}
    if options.get("bounded"):  # which has no interval
        common.pop("level")
    return function(tables, None, **common, **options)


@dataclass(frozen=True)
class _Plan:
    """What is done with every contest: methods with their options, the leading one, the group of reference, level and seed."""

    methods: Mapping[str, Mapping[str, Any]]
    lead: str
    reference: str
    level: float
    seed: int

    def answer(self, tables: UnitTables, method: str) -> Estimates:
        """Answer one contest by one method."""
        found = _run(method, tables, self.level, self.seed, self.methods[method])
        # the time a fit took would make every study another file
        return replace(found, diagnostics={k: v for k, v in found.diagnostics.items() if k != "seconds"})

    def study(self, contest: str, tables: UnitTables, n_jobs: int = 1) -> ContestStudy:
        """Answer one contest by every method, several at once, and make its reports."""
        answers: dict[str, Estimates] = {}
        left_out: dict[str, str] = {}
        # threads share the setting of the linear algebra, so it is made once around all
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
            waiting = {method: pool.submit(self.answer, tables, method) for method in self.methods}
            try:
                for method, future in waiting.items():
                    try:
                        answers[method] = future.result()
                    except (InputError, ConvergenceError) as error:
                        if method == self.lead:
                            raise type(error)(f"contests[{contest!r}], {method}: {error}") from error
                        left_out[method] = str(error)
            finally:
                for future in waiting.values():
                    future.cancel()
        return study_of_contest(contest, tables, answers, left_out, lead=self.lead, reference=self.reference)

    def study_apart(self, contest: str, tables: UnitTables) -> tuple[ContestStudy, list[warnings.WarningMessage]]:
        """The same in a process of its own, which gives back what it would have warned of."""
        with warnings.catch_warnings(record=True) as said:
            return self.study(contest, tables), said


def _studies(
    tables: Mapping[str, UnitTables], plan: _Plan, n_jobs: int, progress: Progress | None
) -> dict[str, ContestStudy]:
    """Study every contest: large ones in processes side by side, small ones one after another with a thread for each method."""
    apart = min(n_jobs, len(tables))
    found: Iterable[ContestStudy]
    if apart > 1 and sum(len(t.units) for t in tables.values()) >= WORTH_PROCESSES:
        run = joblib.Parallel(n_jobs=apart, return_as="generator", batch_size=1, max_nbytes=None)
        found = map(_told, run(joblib.delayed(plan.study_apart)(contest, t) for contest, t in tables.items()))
    else:
        found = (plan.study(contest, t, n_jobs) for contest, t in tables.items())
    studies: dict[str, ContestStudy] = {}
    with follow(progress, "Studying contests", "fits") as tell:
        for study in found:
            studies[study.name] = study
            if tell is not None:
                tell(len(studies) * len(plan.methods), len(tables) * len(plan.methods))
    return studies


def _told(made: tuple[ContestStudy, list[warnings.WarningMessage]]) -> ContestStudy:
    """Pass on what a process warned of."""
    for said in made[1]:
        warnings.warn_explicit(said.message, said.category, said.filename, said.lineno)
    return made[0]


def _plain(columns: Columns) -> Any:
    return (
        {k: v if isinstance(v, str) else list(v) for k, v in columns.items()}
        if isinstance(columns, Mapping)
        else list(columns)
    )


def _parts(columns: Columns) -> set[frozenset[str]]:
    """Give the columns of each candidate, whatever their names and order."""
    several = columns.values() if isinstance(columns, Mapping) else columns
    return {frozenset([part] if isinstance(part, str) else part) for part in several}


def _total_of(total: str | Mapping[str, str] | None, contest: str, contests: Mapping[str, Columns]) -> str | None:
    """Find the column of all votes of a contest."""
    if not isinstance(total, Mapping):
        return total
    for name in total:
        if name not in contests:
            raise unknown_name("total_outcomes", name, list(contests), "contest")
    return total.get(contest)


def _tables(
    table: pa.Table,
    X: Mapping[str, FloatArray],
    holes: IntArray,
    parts: tuple[str, ...],
    contest: str,
    candidates: Columns,
    total: str | None,
    cleaning: Mapping[str, Any],
) -> UnitTables:
    """Make the counts of one contest."""
    argument, names = f"contests[{contest!r}]", joined_names(table, parts) if parts else None
    T, lacking = _margin(table, candidates, argument, total, "total_outcomes", OTHER_CANDIDATES, cleaning["missing"])
    both = [name for name in T if name in (*X, STAYED)]
    if both:
        raise InputError(
            f"{argument} names {listed(both)}, which is a group or stands for those who did not vote; rename it."
        )
    try:
        made = unit_tables(dict(X), T, names, balance="none-of-the-above", rest=STAYED, **cleaning)
    except InputError as error:
        raise type(error)(f"{argument}: {error}") from error
    if STAYED in made.groups and STAYED not in X:
        over = np.flatnonzero(made.X[:, made.groups.index(STAYED)] > 0)
        i = int(over[0])
        raise InputError(
            f"{argument}: votes exceed people in {len(over):,} of {len(made.units):,} unit(s), first in {made.units[i]!r} "
            f"({made.T[i].sum():,.10g} votes, {made.X[i, :-1].sum():,.10g} people); excess='raise' raises the groups of these units, "
            "excess='drop' leaves them out. Where groups are shares or percentages, or do not hold everybody, pass total_groups."
        )
    gone = np.flatnonzero(holes + lacking)
    if not len(gone):
        return made
    which = listed([i if names is None else names[i] for i in gone.tolist()])
    note = f"{int((holes + lacking).sum()):,} missing value(s) in {len(gone):,} of {table.num_rows:,} units were taken for zero ({which})."
    return replace(made, notes=(note, *made.notes))


def _margin(
    table: pa.Table, columns: Columns, argument: str, total: str | None, total_argument: str, rest: str, missing: str
) -> tuple[dict[str, FloatArray], IntArray]:
    """Read one margin: columns summed by name, shares multiplied by their total, and what is missing to the total.

    Where ``missing`` is "zero" the second answer is the number of values taken for zero, by row.
    """
    named = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    if not named:
        raise InputError(f"{argument} names no columns; pass at least two.")
    _refuse_repeated(columns, argument)
    made: dict[str, FloatArray] = {}
    holes = np.zeros(table.num_rows, dtype=np.intp)
    for name, parts in named.items():
        several = [parts] if isinstance(parts, str) else list(parts)
        frames.check_columns(table, several, argument)
        read = np.array([frames.column(table, c, argument) for c in several])
        if missing == "zero":
            holes += np.isnan(read).sum(axis=0)
            read = np.where(np.isnan(read), 0.0, read)
        made[str(name)] = read.sum(axis=0)
    _refuse_total(made, argument, total_argument)
    if total is None:
        return made, holes
    frames.check_columns(table, [total], total_argument)
    whole = frames.column(table, total, total_argument)
    if np.isnan(whole).any() and missing != "drop":
        raise InputError(
            f"{total_argument}={total!r} has {int(np.isnan(whole).sum()):,} missing value(s), the first in row "
            f"{int(np.argmax(np.isnan(whole)))}; fill them, or pass missing='drop' to leave their units out."
        )
    values = np.column_stack(list(made.values()))
    rows = values.sum(axis=1)
    factor = np.ones(len(rows))
    if np.nanmax(values, initial=0.0) <= 1 and np.nanmax(whole, initial=0.0) > 1:
        factor = whole
    made = {name: v * factor for name, v in made.items()}
    gap = whole - rows * factor
    over = gap < -0.005 * np.maximum(whole, 1) - 1e-6
    if over.any():
        i = int(np.argmax(over))
        raise InputError(
            f"{argument} add up to more than {total_argument}={total!r} in {int(over.sum()):,} unit(s), first in row {i}: "
            f"{(rows * factor)[i]:,.10g} against {whole[i]:,.10g}; correct the columns, or leave {total_argument} out."
        )
    gap = np.maximum(gap, 0.0)
    if np.nansum(gap) <= 1e-6 * np.nansum(whole):
        return made, holes
    if rest in made:
        raise InputError(f"{argument} names {rest!r}, which stands for what is missing to {total_argument}; rename it.")
    return {**made, rest: gap}, holes


def _refuse_repeated(columns: Columns, argument: str) -> None:
    """Refuse a column that is named twice: its people or votes would count twice."""
    parts = columns.values() if isinstance(columns, Mapping) else columns
    used = [name for part in parts for name in ([part] if isinstance(part, str) else part)]
    again = [name for name in dict.fromkeys(used) if used.count(name) > 1]
    if again:
        raise InputError(f"{argument} names the column(s) {listed(again)} more than once; name each once.")


def _refuse_total(made: Mapping[str, FloatArray], argument: str, total_argument: str) -> None:
    """Refuse a column that is the sum of the others, whose people or votes would count twice; parts that never vary can add up so."""
    found = total_column(np.column_stack(list(made.values())))
    if found is not None:
        raise InputError(
            f"{argument}: {list(made)[found]!r} is the sum of the others in every unit, so that everybody counts twice; leave it out, "
            f"or pass its column as {total_argument}."
        )
