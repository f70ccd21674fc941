"""Real respondents beside totals: BRFSS 2016 and CCES 2018. Writes the guide page.

*Held apart.* The records of a survey are split at random: from the first part come the published means of states, from the second who lives
there, from the third the respondents; the truth is that of all records. Respondents are taken as they come, unweighted, where means, people
and truth are weighted: the selection is that of the telephone. *Votes.* Respondents of CCES 2018 who call themselves Democrats or
Republicans, states with the votes for president in 2016, people of the census by state; beside them the exit poll.

    CROSSLEVEL_DATA=... python experiments/real_surveys.py
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from brfss_data import OUTCOMES

import crosslevel as cl
from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelWarning

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "real-surveys.md"
BRFSS, CCES = "BRFSS 2016", "CCES 2018"
FEATURES = {BRFSS: ["sex", "age_group", "education", "income"], CCES: ["sex", "eth", "age", "educ"]}
SIZES = (500, 2_000, 10_000)
PARTS = (0.45, 0.9)
"""Ends of the parts that give the totals and the composition; the rest are respondents."""
METHODS = ("totals", "respondents", "MRP", "calibrated MRP", "survey and totals")
MEASURED = "survey and totals, selection measured"
COMMON = ("diabetes", "heart_disease", "arthritis", "diff_walk", "poor_health", "smoker")
"""Answers of BRFSS that between 5 and 95 % gave, as hidden columns must be."""
FEW, LEAST_MEASURED = 3, 2_000
"""Selection is measured on no fewer answers, and with no fewer respondents."""
EXIT_POLL = {
    ("sex", "men"): ("SEX", ["Male"]),
    ("sex", "women"): ("SEX", ["Female"]),
    ("eth", "White"): ("RACE", ["White"]),
    ("eth", "Black"): ("RACE", ["Black"]),
    ("eth", "Hispanic"): ("RACE", ["Latino"]),
    ("eth", "Other"): ("RACE", ["Asian", "Other race"]),
    ("age", "18-29"): ("AGE", ["18-29"]),
    ("age", "30-39"): ("AGE65", ["30-39"]),
    ("age", "40-49"): ("AGE65", ["40-49"]),
    ("educ", "Some college"): ("EDUC12R", ["Some college"]),
    ("educ", "4-Year College"): ("EDUC12R", ["College graduate"]),
    ("educ", "Post-grad"): ("EDUC12R", ["Postgraduate"]),
}
"""Levels of CCES that the exit poll has too: its question and answers."""


def read_brfss(folder: Path) -> pd.DataFrame:
    """Read BRFSS; an income that was not told is a level of its own."""
    table = pd.read_parquet(folder / "brfss2016" / "brfss2016_division.parquet")
    table = table.dropna(subset=["sex", "education"]).astype({"state": str, "weight": float})
    whole = table[["sex", "age_group", "education", *OUTCOMES]].astype("Int64")
    return pd.concat([table[["state", "weight"]], table[["income"]].fillna(0).astype(int), whole], axis=1)


def read_cces(folder: Path) -> pd.DataFrame:
    """Read CCES: abortion and party of 59,756 respondents, of equal weight."""
    table = pd.read_parquet(folder / "survey2018" / "cces2018_clean.parquet").assign(weight=1.0)
    table["sex"] = np.where(table["male"] > 0, "men", "women")
    for party in ("Democrat", "Republican"):
        table[party] = (table["party"] == party).astype(int)
    return table


def fitted(
    people: pd.DataFrame,
    places: pd.DataFrame,
    features: Sequence[str],
    survey: pd.DataFrame,
    outcome: str,
    **given: Any,
) -> cl.EcologicalInference:
    """Fit totals of states, people and respondents."""
    codes = [f for f in features if people[f].dtype.kind in "iu"]
    who = cl.People(people, by="state", weight="weight", columns=list(features), categorical=codes)
    totals = cl.Places(places, by="state", successes="yes", trials="asked", **given)
    asked = cl.Survey(survey, outcome=outcome, by="state", compare=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(spatial=None).fit(who, totals, asked)


def held_apart(
    table: pd.DataFrame, outcome: str, features: Sequence[str], sizes: Sequence[int], labels: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Score every method on every level of the features, and say what the respondents and the survey were.

    ``labels`` are other answers that selection and confounding are measured on; with fewer than three they are not.
    """
    known = table.dropna(subset=[outcome]).astype({outcome: int, **{f: table[f].dtype for f in features}})
    known = known.astype({f: "int64" for f in features if known[f].dtype == "Int64"})
    rng = np.random.default_rng(0)
    part = np.digitize(rng.random(len(known)), PARTS)
    first, people, rest = (known[part == i] for i in range(3))
    w, y = first["weight"], first[outcome]
    sums = pd.DataFrame({"state": first["state"], "w": w, "w2": w**2, "wy": w * y}).groupby("state").sum()
    n = sums["w"] ** 2 / sums["w2"]
    places = pd.DataFrame({"yes": n * sums["wy"] / sums["w"], "asked": n}).reset_index()
    truth = {}
    for column in features:
        by = known.assign(wy=known["weight"] * known[outcome]).groupby(column)[["wy", "weight"]].sum()
        truth |= {(column, str(level)): v for level, v in (by["wy"] / by["weight"]).items()}
    order = rng.permutation(len(rest))
    for size in sizes:
        begun = time.process_time()
        model = fitted(people, places, features, survey=rest.iloc[order[:size]], outcome=outcome)
        found, moved = model.survey_.compared.to_pandas(), model.survey_.moved.to_pandas()
        offset = model.survey_.surveys.to_pylist()[0]
        if len(labels) >= FEW and size >= LEAST_MEASURED:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrosslevelWarning)
                model.learn_confounding(labels={name: f"{name} = 1" for name in labels}, by=list(features), survey=True)
            again = model.survey_.compared.to_pandas().query("method == 'survey and totals'")
            found = pd.concat([found, again.assign(method=MEASURED)])
        found["truth"] = [truth[key] for key in zip(found["column"], found["level"], strict=True)]
        found["held"] = (found["conf_low"] <= found["truth"]) & (found["truth"] <= found["conf_high"])
        found["error"], found["width"] = (
            (found["estimate"] - found["truth"]).abs(),
            found["conf_high"] - found["conf_low"],
        )
        print(outcome, size, f"{time.process_time() - begun:.1f} s", file=sys.stderr, flush=True)
        for method, rows in found.groupby("method"):
            yield {
                "outcome": outcome,
                "n": size,
                "method": method,
                "groups": len(rows),
                "points": offset["points"],
                **{name: rows[name].mean() for name in ("error", "held", "width")},
                "moved": moved["moved"].abs().mean(),
                "from_survey": moved["from_survey"].mean(),
                "selection": model.survey_.selection.sd,
            }


