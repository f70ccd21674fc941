"""Do the constants of ``rxc`` hold by kind of table? Prints the tables and writes docs/guide/rxc-kinds.md.

Demographic tables are made of the adult citizens of the American Community Survey 2024: units are PUMAs, groups and outcomes are columns of
the same people, so that margins and inner cells are counts of the same people and nothing is sampled. Six states (12, 13, 17, 36, 37,
39) are not read. Votes are the split tickets of New Zealand; small tables are those of ``ecological_data.py``.

    python experiments/rxc_kinds.py --data FOLDER            # about half an hour on one core that is free
    python experiments/rxc_kinds.py --data FOLDER --quick    # two states, every 20th electorate; writes no page

Error is the share of people in a wrong cell, 50 sum|estimate - truth| / sum truth; coverage is of 95 % intervals, by cells, mean over
tables. Where constants are learned, they are learned on other states (elections) than those they are scored on.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from ecological_data import DISTRICT, NZ_YEARS, Known, counts_of, new_zealand, small_tables
from threadpoolctl import threadpool_limits

from crosslevel import ecological
from crosslevel.data.atomic import whole_file
from crosslevel.ecological.tables.contextual.doubts import TOO_LITTLE, hidden_context
from crosslevel.ecological.tables.contextual.intervals import DEMOGRAPHIC, VOTES, Constants

FloatArray = npt.NDArray[np.float64]
PAGE = Path(__file__).parents[1] / "docs" / "guide" / "rxc-kinds.md"
Z = 1.959964
KEPT_BACK = ("12", "13", "17", "36", "37", "39")
SHORT_FILES = ("06", "48")  # without most of the columns
FEWEST_UNITS = 35
POOLED_EVERY = 2  # electorates of an election are pooled every second, for time
RHOS = np.arange(0.08, 0.1601, 0.005)

FIRST = (
    *(("race", o) for o in ("degree", "tenure", "poverty", "marriage", "work")),
    *(("education", o) for o in ("tenure", "poverty", "work", "insurance", "marriage")),
    *(("age", o) for o in ("tenure", "work", "disability")),
    *(("birthplace", o) for o in ("language", "poverty")),
)
SECOND = (
    *(("race", o) for o in ("insurance", "language", "income")),
    *(("education", o) for o in ("disability", "income")),
    *(("age", o) for o in ("education", "income", "insurance")),
    *(("marriage in three", o) for o in ("tenure", "poverty")),
    *(("sex", o) for o in ("work", "income")),
    ("birthplace", "degree"),
    *((g, o) for g in ("race", "education", "age") for o in ("poverty in three", "work in three", "marriage in three")),
)
"""Pairings of a group with an outcome: fifteen with outcomes of two values, and more with rarer groups and outcomes of three or four."""


@dataclass(frozen=True)
class Inner(Known):
    """A table whose inner cells are known in every unit, (n, R, C)."""

    cells: FloatArray
    state: str
    pairing: tuple[str, str]


@dataclass(frozen=True)
class Score:
    """One table, cells as shares of the group.

    Attributes
    ----------
    estimate, truth, low, high, lower, upper : (n_cells,)
        Interval and bounds.
    variance : (n_cells,)
        The model's own, before calibration.
    h : (n_cells,)
    leverage, error, seconds : float
    units : (hits, cells)
        Cells of units inside their intervals; none where the units' truth is not known.
    width_of_units : float
    warned : bool
    """

    estimate: FloatArray
    truth: FloatArray
    low: FloatArray
    high: FloatArray
    lower: FloatArray
    upper: FloatArray
    variance: FloatArray
    h: FloatArray
    leverage: float
    error: float
    seconds: float
    units: tuple[int, int] = (0, 0)
    width_of_units: float = np.nan
    warned: bool = False

    @property
    def coverage(self) -> float:
        return float(np.mean((self.low <= self.truth) & (self.truth <= self.high)))

    @property
    def interval_score(self) -> float:
        """Width, and forty times what is missed, on average over cells."""
        missed = np.maximum(self.low - self.truth, 0) + np.maximum(self.truth - self.high, 0)
        return float(np.mean(self.high - self.low + 40 * missed))

    def covers(self, k: float, s0: float, rho: float) -> float:
        """Give the coverage under other constants."""
        p = self.estimate
        sd = np.sqrt(k**2 * self.variance + rho**2 * self.h**2 + s0**2 * (p * (1 - p) + 1e-4))
        low, high = np.maximum(p - Z * sd, self.lower), np.minimum(p + Z * sd, self.upper)
        return float(np.mean((low <= self.truth + 1e-12) & (self.truth <= high + 1e-12)))


def codes(people) -> dict[str, tuple[npt.NDArray[np.int64], int]]:
    """Code every column as 0 .. n - 1, -1 where it is missing: names to codes and their number."""

    def cut(column, edges):
        values = people[column].to_numpy(dtype=float, na_value=np.nan)
        return np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right")), len(edges) + 1

    return {
        "race": cut("eth5", [1.5, 2.5, 3.5]),  # non-Hispanic white, black, Hispanic, other
        "education": cut("educ6", [2.5, 4.5, 5.5]),  # up to high school, some college, bachelor, graduate
        "age": cut("age", [30, 45, 65]),
        "birthplace": cut("nativity", [1.5]),
        "sex": cut("female", [0.5]),
        "marriage": cut("marital", [1.5]),
        "marriage in three": cut("marital", [1.5, 4.5]),  # married, widowed or divorced or separated, never
        "degree": cut("educ6", [4.5]),
        "tenure": cut("tenure", [2.5]),
        "poverty": cut("poverty_pct", [150]),
        "poverty in three": cut("poverty_pct", [150, 400]),
        "work": cut("employment", [2.5]),
        "work in three": cut("employment", [2.5, 5.5]),  # employed, unemployed or in the forces, neither
        "insurance": cut("health_ins", [1.5]),
        "language": cut("lang_not_english", [1.5]),
        "disability": cut("disability", [1.5]),
        "income": cut("income", [20_000, 60_000]),
    }


def demographic(folder: Path, states: Sequence[str] | None = None) -> Iterable[Inner]:
    """Yield the tables of every state with enough units, unweighted counts of adult citizens."""
    for path in sorted((folder / "us2024" / "persons").glob("p_*.parquet")):
        state = path.stem[2:]
        if state in (*KEPT_BACK, *SHORT_FILES) or (states is not None and state not in states):
            continue
        people = pq.read_table(path).to_pandas()
        people = people[people["adult_citizen"] == 1]
        _, unit = np.unique(people["puma"].astype(str), return_inverse=True)
        n = unit.max() + 1
        if n < FEWEST_UNITS:
            continue
        coded = codes(people)
        for pairing in (*FIRST, *SECOND):
            (g, R), (o, C) = (coded[name] for name in pairing)
            there = (g >= 0) & (o >= 0)
            cells = np.zeros((n, R, C))
            np.add.at(cells, (unit[there], g[there], o[there]), 1.0)
            cells = cells[cells.sum(axis=(1, 2)) > 0]
            names = tuple(f"{pairing[0]} {r}" for r in range(R)), tuple(f"{pairing[1]} {c}" for c in range(C))
            X, T = cells.sum(axis=2), cells.sum(axis=1)
            yield Inner(f"{state} {' x '.join(pairing)}", *names, X, T, cells.sum(axis=0), cells, state, pairing)


def score(known: Known, constants: Constants = DEMOGRAPHIC, **options) -> Score:
    """Answer one table and compare."""
    begun = time.perf_counter()
    found = ecological.rxc(known.counts, **options)
    seconds = time.perf_counter() - begun
    made = scored(known, found, constants, seconds)
    if not isinstance(known, Inner):
        return made
    people = known.X[:, :, None]
    there = np.broadcast_to(people > 0, known.cells.shape).ravel()
    truth = np.divide(known.cells, people, out=np.zeros_like(known.cells), where=people > 0).ravel()[there]
    low, high = (found.units[name][there] for name in ("conf_low", "conf_high"))
    hits = int(((low <= truth + 1e-9) & (truth <= high + 1e-9)).sum())
    return Score(**{**made.__dict__, "units": (hits, len(truth)), "width_of_units": float(np.mean(high - low))})


def scored(known: Known, found, constants: Constants, seconds: float, rows: slice | FloatArray = slice(None)) -> Score:
    """Compare one answer, or the rows of one district of it, with the truth."""
    p, error = found["estimate"][rows], found["std_error"][rows]
    context = hidden_context(known.X, known.T)
    h = context.h.ravel()
    rest = constants.rho**2 * h**2 + constants.s0**2 * (p * (1 - p) + 1e-4)
    return Score(
        estimate=p,
        truth=(known.truth / known.truth.sum(axis=1, keepdims=True)).ravel(),
        low=found["conf_low"][rows],
        high=found["conf_high"][rows],
        lower=found["lower"][rows],
        upper=found["upper"][rows],
        variance=np.maximum(error**2 - rest, 0) / constants.k**2,
        h=h,
        leverage=context.leverage,
        error=float(50 * np.abs(found["count"][rows] - known.truth.ravel()).sum() / known.truth.sum()),
        seconds=seconds,
        warned=any("hidden context" in w or "edge of their" in w for w in found.warnings),
    )


def learned_rho(scores: Sequence[Score]) -> float:
    """Give the least rho with which the tables that are not warned of are covered at 95 %."""
    clear = [s for s in scores if s.leverage <= TOO_LITTLE]
    covered = [np.mean([s.covers(DEMOGRAPHIC.k, DEMOGRAPHIC.s0, rho) for s in clear]) for rho in RHOS]
    reached = np.flatnonzero(np.array(covered) >= 0.95)
    return float(RHOS[reached[0]] if len(reached) else RHOS[-1])


def left_out(
    scores: dict[str, Score], tables: dict[str, tuple[str, tuple[str, str]]], by: int
) -> tuple[FloatArray, FloatArray]:
    """Learn rho without each state (by=0) or pairing (by=1) and score it there: coverage of every table, and the values of rho."""
    covered, rhos = [], []
    for out in dict.fromkeys(t[by] for t in tables.values()):
        rho = learned_rho([s for name, s in scores.items() if tables[name][by] != out])
        rhos.append(rho)
        covered += [
            (name, s.covers(DEMOGRAPHIC.k, DEMOGRAPHIC.s0, rho))
            for name, s in scores.items()
            if tables[name][by] == out
        ]
    order = {name: k for k, name in enumerate(scores)}
    return np.array([c for _, c in sorted(covered, key=lambda pair: order[pair[0]])]), np.array(rhos)


def learned_pair(scores: Sequence[Score]) -> tuple[float, float]:
    """Give k and s0 with which the cells are covered at 95 % at the least mean width."""
    best = (np.inf, 1.0, 0.0)
    p, truth, v, lower, upper = (
        np.concatenate([getattr(s, name) for s in scores])
        for name in ("estimate", "truth", "variance", "lower", "upper")
    )
    for k in np.arange(0.8, 2.01, 0.05):
        for s0 in np.arange(0.0, 0.121, 0.005):
            sd = np.sqrt(k**2 * v + s0**2 * (p * (1 - p) + 1e-4))
            low, high = np.maximum(p - Z * sd, lower), np.minimum(p + Z * sd, upper)
            covered = np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12))
            best = min(best, (abs(covered - 0.95) * 100 + float(np.mean(high - low)), float(k), float(s0)))
    return best[1], best[2]


def election_left_out(by_year: dict[int, list[Score]]) -> float:
    """Learn k and s0 on the other elections, score this one, and give the mean coverage over elections."""
    hits = []
    for year, scores in by_year.items():
        k, s0 = learned_pair([s for y, others in by_year.items() if y != year for s in others])
        hits.append(np.mean([s.covers(k, s0, 0.0) for s in scores]))
    return float(np.mean(hits))


def pooled(districts: Sequence[Known], symmetric: bool) -> list[Score]:
    """Fit the districts of one election together."""
    sides = []
    for options, counts in (("groups", "X"), ("outcomes", "T")):
        names = list(dict.fromkeys(o for k in districts for o in getattr(k, options)))
        blocks = [np.zeros((len(k.X), len(names))) for k in districts]
        for k, block in zip(districts, blocks, strict=True):
            block[:, [names.index(o) for o in getattr(k, options)]] = getattr(k, counts)
        sides.append(dict(zip(names, np.concatenate(blocks).T, strict=True)))
    begun = time.perf_counter()
    where_from = [k.name for k in districts for _ in k.X]
    kind = "symmetric votes" if symmetric else "votes"
    found = ecological.rxc(counts_of(*sides, {DISTRICT: where_from}), pool=DISTRICT, kind=kind)
    seconds = (time.perf_counter() - begun) / len(districts)
    row = {key: i for i, key in enumerate(zip(*(found[name] for name in found.keys), strict=True))}
    constants = VOTES["pool", symmetric]
    return [
        scored(k, found, constants, seconds, np.array([row[k.name, g, o] for g in k.groups for o in k.outcomes]))
        for k in districts
    ]


def line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def heading(*columns: str) -> list[str]:
    return [line(columns), line(["---"] * len(columns))]


def summary(scores: Sequence[Score], covered: FloatArray | None = None) -> tuple[str, ...]:
    """Write number, error, coverage, width, interval score and units' coverage."""
    cover = np.array([s.coverage for s in scores]) if covered is None else covered
    hits, cells = np.sum([s.units for s in scores], axis=0)
    return (
        str(len(scores)),
        f"{np.mean([s.error for s in scores]):.2f}",
        f"{cover.mean():.3f}",
        f"{np.mean([np.mean(s.high - s.low) for s in scores]):.3f}" if covered is None else "–",
        f"{np.mean([s.interval_score for s in scores]):.3f}" if covered is None else "–",
        f"{hits / cells:.3f}" if cells else "–",
        f"{np.nanmean([s.width_of_units for s in scores]):.3f}" if cells else "–",
    )


