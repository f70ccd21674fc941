"""Which law of effects covers labels with large effects? Forms that were tried, on the fits of hidden labels; one of them is shipped.

The estimates are those of ``hidden_labels.py``; only the law that intervals allow for differs. Scenarios of heavy tails give every column
of the features a scale S. It multiplies what may be contextual of the column's effects and what confounds them (distance and tau), and
either nothing else, the *prior* of the effects (what the totals leave of it is computed anew), or *all* that the totals leave open. tau has
the least mean score over labels of other families.

    OMP_NUM_THREADS=1 python experiments/interval_forms.py --data FOLDER                     # fifteen states; prints the table
    OMP_NUM_THREADS=1 python experiments/interval_forms.py --data FOLDER --world others      # the 34 other states, or "nation"
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from hidden_labels import LATER, AsShipped, fitted, hide_labels, mean
from hidden_labels_data import DEVELOPMENT, FIFTEEN, LACKING, write_people
from us2024_data import lay, read_regions

from crosslevel.ecological.confounding import SHIPPED, Tail
from crosslevel.ecological.persons import hidden_errors
from crosslevel.ecological.persons.hidden_errors import Errors, HiddenLabel
from crosslevel.ecological.persons.learner import Learner

LEVEL = 0.95


@dataclass(frozen=True)
class Form:
    """A law: degrees of freedom of the scales (None: normal), distance of effects as shrunk or as estimated, what else is stretched."""

    name: str
    degrees: float | None
    distance: float
    stretch: str = "prior"
    estimated: bool = False


TRIED = (
    Form("normal", None, 0.5),
    Form("normal, .5 of the effect as estimated, not as shrunk", None, 0.5, estimated=True),
    Form("3 degrees, distance .45, nothing else stretched", 3.0, 0.45, "nothing"),
    Form("4 degrees, nothing else stretched", 4.0, 0.5, "nothing"),
    Form("3 degrees, distance .4, all stretched", 3.0, 0.4, "all"),
    Form("3 degrees, distance .45, prior stretched", 3.0, 0.45),
    Form("4 degrees, prior stretched (shipped)", 4.0, 0.5),
)


class Tried(AsShipped):
    """Learn and score with one of the forms, columns shrunk as shipped."""

    form = TRIED[0]

    def errors(
        self, label: str, shrinkage: Mapping[str, float], levels: Sequence[str] = hidden_errors.LEVELS
    ) -> list[dict[str, dict[str, Errors]]]:
        """Give the errors of both halves of a label under the form, at all levels."""
        key = (label, frozenset(shrinkage.items()), hidden_errors.LEVELS)
        if key not in self._errors:
            self._errors[key] = [self._of(half) for half in self.labels[label]]
        return self._errors[key]

    def _of(self, half: HiddenLabel) -> dict[str, dict[str, Errors]]:
        state = hidden_errors._State(half, self.shrinkage, self.base.tail)
        if self.base.tail is not None and self.form.stretch != "prior":
            stretch = 1.0 if self.form.stretch == "nothing" else np.repeat(state.scale, half.structure.widths, axis=0).T
            each = np.broadcast_to(stretch, (state.scale.shape[1], len(half.effects)))
            state.covariances = [np.outer(d, d) * half.covariance for d in each]
        keep = np.array([1.0 - self.shrinkage.get(name, 0.0) for name in half.columns])
        out: dict[str, dict[str, Errors]] = {}
        for level, groups in (("nation", half.dimensions), ("crossings", half.crossings), ("places", half.dimensions)):
            give = hidden_errors._within_places if level == "places" else hidden_errors._over_places
            out[level] = {d.name: give(state, d) for d in groups}
            if self.form.estimated:
                out[level] = {
                    n: replace(e, variances=replace(e.variances, contextual=e.variances.contextual / keep**2))
                    for n, e in out[level].items()
                }
        return out


def scored(learner: Learner, form: Form) -> dict[str, dict[str, float]]:
    """Score every label with constants of the other families."""
    tail = None if form.degrees is None else Tail(form.degrees, SHIPPED.of_effects.tau, form.distance)
    base = replace(SHIPPED, distance=form.distance, tail=tail)
    tried = Tried(list(learner.labels.values()), learner.families, base, learner.shrinkage)
    tried.form = form
    return {label: tried.scores(label, tried.learn(tried.others(label)), LEVEL) for label in tried.labels}


def table(learner: Learner, forms: Sequence[Form] = TRIED) -> str:
    """Lay out the forms: for the sixteen labels, for those opened later, and for all."""
    groups: Mapping[str, Sequence[str]] = {"sixteen: ": DEVELOPMENT, "later: ": LATER, "all: ": [*DEVELOPMENT, *LATER]}
    columns = {"coverage": "coverage", "score": "score", "crossings": "crossing_coverage", "regions": "place_coverage"}
    rows = []
    for form in forms:
        scores, row = scored(learner, form), [form.name]
        for names in groups.values():
            for what in columns.values():
                value = mean(scores, what, names)
                row.append(f"{100.0 * value:.1f}" if what == "score" else f"{value:.3f}")
        rows.append(row)
        print(" ".join(row), flush=True)
    return lay(["law of effects", *(f"{who}{what}" for who in groups for what in columns)], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--world", choices=["fifteen", "others", "nation"], default="fifteen")
    asked = parser.parse_args()
    source = asked.data / "us2024" / "persons"
    states = {f.stem.removeprefix("p_") for f in source.glob("p_*.parquet")} - {*LACKING}
    chosen = {"fifteen": FIFTEEN, "others": sorted(states - {*FIFTEEN}), "nation": sorted(states)}[asked.world]
    with tempfile.TemporaryDirectory() as folder:
        people = Path(folder) / "people.parquet"
        write_people(source, people, chosen)
        learner = hide_labels(fitted(people, read_regions(asked.data)), [*DEVELOPMENT, *LATER])
    print(table(learner))


if __name__ == "__main__":
    main()
