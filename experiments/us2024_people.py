"""The vote of 2024 by sex, age, race and education: the default model on 998 regions. Writes docs/guide/us2024-people.md.

People are the adult citizens of the American Community Survey 2024 (with households rebuilt from the order of rows, see
``hidden_labels_data.py``), totals are the votes of both parties by region. Constants are the shipped ones.

    OMP_NUM_THREADS=1 python experiments/us2024_people.py --data FOLDER            # minutes; writes the page
    OMP_NUM_THREADS=1 python experiments/us2024_people.py --data FOLDER --print
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from hidden_labels_data import CATEGORICAL, FEATURES, write_people
from us2024_data import lay, peak_memory, points, read_regions

import crosslevel as cl
from crosslevel.errors import CrosslevelWarning
from crosslevel.results import Estimates

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "us2024-people.md"
LEVELS: dict[str, dict[Any, str]] = {
    "female": {0: "men", 1: "women"},
    "age4": {0: "18-29", 1: "30-44", 2: "45-64", 3: "65 and over"},
    "eth5": {1: "white", 2: "black", 3: "Hispanic", 4: "Asian", 5: "other"},
    "educ5": {0: "no diploma", 1: "high school", 2: "some college, associate", 3: "bachelor", 4: "graduate"},
}
STATES = ("AZ", "GA", "MI", "NC", "PA", "WI")
N_DRAWS = 400


def fitted(people: Any, data: Path) -> cl.EcologicalInference:
    """Fit the default model to the votes of both parties."""
    who = {"weight": "weight", "cluster": "household", "columns": list(FEATURES), "categorical": list(CATEGORICAL)}
    votes = {"successes": "votes_dem_2024", "trials": "votes", "coords": ("lon", "lat")}
    places = cl.Places(read_regions(data), by="region", **votes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        return cl.EcologicalInference(n_bins=8).fit(cl.People(people, by="region", **who), places)


def rows(found: Estimates, by: list[str], first: tuple[str, ...] = ()) -> list[list[str]]:
    """Lay out estimate, interval and neighborhood."""
    out = []
    for i in range(len(found["estimate"])):
        name = ", ".join(LEVELS[c].get(found[c][i], str(found[c][i])) for c in by)
        out.append(
            [
                *(str(found[c][i]) for c in first),
                name,
                points(found["estimate"][i]),
                f"{points(found['conf_low'][i])} to {points(found['conf_high'][i])}",
                f"{points(found['model_low'][i])} to {points(found['model_high'][i])}",
                points(found["neighborhood"][i]),
            ]
        )
    return out


HEADING = ["Democratic share of the two-party vote", "95 % interval", "under the model", "neighborhood"]


def page(model: cl.EcologicalInference, people: int, seconds: float) -> str:
    """Write the page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrosslevelWarning)
        nation = [r for c in LEVELS for r in rows(model.estimate(by=c, rollup="all", n_draws=N_DRAWS), [c])]
        crossed = rows(model.estimate(by=["eth5", "educ5"], rollup="all", n_draws=N_DRAWS), ["eth5", "educ5"])
        states = model.estimate(by="eth5", rollup="st", n_draws=N_DRAWS)
    some = [r for r in rows(states, ["eth5"], ("st",)) if r[0] in STATES]
    names = model.model_.bins.names
    reliable = ", ".join(f"{n} {r:.2f}" for n, r in zip(names, model.model_.measured.reliability, strict=True))
    return TEXT.format(
        people=f"{people:,}",
        places=len(model.places_.keys),
        minutes="under a minute" if seconds < 60 else f"{seconds / 60:.0f} minutes",
        memory=f"{peak_memory():.1f}",
        r2=f"{model.model_.explained:.2f}",
        reliable=reliable,
        nation=lay(["", *HEADING], nation),
        crossed=lay(["", *HEADING], crossed),
        states=lay(["state", "", *HEADING], some),
        on=nation and model.estimate(by="female", rollup="all", n_draws=50).diagnostics["constants_learned_on"],
    )


TEXT = """# The vote of 2024 by the default model

{people} adult citizens of the American Community Survey 2024 in {places} regions, and the votes of the two parties there. The paper's
model on the same data: [](us2024.md). Made by `python experiments/us2024_people.py` ({minutes} here, {memory} GB).

**What to read it as.** No truth about people is known here; beside every estimate stands what it would be if everybody voted like their
region (*neighborhood*). People are adult citizens, not voters: who turned out is not modeled. Shrinkage and the uncertainty about
contextual effects were chosen with the national vote of 2024 in sight ([](../concepts/evidence.md)), so that the agreement of the figures
with surveys of that election is no test of the method. Constants were learned on {on}.

R2 of the regions' votes on their composition: {r2} (below .45 a warning says that this is little). Reliability of the shares of
regions: {reliable}. A column of low reliability answers with its neighborhood, and with the interval of its prior.

## The nation

{nation}

## Race and education

{crossed}

## Race in six states

{states}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--print", action="store_true", dest="only_print")
    asked = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        people = Path(folder) / "people.parquet"
        n = write_people(asked.data / "us2024" / "persons", people)
        model = fitted(people, asked.data)
        print(f"fit: {model.seconds_}, {time.perf_counter() - begun:.0f} s, {peak_memory():.2f} GB", flush=True)
        text = page(model, n, time.perf_counter() - begun)
    print(text)
    if not asked.only_print:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