def demographic_part(folder: Path, states: Sequence[str] | None) -> list[str]:
    """Score the demographic tables: shipped constants, and rho learned without the state or the pairing."""
    scores, tables, votes = {}, {}, {}
    for known in demographic(folder, states):
        scores[known.name], tables[known.name] = score(known), (known.state, known.pairing)
        if known.pairing in FIRST:
            votes[known.name] = score(known, VOTES["nothing", False], kind="votes")
        print(
            known.name,
            f"{scores[known.name].error:.2f} {scores[known.name].coverage:.2f} U {scores[known.name].leverage:.2f}",
            flush=True,
        )
    first = {n: s for n, s in scores.items() if tables[n][1] in FIRST}
    own = {n: tables[n] for n in first}
    clear = [s for s in scores.values() if s.leverage <= TOO_LITTLE]
    high = [s for s in scores.values() if s.leverage > TOO_LITTLE]
    out = heading(
        "tables", "number", "error %", "coverage", "width", "interval score", "coverage of units", "width of units"
    )
    shown = [
        ("fifteen pairings, shipped constants", summary(list(first.values()))),
        ("fifteen pairings, constants of votes", summary(list(votes.values()))),
    ]
    for by, word in ((0, "state"), (1, "pairing")):
        cover, rhos = left_out(first, own, by)
        shown.append(
            (
                f"fifteen pairings, rho learned without the {word} ({rhos.min():.3f} to {rhos.max():.3f})",
                summary(list(first.values()), cover),
            )
        )
    cover, rhos = left_out(scores, tables, 0)
    shown += [
        ("all pairings, shipped constants", summary(list(scores.values()))),
        (
            f"all, rho learned without the state ({rhos.min():.3f} to {rhos.max():.3f})",
            summary(list(scores.values()), cover),
        ),
        (f"leverage at most {TOO_LITTLE:g}", summary(clear)),
        (f"leverage above {TOO_LITTLE:g}, warned of", summary(high)),
    ]
    out += [line((name, *cells)) for name, cells in shown]
    bad = [s.error > 10 for s in scores.values()]
    caught = sum(s.leverage > TOO_LITTLE for s in scores.values() if s.error > 10)
    out += [
        "",
        f"Of {sum(bad)} tables with more than 10 % of people in a wrong cell {caught} are warned of, of all {len(scores)} {len(high)}.",
    ]
    out += [
        "",
        "By pairing, shipped constants:",
        "",
        *heading("pairing", "error %", "coverage", "leverage", "warned of"),
    ]
    for pairing in (*FIRST, *SECOND):
        some = [s for n, s in scores.items() if tables[n][1] == pairing]
        warned = sum(s.warned for s in some)
        numbers = (np.mean([getattr(s, a) for s in some]) for a in ("error", "coverage", "leverage"))
        out.append(line((" x ".join(pairing), *(f"{v:.2f}" for v in numbers), f"{warned} of {len(some)}")))
    return out


