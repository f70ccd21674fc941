"""The exhibit of a study: numbered findings, figures and tables of each contest, data, methods, checks, references, appendix."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosslevel.charts.chart import Chart, Panel
from crosslevel.charts.intervals import describe_cut, methods_chart
from crosslevel.charts.words import count, plain
from crosslevel.ecological.court.choice import UNDETERMINED
from crosslevel.ecological.court.reporting import said_once
from crosslevel.ecological.court.study import ContestStudy, PolarizationStudy, describe_summary, describe_tally
from crosslevel.reports.document import Block, Document, Facts, Figure, Heading, Items, Text
from crosslevel.reports.methods import (
    ASSUMPTIONS,
    CHECK_HEAD,
    NAMES,
    check_row,
    describe_method,
    describe_software,
    references_of,
)
from crosslevel.results import Estimates
from crosslevel.results.wide import MOST_ACROSS, Wide, relabeled, wide_tables

ON_TOP = 12
"""Findings that stand on top; with more, those of a contest stand in its section, and the numbers go on."""
MOST_ROWS = 40
"""Rows of a figure on one page."""
TALLEST = 7.6
"""Inches of a figure on a page, below its heading."""
MOST_CONTESTS = 20
"""Contests of one figure."""


def exhibit_of(study: PolarizationStudy, districts: Mapping[str, Estimates], title: str | None) -> Document:
    """Make the document of a study of racially polarized voting.

    Parameters
    ----------
    study : PolarizationStudy
    districts : mapping of heading to Estimates
        Of :func:`crosslevel.ecological.performance`; each has a section of its own.
    title : str, optional
    """
    n, first = len(study.contests), next((g for g in study.groups if g != study.reference), study.reference)
    lead, answers = next(iter(study.contests.values())), _answers(study)
    contests: list[Block] = []
    appendix: list[Block] = []
    legend: dict[str, None] = {}
    overall = list(describe_tally(study.tally, study.reference))
    said = _sections(study, districts)
    few = len(overall) + sum(map(len, said.values())) <= ON_TOP
    on_top = [*overall, *(s for own in said.values() for s in own)] if few or not overall else overall
    number = len(on_top) + 1
    for name, own in said.items():
        contests.append(Heading(name, page=len(said) > 1))
        if own and not few and overall:
            contests.append(Items(own, number))
            number += len(own)
        if name in study.contests:
            blocks, marks = _contest(study, study.contests[name], first)
            legend |= dict.fromkeys(re.split(r"(?<=\.) ", marks))
            side = relabeled(study.contests[name].comparison, {"method": NAMES}, strict=False)
            appendix += wide_tables(
                side, "outcome", f"{name}: share of each group's voters with each candidate, by method"
            )
        else:
            blocks = _districts(name, districts[name])
        contests += blocks
    prints = [f"Fingerprint of the {name} read: {digest}." for name, digest in study.provenance.data.items()]
    groups = f"Groups: {', '.join(lead.tables.groups)}. Group of reference: {study.reference}."
    checks = [check_row(name, c.answers[study.lead], c.voters[study.lead]) for name, c in study.contests.items()]
    warnings = _warnings(study, answers, districts)
    know: list[Block] = [Heading("What the reader should know", 3), Items(warnings)] if warnings else []
    facts = [(k, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for k, v in study.settings.items()]
    return Document(
        f"Racially polarized voting in {count(n, 'contest')}" if title is None else title,
        [
            Heading("Findings"),
            Items(on_top, 1),
            Text(study.lead_reason),
            Heading("All contests"),
            *_overview(study, first),
            Text(f"In the figures by contest: {' '.join(legend)}"),  # said once, so that a contest fits on a page
            *contests,
            Heading("Data", page=len(said) > 1),
            Items([groups, *prints, *study.data_notes]),
            _data_table(study),
            Heading("Methods"),
            *(Text(describe_method(name, found)) for name, found in answers.items()),
            Text(describe_software()),
            Heading("Assumptions and what was checked"),
            Text(ASSUMPTIONS),
            _table("What was checked, by contest", CHECK_HEAD, checks),
            Items([_agreement(study)]),
            *know,
            Heading("References"),
            Items(references_of(answers)),
            Heading("Appendix", page=True),
            *appendix,
            _diagnostics_table(study),
            Heading("Settings", 3),
            Facts(facts),
        ],
    )


def _sections(study: PolarizationStudy, districts: Mapping[str, Estimates]) -> dict[str, list[str]]:
    """Give the findings of every contest, and of every table of districts, by heading."""
    rows = study.summary.table.to_pylist()
    of = [r["contest"] for r in rows if r["group"] != study.reference and r["likeliest"] is not None]
    said: dict[str, list[str]] = {name: [] for name in study.contests}
    for name, sentence in zip(of, describe_summary(study.summary, study.reference), strict=True):
        said[name].append(sentence)
    return said | {heading: list(found.diagnostics["findings"]) for heading, found in districts.items()}


def _answers(study: PolarizationStudy) -> dict[str, Estimates]:
    """Give an answer of every method, the leading one first: of the first contest, or of one where its search did not converge."""
    answers = {study.lead: next(iter(study.contests.values())).voters[study.lead]}
    for contest in study.contests.values():
        for method, found in contest.voters.items():
            if method not in answers or found.diagnostics.get("converged") is False:
                answers[method] = found
    return answers


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "", left: int = 1) -> Wide:
    cells = tuple(tuple(c if isinstance(c, tuple) else (str(c), "") for c in row) for row in rows)
    return Wide(caption, tuple(head), cells, left, note)


def _figure(caption: str, chart: Chart) -> Figure:
    wide, high = chart.inches
    panel = chart.panels[0]
    if isinstance(panel, Panel) and panel.x.limits == (0.0, 1.0):  # in percent, as the tables are
        x = replace(panel.x, ticks={k / 10: 10.0 * k for k in range(0, 11, 2)}, title=f"percent; {panel.x.title}")
        chart = replace(chart, panels=[replace(panel, x=x)])
    caption += f" {chart.note[0].upper()}{chart.note[1:]}." if chart.note else ""
    return Figure(caption, replace(chart, inches=(min(wide, 7.2), min(high, TALLEST)), note=""))


def _told(found: Estimates) -> list[str]:
    """Give the warnings of a table, and say that its search did not converge."""
    failed = found.diagnostics.get("converged") is False and not any("converge" in w for w in found.warnings)
    return [*found.warnings, *(["the search did not converge."] if failed else [])]


def _districts(heading: str, found: Estimates) -> list[Block]:
    """Show proposed districts: the vote share of the group's candidate in every contest, with the probability that it has most."""
    rows = {(r["contest"], r["district"]): r for r in found.table.to_pylist()}
    contests, districts = (list(dict.fromkeys(key[i] for key in rows)) for i in (0, 1))
    choice = found.title[found.title.find("candidate of choice") :]  # names the group
    made: list[Block] = []
    for start in range(0, len(districts), MOST_ACROSS):
        part = districts[start : start + MOST_ACROSS]
        cells = [(c, *(_performance(rows.get((c, d))) for d in part)) for c in contests]
        made.append(_table(f"{heading}: {found.title}", ("contest", *map(str, part)), cells,
                           f"Percent of the district's votes; beneath, the probability that the {choice} received the most."))  # fmt: skip
    return made


