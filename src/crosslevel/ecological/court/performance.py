"""How a proposed district would have performed for a group: its votes counted again, and whom the group chose drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks
from crosslevel.ecological.court.choice import UNDETERMINED, describe_probability
from crosslevel.ecological.court.reporting import (
    interval_columns,
    lead_over_others,
    mean_of_draws,
    probability_of_first,
)
from crosslevel.ecological.court.study import OTHER_CANDIDATES, STAYED, ContestStudy, PolarizationStudy
from crosslevel.ecological.tables.answer_cells import cells_of
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import BoolArray, FloatArray, IntArray

ONE = "the district"


def performance(
    study: PolarizationStudy, districts: Mapping[Any, Sequence[object]] | Sequence[object], group: str, level: float
) -> Estimates:
    """Count the votes of every contest again in proposed districts, as :meth:`PolarizationStudy.performance` documents."""
    level = checks.check_level(level)
    if group not in study.groups:
        raise unknown_name("group", group, list(study.groups), "group")
    named = dict(districts) if isinstance(districts, Mapping) else {ONE: districts}
    if not named:
        raise InputError("districts is empty; name the units of at least one district.")
    rows: list[dict[str, Any]] = []
    missing: dict[Any, dict[object, None]] = {}
    for district, units in named.items():
        for contest in study.contests.values():
            here, lost = _inside(contest, district, units)
            if lost:
                missing.setdefault(district, {}).update(dict.fromkeys(lost))
            rows.append({"district": str(district), **_row(contest, here, group, level)})
    lead = next(iter(study.contests.values())).voters[study.lead]
    drawn = lead.draws is not None
    kinds = {"candidate": pa.string(), "winner": pa.string(), "won": pa.bool_()}
    return Estimates.build(
        {name: pa.array([row[name] for row in rows], kinds.get(name)) for name in rows[0]},
        keys=("district", "contest"),
        method=lead.method,
        level=level if drawn else None,
        interval=f"quantiles of {len(lead.draws):,} draws of the group's choice" if lead.draws is not None else "none",
        provenance=Provenance.of(
            call=f"{study.provenance.call}.performance(districts, group={group!r}, level={level!r})",
            seed=study.provenance.seed,
            data=study.provenance.data,
        ),
        diagnostics={"findings": _describe(rows, group, 0 if lead.draws is None else len(lead.draws))},
        warnings=[
            f"{district}: {listed(list(lost))} had no people or was left out of the study, and is not counted."
            for district, lost in missing.items()
        ],
        frame=study.summary.frame,
        kind="performance",
        title=f"Vote share in proposed districts of the candidate of choice of {group} voters",
    )


def _inside(contest: ContestStudy, district: object, units: Sequence[object]) -> tuple[BoolArray, list[object]]:
    """Tell which units belong to a district, and which of its units were left out of the tables; refuse those never in the data."""
    if isinstance(units, str) or not isinstance(units, Sequence | np.ndarray) or len(units) == 0:
        raise InputError(f"districts[{district!r}]={units!r} is not a list of units; name its precincts.")
    if any(isinstance(u, bool | np.bool_) for u in units):  # which would be taken for units 0 and 1
        raise InputError(
            f"districts[{district!r}] holds True or False, not names of units; pass the names where it is True."
        )
    tables, wanted = contest.tables, set(units)
    here = np.array([u in wanted for u in tables.units], dtype=np.bool_)
    known, out = set(tables.units), set(tables.left_out)
    lost = [u for u in dict.fromkeys(units) if u not in known]
    for unit in lost:
        if unit not in out:
            named = [*tables.units, *tables.left_out]
            raise unknown_name(f"districts[{district!r}]", unit, named, "unit")
    if not here.any():
        raise InputError(
            f"districts[{district!r}]={listed(lost)} has nobody to count in {contest.name!r}: all of it had no people or was left out."
        )
    return here, lost


@dataclass(frozen=True)
class _Choice:
    """Whom the group chose: outcomes as columns of the tables, the draws' choices, and the most probable one."""

    outcomes: IntArray
    first: FloatArray | None
    likely: int


