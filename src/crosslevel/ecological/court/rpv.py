"""Racially polarized voting from a table of precincts: every contest, every method that courts know, one summary."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from crosslevel.data import checks
from crosslevel.data.frames import fingerprint
from crosslevel.data.progress import follow
from crosslevel.data.signatures import checked
from crosslevel.ecological.court.study import (
    STAYED,
    ContestStudy,
    PolarizationStudy,
    describe_notes,
    find_method,
    study_of_contest,
    summarize,
)
from crosslevel.ecological.tables.compare import TAKEN, answer_by, read_methods
from crosslevel.ecological.tables.counts import Columns, Counts
from crosslevel.ecological.tables.layout import describe_call
from crosslevel.errors import ConvergenceError, InputError, listed, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import Progress, RandomState

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
TOTAL = "total"
"""In the place of a candidate's name: the column of all votes of the contest."""
WORTH_PROCESSES = 5_000
"""Precincts of all contests together from which processes save more time than they take to start, a few seconds."""


@checked
def rpv(
    counts: Counts,
    contests: Mapping[str, Columns],
    *,
    reference: str | None = None,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    lead: str | None = None,
    level: float = 0.95,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> PolarizationStudy:
    """Study racially polarized voting in one call: candidates of choice, polarization, margins and turnout in every contest.

    Parameters
    ----------
    counts : Counts
        Units (precincts) with the people of each group: of voting age, registered, or voters. Its outcomes are replaced by those of each
        contest; ``total_outcomes`` is the column of all votes in contests that name no total of their own. Those who did not vote are
        an outcome, whatever ``repair`` says of the balance.
    contests : mapping of contest to candidates
        For each contest the columns of the candidates' votes, as a list or as a mapping of name to column(s). In a mapping the name
        "total" stands for no candidate but for the column of all votes; votes for nobody named become "others".
    reference : str, optional
        The group with which the others are compared; the largest when not given.
    methods : sequence of str, or mapping of str to options, optional
        Methods run side by side; homogeneous units, Goodman, King iterated and the contextual R x C model when not given.
        ``"multinomial_dirichlet"`` is sampled, without a contextual effect unless its options say so: the model as published.
    lead : str, optional
        The method of which summary and sentences are made; ``"rxc"`` when not given, or the first of ``methods`` without it.
    level : float, default 0.95
        Level of the intervals, and the least probability of a candidate of choice: below it, the candidate cannot be determined.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the draws of every method.
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
    >>> counts = Counts(precincts, unit="name", groups=["Black", "white"])
    >>> study = rpv(counts, {"Mayor": ["Ames", "Brown"]}, methods=["goodman", "rxc"])
    >>> study.summary["candidate"].tolist(), study.summary["won"].tolist()
    (['Ames', 'Brown'], [False, True])
    >>> study.tally.select(group="Black")["lost"].tolist()
    [1]
    """
    seed, level = checks.read_seed(random_state), checks.check_level(level)
    chosen = read_methods(METHODS if methods is None else methods, NAMED, (*TAKEN, "level", "random_state"))
    asked = lead is not None
    lead = (LEAD if LEAD in chosen else next(iter(chosen))) if lead is None else find_method(list(chosen), lead, "lead")
    if not contests:
        raise InputError("contests is empty; name at least one, {'Governor 2018': ['Abrams', 'Kemp']}.")
    whole = replace(counts, data=counts.table)
    tables = {contest: _of_contest(whole, contest, candidates) for contest, candidates in contests.items()}
    for first, second in itertools.combinations(tables, 2):
        if set(tables[first].outcomes.values()) == set(tables[second].outcomes.values()):
            raise InputError(
                f"contests: {first!r} and {second!r} name the same columns, and would count twice; correct one."
            )
    size: dict[str, float] = {}
    for margins in (contest.tables for contest in tables.values()):
        for group, people in zip(margins.groups, margins.X.sum(axis=0).tolist(), strict=True):
            size[group] = max(size.get(group, 0.0), people)
    reference = max(size, key=lambda g: size[g]) if reference is None else reference
    if reference not in size:
        raise unknown_name("reference", reference, list(size), "group")
    studies = _studies(tables, _Plan(chosen, lead, reference, level, seed), progress)
    given: dict[str, Any] = {
        "contests": {c: _plain(v) for c, v in contests.items()},
        "reference": reference,
        "methods": chosen,
    }
    given |= {"lead": lead, "level": level, "random_state": seed}
    data = {"counts": fingerprint(counts.table)}
    provenance = Provenance.of(call=describe_call("rpv", counts, given), seed=seed, data=data)
    summary, tally = summarize(studies, reference, provenance)
    return PolarizationStudy(
        contests=studies,
        summary=replace(summary, frame=counts.frame),
        tally=replace(tally, frame=counts.frame),
        groups=tuple(size),
        reference=reference,
        lead=lead,
        lead_reason=WHY_RXC
        if lead == LEAD
        else f"{lead} leads, {'as asked for' if asked else 'the first method named'}.",
        data_notes=describe_notes(studies),
        settings={**counts.roles(), **given},
        provenance=provenance,
    )


@dataclass(frozen=True)
class _Plan:
    """What is done with every contest: methods with their options, the leading one, the group of reference, level and seed."""

    methods: Mapping[str, Mapping[str, Any]]
    lead: str
    reference: str
    level: float
    seed: int

    def answer(self, counts: Counts, method: str) -> Estimates:
        """Answer one contest by one method."""
        found = answer_by(method, counts, self.methods[method], level=self.level, random_state=self.seed)
        # the time a fit took would make every study another file
        return replace(found, diagnostics={k: v for k, v in found.diagnostics.items() if k != "seconds"})

    def study(self, contest: str, counts: Counts, n_jobs: int = 1) -> ContestStudy:
        """Answer one contest by every method, several at once, and make its reports."""
        answers: dict[str, Estimates] = {}
        left_out: dict[str, str] = {}
        # threads share the setting of the linear algebra, so it is made once around all
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
            waiting = {method: pool.submit(self.answer, counts, method) for method in self.methods}
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
        return study_of_contest(contest, counts.tables, answers, left_out, lead=self.lead, reference=self.reference)

    def study_apart(self, contest: str, counts: Counts) -> tuple[ContestStudy, list[warnings.WarningMessage]]:
        """The same in a process of its own, which gives back what it would have warned of."""
        with warnings.catch_warnings(record=True) as said:
            return self.study(contest, counts), said


def _studies(tables: Mapping[str, Counts], plan: _Plan, progress: Progress | None) -> dict[str, ContestStudy]:
    """Study every contest: large ones in processes side by side, small ones one after another with a thread for each method."""
    n_jobs = checks.count_jobs(None)
    apart = min(n_jobs, len(tables))
    found: Iterable[ContestStudy]
    if apart > 1 and sum(len(t.tables.units) for t in tables.values()) >= WORTH_PROCESSES:
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


def _of_contest(counts: Counts, contest: str, candidates: Columns) -> Counts:
    """Give the counts of one contest."""
    argument, total = f"contests[{contest!r}]", counts.total_outcomes
    if isinstance(candidates, Mapping) and TOTAL in candidates:
        total = candidates[TOTAL]  # type: ignore[assignment]
        candidates = {name: columns for name, columns in candidates.items() if name != TOTAL}
    repair = {**asdict(counts.repairs), "balance": "error", "rest": STAYED}
    try:
        made = replace(counts, outcomes=candidates, total_outcomes=total, repair=repair)
        tables = made.tables
    except InputError as error:
        raise type(error)(f"{argument}: {error}") from error
    both = [name for name in made.outcomes if name in (*tables.groups, STAYED)]
    if both:
        raise InputError(
            f"{argument} names {listed(both)}, which is a group or stands for those who did not vote; rename it."
        )
    if STAYED in tables.groups:
        over = np.flatnonzero(tables.X[:, -1] > 0)
        i = int(over[0])
        raise InputError(
            f"{argument}: votes exceed people in {len(over):,} of {len(tables.units):,} unit(s), first in {tables.units[i]!r} "
            f"({tables.T[i].sum():,.10g} votes, {tables.X[i, :-1].sum():,.10g} people); repair={{'excess': 'raise'}} raises the groups of "
            "these units, 'drop' leaves them out. Where groups are shares or do not hold everybody, pass total_groups."
        )
    return made
