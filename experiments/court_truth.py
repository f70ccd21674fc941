"""Do the intervals and chances of the court reports hold where every combination of votes was counted?

Prints the two tables of docs/guide/court.md: every third New Zealand district of 2005 and 2014, party votes as groups, candidate
votes as outcomes, ``rxc`` alone. The last option stands for not voting.

    python experiments/court_truth.py --data FOLDER     # some ten seconds
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ecological_data import Known, new_zealand

from crosslevel import ecological
from crosslevel.results import Estimates

YEARS = (2005, 2014)
EVERY = 3
BINS = (0.0, 0.05, 0.3, 0.7, 0.95, 1.0)
FloatArray = npt.NDArray[np.float64]


def held(found: Estimates, truth: FloatArray) -> list[bool]:
    """Tell of every row with an interval whether it contains the truth."""
    low, high = found["conf_low"], found["conf_high"]
    return ((low <= truth) & (truth <= high))[np.isfinite(low)].tolist()


def one_district(known: Known) -> tuple[dict[str, list[bool]], FloatArray, FloatArray]:
    """Give what was contained, by question; the chances of being first; and who was first."""
    found = ecological.rxc(known.counts, kind="votes")
    share = known.truth / known.truth.sum(axis=1, keepdims=True)
    a, b = np.argsort(-known.X.sum(axis=0), kind="stable")[:2]
    c, d = np.argsort(-known.T.sum(axis=0), kind="stable")[:2]
    voters = known.truth[:, :-1] / known.truth[:, :-1].sum(axis=1, keepdims=True)
    pair, leaders = (known.groups[a], known.groups[b]), (known.outcomes[c], known.outcomes[d])
    answers = {
        "share of a group": held(found, share.ravel()),
        "share among voters (the last option taken as not voting)": held(
            ecological.among_voters(found, known.outcomes[-1]), voters.ravel()
        ),
        "difference between the two largest groups": held(ecological.polarization(found, pair), share[a] - share[b]),
        "lead of the two largest candidates": held(ecological.margin(found, leaders), share[:, c] - share[:, d]),
    }
    choice = ecological.candidate_of_choice(found)
    best = {g: known.outcomes[int(np.argmax(share[r]))] for r, g in enumerate(known.groups)}
    was = [best[g] == o for g, o in zip(choice["group"], choice["outcome"], strict=True)]
    return answers, choice["probability_first"], np.array(was, dtype=float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = os.environ.get("CROSSLEVEL_DATA")
    parser.add_argument("--data", type=Path, default=Path(given) if given else None, help="folder of the real data")
    args = parser.parse_args()
    if args.data is None:
        parser.error("pass --data, the folder that holds truth/, or set CROSSLEVEL_DATA")
    districts = [k for year in YEARS for k in new_zealand(args.data / "truth", year, EVERY)]
    contained: dict[str, list[bool]] = defaultdict(list)
    chances, firsts = [], []
    for known in districts:
        answers, chance, was = one_district(known)
        for question, held_here in answers.items():
            contained[question] += held_here
        chances.append(chance)
        firsts.append(was)
    print(f"{len(districts)} districts\n\n| | contains the truth |\n|---|---|")
    for question, all_held in contained.items():
        print(f"| {question} | {100 * np.mean(all_held):.0f} % of {len(all_held):,} |")
    said, was = np.concatenate(chances), np.concatenate(firsts)
    print("\n| `probability_first` | candidates | said, on average | was first |\n|---|---|---|---|")
    for low, high in pairwise(BINS):
        inside = (said >= low) & (said < high)
        print(f"| {low:g} to below {high:g} | {inside.sum()} | {said[inside].mean():.3f} | {was[inside].mean():.3f} |")
    print(f"| in every draw | {(said == 1).sum()} | 1.00 | {was[said == 1].mean():.3f} |")


if __name__ == "__main__":
    main()