def _performance(row: Mapping[str, Any] | None) -> tuple[str, str]:
    if row is None or row["estimate"] is None:
        return "–", ""
    p = row["probability_wins"]
    whose = UNDETERMINED if row["candidate"] is None else f"{row['candidate']} {100 * row['share']:.1f}"
    return whose, "" if p is None else f"most votes {p:.2f}"


def _warnings(
    study: PolarizationStudy, methods: Mapping[str, Estimates], districts: Mapping[str, Estimates]
) -> list[str]:
    """Say what the reader should know of the tables shown, method by method, each once with its contests before it."""
    said: list[str] = []
    for method in methods:
        where: dict[str, list[str]] = {}
        for name, contest in study.contests.items():
            for text in _told(contest.voters[method]) if method in contest.voters else ():
                if text not in contest.tables.notes:
                    where.setdefault(f"{method}: {text}", []).append(name)
        said += said_once(where, len(study.contests))
    lost: dict[str, list[str]] = {}
    for name, contest in study.contests.items():
        for method, why in contest.left_out.items():
            lost.setdefault(f"{method} is left out: {why}", []).append(name)
    said += said_once(lost, len(study.contests))
    said += [f"{heading}: {text}" for heading, found in districts.items() for text in _told(found)]
    return list(dict.fromkeys(said))


