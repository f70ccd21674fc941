"""What a study of racially polarized voting holds: every contest by every method, and one summary over contests."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data.signatures import checked
from crosslevel.ecological.court.choice import UNDETERMINED, candidate_of_choice, describe_probability
from crosslevel.ecological.court.polarization import margin, polarization
from crosslevel.ecological.court.reporting import said_once
from crosslevel.ecological.court.voters import among_voters, turnout
from crosslevel.ecological.tables.compare import side_by_side
from crosslevel.ecological.tables.margins import UnitTables
from crosslevel.ecological.tables.shares import OTHER
from crosslevel.errors import InputError, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

STAYED = "did not vote"
OTHER_CANDIDATES = OTHER["outcomes"]


@dataclass(frozen=True)
class ContestStudy:
    """One contest by every method.

    Attributes
    ----------
    name : str
    tables : UnitTables
        The counts by unit, after repairs; ``tables.notes`` says what was repaired.
    candidates : dict of str to float
        Votes of every candidate, the most first.
    lead : str
        The method whose answer the reports below are made of.
    answers : dict of method to Estimates
        Shares of everybody in the group with each outcome, those who did not vote being one.
    voters : dict of method to Estimates
        Shares of the group's voters with each candidate; the answers themselves where everybody counted voted.
    choice : dict of method to Estimates
        Candidate of choice of each group, among voters.
    polarization : dict of group to Estimates
        Support among the voters of the group less support among those of the reference group.
    margin : Estimates
        Lead of the candidate with most votes over the next in each group.
    turnout : Estimates or None
        Share of each group that voted; None where everybody counted voted.
    left_out : dict of method to str
        Methods that could not answer, and why.
    cells : (n_units, n_groups, n_outcomes) or None
        Counts of every unit by the leading method, where it has units; for :meth:`PolarizationStudy.performance`.
    """

    name: str
    tables: UnitTables
    candidates: dict[str, float]
    lead: str
    answers: dict[str, Estimates]
    voters: dict[str, Estimates]
    choice: dict[str, Estimates]
    polarization: dict[str, Estimates]
    margin: Estimates
    turnout: Estimates | None
    left_out: dict[str, str]
    cells: FloatArray | None = None

    @property
    def ahead(self) -> tuple[str, ...]:
        """The candidate with most votes in all units together; several where they are tied."""
        named = [c for c in self.candidates if c != OTHER_CANDIDATES or len(self.candidates) < 3]
        most = max(self.candidates[c] for c in named)
        return tuple(c for c in named if self.candidates[c] == most)

    @property
    def winner(self) -> str | None:
        """The candidate with most votes in all units together; None where several are tied."""
        return self.ahead[0] if len(self.ahead) == 1 else None

    @property
    def comparison(self) -> Estimates:
        """The shares of each group's voters by all methods, side by side."""
        notes = [f"{method} is left out: {why}" for method, why in self.left_out.items()]
        return side_by_side(self.voters, f"{self.name}: share of each group's voters, by method", notes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader should know of the leading method's answer here, repairs of the data apart."""
        return tuple(w for w in self.answers[self.lead].warnings if w not in self.tables.notes)


@dataclass(frozen=True)
class PolarizationStudy:
    """A study of racially polarized voting over several contests; made by :func:`rpv`.

    Attributes
    ----------
    contests : dict of str to ContestStudy
    summary : Estimates
        A row for each contest and group. The shares are those of ``likeliest``, whom most of its voters supported; ``candidate``, its
        candidate of choice, is that one where the probability is the level at least, and null where it cannot be determined.
        ``won`` tells whether the candidate received the most votes in these units; an election may have been decided by more: other
        units, or a runoff.
    tally : Estimates
        A row for each group over all contests: in how many its candidate of choice can be determined (``determined``), did not
        receive the most votes in these units (``lost``), and differed from that of the reference group.
    groups : tuple of str
    reference : str
        The group with which the others are compared.
    lead, lead_reason : str
        The leading method, and why in one sentence.
    data_notes : tuple of str
        What was repaired, merged or left out in the data.
    settings : dict
        The call's arguments in plain values.
    provenance : Provenance
    """

    contests: dict[str, ContestStudy]
    summary: Estimates
    tally: Estimates
    groups: tuple[str, ...]
    reference: str
    lead: str
    lead_reason: str
    data_notes: tuple[str, ...]
    settings: dict[str, Any]
    provenance: Provenance

    def __repr__(self) -> str:
        return (
            f"<PolarizationStudy: {len(self.contests)} contest(s), {len(self.groups)} groups compared with {self.reference}, {self.lead} "
            "leads; see .summary, .tally, .sentences() or .contests[name]>"
        )

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that answered at least one contest."""
        return tuple(dict.fromkeys(m for contest in self.contests.values() for m in contest.answers))

    @property
    def comparison(self) -> Estimates:
        """The shares of voters by all methods that answered every contest, in one table."""
        shared = [m for m in self.methods if all(m in c.voters for c in self.contests.values())]
        notes = {text for c in self.contests.values() for text in c.tables.notes}
        stacked = {m: _stacked({n: c.voters[m] for n, c in self.contests.items()}, notes) for m in shared}
        return side_by_side(stacked, "Share of each group's voters with each candidate, by contest and method")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader should know of the leading answers, each once, with its contests."""
        where: dict[str, list[str]] = {}
        for name, contest in self.contests.items():
            for text in contest.warnings:
                where.setdefault(text, []).append(name)
        return said_once(where, len(self.contests))

    def sentences(self) -> tuple[str, ...]:
        """Say the findings: first over all contests, then contest by contest."""
        return (*describe_tally(self.tally, self.reference), *describe_summary(self.summary, self.reference))

    @checked
    def performance(
        self, districts: Mapping[Any, Sequence[object]] | Sequence[object], group: str, *, level: float = 0.95
    ) -> Estimates:
        """Count the votes of every contest again in proposed districts, and give the probability that the group's candidate has most there.

        The votes of the precincts of a district are counted, so who has most of them is certain. Whom the group chose is not: the
        probability is the share of the joint draws of the leading method in which the group's candidate of choice, in the whole area
        studied, is the one who has most votes in the district.

        Parameters
        ----------
        districts : sequence of units, or mapping of district to units
            The names of the precincts of a proposed district, or of several.
        group : str
            The group whose candidates are asked for.
        level : float, default 0.95
            Level of the intervals, and least probability of a candidate of choice.

        Returns
        -------
        Estimates
            Keys ``district``, ``contest``. ``estimate`` is the vote share in the district of the candidate who is the group's choice;
            interval and ``probability_wins`` are over the draws of whom it chose. ``candidate`` is the most probable choice, null
            where its probability is below ``level``; ``share`` and ``lead`` its votes and lead in the district, ``winner`` who received the
            most votes there (null where the vote is tied), ``won`` whether that is the candidate. ``group_people`` and
            ``group_voters`` are the shares of the group among the people of the district and, by the leading method, among its voters;
            ``support`` and ``others_support`` the shares of the group's and of all other voters of the district with that candidate.
            ``diagnostics["findings"]`` counts the
            contests in which the candidate received the most votes.

        Notes
        -----
        This is the reconstituted election of redistricting cases. It says what these electorates did, not what another would do:
        turnout and candidates are those of each contest.

        Examples
        --------
        >>> from crosslevel import Counts
        >>> from crosslevel.ecological import rpv
        >>> precincts = {
        ...     "name": list("abcdefgh"), "Black": [10, 40, 70, 90, 20, 55, 30, 80], "white": [90, 60, 30, 10, 80, 45, 70, 20],
        ...     "Ames": [14, 28, 42, 51, 19, 36, 24, 47], "Brown": [56, 39, 23, 12, 50, 30, 44, 17],
        ... }
        >>> counts = Counts(precincts, unit="name", groups=["Black", "white"])
        >>> study = rpv(counts, {"Mayor": ["Ames", "Brown"]}, methods=["rxc"])
        >>> found = study.performance({"north": ["c", "d", "h"], "south": ["a", "e", "g"]}, "Black")
        >>> found["winner"].tolist(), (found["probability_wins"] > 0.95).tolist()
        (['Ames', 'Brown'], [True, False])
        """
        from crosslevel.ecological.court.performance import performance

        return performance(self, districts, group, level)


def study_of_contest(
    name: str,
    tables: UnitTables,
    answers: Mapping[str, Estimates],
    left_out: Mapping[str, str],
    *,
    lead: str,
    reference: str,
) -> ContestStudy:
    """Make the reports of one contest from the answers of the methods.

    Parameters
    ----------
    name : str
    tables : UnitTables
    answers : mapping of method to Estimates
        With the leading method among them.
    left_out : mapping of method to str
    lead, reference : str
        The leading method, and the group with which the others are compared.
    """
    abstain, other = STAYED, OTHER_CANDIDATES
    voted = abstain in tables.outcomes
    lost = dict(left_out)
    voters: dict[str, Estimates] = {}
    for method, answer in answers.items():
        try:
            voters[method] = among_voters(answer, abstain) if voted else answer
        except InputError as error:
            lost[method] = str(error)
    if lead not in voters:
        raise InputError(f"{name}: the leading method {lead!r} does not answer: {lost[lead]}")
    total = {o: float(v) for o, v in zip(tables.outcomes, tables.T.sum(axis=0), strict=True) if o != abstain}
    named = [o for o in total if o != other]
    exclude = (other,) if other in total and len(named) > 1 else ()
    ranked = dict(sorted(total.items(), key=lambda pair: (pair[0] in exclude, -pair[1])))
    first, second = list(ranked)[:2]
    choice = {m: candidate_of_choice(v, exclude=exclude, abstention=None) for m, v in voters.items()}
    leading = voters[lead]
    return ContestStudy(
        name=name,
        tables=tables,
        candidates=ranked,
        lead=lead,
        answers={m: _bare(a) for m, a in answers.items() if m in voters},
        voters={m: _bare(v) for m, v in voters.items()},
        choice={m: _bare(c, draws=False) for m, c in choice.items()},
        polarization={
            g: _bare(polarization(leading, (g, reference), exclude=exclude, abstention=None))
            for g in tables.groups
            if g != reference
        },
        margin=_bare(margin(leading, (first, second), abstention=None)),
        turnout=_bare(turnout(answers[lead], abstain)) if voted else None,
        left_out=lost,
        cells=_cells(answers[lead], tables),
    )


def _cells(answer: Estimates, tables: UnitTables) -> FloatArray | None:
    """Give the counts of every unit by a method, (n_units, n_groups, n_outcomes)."""
    if answer.units is None:
        return None
    return np.asarray(np.nan_to_num(answer.units["count"]).reshape(-1, len(tables.groups), len(tables.outcomes)))


def _bare(found: Estimates, draws: bool = True) -> Estimates:
    """Leave the units out, which would make a study of a state a gigabyte."""
    return replace(found, units=None, draws=found.draws if draws else None)


def describe_notes(contests: Mapping[str, ContestStudy]) -> tuple[str, ...]:
    """Give the notes on the data, those of several contests once; ``contests[name].tables.notes`` has each with its own numbers."""
    where: dict[str, list[str]] = {}
    for name, contest in contests.items():
        for text in contest.tables.notes:
            where.setdefault(text, []).append(name)
    return said_once(where, len(contests))


def _stacked(tables: Mapping[str, Estimates], notes: Container[str] = ()) -> Estimates:
    """Put the tables of all contests under one another, with the key ``contest``; notes on the data are the study's."""
    where: dict[str, list[str]] = {}
    for name, table in tables.items():
        for text in table.warnings:
            if text not in notes:
                where.setdefault(text, []).append(name)
    first = next(iter(tables.values()))
    names = [n for n in first.table.column_names if all(n in t.table.column_names for t in tables.values())]
    whole = pa.concat_tables([t.table.select(names) for t in tables.values()])
    contest = np.repeat(list(tables), [len(t) for t in tables.values()])
    return Estimates.build(
        {"contest": contest, **{n: whole[n] for n in names}},
        keys=("contest", *first.keys),
        method=first.method,
        level=first.level,
        interval=first.interval,
        provenance=first.provenance,
        warnings=said_once(where, len(tables)),
        frame=first.frame,
        kind=first.kind,
    )


def summarize(
    contests: Mapping[str, ContestStudy], reference: str, provenance: Provenance
) -> tuple[Estimates, Estimates]:
    """Make the summary (a row per contest and group) and the tally (a row per group)."""
    rows = [_row(contest, group, reference) for contest in contests.values() for group in contest.tables.groups]
    first = next(iter(contests.values()))
    shown = first.choice[first.lead]
    made = {name: [row[name] for row in rows] for name in rows[0]}
    made |= {n: pa.array(made[n], pa.bool_()) for n in ("won", "choices_differ")}
    made |= {n: pa.array(made[n], pa.string()) for n in ("candidate", "likeliest", "winner")}
    summary = Estimates.build(
        made,
        keys=("contest", "group"),
        method=shown.method,
        level=shown.level,
        interval=shown.interval,
        provenance=provenance,
        diagnostics={"draws": {name: _count_draws(contest) for name, contest in contests.items()}},
        warnings=(),
        frame=shown.frame,
        kind="polarization_summary",
        title=f"Candidate of choice of each group's voters, by contest; {reference} is the group of reference",
    )
    return summary, _tally(rows, reference, summary)


def _count_draws(contest: ContestStudy) -> int:
    """Count the draws of the leading method, on which its probabilities rest."""
    draws = contest.voters[contest.lead].draws
    return 0 if draws is None else len(draws)


def _row(contest: ContestStudy, group: str, reference: str) -> dict[str, Any]:
    """Say whom one group chose in one contest."""
    lead = contest.choice[contest.lead].select(group=group)
    first = {n: lead.table[n][0].as_py() for n in lead.table.column_names}
    likeliest = first["outcome"] if first["estimate"] is not None else None
    sure, level = first["probability_first"], contest.choice[contest.lead].level
    determined = (
        likeliest is not None and (lead["rank"] == 1).sum() == 1 and (sure is None or level is None or sure >= level)
    )
    candidate = likeliest if determined else None
    probability = dict(zip(lead["outcome"].tolist(), lead["probability_first"].tolist(), strict=True))
    votes = sum(contest.candidates.values())
    row: dict[str, Any] = {
        "contest": contest.name,
        "group": group,
        "candidate": candidate,
        "likeliest": likeliest,
        **{n: first[n] for n in ("estimate", "std_error", "conf_low", "conf_high", "lower", "upper")},
        **{n: first[n] for n in ("probability_first", "lead", "lead_low", "lead_high")},
        "vote_share": None if candidate is None else contest.candidates[candidate] / votes,
        "won": None
        if candidate is None or (candidate in contest.ahead and contest.winner is None)
        else candidate in contest.ahead,
        "probability_lost": 1 - sum(probability.get(c, 0.0) for c in contest.ahead) if likeliest is not None else None,
        "winner": contest.winner,
        **dict.fromkeys(("reference_support", "difference", "difference_low", "difference_high")),
        **dict.fromkeys(("choices_differ", "probability_choices_differ")),
        **dict.fromkeys(("turnout", "turnout_low", "turnout_high")),
    }
    if group != reference and likeliest is not None:
        apart = contest.polarization[group].select(outcome=likeliest).table.to_pylist()[0]
        row |= {"reference_support": apart["share_b"], "difference": apart["estimate"]}
        row |= {"difference_low": apart["conf_low"], "difference_high": apart["conf_high"]}
        row |= {n: apart[n] for n in ("choices_differ", "probability_choices_differ")}
    if contest.turnout is not None:
        went = contest.turnout.select(group=group).table.to_pylist()[0]
        row |= {"turnout": went["estimate"], "turnout_low": went["conf_low"], "turnout_high": went["conf_high"]}
    answered = [c.select(group=group, rank=1)["outcome"].tolist() for c in contest.choice.values() if _ranked(c, group)]
    row["methods"] = len(answered)
    row["methods_agreeing"] = sum(likeliest in names for names in answered)
    return row


def _ranked(choice: Estimates, group: str) -> bool:
    return bool(((choice["group"] == group) & (choice["rank"] == 1)).any())


def _tally(rows: Sequence[Mapping[str, Any]], reference: str, summary: Estimates) -> Estimates:
    """Count, for each group, the contests in which its candidate lost and in which its choice differed."""
    made: list[dict[str, Any]] = []
    for group in dict.fromkeys(row["group"] for row in rows):
        answered = [row for row in rows if row["group"] == group and row["likeliest"] is not None]
        own = [row for row in answered if row["candidate"] is not None]
        told = [row for row in own if row["choices_differ"] is not None]
        apart = [row for row in told if row["choices_differ"]]
        support = [row["estimate"] for row in own]
        cross = [row["reference_support"] for row in own if row["reference_support"] is not None]
        made.append(
            {
                "group": group,
                "estimate": float(np.mean(support)) if support else None,
                "contests": len(answered),
                "determined": len(own),
                "lost": sum(row["won"] is False for row in own) if own else None,
                "expected_lost": _sum([row["probability_lost"] for row in answered]),
                "contests_compared": None if group == reference else len(told),
                "choices_differ": len(apart) if told else None,
                "expected_choices_differ": _sum([row["probability_choices_differ"] for row in told]),
                "lost_where_choices_differ": sum(row["won"] is False for row in apart) if told else None,
                "least_support": min(support, default=None),
                "mean_reference_support": float(np.mean(cross)) if cross else None,
                "outside": sum(_outside(row) for row in answered),
            }
        )  # fmt: skip
    return Estimates.build(
        {name: [row[name] for row in made] for name in made[0]},
        keys=("group",),
        method=summary.method,
        level=None,
        interval="none",
        provenance=summary.provenance,
        frame=summary.frame,
        kind="polarization_tally",
        title="Mean support of each group's voters for its candidates of choice, and how often they lost",
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None and np.isfinite(v)]
    return float(np.sum(known)) if len(known) == len(values) and known else None


def describe_tally(tally: Estimates, reference: str) -> tuple[str, ...]:
    """Say over all contests how often each group chose differently from the reference group, and how often others had more votes."""
    said = []
    for row in tally.table.to_pylist():
        if row["group"] == reference or not row["contests"]:
            continue
        n, known, who = row["contests"], row["determined"], f"the candidate of choice of {row['group']} voters"
        text = [f"{who[0].upper()}{who[1:]} {UNDETERMINED} in {n - known} of {n} contest(s)."] if known < n else []
        if row["choices_differ"] is not None:
            expected = row["expected_choices_differ"]
            likely = "" if expected is None else f" ({expected:.1f} expected from the probabilities)"
            text.append(
                f"In {row['choices_differ']} of {row['contests_compared']} contest(s){likely} {who} was not that of {reference} voters; "
                f"it did not receive the most votes in {row['lost_where_choices_differ']} of these, and in {row['lost']} of all {known}."
            )
        elif known:
            text.append(
                f"{who[0].upper()}{who[1:]} did not receive the most votes in {row['lost']} of {known} contest(s)."
            )
        if known:
            cross = row["mean_reference_support"]
            beside = "" if cross is None else f" and {100 * cross:.0f} % of {reference} voters"
            text.append(
                f"On average {100 * row['estimate']:.0f} % of {row['group']} voters{beside} supported that candidate."
            )
        if row["outside"]:
            text.append(
                f"In {row['outside']} of {n} contest(s) an estimate lies outside 0 to 100 %, which no share can."
            )
        said.append(" ".join(text))
    return tuple(said)


def _outside(row: Mapping[str, Any]) -> bool:
    """Tell whether the support of a group or of the group of reference is below 0 or above 100 %."""
    return any(
        v is not None and not -ROUNDING <= v <= 1 + ROUNDING for v in (row["estimate"], row["reference_support"])
    )


def describe_summary(summary: Estimates, reference: str) -> tuple[str, ...]:
    """Say for each contest and group whom its voters chose, by how much, and whether the candidate received the most votes."""
    said = []
    level = "" if summary.level is None else f"{100 * summary.level:.10g} % interval "
    draws: Mapping[str, int] = summary.diagnostics.get("draws", {})
    for row in summary.table.to_pylist():
        if row["group"] == reference or row["likeliest"] is None:
            continue
        who, likeliest = row["group"], row["likeliest"]
        text = f"{row['contest']}: {100 * row['estimate']:.0f} % of {who} voters"
        if row["conf_low"] is not None:
            text += f" ({level}{100 * row['conf_low']:.0f} to {100 * row['conf_high']:.0f} %)"
        cross = row["reference_support"]
        text += "" if cross is None else f" and {100 * cross:.0f} % of {reference} voters"
        text += f" supported {likeliest}"
        probability, sure = row["probability_first"], ""
        if probability is not None:
            sure = f"with probability {describe_probability(probability, draws.get(row['contest']) or DRAWS)}"
        if row["candidate"] is None:
            text += (
                f"; the candidate of choice of {who} voters {UNDETERMINED}{f' ({likeliest} {sure})' if sure else ''}"
            )
        elif sure:
            text += f", the candidate of choice of {who} voters {sure}"
        if row["choices_differ"] is not None:
            text += f"; {reference} voters chose {'another' if row['choices_differ'] else 'the same'}"
        text += ". An estimate lies outside 0 to 100 %, which no share can" if _outside(row) else ""
        said.append(f"{text}.{_describe_votes(row)}")
    return tuple(said)


def _describe_votes(row: Mapping[str, Any]) -> str:
    """Say whether the candidate of choice received the most votes; nothing where the candidate cannot be determined."""
    if row["candidate"] is None:
        return ""
    share = f"{100 * row['vote_share']:.1f} %"
    if row["won"] is None:
        return f" {row['candidate']} tied for the most votes in these units, with {share}."
    return f" {row['candidate']} {'received' if row['won'] else 'did not receive'} the most votes in these units, with {share}."


DRAWS = 200
"""Draws that a probability in a sentence rests on at least, in a study that was saved without their number."""
ROUNDING = 1e-9


def find_method(methods: Sequence[str], name: str, argument: str) -> str:
    """Check that a method is among those run."""
    if name not in methods:
        raise unknown_name(argument, name, list(methods), "method")
    return name
