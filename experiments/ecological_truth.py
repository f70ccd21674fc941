"""How far is each method from tables whose inner cells are known, and do its intervals cover?

Prints the tables and writes docs/guide/ecological-truth.md.

Every method of ``crosslevel.ecological`` sees the margins only. Error is the share of people it puts in a wrong cell, 50
sum|estimate - truth| / sum truth; MAE and RMSE are over the cells, as shares of the group; coverage is of 95 % intervals.

    python experiments/ecological_truth.py --data FOLDER             # all New Zealand electorates: about an hour on two cores
    python experiments/ecological_truth.py --data FOLDER --quick     # every seventh; writes no page
    python experiments/ecological_truth.py --data FOLDER --small     # the small tables only; writes no page

King's model answers 2 x 2 tables only. The chains of ``multinomial_dirichlet`` take a minute or two per electorate, so there they
run on every 25th of each election, with ``rxc`` on the same ones beside; its approximation runs on all.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ecological_data import DISTRICT, NZ_YEARS, Known, counts_of, new_zealand, small_tables
from threadpoolctl import threadpool_limits

from crosslevel import Counts, ecological
from crosslevel.data.atomic import whole_file
from crosslevel.ecological.tables.contextual.intervals import VOTES
from crosslevel.errors import ConvergenceError, InputError
from crosslevel.results import Estimates

FloatArray = npt.NDArray[np.float64]
PAGE = Path(__file__).parents[1] / "docs" / "guide" / "ecological-truth.md"
Z = 1.959964
LEVEL = 0.95
CHAINS, PUBLISHED = "multinomial_dirichlet", "multinomial_dirichlet, no contextual effect"
SAMPLED = 25  # the chains run on every so many-th electorate
COLUMNS = ("data", "method", "% in wrong cell", "MAE", "RMSE", "95 % coverage", "mean width", "seconds", "convergence")
NZ_COLUMNS = (
    *("method", "mean error %", "median", *map(str, NZ_YEARS)),
    *("95 % coverage", "mean width", "s / district", "converged"),
)


_SHARES = np.linspace(10, 90, 9)
TINY = Known(
    "tiny",
    ("a", "b"),
    ("yes", "no"),
    np.column_stack([_SHARES, 100 - _SHARES]),
    np.column_stack([20 + 0.5 * _SHARES + np.arange(9) % 3, 80 - 0.5 * _SHARES - np.arange(9) % 3]),
    np.array([[315.0, 135.0], [90.0, 360.0]]),
)
"""On which every method runs once before anything is timed."""


@dataclass(frozen=True)
class Score:
    """One method on one district, cells as shares of the group.

    Attributes
    ----------
    estimate, truth, low, high, std_error : (n_cells,)
        Low, high and std_error are NaN where there is no interval.
    wrong : float
        Per cent of people in a wrong cell.
    seconds : float
    convergence : str
        How well the fit converged, "refused" where it did not (and all numbers are NaN), empty where nothing is iterated.
    """

    estimate: FloatArray
    truth: FloatArray
    low: FloatArray
    high: FloatArray
    std_error: FloatArray
    wrong: float
    seconds: float
    convergence: str = ""

    @property
    def covered(self) -> FloatArray:
        """1 or 0 for each cell with an interval."""
        has = np.isfinite(self.low)
        return ((self.low <= self.truth) & (self.truth <= self.high))[has].astype(float)


def methods() -> dict[str, Callable[[Counts], Estimates]]:
    """Every method that answers for one district, by the name in the tables."""
    return {
        "bounds, midpoint": ecological.bounds,
        "neighborhood": ecological.neighborhood,
        "homogeneous >= 0.8": ecological.homogeneous,
        "goodman": ecological.goodman,
        "goodman, equal weights": partial(ecological.goodman, weights="equal"),
        "goodman, clipped": clipped,
        "goodman, bounded": partial(ecological.goodman, bounded=True),
        "rxc_em": ecological.rxc_em,
        "rxc_em, stopped early (1e-3)": partial(ecological.rxc_em, tol=1e-3),
        "rxc_em, run out (1e-5)": partial(ecological.rxc_em, tol=1e-5),
        "rxc": ecological.rxc,
        "king": ecological.king,
        CHAINS: ecological.multinomial_dirichlet,
        PUBLISHED: partial(ecological.multinomial_dirichlet, contextual_slope=(0, 0)),
    }


def vote_methods() -> dict[str, Callable[[Counts], Estimates]]:
    """The same, for two votes of the same people."""
    return {**methods(), "rxc": partial(ecological.rxc, kind="votes")}


def clipped(counts: Counts) -> Estimates:
    """Cut Goodman's regression off at zero and rescale, as is often done."""
    found, X = ecological.goodman(counts), counts.tables.X
    R, C = X.shape[1], len(counts.tables.outcomes)
    share = np.clip(found["estimate"].reshape(R, C), 0, None)
    share /= share.sum(axis=1, keepdims=True)
    people = X.sum(axis=0)
    nothing = np.full(R * C, np.nan)
    return found.with_columns(
        estimate=share.ravel(), count=(share * people[:, None]).ravel(), conf_low=nothing, conf_high=nothing
    )