def _percent(value: float | None, low: float | None = None, high: float | None = None) -> tuple[str, str]:
    if value is None:
        return "–", ""
    return f"{100 * value:.1f}", "" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"


def _overview(study: PolarizationStudy, first: str) -> list[Block]:
    rows = {(r["contest"], r["group"]): r for r in study.summary.table.to_pylist()}
    level = "" if study.summary.level is None else f", with the {100 * study.summary.level:.10g} % interval beneath"
    chosen, apart, went = [], [], []
    for contest, held in study.contests.items():
        own = [rows[contest, g] for g in study.groups]
        support = [_percent(r["estimate"], r["conf_low"], r["conf_high"]) for r in own]
        cells = [
            (UNDETERMINED, f"{r['likeliest']} {x}")
            if r["likeliest"] and not r["candidate"]
            else (f"{r['candidate'] or '–'} {x}", low)
            for r, (x, low) in zip(own, support, strict=True)
        ]
        chosen.append((contest, *cells, held.winner or "tied"))
        minor = [r for r in own if r["group"] != study.reference]
        apart.append((contest, *(_percent(r["difference"], r["difference_low"], r["difference_high"]) for r in minor)))
        went.append((contest, *(_percent(r["turnout"], r["turnout_low"], r["turnout_high"]) for r in own)))
    minorities = [g for g in study.groups if g != study.reference]
    blocks: list[Block] = [*_support_figures(study, first)]
    blocks.append(_table("Candidate of choice of each group's voters", ("contest", *study.groups, "most votes"), chosen,
                         f"Percent of the group's voters{level}."))  # fmt: skip
    blocks.append(_table(f"Polarization: support of a group's voters for their candidate less that of {study.reference} voters",
                         ("contest", *minorities), apart, f"Percentage points{level}."))  # fmt: skip
    counted = ("contests", "determined", "lost", "choices_differ", "lost_where_choices_differ")
    rows_of = [
        (
            r["group"],
            *("–" if r[n] is None else r[n] for n in counted),
            _percent(r["estimate"]),
            _percent(r["mean_reference_support"]),
        )
        for r in study.tally.table.to_pylist()
    ]
    head = (
        "group",
        "contests",
        "determined",
        "not most votes",
        "choice differs",
        "not most where it differs",
        "mean support",
    )
    note = (
        "Determined: contests in which the candidate of choice is known with the probability stated. Not most votes: others received more "
        f"in these units. Choice differs: the candidate of choice is not that of {study.reference} voters. Support in percent."
    )
    blocks.append(_table("Over all contests", (*head, f"of {study.reference} voters"), rows_of, note))
    if any(r["turnout"] is not None for r in rows.values()):
        blocks.append(
            _table("Turnout of each group", ("contest", *study.groups), went, f"Percent of the group's people{level}.")
        )
    return blocks


