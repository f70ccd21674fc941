"""Imputed, then regressed: what must be in the imputation model, and does the pooled coefficient then cover? Writes the guide page.

BRFSS 2016. A yes-or-no answer u is hidden and known by its mean in each state (or division) only; age, body mass, education and income are
known of every person, and so is another answer y. The question is the coefficient of u in a linear regression of y on age and u. It is
answered from 20 completed data sets, pooled by Rubin's rules: once with y left out of the imputation model (*without y*), once with y in
it (*with y*). Every ordered pair of the eight answers is asked, 56 in all.

A third way, *known rates*, is asked by state with means of other people only: with y, and with the rate of u among those with and without
y in the whole nation (of those other people) as known_rates.

The sample is a random quarter of the people of each group. The published means are those of the *other* three quarters (disjoint), or
those of everybody, of whom the sample is a part (population). The truth is the coefficient of the real column among everybody.

    CROSSLEVEL_DATA=... python experiments/brfss_regression.py            # a quarter of an hour
    CROSSLEVEL_DATA=... python experiments/brfss_regression.py --quick    # three answers; writes no page
    CROSSLEVEL_DATA=... python experiments/brfss_regression.py --known diabetes,stroke --out part.json   # the third way, these hidden
    CROSSLEVEL_DATA=... python experiments/brfss_regression.py --rows part*.json                         # its row of the table
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brfss_data import COLUMNS, LEVELS, OUTCOMES, lay, read

import crosslevel as cl
from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelWarning

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "imputed-regression.md"
SHARE = 0.25
DRAWS = 20
MEANS = {"disjoint": "other people", "population": "everybody, the sample among them"}
WAYS = ("without y", "with y")
KNOWN = "known rates"


@dataclass(frozen=True)
class Answer:
    """A pooled coefficient of u, and the coefficient of the real column among everybody."""

    hidden: str
    outcome: str
    estimate: float
    low: float
    high: float
    truth: float
    real: float
    """Coefficient of the real column among the people of the sample."""

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high


def least_squares(y: FloatArray, age: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Regress y on age and u; give coefficients and their robust (HC0) covariance."""
    A = np.column_stack([np.ones(len(y)), age, u])
    bread = np.linalg.inv(A.T @ A)
    b = bread @ (A.T @ y)
    scores = A * (y - A @ b)[:, None]
    return b, bread @ (scores.T @ scores) @ bread


def chosen(group: npt.NDArray[np.intp], rng: np.random.Generator) -> BoolArray:
    """Choose a random quarter of the people of every group."""
    u = rng.random(len(group))
    order = np.lexsort((u, group))
    first = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1])
    size = np.bincount(group)
    rank = np.empty(len(group), dtype=np.intp)
    rank[order] = np.arange(len(group)) - np.repeat(first, size[size > 0])
    return rank < np.ceil(SHARE * size)[group]


def ask(
    table: pa.Table,
    hidden: str,
    outcome: str,
    level: str,
    seed: int,
    sources: Sequence[str] = tuple(MEANS),
    ways: Sequence[str] = WAYS,
) -> dict[tuple[str, str], Answer]:
    """Hide one answer, regress another on age and it, in every way of imputing and of publishing."""
    whole = table.select([level, *COLUMNS, hidden, outcome]).drop_null()
    u, y, age = (whole[n].to_numpy().astype(np.float64) for n in (hidden, outcome, "age_group"))
    labels, group = np.unique(whole[level].to_numpy(zero_copy_only=False), return_inverse=True)
    sample = chosen(group, np.random.default_rng(seed))
    own = whole.filter(pa.array(sample))
    truth, real = least_squares(y, age, u)[0][2], least_squares(y[sample], age[sample], u[sample])[0][2]
    found = {}
    for source in sources:
        behind = ~sample if source == "disjoint" else np.ones(len(u), dtype=bool)
        means = np.bincount(group[behind], u[behind]) / np.bincount(group[behind])
        published = pa.table({level: labels, hidden: means})
        rates = {outcome: [0, 1], hidden: [u[behind & (y == v)].mean() for v in (0, 1)]}
        rates[f"{hidden}_se"] = [np.sqrt(r * (1 - r) / (behind & (y == v)).sum()) for v, r in enumerate(rates[hidden])]
        for way in ways:
            people = cl.People(own, by=level, columns=[*COLUMNS, *([outcome] if way != "without y" else [])])
            told = cl.Means(hidden, known_rates=rates if way == KNOWN else None)
            imputer = cl.CrossLevelImputer(random_state=seed).fit(people, cl.Places(published, by=level, means=told))
            est = cl.imputation.pool(
                [least_squares(y[sample], age[sample], one[:, 0]) for one in imputer.sample(people, n_draws=DRAWS)],
                imputer,
                names=["Intercept", "age_group", hidden],
                outcome=outcome,
                allow_unseen=way == "without y",
            )
            row = [float(est[c][2]) for c in ("estimate", "conf_low", "conf_high")]
            found[source, way] = Answer(hidden, outcome, *row, float(truth), float(real))
    return found