def score(known: Known, found: Estimates, seconds: float) -> Score:
    """Compare one district's answer with its truth; null estimates make the error unknown."""
    counts = found["count"].reshape(known.truth.shape)
    share = known.truth / known.truth.sum(axis=1, keepdims=True)
    return Score(
        estimate=found["estimate"],
        truth=share.ravel(),
        low=found["conf_low"],
        high=found["conf_high"],
        std_error=found["std_error"],
        wrong=float(50 * np.abs(counts - known.truth).sum() / known.truth.sum()),
        seconds=seconds,
        convergence=convergence(found),
    )


def convergence(found: Estimates) -> str:
    """Say how well a fit converged, in the words of its method."""
    said = found.diagnostics
    if "max_rhat" in said:
        return f"r-hat {said['max_rhat']:.4f}, ESS {min(said['min_ess_bulk'], said['min_ess_tail']):.0f}"
    if "effective_draws" in said:
        return f"{said['effective_draws']:.0f} effective draws"
    if "gradient_norm" in said:
        return f"gradient {said['gradient_norm']:.0e}"
    return f"{said['iterations']} turns" if "iterations" in said else "solved" if "converged" in said else ""


def timed(known: Known, method: Callable[[Counts], Estimates]) -> Score | None:
    """Run one method on one district; nothing where it does not apply."""
    begun = time.perf_counter()
    try:
        found = method(known.counts)
    except InputError:
        return None
    except ConvergenceError:
        nothing = np.full(known.truth.size, np.nan)
        return Score(*[nothing] * 5, wrong=np.nan, seconds=time.perf_counter() - begun, convergence="refused")
    return score(known, found, time.perf_counter() - begun)


def pooled(districts: list[Known], symmetric: bool) -> list[Score]:
    """Fit the districts of one election together."""
    sides = []
    for options, counts in (("groups", "X"), ("outcomes", "T")):
        names = list(dict.fromkeys(o for k in districts for o in getattr(k, options)))
        blocks = []
        for k in districts:
            block = np.zeros((len(k.X), len(names)))
            block[:, [names.index(o) for o in getattr(k, options)]] = getattr(k, counts)
            blocks.append(block)
        sides.append(dict(zip(names, np.concatenate(blocks).T, strict=True)))
    begun = time.perf_counter()
    where_from = {DISTRICT: [k.name for k in districts for _ in k.X]}
    kind = "symmetric votes" if symmetric else "votes"
    found = ecological.rxc(counts_of(*sides, where_from), pool=DISTRICT, kind=kind)
    seconds = (time.perf_counter() - begun) / len(districts)
    where = {key: i for i, key in enumerate(zip(*(found[name] for name in found.keys), strict=True))}
    scores = []
    for k in districts:
        rows = np.array([where[k.name, g, o] for g in k.groups for o in k.outcomes])
        share = k.truth / k.truth.sum(axis=1, keepdims=True)
        scores.append(
            Score(
                estimate=found["estimate"][rows],
                truth=share.ravel(),
                low=found["conf_low"][rows],
                high=found["conf_high"][rows],
                std_error=found["std_error"][rows],
                wrong=float(50 * np.abs(found["count"][rows] - k.truth.ravel()).sum() / k.truth.sum()),
                seconds=seconds,
                convergence=convergence(found),
            )
        )
    return scores


