"""Do subgroup estimates agree with exit polls? The validation of Flaxman, Wang and Smola (KDD 2015). Prints; writes the guide page.

County votes of 2016 and 2012 summed to the 998 regions of the 2024 survey, the support of each subgroup by state under the
paper's model or the default one, and the same in the exit polls of the states that had one. People are of 2024 and votes of eight
and twelve years before: that mismatch is in every number.

    CROSSLEVEL_DATA=... python experiments/exit_polls.py              # both elections
    CROSSLEVEL_DATA=... python experiments/exit_polls.py --people     # by the default model
    CROSSLEVEL_DATA=... python experiments/exit_polls.py --years 2016 # one; writes no page
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from us2024_data import (
    SUBGROUPS,
    Remembering,
    all_subgroups,
    data_folder,
    describe,
    lay,
    points,
    read_people,
    read_regions,
    votes_by_region,
)

import crosslevel as cl
from crosslevel.data.atomic import whole_file
from crosslevel.data.regions import MergeReport
from crosslevel.ecological import DistributionRegression
from crosslevel.errors import CrosslevelWarning
from crosslevel.results import Estimates

FloatArray = npt.NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "exit-polls.md"
PEOPLE = PAGE.with_name("exit-polls-people.md")
YEARS = (2016, 2012)
NATION = "All"
POLLS = {"sex": "SEX", "age": "AGE", "household income": "INCOME3", "race and ethnicity": "RACE"}
"""The polls' question for each of ours; the levels of both agree but for words."""
WORDS = {
    "male": "men",
    "men": "men",
    "female": "women",
    "women": "women",
    "18-29": "18-29",
    "30-44": "30-44",
    "45-64": "45-64",
    "65 and older": "65+",
    "under $50k": "under $50,000",
    "less than $50k": "under $50,000",
    "$50k-$100k": "$50,000-100,000",
    "$50-100k": "$50,000-100,000",
    "$100k or more": "$100,000+",
    "white": "white",
    "black": "black",
    "african-american": "black",
    "latino": "Hispanic",
    "asian": "Asian",
}
"""Our name of an answer, by the polls' name in small letters; what is not here ("other race") is not compared."""
FEWEST = 4
"""States below which a correlation is not shown."""
PAPER = {"men": ".96", "women": ".94"}
"""Correlations over 18 states of 2012 that the paper reports."""


@dataclass(frozen=True)
class Poll:
    """What the polls of one election say.

    Attributes
    ----------
    share : mapping of (state, subgroup) to float
        Democratic share of the two parties.
    error : mapping of the same
        Standard error if those asked had been drawn one by one; precincts were drawn, so it is too small.
    """

    share: dict[tuple[str, str], float]
    error: dict[tuple[str, str], float]


@dataclass(frozen=True)
class Compared:
    """Estimates and polls of the same subgroup, state by state, each (n,)."""

    states: tuple[str, ...]
    poll: FloatArray
    error: FloatArray
    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    neighborhood: FloatArray
    everybody: FloatArray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, nargs="+", default=list(YEARS))
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--people", action="store_true", help="the default model, EcologicalInference")
    parser.add_argument(
        "--out", type=Path, help="page to write (default docs/guide/exit-polls.md or exit-polls-people.md)"
    )
    options = parser.parse_args()
    folder = data_folder()
    people = read_people(folder / "us2024" / "persons")
    sections = []
    for year in options.years:
        places, report = places_of(folder, year)
        poll = read_polls(folder / "exit_polls" / "cnn_exit_polls_2012_2016.csv", year)
        model = default_model() if options.people else DistributionRegression(options.features)
        answers = estimate(people, places, model)
        sections.append(section(year, report, places, answers, poll))
        print(sections[-1], "\n", flush=True)
    if set(options.years) >= set(YEARS):
        with whole_file(options.out or (PEOPLE if options.people else PAGE)) as beside:
            beside.write_text(page(sections, options.people), encoding="utf-8")


def places_of(folder: Path, year: int) -> tuple[pa.Table, MergeReport]:
    """Give the regions with the votes of a year: region, st, lon, lat, dem, votes; those without votes are left out."""
    sums, report = votes_by_region(folder, year)
    regions = read_regions(folder).select(["region", "st", "lon", "lat"])
    both = regions.join(sums, "region").sort_by("region")
    both = both.filter(pc.is_valid(both["votes_dem"]))
    votes = pc.add(both["votes_dem"], both["votes_gop"])
    return both.select(["region", "st", "lon", "lat"]).append_column("dem", both["votes_dem"]).append_column(
        "votes", votes
    ), report


def read_polls(path: Path, year: int) -> Poll:
    """Read the state polls of a year as shares of the two parties."""
    table = pyarrow.csv.read_csv(path)
    table = table.filter(pc.equal(table["year"], year))
    question = {poll: ours for ours, poll in POLLS.items()}
    share, error = {}, {}
    for row in table.to_pylist():
        name = WORDS.get(row["answer"].lower())
        if row["poll"] not in question or name not in SUBGROUPS[question[row["poll"]]]:
            continue
        two = two_party(row["pct_dem"], row["pct_gop"])
        if two is not None:
            asked = row["n_question"] * row["pct_electorate"] / 100
            share[row["state"], name] = two
            error[row["state"], name] = float(np.sqrt(max(two * (1 - two), 0.01) / max(asked, 1.0)))
    return Poll(share, error)