def small_part(folder: Path) -> list[str]:
    """Score the single tables by both sets of constants."""
    out = heading("table", "constants", "error %", "cells covered", "width", "leverage", "warned of")
    for known in small_tables(folder / "truth"):
        for name, constants in (("demographic", DEMOGRAPHIC), ("votes", VOTES["nothing", False])):
            s = score(known, constants, kind=name)
            cells = f"{round(s.coverage * len(s.truth))} of {len(s.truth)}"
            warned = "yes" if s.warned else "no"
            out.append(
                line(
                    (
                        known.name,
                        name,
                        f"{s.error:.2f}",
                        cells,
                        f"{np.mean(s.high - s.low):.3f}",
                        f"{s.leverage:.2f}",
                        warned,
                    )
                )
            )
    return out


def votes_part(folder: Path, every: int) -> list[str]:
    """Score the elections: alone, with labels, pooled by name, and pooled by matching."""
    elections = {year: new_zealand(folder / "truth", year, every) for year in NZ_YEARS}
    out = heading(
        "fit", "districts", "error %", *map(str, NZ_YEARS), "coverage", "coverage, election left out", "width"
    )

    def add(name, by_year, constants):
        everything = [s for scores in by_year.values() for s in scores]
        cover = np.mean(np.concatenate([(s.low <= s.truth) & (s.truth <= s.high) for s in everything]))
        k, s0 = learned_pair(everything)
        print(name, "k, s0 learned on all:", k, s0, flush=True)
        out.append(
            line(
                (
                    name,
                    len(everything),
                    f"{np.mean([s.error for s in everything]):.2f}",
                    *(f"{np.mean([s.error for s in scores]):.2f}" for scores in by_year.values()),
                    f"{100 * cover:.1f}",
                    "–" if constants is DEMOGRAPHIC else f"{100 * election_left_out(by_year):.1f}",
                    f"{np.mean(np.concatenate([s.high - s.low for s in everything])):.3f}",
                )
            )
        )
        print(out[-1], flush=True)

    def alone(constants, **options):
        return {y: [score(k, constants, **options) for k in ks] for y, ks in elections.items()}

    add("alone", alone(VOTES["nothing", False], kind="votes"), VOTES["nothing", False])
    add("alone, constants of demographic tables", alone(DEMOGRAPHIC, kind="demographic"), DEMOGRAPHIC)
    for symmetric in (False, True):
        constants, kind = VOTES["labels", symmetric], "symmetric votes" if symmetric else "votes"
        by_year = {
            y: [score(k, constants, labels={g: g for g in k.groups}, kind=kind) for k in ks if tied(k)]
            for y, ks in elections.items()
        }
        add(f"alone, labels tie parties to candidates{', both directions' if symmetric else ''}", by_year, constants)
    for symmetric in (False, True):
        by_year = {y: pooled(ks[::POOLED_EVERY], symmetric) for y, ks in elections.items()}
        how = "options matched by name" + (", both directions" if symmetric else "")
        add(f"pooled, {how}", by_year, VOTES["pool", symmetric])
    return out


