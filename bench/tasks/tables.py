"""Tables by unit whose inner cells were counted: split tickets, people of a survey by area, turnout by race, registration.

Margins and cells are counts of the same people, complete: nothing is sampled on the way from the cells to the margins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from bench.cases import Case

FloatArray = npt.NDArray[np.float64]

YEARS = (2002, 2005, 2008, 2011, 2014)
SMALL = 0.03
"""Options under this share of a district are merged."""
GEORGIA = "truth/georgia_turnout_race_2012_2014.csv.gz"
PARTY, VOTED = (
    "truth/nc_2025_registration_race_x_party_by_county.csv",
    "truth/nc_2025_registration_turnout_county_party_race_eth_sex_age.parquet",
)
SINGLE = (
    "truth/senc_se_north_carolina.csv",
    "truth/eco_reg.csv",
    "truth/ei_matproii.csv",
    "truth/eco_forgnlit30c.csv",
    PARTY,
    VOTED,
)
SPLIT = tuple(f"truth/split_ticket/NZ_{year}_unit_margins.parquet" for year in YEARS)
STATES = ("13", "17", "37", "39")
"""In which demographic tables are scored; constants may be learned in others."""
PEOPLE = tuple(f"us2024/persons/p_{state}.parquet" for state in STATES)
LEAST_PRECINCTS = 12
PAIRINGS = (
    *(("race", o) for o in ("degree", "tenure", "poverty", "marriage", "work")),
    *(("education", o) for o in ("tenure", "poverty", "work", "insurance", "marriage")),
    *(("age", o) for o in ("tenure", "work", "disability")),
    *(("birthplace", o) for o in ("language", "poverty")),
    *(("race", o) for o in ("insurance", "language", "income")),
    *(("education", o) for o in ("disability", "income")),
    *(("age", o) for o in ("education", "income", "insurance")),
    *(("marriage in three", o) for o in ("tenure", "poverty")),
    *(("sex", o) for o in ("work", "income")),
    ("birthplace", "degree"),
    *((g, o) for g in ("race", "education", "age") for o in ("poverty in three", "work in three", "marriage in three")),
)
CUTS = {
    "race": ("eth5", (1.5, 2.5, 3.5)),  # non-Hispanic white, black, Hispanic, other
    "education": ("educ6", (2.5, 4.5, 5.5)),
    "age": ("age", (30, 45, 65)),
    "birthplace": ("nativity", (1.5,)),
    "sex": ("female", (0.5,)),
    "marriage": ("marital", (1.5,)),
    "marriage in three": ("marital", (1.5, 4.5)),
    "degree": ("educ6", (4.5,)),
    "tenure": ("tenure", (2.5,)),
    "poverty": ("poverty_pct", (150,)),
    "poverty in three": ("poverty_pct", (150, 400)),
    "work": ("employment", (2.5,)),
    "work in three": ("employment", (2.5, 5.5)),
    "insurance": ("health_ins", (1.5,)),
    "language": ("lang_not_english", (1.5,)),
    "disability": ("disability", (1.5,)),
    "income": ("income", (20_000, 60_000)),
}
"""A column and the edges its values are cut at."""


def table(unit: str, X: FloatArray, T: FloatArray, cells: FloatArray, kind: str) -> Case:
    """Ask the shares of every group, group after group; ``cells`` are those of the district, groups x outcomes."""
    people = cells.sum(axis=1, keepdims=True)
    cost = np.broadcast_to(50 * people / people.sum(), cells.shape).ravel()
    return Case(unit, {"groups": X, "outcomes": T, "kind": np.array(kind)}, (cells / people).ravel(), cost)


def of_cells(unit: str, cells: FloatArray, kind: str) -> Case:
    """Ask a table whose cells are known in every unit, units x groups x outcomes."""
    cells = cells[cells.sum(axis=(1, 2)) > 0]
    return table(unit, cells.sum(axis=2), cells.sum(axis=1), cells.sum(axis=0), kind)


def demographic(data: Path, whole: bool) -> Iterator[Case]:
    """Cross groups with outcomes of the adult citizens of a state, unweighted, by survey area."""
    for file in PEOPLE if whole else PEOPLE[:1]:
        people = pd.read_parquet(data / file)
        people = people[people["adult_citizen"] == 1]
        _, unit = np.unique(people["puma"].astype(str), return_inverse=True)
        shares = {name: _shares(people, unit, name) for name in dict.fromkeys(column for column, _ in CUTS.values())}
        for pairing in PAIRINGS if whole else PAIRINGS[::3]:
            (g, R), (o, C) = (_cut(people, *CUTS[name]) for name in pairing)
            known = (g >= 0) & (o >= 0)
            cells = np.zeros((unit.max() + 1, R, C))
            np.add.at(cells, (unit[known], g[known], o[known]), 1.0)
            case = of_cells(" x ".join(pairing), cells, "demographic")
            own = {CUTS[name][0] for name in pairing}
            others = np.column_stack([v for name, v in shares.items() if name not in own])
            given = case.given | {"covariates": others[cells.sum(axis=(1, 2)) > 0]}
            yield replace(case, given=given)


def _shares(people: pd.DataFrame, unit: npt.NDArray[np.int64], column: str) -> FloatArray:
    """Give the composition of units by one column, but for its first level."""
    code, levels = _cut(people, *next(cut for cut in CUTS.values() if cut[0] == column))
    counts = np.zeros((unit.max() + 1, levels))
    np.add.at(counts, (unit[code >= 0], code[code >= 0]), 1.0)
    return (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[:, 1:]


def _cut(people: pd.DataFrame, column: str, edges: Sequence[float]) -> tuple[npt.NDArray[np.int64], int]:
    values = people[column].to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right")), len(edges) + 1


def turnout(data: Path, whole: bool) -> Iterator[Case]:
    """Race by having voted, precincts of a county of Georgia, in 2012 and in 2014; every third county is left for learning."""
    rows = pd.read_csv(data / GEORGIA).fillna({"precinct": "", "name": ""})
    rows["race"] = rows["race"].where(rows["race"].isin(["white", "black"]), "rest")
    names = sorted(rows["county"].unique())
    scored = [name for k, name in enumerate(names) if k % 3]
    for county in scored if whole else scored[::4]:
        for year, own in rows[rows["county"] == county].groupby("year"):
            wide = own.pivot_table(
                index=["precinct", "name"], columns="race", values=["registered", "voted"], aggfunc="sum", fill_value=0
            )
            there, voted = (wide[c][["white", "black", "rest"]].to_numpy(float) for c in ("registered", "voted"))
            there = np.maximum(there, voted)
            cells = np.stack([voted, there - voted], axis=2)
            if (cells.sum(axis=(1, 2)) > 0).sum() >= LEAST_PRECINCTS and cells.sum(axis=(0, 2)).min() > 0:
                yield of_cells(county if whole else f"{county} {year}", cells, "participation")


def single(data: Path, whole: bool) -> Iterator[Case]:
    """Ask the tables that articles and packages show, and the register of North Carolina."""
    senc = pd.read_csv(data / SINGLE[0])
    parties = ("dem", "rep", "non")
    cells = np.stack([[senc[race + p] for p in parties] for race in ("wh", "bl", "natam")], axis=0).transpose(2, 0, 1)
    yield of_cells("senc, race x party", cells.astype(float), "demographic")
    for file, (share, outcome, people, first, second), name in zip(
        SINGLE[1:4],
        (("X", "Y", "N", "W1", "W2"), ("x", "t", "n", "tb", "tw"), ("X", "Y", "", "W1", "W2")),
        ("reg, race x registration", "matproii, race x registration", "forgnlit30, birthplace x literacy"),
        strict=True,
    ):
        rows = pd.read_csv(data / file)
        n = rows[people].to_numpy(float) if people else np.full(len(rows), 10_000.0)
        own = np.round(n * rows[share])
        X, T = np.column_stack([own, n - own]), np.round(n * rows[outcome]).to_numpy()
        yes = np.array([np.sum(own * rows[first]), np.sum((n - own) * rows[second])])
        inner = np.column_stack([yes, X.sum(axis=0) - yes])
        yield table(name, X, np.column_stack([T, n - T]), inner, "demographic")
    register = pd.read_csv(data / PARTY)
    for codes in (("W", "B", "AIMOPU"), ("W", "B", "I", "AMOP", "U")):
        cells = np.array(
            [[sum(register[f"{race}_{p}"] for race in group) for p in ("DEM", "REP", "UNA")] for group in codes]
        )
        yield of_cells(
            f"North Carolina 2025, {len(codes)} races x party", cells.transpose(2, 0, 1).astype(float), "demographic"
        )
    rows = pd.read_parquet(data / VOTED)
    for column in ("race_code", "sex_code", "age"):
        yield of_cells(f"North Carolina 2025, {column.split('_')[0]} x voted", _voted(rows, column), "participation")


def _voted(rows: pd.DataFrame, column: str) -> FloatArray:
    """Count those who voted and who did not by county and group; groups under 3 % are one."""
    name = next(c for c in rows.columns if c.startswith(column))
    share = rows.groupby(name, observed=True)["registered_count"].sum() / rows["registered_count"].sum()
    group = rows[name].astype(str).where(rows[name].map(share).astype(float) >= SMALL, "other")
    wide = rows.assign(group=group).pivot_table(
        index="county_desc",
        columns="group",
        values=["registered_count", "voted_count"],
        aggfunc="sum",
        fill_value=0,
        observed=True,
    )
    there, voted = wide["registered_count"].to_numpy(float), wide["voted_count"].to_numpy(float)
    return np.stack([voted, np.maximum(there - voted, 0)], axis=2)


def _districts(data: Path, year: int) -> Iterator[tuple[Case, list[str], list[str]]]:
    """Read the electorates of an election, with the names of parties and of candidates' parties.

    Names differ between margins and counted tables: options are matched by order of first appearance in a district, and totals compared.
    """
    margins = pd.read_parquet(data / f"truth/split_ticket/NZ_{year}_unit_margins.parquet")
    counted = pd.read_csv(data / f"truth/split_ticket/NZ_{year}_true_cross_votes.csv")
    true_tables = dict(tuple(counted.groupby("district", sort=False)))
    for district, rows in margins.groupby("district", sort=False, observed=True):
        found = _district(f"{district} {year}", rows, true_tables[district])
        if found is not None:
            yield found


def split_tickets(data: Path, whole: bool) -> Iterator[Case]:
    """Cross party with candidate in an electorate of New Zealand."""
    for year in YEARS:
        yield from [case for case, _, _ in _districts(data, year)][:: 1 if whole else 14]


def pooled(data: Path, whole: bool) -> Iterator[Case]:
    """Cross party with candidate in the electorates of an election, given together: options of one name may share their rates."""
    for year in YEARS:
        found = list(_districts(data, year))[:: 1 if whole else 7]
        given: dict[str, list[np.ndarray]] = {"groups": [], "outcomes": [], "district": []}
        names = [list(dict.fromkeys(o for item in found for o in item[side])) for side in (1, 2)]
        for number, (case, *own) in enumerate(found):
            for key, options, all_names in zip(("groups", "outcomes"), own, names, strict=True):
                block = np.zeros((len(case.given[key]), len(all_names)))
                block[:, [all_names.index(o) for o in options]] = case.given[key]
                given[key].append(block)
            given["district"].append(np.full(len(case.given["groups"]), number))
        arrays = {key: np.concatenate(blocks) for key, blocks in given.items()}
        arrays |= {"group_names": np.array(names[0]), "outcome_names": np.array(names[1])}
        arrays["asked"] = np.array(
            [
                [d, names[0].index(g), names[1].index(o)]
                for d, (_, groups, outcomes) in enumerate(found)
                for g in groups
                for o in outcomes
            ]
        )
        cost = np.concatenate([case.cost for case, _, _ in found]) / len(found)
        yield Case(str(year), arrays, np.concatenate([case.truth for case, _, _ in found]), cost)


def _district(name: str, rows: pd.DataFrame, counted: pd.DataFrame) -> tuple[Case, list[str], list[str]] | None:
    sides = []
    for margin, column in (("party", "from_option"), ("candidate", "to_option")):
        side = rows[rows["margin"] == margin]
        wide = side.pivot_table(
            index="unit_no", columns="option", values="votes", aggfunc="sum", observed=True, sort=False
        )
        wide = wide[list(dict.fromkeys(side["option"]))].fillna(0.0)
        sides.append((wide, list(dict.fromkeys(counted[column]))))
    (parties, from_options), (candidates, to_options) = sides
    if parties.shape[1] != len(from_options) or candidates.shape[1] != len(to_options):
        return None
    cross = counted.pivot_table(index="from_option", columns="to_option", values="value", aggfunc="sum", sort=False)
    cross = cross.loc[from_options, to_options].fillna(0.0).to_numpy()
    units = parties.index.intersection(candidates.index)
    X, T = parties.loc[units].to_numpy(dtype=float), candidates.loc[units].to_numpy(dtype=float)
    if any(
        np.abs(a - b).sum() > 0.02 * b.sum()
        for a, b in ((X.sum(axis=0), cross.sum(axis=1)), (T.sum(axis=0), cross.sum(axis=0)))
    ):
        return None
    keep = (X.sum(axis=1) > 0) & (T.sum(axis=1) > 0)
    X, T = X[keep], T[keep]
    (groups, row), (outcomes, col) = (
        _merging(names, votes.sum(axis=0)) for names, votes in ((from_options, X), (to_options, T))
    )
    X, T, cross = X @ row, T @ col, row.T @ cross @ col
    T *= (X.sum(axis=1) / T.sum(axis=1))[:, None]
    return table(name, X, T, cross, "votes"), groups, outcomes


def _merging(options: Sequence[str], votes: FloatArray) -> tuple[list[str], FloatArray]:
    """Give the names after small options are merged, and the 0/1 matrix that merges; candidates are called by the party in brackets."""
    names = [o[o.rindex("(") + 1 : -1] if o.endswith(")") and "(" in o else o for o in options]
    small = votes / votes.sum() < SMALL
    new = ["other" if s or name.startswith("Informal") else name for name, s in zip(names, small, strict=True)]
    kept = [name for name in dict.fromkeys(new) if name != "other"] + ["other"] * ("other" in new)
    return kept, np.array([[float(name == k) for k in kept] for name in new])
