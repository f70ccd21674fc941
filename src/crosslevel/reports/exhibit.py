"""The exhibit: findings as numbered sentences, a figure and tables for each question, data, methods, checks, references, appendix."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosslevel.charts.chart import Chart, Panel
from crosslevel.charts.intervals import describe_cut, methods_chart, rows_chart
from crosslevel.charts.words import count, plain
from crosslevel.ecological.court.choice import UNDETERMINED, candidate_of_choice
from crosslevel.ecological.court.reporting import said_once
from crosslevel.ecological.court.study import (
    ContestStudy,
    PolarizationStudy,
    describe_summary,
    describe_tally,
)
from crosslevel.errors import InputError
from crosslevel.reports.document import Block, Document, Facts, Figure, Heading, Items, Matter, Question, Text
from crosslevel.reports.methods import (
    ASSUMPTIONS,
    CHECK_HEAD,
    NAMES,
    check_row,
    describe_checks,
    describe_method,
    describe_software,
    references_of,
)
from crosslevel.reports.sentences import sentences_of
from crosslevel.results import Estimates
from crosslevel.results.table import midpoints
from crosslevel.results.wide import MOST_ACROSS, Wide, relabeled, wide_tables

REPAIRS = (" left out", "were scaled", "were merged", "were raised", "takes the difference", "taken for zero")
"""What sentences on repairs of the data say."""
ON_TOP = 12
"""Findings that stand on top; with more, those of a contest stand in its section, and the numbers go on."""
MOST_ROWS = 40
"""Rows of a figure on one page."""
TALLEST = 7.6
"""Inches of a figure on a page, below its heading."""
LONGEST_FACT = 300
"""Characters of a diagnostic in the appendix; longer ones are tables for a program."""
MOST_CONTESTS = 20
"""Contests of one figure."""


def exhibit_of(
    study: PolarizationStudy | None, tables: Mapping[str, Sequence[Estimates]], title: str | None
) -> Document:
    """Make the document of a study of racially polarized voting, or of tables by question.

    Parameters
    ----------
    study : PolarizationStudy, optional
    tables : mapping of question to its tables
        The first is the answer. Beside a study they are further questions, such as the performance of districts.
    title : str, optional
    """
    matter = _of_tables(tables) if study is None else _of_study(study, tables)
    return _laid_out(matter if title is None else replace(matter, title=title))


def _laid_out(m: Matter) -> Document:
    on_top = list(m.findings)
    few = len(on_top) + sum(len(q.sentences) for q in m.questions) <= ON_TOP
    if few or not on_top:
        on_top += [s for q in m.questions for s in q.sentences]
    blocks: list[Block] = [Heading("Findings"), Items(on_top, 1)]
    blocks += [Text(m.why)] if m.why else []
    blocks += m.overview
    number = len(on_top) + 1
    for question in m.questions:
        blocks.append(Heading(question.heading, page=len(m.questions) > 1))
        if question.sentences and not (few or not m.findings):
            blocks.append(Items(question.sentences, number))
            number += len(question.sentences)
        blocks += question.blocks
    blocks += [
        Heading("Data", page=len(m.questions) > 1),
        Items(m.data or ["The data were taken as they are."]),
        *m.data_tables,
    ]
    blocks += [
        Heading("Methods"),
        *(Text(describe_method(name, found)) for name, found in m.answers),
        Text(describe_software()),
    ]
    blocks += [Heading("Assumptions and what was checked"), Text(ASSUMPTIONS)]
    if m.checks:
        blocks.append(_table("What was checked, by question", CHECK_HEAD, m.checks))
    blocks += [Items(list(m.checked))] if m.checked else []
    blocks += [Heading("What the reader should know", 3), Items(list(m.warnings))] if m.warnings else []
    blocks += [Heading("References"), Items(references_of(m.answers))]
    blocks += [
        Heading("Appendix", page=True),
        *m.appendix,
        Heading("Settings", 3),
        Facts(m.settings),
    ]
    return Document(m.title, blocks)


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


# ---- any tables -----------------------------------------------------------------------------------------------------


def _of_tables(tables: Mapping[str, Sequence[Estimates]]) -> Matter:
    questions, data, warnings, checks = [], [], [], []
    answers: dict[str, Estimates] = {}
    settings: list[tuple[str, str]] = []
    for heading, parts in tables.items():
        main = parts[0]
        questions.append(_question(heading, parts))
        repairs = [w for w in main.warnings if _on_data(w)]
        data += [f"{heading}: {w}" for w in repairs]
        warnings += [f"{heading}: {w}" for p in parts for w in _told(p) if w not in repairs]
        for part in parts:
            answers.setdefault(part.method, part)
        if main.kind in ("cells", "comparison"):
            checks.append(check_row(heading, main, main))
        settings += _settings(heading, main)
    every = [part for parts in tables.values() for part in parts]
    return Matter(
        title=next(iter(tables)),
        findings=(),
        overview=(),
        questions=questions,
        data=list(dict.fromkeys(data)),
        data_tables=(),
        answers=list(answers.items()),
        why="",
        checks=checks,
        checked=describe_checks(every),
        warnings=list(dict.fromkeys(warnings)),
        appendix=[b for heading, parts in tables.items() for b in _diagnostics(heading, parts[0])],
        settings=settings,
    )


def _told(found: Estimates) -> list[str]:
    """Give the warnings of a table, and say that its search did not converge."""
    failed = found.diagnostics.get("converged") is False and not any("converge" in w for w in found.warnings)
    return [*found.warnings, *(["the search did not converge."] if failed else [])]


def _question(heading: str, parts: Sequence[Estimates]) -> Question:
    """Show the tables of one question: a figure of the first, and all of them wide."""
    main = parts[0]
    if main.kind == "performance":
        return Question(heading, _findings(main, parts), _districts(heading, main))
    wide = [w for part in parts for w in wide_tables(part, caption=f"{heading}: {part.title or part.method}")]
    return Question(heading, _findings(main, parts), [_picture(heading, main), *wide])


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


def _on_data(sentence: str) -> bool:
    """Tell whether a warning says what was done to the data."""
    return any(word in sentence for word in REPAIRS)


def _findings(main: Estimates, parts: Sequence[Estimates]) -> list[str]:
    """Say what was found: the sentences that the tables carry, the candidates of choice, or what every page says."""
    found = [str(s) for part in parts for s in part.diagnostics.get("findings", ())]
    if not found and not midpoints(main).any() and main.kind == "cells" and "method" not in main.keys:
        try:
            found = [str(s) for s in candidate_of_choice(main).diagnostics["findings"]]
        except InputError:
            found = []  # a table of one outcome, or without counts
    return found or [s.removeprefix("Found: ") for s in sentences_of(main)[1:2]]


def _picture(heading: str, main: Estimates) -> Figure:
    rows = MOST_ROWS // 5 if "method" in main.keys else MOST_ROWS
    if "method" in main.keys:
        chart = methods_chart(main, max_cells=rows)
    else:
        short = main if len(main) <= rows else replace(main, table=main.table.slice(0, rows), draws=None)
        chart = rows_chart(short, largest_first=False)
    more = f" The first {rows} of {len(main):,} are drawn." if len(main) > rows and "method" not in main.keys else ""
    return _figure(f"{heading}. {_for_print(chart.caption)}{more}", chart)


def _for_print(caption: str) -> str:
    return caption.replace(" Hover for the numbers.", "")


def _diagnostics(heading: str, found: Estimates) -> list[Block]:
    rows = [(str(n), plain(v)) for n, v in found.diagnostics.items() if n not in ("findings", "seconds", "by_method")]
    short = [(n, v) for n, v in rows if len(v) <= LONGEST_FACT]
    return [Heading(f"Diagnostics: {heading}", 3), Facts(short)] if short else []


def _settings(heading: str, found: Estimates) -> list[tuple[str, str]]:
    told = found.provenance
    seed = [] if told.seed is None else [(f"{heading}: seed", str(told.seed))]
    return [(f"{heading}: call", told.call), *seed, *((f"{heading}: {n}", v) for n, v in told.data.items())]


# ---- a study of racially polarized voting ----------------------------------------------------------------------------


def _of_study(study: PolarizationStudy, tables: Mapping[str, Sequence[Estimates]]) -> Matter:
    first = next((g for g in study.groups if g != study.reference), study.reference)
    sentences = dict(zip(_sentence_rows(study), describe_summary(study.summary, study.reference), strict=True))
    per_contest = {c: [s for (name, _), s in sentences.items() if name == c] for c in study.contests}
    questions: list[Question] = []
    legend: dict[str, None] = {}
    for name, contest in study.contests.items():
        blocks, said = _contest(study, contest, first)
        questions.append(Question(name, per_contest[name], blocks))
        legend |= dict.fromkeys(re.split(r"(?<=\.) ", said))
    questions += [_question(heading, parts) for heading, parts in tables.items()]
    lead = next(iter(study.contests.values()))
    answers = {m: c.voters[m] for c in reversed(study.contests.values()) for m in c.voters}  # of the first contest
    answers |= {
        m: v for c in study.contests.values() for m, v in c.voters.items() if v.diagnostics.get("converged") is False
    }
    ordered = [study.lead, *(m for m in answers if m != study.lead)]
    lost: dict[str, list[str]] = {}
    for name, contest in study.contests.items():
        for method, why in contest.left_out.items():
            lost.setdefault(f"{method} is left out: {why}", []).append(name)
    left = said_once(lost, len(study.contests))
    beside = [f"{heading}: {w}" for heading, parts in tables.items() for p in parts for w in _told(p)]
    prints = [f"Fingerprint of the {name} read: {digest}." for name, digest in study.provenance.data.items()]
    return Matter(
        title=f"Racially polarized voting in {count(len(study.contests), 'contest')}",
        findings=describe_tally(study.tally, study.reference),
        overview=[
            Heading("All contests"),
            *_overview(study, first),
            Text(f"In the figures by contest: {' '.join(legend)}"),  # said once, so that a contest fits on a page
        ],
        questions=questions,
        data=[
            f"Groups: {', '.join(lead.tables.groups)}. Group of reference: {study.reference}.",
            *prints,
            *study.data_notes,
        ],
        data_tables=[_data_table(study)],
        answers=[(m, answers[m]) for m in ordered],
        why=study.lead_reason,
        checks=[check_row(n, c.answers[study.lead], c.voters[study.lead]) for n, c in study.contests.items()],
        checked=[_agreement(study)],
        warnings=list(dict.fromkeys([*_warnings(study, ordered), *left, *beside])),
        appendix=[*_appendix(study), _diagnostics_table(study)],
        settings=[
            (n, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for n, v in study.settings.items()
        ],
    )


def _sentence_rows(study: PolarizationStudy) -> list[tuple[str, str]]:
    rows = study.summary.table.to_pylist()
    return [(r["contest"], r["group"]) for r in rows if r["group"] != study.reference and r["likeliest"] is not None]


def _warnings(study: PolarizationStudy, methods: Sequence[str]) -> list[str]:
    """Say what the reader should know of the tables shown, method by method, each once with its contests before it."""
    said: list[str] = []
    for method in methods:
        where: dict[str, list[str]] = {}
        for name, contest in study.contests.items():
            for text in _told(contest.voters[method]) if method in contest.voters else ():
                if text not in contest.tables.notes:
                    where.setdefault(f"{method}: {text}", []).append(name)
        said += said_once(where, len(study.contests))
    return said


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
    return blocks, _for_print(chart.caption)


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


def _appendix(study: PolarizationStudy) -> list[Block]:
    """Give every method's shares, contest by contest."""
    made: list[Block] = []
    for name, contest in study.contests.items():
        side = relabeled(contest.comparison, {"method": NAMES}, strict=False)
        made += wide_tables(side, "outcome", f"{name}: share of each group's voters with each candidate, by method")
    return made


def _diagnostics_table(study: PolarizationStudy) -> Wide:
    """Put the numbers that the leading method's search tells of itself side by side."""
    told = {n: c.answers[study.lead].diagnostics for n, c in study.contests.items()}
    numbers = {
        k: None for d in told.values() for k, v in d.items() if isinstance(v, int | float) and not isinstance(v, bool)
    }
    names = [k for k in numbers if k not in ("seconds", "units", "contextual_slope", "contextual_slope_sd", "tau")][:6]
    rows = [(n, *(plain(d.get(k)) for k in names)) for n, d in told.items()]
    return _table(f"Diagnostics of {study.lead}", ("contest", *(k.replace("_", " ") for k in names)), rows)
