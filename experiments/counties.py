"""What do 57 dummies do to KRLS? County votes of 2016 on demographics, state and kind of place. Prints, and writes the guide page.

The share of the two-party vote for Clinton in 3,111 counties on eleven demographic numbers, the state (50 levels; Alaska
reports no counties) and the rural-urban code (9 levels): 68 columns, 57 of them dummies. Three questions:

1. Does the state matter to prediction? Out-of-sample R2 of KRLS, KRLS with R's penalty, KRLS without factors, and OLS.
2. What is the effect of a state? Contrasts of the whole factor, dummies switched one by one as in R, OLS.
3. Who is right? The same on outcomes simulated from these covariates with known effects of every state.

    CROSSLEVEL_DATA=... python experiments/counties.py          # two minutes
    CROSSLEVEL_DATA=... python experiments/counties.py --quick  # every third county; writes no page
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.csv

from crosslevel import KRLS
from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelWarning

FloatArray = npt.NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "counties.md"
PERCENT = (
    "black_pct",
    "hispanic_pct",
    "foreignborn_pct",
    "female_pct",
    "age29andunder_pct",
    "age65andolder_pct",
    "clf_unemploy_pct",
    "lesscollege_whites_pct",
    "rural_pct",
)
REFERENCE = {"state": "Ohio", "place": "6"}
SHOWN = ("Massachusetts", "Vermont", "California", "Iowa", "Texas", "West Virginia", "Oklahoma", "Mississippi")
FEWEST = 5
"""Counties of a state from which on it takes part in the split; smaller ones are all used to fit."""
SEED = 2016


@dataclass(frozen=True)
class Counties:
    """The counties.

    Attributes
    ----------
    columns : mapping of name to (N,)
        Covariates; ``state`` and ``place`` are text.
    share : (N,)
        Democratic share of the two-party vote.
    """

    columns: dict[str, npt.NDArray[Any]]
    share: FloatArray

    def take(self, rows: npt.NDArray[Any]) -> Counties:
        return Counties({k: v[rows] for k, v in self.columns.items()}, self.share[rows])

    @property
    def numbers(self) -> dict[str, npt.NDArray[Any]]:
        """Covariates without the factors."""
        return {k: v for k, v in self.columns.items() if k not in REFERENCE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every third county; writes no page")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/counties.md)")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    data = read_counties(Path(folder) / "county_votes" / "medsl_context_2012_2016_demographics.csv")
    if args.quick:
        data = thin(data)
    start = time.perf_counter()
    warnings.simplefilter("ignore", CrosslevelWarning)
    sections = [say(part(data)) for part in (prediction, effects, known_truth)]
    print(f"\n{time.perf_counter() - start:.0f} s")
    if not args.quick:
        with whole_file(args.out) as beside:
            beside.write_text(page(data, sections), encoding="utf-8")


def say(text: str) -> str:
    print(text, flush=True)
    return text


def read_counties(path: Path) -> Counties:
    """Read the counties that have demographics; income and population in logarithms, shares of minorities in roots."""
    table = pyarrow.csv.read_csv(path)
    table = table.filter(pc.and_(pc.is_valid(table["white_pct"]), pc.is_valid(table["ruralurban_cc"])))

    def number(name: str) -> FloatArray:
        return table[name].to_numpy().astype(np.float64)

    # roots and logarithms: average effects of strongly skewed covariates have no reliable intervals
    rooted = {"black_pct", "hispanic_pct", "foreignborn_pct", "clf_unemploy_pct"}
    columns: dict[str, npt.NDArray[Any]] = {
        (f"root {n}" if n in rooted else n): np.sqrt(number(n)) if n in rooted else number(n) for n in PERCENT
    }
    columns |= {"log income": np.log(number("median_hh_inc")), "log population": np.log(number("total_population"))}
    columns["state"] = table["state"].to_numpy(zero_copy_only=False).astype(str)
    columns["place"] = number("ruralurban_cc").astype(int).astype(str)
    dem, rep = number("clinton16"), number("trump16")
    return Counties(columns, dem / (dem + rep))


def thin(data: Counties) -> Counties:
    """Keep every third county of states that then have several left."""
    third = data.take(np.arange(0, len(data.share), 3))
    return third.take(np.flatnonzero(sizes(third) >= FEWEST))


def sizes(data: Counties) -> npt.NDArray[np.intp]:
    """Count the counties of each county's state, (N,)."""
    _, code, count = np.unique(data.columns["state"], return_inverse=True, return_counts=True)
    return count[code]