def _choice(contest: ContestStudy, group: str) -> _Choice | None:
    """Read whom the group chose, of the candidates with a name; None where the method has no answer for it."""
    found = contest.voters[contest.lead]
    cells = cells_of(found)
    kept = [o for o in contest.candidates if o != OTHER_CANDIDATES or len(contest.candidates) < 3]
    numbers = np.array([cells.outcomes.index(o) for o in kept], dtype=np.intp)
    g = cells.groups.index(group)
    share = cells.grid(found["estimate"])[0, g, numbers]
    if np.isnan(share).all():
        return None
    columns = np.array([contest.tables.outcomes.index(o) for o in kept], dtype=np.intp)
    if found.draws is None:
        return _Choice(columns, None, int(np.nanargmax(share)))
    first = probability_of_first(cells.grid(found.draws)[:, 0, g][:, numbers])
    return _Choice(columns, first, int(np.nanargmax(mean_of_draws(first))))


def _row(contest: ContestStudy, here: BoolArray, group: str, level: float) -> dict[str, Any]:
    """Count one contest again in one district."""
    tables = contest.tables
    votes = np.array([tables.T[here, tables.outcomes.index(o)].sum() for o in contest.candidates])
    chosen, r = _choice(contest, group), tables.groups.index(group)
    names = (
        "candidate",
        "estimate",
        "std_error",
        "conf_low",
        "conf_high",
        "probability_wins",
        "share",
        "lead",
        "winner",
        "won",
    )
    empty: dict[str, Any] = dict.fromkeys(names)
    row = {
        "contest": contest.name,
        **empty,
        "units": int(here.sum()),
        "people": float(tables.N[here].sum()),
        "votes": float(votes.sum()),
    }
    row |= {"group_people": float(tables.X[here, r].sum() / tables.N[here].sum())} | dict.fromkeys(
        ("group_voters", "support", "others_support")
    )
    if chosen is None or votes.sum() <= 0:
        return row
    counted = tables.T[here].sum(axis=0)[chosen.outcomes]
    share, lead = counted / votes.sum(), lead_over_others(counted / votes.sum())
    wins = (counted == counted.max()) / np.sum(counted == counted.max())
    k = chosen.likely
    determined = chosen.first is None or mean_of_draws(chosen.first)[k] >= level
    if determined:
        row |= {
            "candidate": tables.outcomes[chosen.outcomes[k]],
            "share": float(share[k]),
            "lead": float(lead[k]),
            "won": None if 0 < wins[k] < 1 else bool(wins[k] > 0),
        }
    first = tables.outcomes[chosen.outcomes[int(np.argmax(counted))]]
    row |= {"winner": first if wins.max() == 1 else None, "estimate": float(share[k])}
    if chosen.first is not None:
        drawn = np.nansum(chosen.first * share, axis=1)
        row["estimate"] = float(drawn.mean())
        row |= {n: float(v) for n, v in interval_columns(drawn, np.asarray(row["estimate"]), level).items()}
        row["probability_wins"] = float(np.nansum(chosen.first * wins, axis=1).mean())
    cells = contest.cells
    if cells is not None:
        inside = cells[here].sum(axis=0)
        voting = np.array([o != STAYED for o in tables.outcomes])
        own, all_ = inside[r, voting].sum(), inside[:, voting].sum()
        c = chosen.outcomes[k]
        row["group_voters"] = float(own / all_) if all_ > 0 else None
        if determined:
            row["support"] = float(inside[r, c] / own) if own > 0 else None
            row["others_support"] = float((inside[:, c].sum() - inside[r, c]) / (all_ - own)) if all_ > own else None
    return row


def _describe(rows: Sequence[Mapping[str, Any]], group: str, n_draws: int) -> list[str]:
    """Say for each district in how many contests the group's candidate received the most votes, and in each with what probability."""
    said, who = [], f"the candidate of choice of {group} voters"
    for district in dict.fromkeys(row["district"] for row in rows):
        own = [row for row in rows if row["district"] == district and row["estimate"] is not None]
        known = [row for row in own if row["candidate"] is not None]
        if not own:
            said.append(f"{district}: no method says whom {group} voters chose.")
            continue
        missing = "" if len(known) == len(own) else f" and {UNDETERMINED} in {len(own) - len(known)}"
        said.append(
            f"{district}: {who} received the most votes in {sum(row['won'] is True for row in known)} of {len(own)} contest(s){missing}; "
            f"{100 * own[0]['group_people']:.0f} % of its people are {group}."
        )
        for row in own if n_draws else ():
            share = (
                f"{row['candidate']} has {100 * row['share']:.1f} % of the votes"
                if row in known
                else f"{who} {UNDETERMINED}"
            )
            subject = who if row in known else "it"
            sure = describe_probability(row["probability_wins"], n_draws)
            said.append(
                f"{district}, {row['contest']}: {share}; {subject} received the most votes with probability {sure}."
            )
    return said