def votes(folder: Path) -> tuple[pd.DataFrame, cl.EcologicalInference]:
    """Fit the votes of 2016 by state, the people of the census and the party of respondents."""
    path = folder / "county_votes"
    counties = pd.read_csv(path / "presidential_county_2008_2024.csv", dtype={"fips": str}).query("year == 2016")
    named = pd.read_csv(path / "huffpost_president_2012_county.csv", dtype={"fips": str})
    postal = dict(zip(named["fips"].str.zfill(5).str[:2], named["state"], strict=True))
    counties = counties.assign(state=counties["fips"].str.zfill(5).str[:2].map(postal))
    sums = counties.groupby("state")[["votes_dem", "votes_gop"]].sum()
    places = pd.DataFrame({"yes": sums["votes_dem"], "asked": sums.sum(axis=1)}).reset_index()
    people = pd.read_parquet(folder / "survey2018" / "acs_poststrat_state_eth_sex_age_educ.parquet")
    people = people.rename(columns={"n": "weight"}).query("weight > 0")
    people["sex"] = np.where(people["male"] > 0, "men", "women")
    states = set(places["state"]) & set(people["state"])
    people, places = (frame[frame["state"].isin(states)].reset_index(drop=True) for frame in (people, places))
    counts = [people.pivot_table("weight", "state", f, "sum", fill_value=0).add_prefix(f"{f}=") for f in FEATURES[CCES]]
    cces = read_cces(folder)
    asked = cces[cces["state"].isin(states) & (cces["party"] != "Independent")]
    margins = pd.concat(counts, axis=1).reset_index()
    model = fitted(people, places, FEATURES[CCES], survey=asked, outcome="Democrat", margins=margins)
    found = model.survey_.compared.to_pandas()
    polls = pd.read_csv(folder / "exit_polls" / "cnn_exit_polls_2012_2016.csv").query("year == 2016 and state == 'All'")
    for (column, level), (question, answers) in EXIT_POLL.items():
        rows = polls[(polls["poll"] == question) & polls["answer"].isin(answers)]
        if len(rows):
            dem, gop = (np.average(rows[c], weights=rows["pct_electorate"]) for c in ("pct_dem", "pct_gop"))
            found.loc[(found["column"] == column) & (found["level"] == level), "exit poll"] = dem / (dem + gop)
    return found, model


