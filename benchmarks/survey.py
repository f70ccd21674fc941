"""How long does a survey take beside the totals?

    OMP_NUM_THREADS=1 python benchmarks/survey.py                      # 10,000 respondents in 998 regions
    OMP_NUM_THREADS=1 python benchmarks/survey.py --regions 200 --respondents 2000

Prints the seconds of the fit to totals and of the survey beside it on one thread: effects with the confounding of the totals and with the
model alone, offsets, and every level without the survey and with it; then the same with MRP to compare; and beside them the seconds of
scipy.linalg.eigh at N = 2,000, by which machines can be compared. Times of the processor, not of the clock.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace

from individual import eigh_seconds

import crosslevel as cl
from crosslevel.data.simulate import nation
from crosslevel.ecological.persons.survey_fit import fuse_again
from crosslevel.errors import CrosslevelWarning

COLUMNS = ["age_group", "race", "education", "sex", "urban"]


def main() -> None:
    """Fit, and time the survey again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regions", type=int, default=998)
    parser.add_argument("--people", type=int, default=300, help="in every region")
    parser.add_argument("--respondents", type=int, default=10_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", CrosslevelWarning)
    print(f"eigh, N = 2,000: {eigh_seconds():.2f} s")
    world = nation(asked.regions, asked.people, random_state=0)
    begun = time.process_time()
    people = cl.People(world.people, by="region", weight="weight", columns=COLUMNS, categorical=["sex"])
    places = cl.Places(world.places, by="region", successes="dem", trials="votes")
    survey = cl.Survey(world.survey(asked.respondents, shift=0.3), outcome="voted_dem", by="region")
    model = cl.EcologicalInference(spatial=None).fit(people, places, survey)
    whole = time.process_time() - begun
    for compare in (False, True):
        model.surveys_ = (replace(survey, compare=compare),)
        begun = time.process_time()
        fuse_again(model, model.survey_.selection)
        took = time.process_time() - begun
        what = "with MRP to compare" if compare else f"of a fit of {whole:.1f} s"
        pairs = model.convergence_["place_cell_pairs"]
        print(f"{asked.respondents:,} respondents, {asked.regions} regions, {pairs:,} pairs: {took:.1f} s {what}")


if __name__ == "__main__":
    main()