def left_out_coverage(by_year: dict[int, list[Score]], variant: tuple[bool, bool]) -> float:
    """Learn the two constants of the intervals on all elections but one, and cover that one; the mean over elections.

    The constants are those of the shortest mean interval among the pairs that cover 95 % of the cells learned from. The
    intervals are not cut at the bounds here.
    """
    now = VOTES["pool" if variant[0] else "nothing", variant[1]]
    parts = {}
    for year, scores in by_year.items():
        p, t, sd = (np.concatenate([getattr(s, n) for s in scores]) for n in ("estimate", "truth", "std_error"))
        spread = p * (1 - p) + 1e-4
        parts[year] = (np.abs(p - t), np.maximum(sd**2 - now.s0**2 * spread, 0) / now.k**2, spread)
    hits = []
    for year in parts:
        error, v, spread = (np.concatenate([parts[y][j] for y in parts if y != year]) for j in range(3))
        best = (np.inf, 0.0, 0.0)
        for s0 in np.linspace(0, 0.1, 21):
            for k in np.linspace(0.5, 3, 51):
                half = Z * np.sqrt(k**2 * v + s0**2 * spread)
                if np.mean(error <= half) >= LEVEL:
                    best = min(best, (float(half.mean()), float(k), float(s0)))
                    break
        error, v, spread = parts[year]
        hits.append(np.mean(error <= Z * np.sqrt(best[1] ** 2 * v + best[2] ** 2 * spread)))
    return float(np.mean(hits))


def small_rows(folder: Path) -> Iterable[tuple[str, ...]]:
    """Yield the lines of the first table."""
    for known in small_tables(folder):
        for name, method in methods().items():
            found = timed(known, method)
            if found is None or not (found.convergence or np.isfinite(found.estimate).any()):
                continue
            off = (found.estimate - found.truth)[np.isfinite(found.estimate)]
            yield (
                known.name,
                name,
                number(found.wrong, 2),
                number(np.mean(np.abs(off)), 4) if len(off) else "–",
                number(np.sqrt(np.mean(off**2)), 4) if len(off) else "–",
                f"{int(found.covered.sum())} of {len(found.covered)}" if len(found.covered) else "–",
                number(np.mean((found.high - found.low)[np.isfinite(found.low)]), 3) if len(found.covered) else "–",
                number(found.seconds, 3),
                found.convergence or "–",
            )


def nz_rows(folder: Path, every: int) -> Iterable[tuple[str, ...]]:
    """Yield the lines of the second table, and of the coverage left out."""
    elections = {year: new_zealand(folder, year, every) for year in NZ_YEARS}
    skip = {"homogeneous >= 0.8", "king", CHAINS, PUBLISHED, "goodman, equal weights"}
    for name, method in vote_methods().items():
        if name not in skip:
            yield nz_line(name, {y: [s for k in ks if (s := timed(k, method))] for y, ks in elections.items()}, None)
    both = partial(ecological.rxc, kind="symmetric votes")
    by_year = {y: [s for k in ks if (s := timed(k, both))] for y, ks in elections.items()}
    yield nz_line("rxc, both directions", by_year, (False, True))
    for symmetric in (False, True):
        by_year = {y: pooled(ks, symmetric) for y, ks in elections.items()}
        yield nz_line(f"rxc, pooled{', both directions' if symmetric else ''}", by_year, (True, symmetric))
    few = {y: ks[::SAMPLED] for y, ks in elections.items()}
    for name in (CHAINS, PUBLISHED, "rxc"):
        by_year = {y: [s for k in ks if (s := timed(k, vote_methods()[name]))] for y, ks in few.items()}
        yield nz_line(f"{name}, on {sum(map(len, few.values()))} districts", by_year, None)