def lay(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def score_rows(scores: pd.DataFrame) -> list[list[str]]:
    """Average over outcomes: error, coverage and width by method and size."""
    rows = []
    for n, own in scores.groupby("n"):
        mean = own.groupby("method")[["error", "held", "width"]].mean()
        for method in [m for m in (*METHODS, MEASURED) if m in mean.index]:
            e, held, width = mean.loc[method]
            rows.append([f"{n:,}", method, f"{100 * e:.1f}", f"{held:.2f}", f"{100 * width:.0f}"])
    return rows


def outcome_rows(scores: pd.DataFrame, n: int) -> list[list[str]]:
    """Give the errors of every outcome at one size, and what the survey moved."""
    rows = []
    for outcome, own in scores[scores["n"] == n].groupby("outcome", sort=False):
        by = own.set_index("method")
        told = by.iloc[0]
        rows.append(
            [
                str(outcome).replace("_", " "),
                *(f"{100 * by.loc[m, 'error']:.1f}" for m in METHODS),
                f"{by.loc['survey and totals', 'held']:.2f}",
                f"{100 * told['points']:+.1f}",
                f"{told['moved']:.1f}",
                f"{told['from_survey']:.2f}",
            ]
        )
    return rows


def vote_rows(found: pd.DataFrame) -> list[list[str]]:
    """Give every level by every method, beside the exit poll."""
    rows = []
    for (column, level), own in found.groupby(["column", "level"], sort=False):
        by = own.set_index("method")
        poll = own["exit poll"].iloc[0]
        both = by.loc["survey and totals"]
        rows.append(
            [
                f"{column} {level}",
                *(f"{100 * by.loc[m, 'estimate']:.0f}" if m in by.index else "" for m in METHODS),
                f"{100 * both['conf_low']:.0f} to {100 * both['conf_high']:.0f}",
                "" if np.isnan(poll) else f"{100 * poll:.0f}",
            ]
        )
    return rows


def page(
    scores: dict[str, pd.DataFrame], found: pd.DataFrame, model: cl.EcologicalInference, sizes: dict[str, int]
) -> str:
    """Write the page."""
    told = found.dropna(subset=["exit poll"])
    gaps = (told["estimate"] - told["exit poll"]).abs().groupby(told["method"]).mean()
    held = told[told["method"] == "survey and totals"]
    inside = int(((held["conf_low"] <= held["exit poll"]) & (held["exit poll"] <= held["conf_high"])).sum())
    summary, offset = model.survey_, model.survey_.surveys.to_pylist()[0]
    measured = scores[BRFSS][scores[BRFSS]["method"] == MEASURED].groupby("n")["selection"].mean()
    selected = ", ".join(f"{sd:.2f} on the mean with {n:,} respondents" for n, sd in measured.items())
    head = ["respondents", "", "error", "95 % intervals hold", "width"]
    by_outcome = ["", *METHODS, "hold", "respondents above the totals", "moved by (prior sd)", "variance removed"]
    return f"""# Real surveys beside totals

*Written by `experiments/real_surveys.py`. Points of a percentage; groups are the levels of four columns over all states. Constants of
confounding are the shipped ones, `selection` is .1; nothing was chosen on these data. The rows "totals" are
the prior that respondents change, whose law is normal.*

## BRFSS 2016: means of states held apart from the respondents
{sizes[BRFSS]:,} records with sex and education. A random 45 % give the means of 51 states (weighted), another 45 % who lives there
(weighted), and respondents are drawn from the last tenth and taken as they come, unweighted. The truth is the weighted share of all
records; it has an error of its own, about half a point for a level. Features: sex, six ages, education, income (not told is a level).
Eight answers, mean of their errors; *measured*: confounding and selection learned on the other answers that more than 5 % gave
(selection {selected}):

{lay(head, score_rows(scores[BRFSS]))}

By answer, {SIZES[1]:,} respondents (errors by method; then the joint model):

{lay(by_outcome, outcome_rows(scores[BRFSS], SIZES[1]))}

## CCES 2018: the same with respondents of a web panel
{sizes[CCES]:,} respondents of CCES 2018, unweighted, are taken for the population of 50 states: means from 45 % of them,
composition from 45 %, respondents from the rest. Sex, race, six ages, education; whether employers may decline
to cover abortions, and which party. Means of states are those of a few hundred people here, which the model takes as counted.

{lay(head, score_rows(scores[CCES]))}

## CCES 2018 beside the votes of 2016
Votes for president in 2016 by state (two parties, {len(model.places_)} states: Alaska has no counties in the file), people of the census by
state, sex, race, age and education (raked to their exact counts), and {offset["respondents"]:,.0f}
respondents who call themselves Democrats or Republicans. They were asked two years later,
of a party and not of a vote, and are adults, not voters: the example shows what the model says of such a survey.
{" ".join(summary.said)} {" ".join(summary.loud)}

Democratic share of the two parties, and that of the exit poll of 2016 ({len(held)} groups have one):

{lay(["", *METHODS, "95 % interval", "exit poll"], vote_rows(found))}

Mean distance from the exit poll: {", ".join(f"{m} {100 * gaps[m]:.1f}" for m in METHODS)}. Intervals of the joint model hold {inside} of
{len(held)} shares of the exit poll. The poll is itself adjusted to the votes, and is no truth.
"""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CROSSLEVEL_DATA", ".")))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--page", type=Path, default=PAGE)
    asked = parser.parse_args()
    scores, sizes = {}, {}
    for name, read, outcomes in (
        (BRFSS, read_brfss, OUTCOMES),
        (CCES, read_cces, ("abortion", "Democrat", "Republican")),
    ):
        table = read(asked.data)
        sizes[name] = len(table)
        rows: list[dict[str, Any]] = []
        for outcome in outcomes:
            labels = [other for other in COMMON if other != outcome and name == BRFSS]
            rows += held_apart(table, outcome, FEATURES[name], asked.sizes, labels)
        scores[name] = pd.DataFrame(rows)
        print(scores[name].groupby(["n", "method"])[["error", "held", "width"]].mean().to_string(), flush=True)
    found, model = votes(asked.data)
    with whole_file(asked.page) as beside:
        beside.write_text(page(scores, found, model, sizes))


if __name__ == "__main__":
    main()