def two_party(dem: float | None, gop: float | None) -> float | None:
    """Give the Democratic share of the two parties; nothing where the poll does not give both.

    Examples
    --------
    >>> two_party(48.0, 32.0)
    0.6
    """
    if dem is None or gop is None or dem + gop <= 0:
        return None
    return dem / (dem + gop)


def default_model() -> cl.EcologicalInference:
    """Make the default model, with the shipped constants."""
    return cl.EcologicalInference(n_bins=8)


def estimate(people: pa.Table, places: pa.Table, model: Any) -> dict[str, Estimates]:
    """Fit the votes and ask for the subgroups of the polls, by state and for the nation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        totals = cl.Places(places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
        model.fit(describe(people), totals, unmatched="drop")
    if isinstance(model, DistributionRegression):
        model.embedder_ = Remembering(model.embedder_)  # type: ignore[assignment]
    asked = all_subgroups(POLLS)
    return {rollup: model.estimate(subgroups=asked, rollup=rollup, n_draws=1000) for rollup in ("st", "all")}


def compare(found: Estimates, poll: Poll, subgroup: str, everybody: Mapping[str, float]) -> Compared:
    """Put the estimates of a subgroup beside its polls, in the states that have both."""
    chosen = found.select(subgroup=subgroup)
    row = {state: i for i, state in enumerate(chosen["st"].tolist())}
    states = tuple(s for s in sorted(row) if (s, subgroup) in poll.share)
    at = np.array([row[s] for s in states], dtype=np.intp)
    columns = [chosen[n][at] for n in ("estimate", "conf_low", "conf_high", "neighborhood")]
    return Compared(
        states,
        np.array([poll.share[s, subgroup] for s in states]),
        np.array([poll.error[s, subgroup] for s in states]),
        *columns,
        np.array([everybody[s] for s in states]),
    )


def state_shares(places: pa.Table) -> dict[str, float]:
    """Give the two-party share of every state."""
    summed = places.group_by("st").aggregate([("dem", "sum"), ("votes", "sum")])
    return {r["st"]: r["dem_sum"] / r["votes_sum"] for r in summed.to_pylist()}


def correlation(a: FloatArray, b: FloatArray) -> str:
    """Write Pearson's correlation, or a dash where it means nothing."""
    if len(a) < FEWEST or a.std() == 0 or b.std() == 0:
        return "–"
    return f"{np.corrcoef(a, b)[0, 1]:.2f}"


def rms(a: FloatArray) -> float:
    return float(np.sqrt(np.mean(a**2))) if len(a) else np.nan


def subgroup_rows(compared: Mapping[str, Compared]) -> list[list[str]]:
    """Make a line for each subgroup: levels over states."""
    rows = []
    for name, c in compared.items():
        if not c.states:
            continue
        inside = np.mean((c.low <= c.poll) & (c.poll <= c.high))
        rows.append(
            [
                name,
                str(len(c.states)),
                correlation(c.estimate, c.poll),
                correlation(c.neighborhood, c.poll),
                points(rms(c.estimate - c.poll)),
                points(rms(c.neighborhood - c.poll)),
                points(float(np.mean(c.estimate - c.poll))),
                points(float(np.mean(c.neighborhood - c.poll))),
                points(rms(c.error)),
                points(float(inside), 0),
                PAPER.get(name, ""),
            ]
        )
    return rows


def question_rows(compared: Mapping[str, Compared]) -> list[list[str]]:
    """Make a line for each question: how subgroups differ from their state, all subgroups and states together."""
    rows = []
    for question in POLLS:
        some = [compared[name] for name in SUBGROUPS[question] if name in compared]
        poll, estimate, plain = (
            np.concatenate([getattr(c, n) - c.everybody for c in some]) for n in ("poll", "estimate", "neighborhood")
        )
        slope = float(poll @ estimate / (estimate @ estimate)) if len(poll) else np.nan
        rows.append(
            [
                question,
                str(len(poll)),
                correlation(estimate, poll),
                f"{slope:.2f}",
                points(rms(estimate - poll)),
                points(rms(plain - poll)),
                points(rms(poll)),
            ]
        )
    polled, gap, plain = gaps(compared)
    slope = float(polled @ gap / (gap @ gap)) if len(gap) else np.nan
    errors = [points(rms(gap - polled)), points(rms(plain - polled)), points(rms(polled))]
    rows.append(["women − men", str(len(gap)), correlation(gap, polled), f"{slope:.2f}", *errors])
    return rows


def gaps(compared: Mapping[str, Compared]) -> list[FloatArray]:
    """Give women minus men of the states that polled both: of the polls, the estimates, and neighborhood."""
    men, women = compared["men"], compared["women"]
    at = {s: i for i, s in enumerate(men.states)}
    both = [(i, at[s]) for i, s in enumerate(women.states) if s in at]
    w, m = (np.array(side, dtype=np.intp) for side in zip(*both, strict=True)) if both else ([], [])
    return [getattr(women, n)[w] - getattr(men, n)[m] for n in ("poll", "estimate", "neighborhood")]