def split(data: Counties, seed: int = SEED) -> tuple[Counties, Counties]:
    """Draw a fifth of the counties of all but the smallest states to predict, and leave the rest to fit."""
    open_ = np.flatnonzero(sizes(data) >= FEWEST)
    chosen = np.random.default_rng(seed).permutation(open_)[: len(data.share) // 5]
    out = np.zeros(len(data.share), dtype=bool)
    out[chosen] = True
    return data.take(np.flatnonzero(~out)), data.take(np.flatnonzero(out))


def design_matrix(data: Counties) -> tuple[FloatArray, list[str]]:
    """Make the matrix of a linear model, an intercept first, with the dummies KRLS would make; and its names."""
    columns, names = [np.ones(len(data.share))], ["1"]
    for name, values in data.columns.items():
        if name in REFERENCE:
            levels = [v for v in sorted(set(values)) if v != REFERENCE[name]]
            columns += [(values == v).astype(np.float64) for v in levels]
            names += [f"{name}: {v}" for v in levels]
        else:
            columns.append(values)
            names.append(name)
    return np.column_stack(columns), names


def ols(data: Counties, y: FloatArray) -> tuple[dict[str, float], FloatArray]:
    """Fit by least squares: coefficients by name, and fitted values."""
    X, names = design_matrix(data)
    beta = np.linalg.lstsq(X, y, rcond=None)[0]
    return dict(zip(names, beta.tolist(), strict=True)), X @ beta


def prediction(data: Counties) -> str:
    """Compare predictions of counties that were not used to fit."""
    train, test = split(data)
    rows = []
    for name, options, factors in (
        ("KRLS", {}, True),
        ("KRLS, penalty of R", {"rule": "krls"}, True),
        ("KRLS, bandwidth of greatest variance", {"bandwidth": "maxvar"}, True),
        ("KRLS without state and place", {}, False),
    ):
        X, new = (train.columns, test.columns) if factors else (train.numbers, test.numbers)
        start = time.perf_counter()
        model = KRLS(reference=REFERENCE if factors else None, **options).fit(X, train.share)
        seconds = time.perf_counter() - start
        shown = [f"{model.bandwidth_:.0f}", f"{model.penalty_:.3g}", f"{model.edf_:.0f}", f"{model.r2_:.3f}"]
        rows.append([name, *shown, f"{r2(test.share, model.predict(new)):.3f}", f"{seconds:.1f}"])
    beta, fitted = ols(train, train.share)
    X, names = design_matrix(test)
    guess = X @ np.array([beta.get(n, 0.0) for n in names])
    rows.append(["OLS", "", "", f"{len(beta)}", f"{r2(train.share, fitted):.3f}", f"{r2(test.share, guess):.3f}", ""])
    return "\n".join(
        [
            "## Prediction",
            "",
            f"{len(train.share):,} counties to fit, {len(test.share):,} to predict, drawn at random from the states with "
            f"{FEWEST} counties or more.",
            "",
            lay(["", "bandwidth", "penalty", "edf", "R² within", "**R² of new counties**", "seconds"], rows),
        ]
    )


def effects(data: Counties) -> str:
    """Compare the effects of states: whole factor, dummy alone, OLS."""
    found = three_ways(data, data.share)
    rows = []
    for name in SHOWN:
        term = f"state: {name}"
        if term in found.terms:
            i = found.terms.index(term)
            cells = [
                100 * c[i] for c in (found.estimate, found.std_error, found.plug_in, found.dummy, found.dummy_plug_in)
            ]
            rows.append([name, *(f"{c:.1f}" for c in cells), f"{100 * found.linear[i]:.1f}"])
    states = [i for i, t in enumerate(found.terms) if t.startswith("state")]
    sizes_ = [f"{100 * np.abs(c[states]).mean():.1f}" for c in found.columns]
    rows.append(["mean size, all states", sizes_[0], "", *sizes_[1:]])
    return "\n".join(
        [
            "## The effect of a state",
            "",
            f"In points of the Democratic share, against {REFERENCE['state']}, all counties; R² {found.r2:.3f}, penalty "
            f"{found.penalty:.3g}, {found.seconds:.0f} s for fit and intervals of {len(found.terms)} effects.",
            "",
            lay(["", "contrast", "error", "contrast, plug-in", "dummy", "dummy, plug-in", "OLS"], rows),
        ]
    )


@dataclass(frozen=True)
class Ways:
    """The effects of all terms, three ways: arrays of one entry per term."""

    terms: list[str]
    estimate: FloatArray
    std_error: FloatArray
    covers: Any
    plug_in: FloatArray
    dummy: FloatArray
    dummy_plug_in: FloatArray
    linear: FloatArray
    r2: float
    penalty: float
    seconds: float

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        """The five estimates."""
        return self.estimate, self.plug_in, self.dummy, self.dummy_plug_in, self.linear


def three_ways(data: Counties, y: FloatArray) -> Ways:
    """Estimate every effect as a contrast of the whole factor, as a dummy alone, and by OLS."""
    start = time.perf_counter()
    model = KRLS(reference=REFERENCE).fit(data.columns, y)
    whole = model.effects()
    seconds = time.perf_counter() - start
    alone = KRLS(penalty=model.penalty_, reference=REFERENCE, contrast="dummy").fit(data.columns, y).effects()
    beta, _ = ols(data, y)
    terms = alone["term"].tolist()  # the same columns, named without their reference
    return Ways(
        terms,
        whole["estimate"],
        whole["std_error"],
        lambda truth: (whole["conf_low"] <= truth) & (truth <= whole["conf_high"]),
        whole["plug_in"],
        alone["estimate"],
        alone["plug_in"],
        np.array([beta[t] for t in terms]),
        model.r2_,
        model.penalty_,
        seconds,
    )


def simulated(data: Counties, seed: int = SEED) -> tuple[FloatArray, dict[str, float]]:
    """Draw outcomes with known effects of states: those of OLS, stronger in rural counties, beside curved demographics."""
    rng = np.random.default_rng(seed)
    beta, fitted = ols(data, data.share)
    z = {k: (v - v.mean()) / v.std() for k, v in data.numbers.items()}
    # averages over the counties are those of OLS, because z has mean zero
    state = np.array([beta.get(f"state: {s}", 0.0) for s in data.columns["state"]])
    curved = 0.04 * np.tanh(z["root black_pct"]) * z["lesscollege_whites_pct"] + 0.03 * np.sin(2 * z["log income"])
    noise = rng.choice(data.share - fitted, len(fitted))
    truth = {k: v for k, v in beta.items() if k.startswith("state")}
    return fitted + 0.5 * state * z["rural_pct"] + curved + noise, truth


def known_truth(data: Counties) -> str:
    """Compare the three ways on outcomes whose effects are known."""
    y, truth = simulated(data)
    found = three_ways(data, y)
    states = [i for i, t in enumerate(found.terms) if t in truth]
    true = np.array([truth[found.terms[i]] for i in states])
    rows = []
    names = ("contrast", "contrast, plug-in", "dummy", "dummy, plug-in", "OLS")
    for name, column in zip(names, found.columns, strict=True):
        error = column[states] - true
        slope = float(true @ column[states] / (true @ true))
        rows.append([name, f"{slope:.2f}", f"{100 * np.sqrt(np.mean(error**2)):.2f}"])
    inside = found.covers(np.array([truth.get(t, np.nan) for t in found.terms]))[states].mean()
    return "\n".join(
        [
            "## Known effects",
            "",
            "The same covariates with simulated outcomes: the effects of states are those of OLS, half as strong again one "
            "standard deviation farther into the country, beside two curved effects of demographics and the residuals of OLS "
            "drawn anew.",
            "",
            lay(["", "slope on the truth", "RMSE, points"], rows),
            "",
            f"95 % intervals of the contrasts hold {inside:.2f} of the {len(states)} true effects in this one draw.",
        ]
    )


def r2(y: FloatArray, guess: FloatArray) -> float:
    return 1.0 - float(np.mean((y - guess) ** 2) / y.var())


def lay(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as a table of Markdown."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def page(data: Counties, sections: Sequence[str]) -> str:
    columns = design_matrix(data)[0].shape[1] - 1
    body = "\n\n".join(sections)
    return f"""# Counties and many dummies

The Democratic share of the two-party vote of 2016 in {len(data.share):,} counties on {len(data.numbers)} demographic numbers, the
state and the rural-urban code: {columns} columns of the kernel, {columns - len(data.numbers)} of them dummies.

{body}

*Contrast* sets the whole factor to a state and to {REFERENCE["state"]}. *Dummy* (`contrast="dummy"`, what the R packages print)
switches one dummy and leaves the others, so a county of Texas lies in Texas and in Vermont at once; the fit, which shrinks to the
mean away from the data, has little to say about such a county. *Plug-in* is the average of the fit's own effects; the others are
debiased.

Made by `python experiments/counties.py`. Data: MIT Election Data and Science Lab, American Community Survey 2012–16.
"""


if __name__ == "__main__":
    main()