def tied(known: Known) -> bool:
    return any(o in known.groups for o in known.outcomes)


def em_part(folder: Path, every: int, states: Sequence[str] | None) -> list[str]:
    """Score expectation-maximization by where it stops."""
    out = heading("stopped at", "New Zealand", "demographic, fifteen pairings")
    districts = [k for year in NZ_YEARS for k in new_zealand(folder / "truth", year, every)]
    people = [k for k in demographic(folder, states) if k.pairing in FIRST]
    for tol in (1e-3, 1e-4, 1e-5):
        wrong = []
        for tables in (districts, people):
            found = [(k, ecological.rxc_em(k.counts, tol=tol)["count"]) for k in tables]
            wrong.append(np.mean([50 * np.abs(c - k.truth.ravel()).sum() / k.truth.sum() for k, c in found]))
        out.append(line((f"{tol:g}", *(f"{w:.2f}" for w in wrong))))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = os.environ.get("CROSSLEVEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the real data")
    parser.add_argument("--quick", action="store_true", help="two states, every 20th electorate; writes no page")
    parser.add_argument("--only", choices=("demographic", "small", "votes", "em"), help="one part; writes no page")
    parser.add_argument("--out", type=Path, default=PAGE)
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data, or set CROSSLEVEL_DATA")
    every, states = (20, ("26", "55")) if args.quick else (1, None)
    parts = {
        "demographic": lambda: demographic_part(args.data, states),
        "small": lambda: small_part(args.data),
        "votes": lambda: votes_part(args.data, every),
        "em": lambda: em_part(args.data, every, states),
    }
    with threadpool_limits(limits=1, user_api="blas"):
        made = {name: "\n".join(part()) for name, part in parts.items() if args.only in (None, name)}
    print("\n\n".join(made.values()))
    if not (args.quick or args.only):
        with whole_file(args.out) as part:
            part.write_text(TEXT.format(**made), encoding="utf-8")


