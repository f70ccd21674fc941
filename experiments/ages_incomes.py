"""Mean, median and Gini of household incomes from sixteen bins, the last one open: 200 US counties."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.csv
from pclm import composite_link

from crosslevel.binned.baselines import uniform_spread
from crosslevel.binned.counts.cells import CountBins, bins_from_edges
from crosslevel.binned.counts.histogram import draw_curves, draw_shares, fit_counts
from crosslevel.binned.counts.pooled import pool_counts

FloatArray = npt.NDArray[np.float64]

UNIT = 20_000.0
"""Incomes are taken as u = log(1 + income / UNIT), linear near zero and logarithmic far out."""
PARETO = 2.0
"""Exponent of incomes beyond the last edge, stated beforehand: u then exceeds its edge by 1 / PARETO on average."""
DRAWS = 200
SEED = 7


def read_incomes(folder: Path) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Read the lower limits of the bins, (16,), households, (N, 16), and true mean, median and Gini, (N, 3)."""
    table = pyarrow.csv.read_csv(folder / "us_county_income_bins_200.csv").sort_by(
        [("fips", "ascending"), ("bin_min", "ascending")]
    )
    limits = table["bin_min"].to_numpy()[:16].astype(np.float64)
    households = table["households"].to_numpy().astype(np.float64).reshape(-1, 16)
    truth = np.column_stack([table[c].to_numpy()[::16] for c in ("mean_true", "median_true", "gini_true")])
    return limits, households, truth.astype(np.float64)


def cut(limits: FloatArray) -> CountBins:
    """Cut the bins into cells of u, with a falling tail beyond the last edge."""
    return bins_from_edges(np.append(np.log1p(limits / UNIT), np.inf), cell=0.025, tail=1.0 / PARETO)


def measures(bins: CountBins, counts: FloatArray) -> FloatArray:
    """Give mean, median and Gini of cells, each taken to hold one income, (n, 3); ``counts`` is (n, A)."""
    low, high = UNIT * np.expm1(bins.lower[:, 0]), UNIT * np.expm1(bins.upper[:, 0])
    # the mean income of people spread evenly over u
    width = bins.upper[:, 0] - bins.lower[:, 0]
    income = (high - low) / width - UNIT
    share = counts / counts.sum(axis=1, keepdims=True)
    mean = share @ income
    below = np.cumsum(share, axis=1)
    lorenz = np.cumsum(share * income, axis=1) / mean[:, None]
    before = np.concatenate([np.zeros((len(lorenz), 1)), lorenz[:, :-1]], axis=1)
    gini = 1.0 - (share * (lorenz + before)).sum(axis=1)
    at = np.argmax(below >= 0.5, axis=1)
    row = np.arange(len(share))
    inside = (0.5 - (below[row, at] - share[row, at])) / share[row, at]
    return np.column_stack([mean, low[at] + inside * (high - low)[at], gini])


def incomes(folder: Path, quick: bool) -> str:
    """Compare mean, median and Gini with the published ones."""
    limits, households, truth = read_incomes(folder)
    if quick:
        households, truth = households[::40], truth[::40]
    bins = cut(limits)
    rng = np.random.default_rng(SEED)
    pooled = pool_counts(bins, households)
    found: dict[str, list[FloatArray]] = {"pooled": [], "one histogram alone": [], "PCLM": [], "uniform in u": []}
    at_mode: list[FloatArray] = []
    for i, y in enumerate(households):
        for name, fit in (("pooled", pooled.area(i)), ("one histogram alone", fit_counts(bins, y))):
            found[name].append(measures(bins, fit.draws(DRAWS, rng).expected))
        log_density, covariance = composite_link(bins.C, y)
        shares = draw_shares(bins, draw_curves(log_density, covariance, DRAWS, rng))
        found["PCLM"].append(measures(bins, shares * y[bins.bin_of]))
        at_mode.append(measures(bins, draw_shares(bins, log_density[None, :]) * y[bins.bin_of])[0])
        found["uniform in u"].append(measures(bins, uniform_spread(bins.C, y)[None, :]))
    rows = []
    for name, draws in found.items():
        # the composite link model's answer is its fitted curve; the mean of its draws is spoiled by wild tails
        middle = np.array(at_mode if name == "PCLM" else [d.mean(axis=0) for d in draws])
        error = middle - truth
        cells = [f"{100 * np.mean(np.abs(error[:, k]) / truth[:, k]):.2f} %" for k in (0, 1)]
        cells += [f"{np.mean(np.abs(error[:, 2])):.4f}", f"{np.mean(error[:, 2]):+.4f}"]
        if name.startswith("uniform"):
            cells += ["–", "–"]
        else:
            ends = np.array([np.quantile(d, [0.025, 0.975], axis=0) for d in draws])
            held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
            cells += [f"{held[:, k].mean():.2f}" for k in (1, 2)]
        rows.append([name, *cells])
    heading = ["", "mean", "median", "Gini", "Gini, bias", "median held", "Gini held"]
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join(
        [
            "## Incomes: mean, median and Gini from bins",
            "",
            f"{len(truth)} US counties, sixteen bins, the last one ({limits[-1]:,.0f} and over) open: beyond it incomes fall like a Pareto "
            f"law of exponent {PARETO:g} beforehand (a textbook value, not a fit), corrected by the total of the open bin. "
            "Mean absolute errors against the published values, and "
            "the share of counties whose value lies in its 95 % band. The published values and the bins are themselves estimates of a "
            "sample survey, which the bands do not know.",
            "",
            *("| " + " | ".join(cells) + " |" for cells in lines),
        ]
    )