def rows_of(found: dict[tuple[str, str], list[Answer]]) -> list[list[str]]:
    """Coverage, error and width of every way, over the pairs."""
    rows = []
    for (source, way), answers in found.items():
        error = [abs(a.estimate - a.truth) for a in answers]
        short = [a.estimate / a.truth for a in answers]
        rows.append(
            [
                f"{way}, means of {MEANS[source]}",
                f"{100 * np.mean([a.covered for a in answers]):.0f}",
                f"{np.mean(error):.3f}",
                f"{np.median(short):.2f}",
                f"{np.median([a.high - a.low for a in answers]):.2f}",
            ]
        )
    return rows


def first_pair(level: str, found: dict[tuple[str, str], list[Answer]]) -> list[list[str]]:
    """Heart disease on age and diabetes: one row for every way."""
    rows = []
    for (source, way), answers in found.items():
        one = next(a for a in answers if (a.hidden, a.outcome) == ("diabetes", "heart_disease"))
        rows.append(
            [f"by {level}, {way}, means of {MEANS[source]}", f"{one.estimate:.3f}", f"[{one.low:.3f}, {one.high:.3f}]"]
        )
        truth = one
    rows.append([f"by {level}, real column, the same sample", f"{truth.real:.3f}", ""])
    rows.append([f"by {level}, real column, everybody", f"{truth.truth:.3f}", ""])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three answers; writes no page")
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--known", default="", help="hidden answers of the third way")
    parser.add_argument("--rows", type=Path, nargs="*", help="files of --known --out")
    parser.add_argument("--out", type=Path, default=PAGE)
    args = parser.parse_args()
    if args.rows:
        known = {("disjoint", KNOWN): [Answer(**one) for file in args.rows for one in json.loads(file.read_text())]}
        print(rows_of(known), first_pair("state", known)[0])
        return
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    warnings.simplefilter("ignore", CrosslevelWarning)
    table = read(Path(folder))
    if args.known:
        answers = []
        for seed, (hidden, outcome) in enumerate(permutations(OUTCOMES, 2)):
            if hidden in args.known.split(","):
                answers += ask(table, hidden, outcome, "state", seed, ("disjoint",), (KNOWN,)).values()
                print(answers[-1], file=sys.stderr, flush=True)
        args.out.write_text(json.dumps([asdict(one) for one in answers]))
        return
    parts = {}
    for level in args.levels.split(","):
        found: dict[tuple[str, str], list[Answer]] = {(s, w): [] for s in MEANS for w in WAYS}
        for seed, (hidden, outcome) in enumerate(permutations(OUTCOMES[:3] if args.quick else OUTCOMES, 2)):
            for key, answer in ask(table, hidden, outcome, level, seed).items():
                found[key].append(answer)
                print(level, hidden, outcome, *key, answer, file=sys.stderr, flush=True)
        parts[f"first-{level}"] = lay(["", "coefficient of diabetes", "95 % interval"], first_pair(level, found))
        parts[f"pairs-{level}"] = lay(
            ["", "covered, %", "mean error", "median of estimate / truth", "median width"], rows_of(found)
        )
        print(parts[f"first-{level}"], parts[f"pairs-{level}"], sep="\n\n", flush=True)
    if not args.quick:
        text = args.out.read_text(encoding="utf-8")
        for name, part in parts.items():
            before, rest = text.split(f"<!-- {name} -->\n")
            text = f"{before}<!-- {name} -->\n{part}\n<!-- /{name} -->{rest.split(f'<!-- /{name} -->')[1]}"
        with whole_file(args.out) as beside:
            beside.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