def _support_figures(study: PolarizationStudy, first: str) -> list[Figure]:
    """Draw the support of every group's voters for the candidate whom the first group supported most, contest by contest."""
    rows = [r for r in study.summary.table.to_pylist() if r["group"] == first and r["likeliest"] is not None]
    made = []
    for start in range(0, len(rows), MOST_CONTESTS):
        part = rows[start : start + MOST_CONTESTS]
        tables = [study.contests[r["contest"]].voters[study.lead].select(outcome=r["likeliest"]) for r in part]
        ends = {"lower": 0.0, "upper": 1.0}  # of shares without bounds
        columns = {
            n: np.concatenate(
                [
                    np.asarray(t[n], dtype=float) if n in t.table.column_names else np.full(len(t), ends[n])
                    for t in tables
                ]
            )
            for n in ("estimate", "conf_low", "conf_high", *ends)
        }
        names = [f"{r['contest']}: {r['likeliest']}" for r in part]
        found = Estimates.build(
            {"contest": np.repeat(names, [len(t) for t in tables]), "method": np.concatenate([t["group"] for t in tables]), **columns},
            keys=("contest", "method"), kind="comparison", method=tables[0].method, level=tables[0].level, interval=tables[0].interval,
            provenance=study.provenance,
        )  # fmt: skip
        chart = methods_chart(found, max_cells=len(part))
        panel = chart.panels[0]
        assert isinstance(panel, Panel)
        marks = [m for m in panel.marks if m.form != "bar"]  # each group has bounds of its own
        panel = replace(panel, marks=marks, x=replace(panel.x, title="share of the group's voters", limits=(0.0, 1.0)))
        caption = f"Support of each group's voters for the candidate whom {first} voters supported most, by contest ({study.lead})"
        level = "" if found.level is None else f"; lines are {100 * found.level:.10g} % intervals"
        made.append(
            _figure(
                "; ".join([caption + level, *describe_cut(chart.tables["cells"])]) + ".",
                replace(chart, panels=[panel], inches=(7.2, 1.0 + 0.17 * len(found) + 0.2 * len(part))),
            )
        )
    return made


def _contest(study: PolarizationStudy, contest: ContestStudy, first: str) -> tuple[list[Block], str]:
    """Show one contest: the candidate of the first group by every method, the leading table, the methods side by side.

    Beside it what the marks of the figure mean.
    """
    row = next(r for r in study.summary.table.to_pylist() if r["contest"] == contest.name and r["group"] == first)
    candidate = row["likeliest"] or contest.ahead[0]
    side = relabeled(contest.comparison.select(outcome=candidate), {"method": NAMES}, strict=False)
    side = replace(side, table=side.table.drop_columns(["outcome"]), keys=("group", "method"))
    chart = methods_chart(side, max_cells=MOST_ROWS)
    votes = ", ".join(f"{name} {v:,.0f}" for name, v in contest.candidates.items())
    caption = f"{contest.name}: support for {candidate} by group and method."
    first_place = f"Most votes: {contest.winner}" if contest.winner else f"Tied: {', '.join(contest.ahead)}"
    n_methods = len(contest.voters)
    high = 0.7 + 0.085 * (n_methods + 1.2) * len(contest.tables.groups)
    blocks: list[Block] = [
        Text(f"Votes in these units: {votes}. {first_place}."),
        _figure(caption, replace(chart, inches=(7.2, high))),
    ]
    blocks += wide_tables(
        contest.voters[contest.lead], caption=f"{contest.name}: share of each group's voters ({contest.lead})"
    )
    blocks += wide_tables(
        side, "group", f"{contest.name}: support for {candidate} among each group's voters, by method"
    )
    return blocks, chart.caption.replace(" Hover for the numbers.", "")


def _data_table(study: PolarizationStudy) -> Wide:
    rows = [
        (n, f"{len(c.tables.units):,}", f"{c.tables.X.sum():,.0f}", f"{sum(c.candidates.values()):,.0f}")
        for n, c in study.contests.items()
    ]
    return _table("Counts used", ("contest", "units", "people", "votes"), rows)


def _agreement(study: PolarizationStudy) -> str:
    rows = [r for r in study.summary.table.to_pylist() if r["candidate"] is not None]
    agree = sum(r["methods_agreeing"] == r["methods"] for r in rows)
    return f"All methods that answer name the same candidate of choice in {agree:,} of {len(rows):,} cases (groups in contests)."


def _diagnostics_table(study: PolarizationStudy) -> Wide:
    """Put the numbers that the leading method's search tells of itself side by side."""
    told = {n: c.answers[study.lead].diagnostics for n, c in study.contests.items()}
    numbers = {
        k: None for d in told.values() for k, v in d.items() if isinstance(v, int | float) and not isinstance(v, bool)
    }
    names = [k for k in numbers if k not in ("seconds", "units", "contextual_slope", "contextual_slope_sd", "tau")][:6]
    rows = [(n, *(plain(d.get(k)) for k in names)) for n, d in told.items()]
    return _table(f"Diagnostics of {study.lead}", ("contest", *(k.replace("_", " ") for k in names)), rows)
