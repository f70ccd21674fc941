"""Tables whose inner cells are known, for ``ecological_truth.py``: counts by unit and the true table of the district."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pv
import pyarrow.parquet as pq

from crosslevel import Counts

FloatArray = npt.NDArray[np.float64]

SMALL = 0.03  # options under this share of the district are merged
NZ_YEARS = (2002, 2005, 2008, 2011, 2014)
OTHER = "other"


DISTRICT = "district"
"""Column of data that is no covariate."""


@dataclass(frozen=True)
class Known:
    """Units with margins X (n, R) and T (n, C), and the true table (R, C) of their district, in counts."""

    name: str
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    X: FloatArray
    T: FloatArray
    truth: FloatArray

    @property
    def counts(self) -> Counts:
        """The margins as the library takes them."""
        return self.beside({})

    def beside(self, covariates: Mapping[str, object]) -> Counts:
        """Give the margins with covariates."""
        return counts_of(
            {g: self.X[:, r] for r, g in enumerate(self.groups)},
            {o: self.T[:, c] for c, o in enumerate(self.outcomes)},
            covariates,
        )


def counts_of(
    groups: Mapping[str, FloatArray], outcomes: Mapping[str, FloatArray], beside: Mapping[str, object]
) -> Counts:
    """Describe two margins, whose options may have the same names."""
    data = {
        **{f"group {g}": v for g, v in groups.items()},
        **{f"outcome {o}": v for o, v in outcomes.items()},
        **beside,
    }
    sides = {"groups": {g: f"group {g}" for g in groups}, "outcomes": {o: f"outcome {o}" for o in outcomes}}
    covariates = [name for name in beside if name != DISTRICT]
    return Counts(data, **sides, covariates=covariates)


def senc(folder: Path) -> Known:
    """212 precincts of south-east North Carolina, race by party registration."""
    data = pv.read_csv(folder / "senc_se_north_carolina.csv")
    races, parties = ("white", "black", "natam"), ("dem", "rep", "non")
    X, T = (np.column_stack([data[c].to_numpy() for c in names]).astype(float) for names in (races, parties))
    truth = np.array([[data[r + p].to_numpy().sum() for p in parties] for r in ("wh", "bl", "natam")], dtype=float)
    return Known("senc", races, parties, X, T, truth)


def two_by_two(path: Path, columns: tuple[str, str, str | None, str, str], name: str) -> Known:
    """Counties with shares: of the first group, of the first outcome, people, and the two true rates."""
    data = pv.read_csv(path)
    share, outcome, people, first, second = (
        np.full(data.num_rows, 10_000.0) if c is None else data[c].to_numpy().astype(float) for c in columns
    )
    black, yes = np.round(people * share), np.round(people * outcome)
    X, T = np.column_stack([black, people - black]), np.column_stack([yes, people - yes])
    rates = np.array([np.sum(black * first), np.sum((people - black) * second)])
    truth = np.column_stack([rates, X.sum(axis=0) - rates])
    return Known(name, ("first", "second"), ("yes", "no"), X, T, truth)


def north_carolina(folder: Path, five: bool) -> Known:
    """100 counties of North Carolina in 2025, race by party (DEM, REP, UNA)."""
    data = pv.read_csv(folder / "nc_2025_registration_race_x_party_by_county.csv")
    merged = {"white": "W", "black": "B", "rest": "AIMOPU"}
    if five:
        merged = {"white": "W", "black": "B", "native": "I", "asian, other": "AMOP", "undesignated": "U"}
    parties = ("DEM", "REP", "UNA")
    cells = np.array(
        [[sum(data[f"{race}_{p}"].to_numpy() for race in codes) for p in parties] for codes in merged.values()]
    ).astype(float)
    X, T = cells.sum(axis=1).T, cells.sum(axis=0).T
    return Known(f"NC {len(merged)}x3", tuple(merged), parties, X, T, cells.sum(axis=2))


def small_tables(folder: Path) -> list[Known]:
    """All but the elections."""
    return [
        senc(folder),
        two_by_two(folder / "eco_reg.csv", ("X", "Y", "N", "W1", "W2"), "eco_reg"),
        two_by_two(folder / "ei_matproii.csv", ("x", "t", "n", "tb", "tw"), "ei_matproii"),
        two_by_two(folder / "eco_forgnlit30c.csv", ("X", "Y", None, "W1", "W2"), "eco_forgnlit30c"),
        north_carolina(folder, five=False),
        north_carolina(folder, five=True),
    ]


def new_zealand(folder: Path, year: int, every: int = 1) -> list[Known]:
    """Party by candidate, one table per district; options are labeled by party, those under 3 % merged.

    Names differ between the margins and the counted tables, so options are matched by order of first appearance within
    district and side, and their totals compared; districts where these disagree are left out.
    """
    base = folder / "split_ticket"
    margins = pq.read_table(base / f"NZ_{year}_unit_margins.parquet").to_pandas()
    counted = pv.read_csv(base / f"NZ_{year}_true_cross_votes.csv").to_pandas()
    true_tables = dict(tuple(counted.groupby("district", sort=False)))
    found = []
    for district, rows in margins.groupby("district", sort=False, observed=True):
        table = true_tables[district]
        sides = []
        for margin, column in (("party", "from_option"), ("candidate", "to_option")):
            side = rows[rows["margin"] == margin]
            names = list(dict.fromkeys(side["option"]))
            wide = side.pivot_table(
                index="unit_no", columns="option", values="votes", aggfunc="sum", observed=True, sort=False
            )
            sides.append((wide[names].fillna(0.0), list(dict.fromkeys(table[column]))))
        known = _district(f"{year} {district}", sides, table)
        if known is not None:
            found.append(known)
    return found[::every]


def _district(name: str, sides: list, table) -> Known | None:
    cross = table.pivot_table(index="from_option", columns="to_option", values="value", aggfunc="sum", sort=False)
    (parties, from_options), (candidates, to_options) = sides
    if parties.shape[1] != len(from_options) or candidates.shape[1] != len(to_options):
        return None
    cross = cross.loc[from_options, to_options].fillna(0.0).to_numpy()
    units = parties.index.intersection(candidates.index)
    X, T = parties.loc[units].to_numpy(dtype=float), candidates.loc[units].to_numpy(dtype=float)
    if not (_close(X.sum(axis=0), cross.sum(axis=1)) and _close(T.sum(axis=0), cross.sum(axis=0))):
        return None
    keep = (X.sum(axis=1) > 0) & (T.sum(axis=1) > 0)
    X, T = X[keep], T[keep]
    groups, row = _merge([_label(o) for o in from_options], X.sum(axis=0))
    outcomes, col = _merge([_label(o) for o in to_options], T.sum(axis=0))
    X, T, cross = X @ row, T @ col, row.T @ cross @ col
    T *= (X.sum(axis=1) / T.sum(axis=1))[:, None]
    return Known(name, groups, outcomes, X, T, cross)


def _close(margin: FloatArray, counted: FloatArray) -> bool:
    return bool(np.abs(margin - counted).sum() <= 0.02 * counted.sum())


def _label(option: str) -> str:
    """Give the party in brackets after a candidate's name, or the option itself."""
    return option[option.rindex("(") + 1 : -1] if option.endswith(")") and "(" in option else option


def _merge(labels: list[str], votes: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
    """Merge small options (and equal labels): the names, and the 0/1 matrix from old to new."""
    share = votes / votes.sum()
    new = [OTHER if s < SMALL or lab.startswith("Informal") else lab for lab, s in zip(labels, share, strict=True)]
    names = tuple(n for n in dict.fromkeys(new) if n != OTHER) + ((OTHER,) if OTHER in new else ())
    matrix = np.zeros((len(labels), len(names)))
    for j, n in enumerate(new):
        matrix[j, names.index(n)] = 1.0
    return names, matrix