def nz_line(name: str, by_year: dict[int, list[Score]], variant: tuple[bool, bool] | None) -> tuple[str, ...]:
    """Make one line: errors by election, coverage, and how many fits converged."""
    tried = [s for scores in by_year.values() for s in scores]
    by_year = {year: [s for s in scores if s.convergence != "refused"] for year, scores in by_year.items()}
    everything = [s for scores in by_year.values() for s in scores]
    if not everything:
        return (name, *["–"] * (len(NZ_COLUMNS) - 2), f"0 of {len(tried)}")
    covered = np.concatenate([s.covered for s in everything])
    shown = "–"
    if len(covered):
        shown = f"{100 * covered.mean():.1f}"
    if name == "rxc":
        variant = (False, False)
    if variant is not None:
        shown += f" (election left out: {100 * left_out_coverage(by_year, variant):.1f})"
    width = np.concatenate([s.high - s.low for s in everything])
    return (
        name,
        number(np.mean([s.wrong for s in everything]), 2),
        number(np.median([s.wrong for s in everything]), 2),
        *(number(np.mean([s.wrong for s in scores]), 2) if scores else "–" for scores in by_year.values()),
        shown,
        number(np.nanmean(width), 3) if len(covered) else "–",
        number(np.mean([s.seconds for s in tried]), 3),
        f"{len(everything)} of {len(tried)}" if any(s.convergence for s in tried) else "–",
    )


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def heading(columns: tuple[str, ...]) -> str:
    return f"{line(columns)}\n{line(['---'] * len(columns))}"


INTRODUCTION = """# Every method against known truth

Tables whose inner cells are known, so that methods which see only the margins can be scored. Error is the share of people
put in a wrong cell; MAE and RMSE are over cells, as shares of the group. Made by `experiments/ecological_truth.py`.

"""
READING = """
## How to read this
- Intervals of `goodman` assume constant rates. Where rates vary with composition they do not cover, and more units make
  them narrower without making them right.
- So do those of `king` and of `multinomial_dirichlet` without a contextual effect, whose rates vary between units but not with composition:
  they cover where that is so (registration), and miss most cells or all where it is not (senc, eco_forgnlit30c).
  [Sensitivity](ecological-sensitivity.md) shows the intervals that would. With its default, a contextual slope of 0.35 ± 0.1,
  `multinomial_dirichlet` is nearer on race by party (senc, NC) and farther on registration: the margins do not say which it will be.
  On vote transfers (New Zealand) it is worse than `rxc`, with a contextual effect or without: on the same 15 districts its
  95 % intervals cover two cells in three, those of `rxc` 96 %.
- Convergence: a fit that did not converge is refused, and has a line without numbers. Chains must reach an r-hat below 1.01 and
  an effective sample size (ESS) of 400.
- `rxc` has constants by kind of table: those of demographic tables in the first table, `kind="votes"` in the second, calibrated on these
  elections. "Election left out" learns the two constants of its intervals on the other elections only.
  [Two kinds of tables](rxc-kinds.md) scores both kinds.
- On eco_forgnlit30c (nativity by illiteracy, 1930) every model is too low: the native-born were less literate where few
  foreign-born lived, so composition points the wrong way. The interval of `rxc` for the foreign-born misses the truth,
  0.075; it warns that its cells lie at the edge of their bounds. Only the bounds [0.000, 0.153] hold.
- `rxc` is not best everywhere: on the registration tables (eco_reg, ei_matproii) early-stopped EM is
  nearer. Its constants were chosen with these tables in sight, so the first table is not a blind test of it.
- Votes are transfers between two choices of the same people, so both directions help there; with demographic groups
  they do not.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = os.environ.get("CROSSLEVEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the real data")
    shorter = parser.add_mutually_exclusive_group()
    shorter.add_argument("--quick", action="store_true", help="every seventh electorate; writes no page")
    shorter.add_argument("--small", action="store_true", help="the small tables only; writes no page")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/ecological-truth.md)")
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data, the folder that holds truth/, or set CROSSLEVEL_DATA")
    folder = args.data / "truth"
    for method in methods().values():  # compile, or read compiled code, before anything is timed
        timed(TINY, method)
    written = []
    parts = [("## Small tables", COLUMNS, small_rows(folder))]
    if not args.small:
        rows = nz_rows(folder, 7 if args.quick else 1)
        parts.append(("## New Zealand, party vote by candidate vote", NZ_COLUMNS, rows))
    with threadpool_limits(limits=1, user_api="blas"):
        for title, columns, rows in parts:
            print(f"{title}\n\n{heading(columns)}", flush=True)
            lines = []
            for row in rows:
                lines.append(line(row))
                print(lines[-1], flush=True)
            written.append("\n".join([title, "", heading(columns), *lines]))
            print()
    if not (args.quick or args.small):
        with whole_file(args.out) as part:
            part.write_text(INTRODUCTION + "\n\n".join(written) + "\n" + READING, encoding="utf-8")


if __name__ == "__main__":
    main()