def verdict(rows: Sequence[Sequence[str]]) -> str:
    """Say, from the lines of questions, where the estimates are nearer to the polls than neighborhood and where not."""
    nearer = [f"{r[0]} ({r[4]} against {r[5]} points)" for r in rows if float(r[4]) < float(r[5])]
    further = [f"{r[0]} ({r[4]} against {r[5]})" for r in rows if float(r[4]) >= float(r[5])]
    wrong = [r[0] for r in rows if r[2].startswith("-")]
    parts = [
        f"Nearer to the polls than *neighborhood*: {', '.join(nearer) or 'none'}; no nearer: {', '.join(further) or 'none'}."
    ]
    if wrong:
        parts.append(
            f"By {' and '.join(wrong)} the estimates point the wrong way: their correlation with the polls is negative."
        )
    return " ".join(parts)


def nation_rows(found: Estimates, poll: Poll) -> list[list[str]]:
    rows = []
    for i, name in enumerate(found["subgroup"].tolist()):
        if (NATION, name) in poll.share:
            rows.append(
                [
                    name,
                    points(poll.share[NATION, name]),
                    points(found["estimate"][i]),
                    f"[{points(found['conf_low'][i])}, {points(found['conf_high'][i])}]",
                    points(found["neighborhood"][i]),
                ]
            )
    return rows


def section(year: int, report: MergeReport, places: pa.Table, answers: Mapping[str, Estimates], poll: Poll) -> str:
    """Tell one election."""
    everybody = state_shares(places)
    compared = {name: compare(answers["st"], poll, name, everybody) for name in all_subgroups(POLLS)}
    unmatched = sum(report.unmatched_totals.values())
    empty = ", ".join(str(r) for r in report.empty_regions) or "none"
    gap = [points(float(np.mean(g))) for g in gaps(compared)]
    levels = [
        "",
        "states",
        "correlation",
        "neighborhood's",
        "RMSE",
        "neighborhood's",
        "mean error",
        "neighborhood's",
    ]
    levels += ["error of polls", "% of polls inside", "the paper, 2012"]
    told = question_rows(compared)
    differences = ["", "pairs", "correlation", "slope", "RMSE", "neighborhood's", "size of the polls'"]
    return f"""## {year}

{places.num_rows:,} regions with {report.totals["votes_total"]:,} votes for all candidates, of which {unmatched:,} could
not be placed; regions without votes: {empty}. {len({s for s, _ in poll.share} - {NATION})} states have polls.

Levels by state, in points of the two-party share:

{lay(levels, subgroup_rows(compared))}

Differences of a subgroup from its state's result, all subgroups and states of a question together:

{lay(differences, told)}

The mean gap between women and men is {gap[0]} points in the polls and {gap[1]} in the estimates. {verdict(told)}

The nation, in percent:

{lay(["", "poll", "estimate", "95 % interval", "neighborhood"], nation_rows(answers["all"], poll))}"""


def page(sections: Sequence[str], people: bool = False) -> str:
    """Tell all elections."""
    title, which = (
        "Subgroups against exit polls",
        "by the paper's model (`DistributionRegression`; [](exit-polls-people.md) has the default)",
    )
    if people:
        title += ": the default model"
        which = (
            "by `EcologicalInference` with the shipped constants, learned on other columns of the survey of 2024; how far effects of race "
            "and education are shrunk was chosen with the national vote of 2024 in sight, and these elections resemble that one "
            "([](exit-polls.md) has the paper's model)"
        )
    body = "\n\n".join(sections)
    return f"""# {title}

Subgroups here are estimated {which}.

The validation of Flaxman, Wang and Smola (KDD 2015): estimated support of subgroups by state beside the state's exit poll, both
as shares of the two parties. They found correlations of .96 (men) and .94 (women) over 18 states of 2012.

People are the adult citizens of the **2024** American Community Survey, votes are of 2016 and 2012: composition is eight and twelve
years too young, old or rich for them, and household incomes are in dollars of 2024. States are sums of regions weighted by the
subgroup's people, polls are of voters. *Neighborhood* lets everybody vote like their region and knows nothing of subgroups.

**What the correlations show.** Levels of a subgroup over states follow the states' own results, which every method is given.
*Neighborhood* therefore has the correlations that the paper takes as evidence, without any inference about subgroups. The test
is the second table: the differences of subgroups from their state, which no total shows.

{body}

*Error of polls* is the root mean square of their standard errors if voters had been drawn one by one; they were drawn by precincts,
so it is larger. *% of polls inside* counts the polls within the estimates' 95 % intervals. *Slope* is that of the polls'
differences on the estimated ones: below 1, the estimates exaggerate. Alaska counts no votes by county in these years and is
left out. Made by `python experiments/exit_polls.py`. Data: exit polls of CNN (Edison Research), county votes of HuffPost (2012)
and of the MIT Election Data and Science Lab (2016), American Community Survey 2024.
"""


if __name__ == "__main__":
    main()
