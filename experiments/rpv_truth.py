"""The methods of a study of polarized voting against counted cells, and what covariates do to rxc.

The first table has the methods that ``ecological.rpv`` runs, the published Multinomial-Dirichlet model, and rxc with covariates of the
units where a table has any: the county of a precinct (senc), the state of a county (nativity by illiteracy), shares of age, sex and
ethnicity in a county's register (North Carolina), the size of a county where nothing else is known. The second has tables of people by
PUMA (ACS 2024) with the shares of thirteen other columns as covariates.

The third has New Zealand, where the only covariate is the size of a polling place.

Run: ``CROSSLEVEL_DATA=... python experiments/rpv_truth.py [state ...]``; with states only the second table is printed, with years of
New Zealand's elections (``2002 2005``) only the third, of every 25th electorate, and with ``king`` also that model.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.csv as pv
import pyarrow.parquet as pq
from ecological_data import Known, counts_of, new_zealand, small_tables
from rxc_kinds import FIRST, codes

from crosslevel import ecological
from crosslevel.ecological.court.rpv import NAMED
from crosslevel.errors import ConvergenceError, InputError

METHODS = {name: NAMED[name] for name in ("homogeneous", "goodman", "king_iterated", "multinomial_dirichlet", "rxc")}
OTHERS = tuple(
    "race education age birthplace sex marriage tenure poverty work insurance language disability income".split()  # noqa: SIM905
)
SAME = {"degree": "education"}
"""Columns that are another coding of one of the others."""


def covariates(folder: Path, known: Known) -> dict[str, object]:
    """What else is known of the units of a table."""
    if known.name == "senc":
        return {"county": pv.read_csv(folder / "senc_se_north_carolina.csv")["county"].to_pylist()}
    if known.name == "eco_forgnlit30c":
        return {"state": [str(v) for v in pv.read_csv(folder / "eco_forgnlit30c.csv")["state"].to_pylist()]}
    if not known.name.startswith("NC"):
        return {"size": np.log(known.X.sum(axis=1))}
    file = "nc_2025_registration_turnout_county_party_race_eth_sex_age.parquet"
    register = pq.read_table(folder / file).to_pandas()
    made: dict[str, object] = {}
    for column in ("age_group", "sex_code", "ethnic_code"):
        wide = register.pivot_table(
            index="county_desc", columns=column, values="registered_count", aggfunc="sum", observed=True
        ).fillna(0)
        share = wide.div(wide.sum(axis=1), axis=0)
        made |= {f"{column} {name}": share[name].to_numpy() for name in share.columns[1:]}
    return made


def line(known: Known, name: str, function: str, options: dict[str, object], beside: dict[str, object]) -> None:
    """Answer by one method and print its score."""
    begun = time.process_time()
    try:
        found = getattr(ecological, function)(known.beside(beside), **options)
    except (InputError, ConvergenceError) as error:
        print(f"| {known.name} | {name} | – | – | – | – | refused: {str(error)[:60]} |")
        return
    spent = time.process_time() - begun
    truth = known.truth / known.truth.sum(axis=1, keepdims=True)
    share, low, high = (found[c].reshape(truth.shape) for c in ("estimate", "conf_low", "conf_high"))
    wrong = 50 * np.abs(share - truth) @ np.ones(truth.shape[1]) @ (known.truth.sum(axis=1) / known.truth.sum())
    error = "–" if np.isnan(wrong) else f"{wrong:.2f}"
    inside = (low <= truth) & (truth <= high)
    covered = "–" if np.isnan(low).all() else f"{int(inside.sum())} of {int(np.isfinite(low).sum())}"
    width = "–" if np.isnan(low).all() else f"{np.nanmean(high - low):.3f}"
    signs = ("bounds", "Composition varies", "No unit", "No answer", "refutes")
    warned = [w for w in found.warnings if any(k in w for k in signs)]
    print(
        f"| {known.name} | {name} | {error} | {covered} | {width} | {spent:.1f} | {'yes' if warned else 'no'} |",
        flush=True,
    )


def small(folder: Path) -> None:
    """Print every method on every table."""
    print(
        "| data | method | % in wrong cell | 95 % coverage | mean width | processor s | warned |\n" + "| --- " * 7 + "|"
    )
    for known in small_tables(folder):
        for method, options in METHODS.items():
            line(known, method, method, options, {})
        line(known, "rxc, with covariates", "rxc", {}, covariates(folder, known))


def people(folder: Path, states: list[str]) -> None:
    """Score rxc on tables of people by PUMA, with and without covariates."""
    rows = []
    for state in states:
        table = pq.read_table(folder / "us2024" / "persons" / f"p_{state}.parquet").to_pandas()
        table = table[table["adult_citizen"] == 1]
        unit = np.unique(table["puma"].astype(str), return_inverse=True)[1]
        coded, n = codes(table), int(unit.max()) + 1
        shares = {}
        for name in OTHERS:
            code, k = coded[name]
            counts = np.zeros((n, k))
            np.add.at(counts, (unit[code >= 0], code[code >= 0]), 1.0)
            shares[name] = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[:, 1:]
        for pairing in FIRST:
            (g, R), (o, C) = (coded[name] for name in pairing)
            there = (g >= 0) & (o >= 0)
            cells = np.zeros((n, R, C))
            np.add.at(cells, (unit[there], g[there], o[there]), 1.0)
            own = {SAME.get(name, name) for name in pairing}
            beside = np.column_stack([shares[name] for name in OTHERS if name not in own])
            truth = cells.sum(axis=0) / cells.sum(axis=(0, 2))[:, None]
            sides = ({str(j): v for j, v in enumerate(cells.sum(axis=axis).T)} for axis in (2, 1))
            groups, outcomes = sides
            for z in ({}, {f"covariate {j}": v for j, v in enumerate(beside.T)}):
                found = ecological.rxc(counts_of(groups, outcomes, z))
                share, low, high = (found[c].reshape(R, C) for c in ("estimate", "conf_low", "conf_high"))
                wrong = 50 * (np.abs(share - truth).sum(axis=1) * cells.sum(axis=(0, 2))).sum() / cells.sum()
                rows.append((bool(z), wrong, ((low <= truth) & (truth <= high)).mean(), (high - low).mean()))
    print("| rxc | tables | % in wrong cell | 95 % coverage | mean width |\n" + "| --- " * 5 + "|")
    for used in (False, True):
        own = np.array([row[1:] for row in rows if row[0] == used])
        error, covered, width = own.mean(axis=0)
        print(
            f"| {'with' if used else 'without'} covariates | {len(own)} | {error:.2f} | {covered:.3f} | {width:.3f} |"
        )


def elections(folder: Path, years: list[str], every: int = 25, king: bool = False) -> None:
    """Score the methods on electorates: % in a wrong cell, cells covered, mean width and processor seconds."""
    votes = {"kind": "votes"}
    # King's iterated model, thirty fits an electorate, only where asked for
    chosen = {m: o for m, o in METHODS.items() if m != "rxc" and (m != "king_iterated" or king)}
    methods = [*((m, m, o) for m, o in chosen.items()), ("rxc", "rxc", votes), ("rxc, with covariates", "rxc", votes)]
    rows: dict[str, list[tuple[float, ...]]] = {}
    for known in (k for year in years for k in new_zealand(folder, int(year), every)):
        truth = known.truth / known.truth.sum(axis=1, keepdims=True)
        for name, function, options in methods:
            more = {"size": np.log(known.X.sum(axis=1))} if "covariates" in name else {}
            begun = time.process_time()
            try:
                found = getattr(ecological, function)(known.beside(more), **options)
            except (InputError, ConvergenceError):
                continue
            spent = time.process_time() - begun
            share, low, high = (found[c].reshape(truth.shape) for c in ("estimate", "conf_low", "conf_high"))
            wrong = 50 * (np.abs(share - truth).sum(axis=1) * known.truth.sum(axis=1)).sum() / known.truth.sum()
            inside = ((low <= truth) & (truth <= high)).sum()
            rows.setdefault(name, []).append((wrong, inside, np.isfinite(low).sum(), np.nansum(high - low), spent))
    print(
        "| method | electorates with a whole table | % in wrong cell | 95 % coverage | mean width | processor s each |"
    )
    print("| --- " * 6 + "|")
    for name, _, _ in methods:
        own = np.array(rows.get(name, [(np.nan, 0, 0, 0, 0)]))
        whole, cells = np.isfinite(own[:, 0]), own[:, 2].sum()
        error = f"{own[whole, 0].mean():.2f}" if whole.any() else "–"
        rest = f"{int(own[:, 1].sum())} of {int(cells)} | {own[:, 3].sum() / cells:.3f}" if cells else "– | –"
        print(f"| {name} | {int(whole.sum())} | {error} | {rest} | {own[:, 4].mean():.2f} |", flush=True)


if __name__ == "__main__":
    data = Path(os.environ["CROSSLEVEL_DATA"])
    if sys.argv[1:] and len(sys.argv[1]) == 4:
        elections(data / "truth", [a for a in sys.argv[1:] if a != "king"], king="king" in sys.argv)
    elif sys.argv[1:]:
        people(data, sys.argv[1:])
    else:
        small(data / "truth")