TEXT = """# R x C tables of two kinds

What `rxc` assumes (how far groups differ, how strongly everybody follows the composition around them) was learned on tables whose inner
cells were counted. Two votes of the same people and tables of demographic groups want other constants, so `kind="votes"` and
`kind="demographic"` have their own, and every answer says which it used and what they were learned on. Error is the share of people in
a wrong cell; coverage is of 95 % intervals, by cells, mean over tables; the interval score is the width and forty times what is missed,
less being better. Made by `experiments/rxc_kinds.py`.

## Where the numbers come from
- **Margins and truth.** Both are counts of the same people: unweighted adult citizens of the American Community Survey 2024 by PUMA, in
  every state with 35 PUMAs or more and all columns (19 states). That is what a table of counts is: nothing is sampled on the way from
  the inner cells to the margins, so that no sampling noise can be shared. States 12, 13, 17, 36, 37 and 39 were not read here; they
  were used for no choice, and [polarized voting](rpv.md) has a score of theirs.
- **Constants of demographic tables.** The slope (0.4 ± 0.2), tau (0.5), k (0.6), s0 (0.03) and rho (0.11) were chosen before this page,
  on other tables of the same states and on voter registration in North Carolina; they were not chosen again here, and so they are not
  blind to these states. "Learned without the state" learns rho, the one constant that decides coverage, on the other states (on a grid
  from 0.08 to 0.16, tables that are warned of left out), and scores the state left out.
- **What was chosen after seeing a score.** The list of pairings: a trial on two states had outcomes of three values among the fifteen
  (4.27 % error, coverage .975); outcomes of two values took their place, and those of three moved to the other pairings, where they
  count. The warning's numbers come from this page. k and s0 of `labels=` come
  from these elections; "election left out" learns them on the others.
- **Votes.** 349 electorates of New Zealand, 2002 to 2014, whose combinations of party and candidate votes were counted; options below 3
  % are merged.

## Demographic tables
{demographic}

A table is warned of where the leverage of hidden context is above 0.6: outcomes scatter around what composition predicts, and
composition varies too little to say what belongs to a group. What is left of under-coverage among the others (education by income,
marriage by tenure, race by language) cannot be predicted from the margins.

## Single tables
{small}

`eco_forgnlit30c` is warned of since its cells lie at the edge of their bounds: composition points the wrong way there. These tables
were in sight when the constants were chosen.

## Votes
{votes}

Answers with `kind="votes"` are those of the version before, to ten digits; on all 349 electorates they have 4.91 % pooled in both
directions ([known truth](ecological-truth.md)). The rows "pooled" here are of every second electorate.
The second row is what the wrong kind costs.

## Where expectation-maximization stops
{em}

Rates are constant in `rxc_em`; stopping early shrinks the groups toward each other, which is nearer on these tables. It was not on
elections held out of this page, so the default, 1e-4, lies between the early stop and convergence.
"""

if __name__ == "__main__":
    main()
