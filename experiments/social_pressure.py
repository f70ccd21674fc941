"""Does a letter that shows your neighbors whether you voted bring you to the polls, and whom? Prints, and writes the guide page.

The field experiment of Gerber, Green and Larimer (2008), 344,084 voters of Michigan in 180,002 households, and the first
application of Mohanty and Shaffer (2019): the neighbors' letter against no letter with age, on a random 10,000 and on
everybody. Then all four letters with all covariates on everybody. No row is left out and nothing is approximated: rows
with equal covariates are gathered.

Letters went to households, so errors are clustered by household. The file does not number them, but lists their members
together: within a block, a run of rows with one letter and one household size.

    CROSSLEVEL_DATA=... python experiments/social_pressure.py          # about two minutes and 2 GB
    CROSSLEVEL_DATA=... python experiments/social_pressure.py --quick  # the first application only
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from crosslevel import KRLS
from crosslevel.data.atomic import whole_file
from crosslevel.errors import CrosslevelWarning
from crosslevel.krls.effects import build_effects, pointwise_effects

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "social-pressure.md"
NOBODY = "No Postcard"
ARMS = ("Civic Duty", "Hawthorne", "Self", "Neighbors")
PUBLISHED = (0.0179, 0.0257, 0.0485, 0.0813)
"""Differences in turnout of the experiment, letter by letter."""
COVARIATES = ("age", "sex", "primary_04", "primary_02", "general_02")
AGES = np.arange(20.0, 81.0, 10.0)
AGE_WINDOW = 3.0
"""Years either side, for the difference in means at an age."""
SAMPLE = 10_000
SEED = 2008


@dataclass(frozen=True)
class Voters:
    """The experiment.

    Attributes
    ----------
    table : pyarrow.Table
    voted : (N,)
    household, block : (N,)
        Numbered from zero.
    """

    table: pa.Table
    voted: FloatArray
    household: IntArray
    block: IntArray

    def take(self, rows: npt.NDArray[Any]) -> Voters:
        return Voters(self.table.take(pa.array(rows)), self.voted[rows], self.household[rows], self.block[rows])

    def column(self, name: str) -> npt.NDArray[Any]:
        return self.table[name].to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class Timed:
    value: Any
    seconds: float
    notes: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first application only; writes no page")
    parser.add_argument("--cluster", choices=("household", "block"), default="household", help="for the second one")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/social-pressure.md)")
    args = parser.parse_args()
    folder = os.environ.get("CROSSLEVEL_DATA")
    if not folder:
        sys.exit("set CROSSLEVEL_DATA to the folder of real data")
    voters = read_voters(Path(folder) / "social_pressure" / "shaming.csv.gz")
    sections = [say(first_application(voters))]
    if not args.quick:
        sections.append(say(all_letters(voters, args.cluster)))
        with whole_file(args.out) as beside:
            beside.write_text(page(sections), encoding="utf-8")


def say(text: str) -> str:
    print(text, flush=True)
    return text


def read_voters(path: Path) -> Voters:
    """Read the experiment and number the households."""
    table = pyarrow.csv.read_csv(path)
    block = table["cluster"].to_numpy().astype(np.intp)
    _, arm = np.unique(table["treatment"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    voted = table["primary_06"].to_numpy().astype(np.float64)
    return Voters(table, voted, number_households(block, arm, table["hh_size"].to_numpy()), block - block.min())


def number_households(block: IntArray, arm: IntArray, size: IntArray) -> IntArray:
    """Number the households of rows that lie together, (N,).

    A run of rows with one block, arm and household size holds whole households, one after the other. A run that is no
    multiple of its household size would mean that rows are missing, and is refused.
    """
    same = np.column_stack([block, arm, size])
    new = np.concatenate([[True], (same[1:] != same[:-1]).any(axis=1)])
    start = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    within = np.arange(len(size)) - start[run]
    length = np.diff(np.append(start, len(size)))
    if (length % size[start]).any():
        at = int(start[np.flatnonzero(length % size[start])[0]])
        raise ValueError(f"the rows from {at:,} on are no whole households; was the file filtered or sorted?")
    first = within % size == 0
    return np.cumsum(first) - 1


def first_application(voters: Voters) -> str:
    """Neighbors' letter against none, with age: a random 10,000, then everybody, by R's rule and by ours."""
    arm = voters.column("treatment")
    both = voters.take(np.flatnonzero(np.isin(arm, [NOBODY, "Neighbors"])))
    sample = both.take(np.random.default_rng(SEED).permutation(len(both.voted))[:SAMPLE])
    rows, by_age, notes = [], [], []
    for name, part in ((f"{SAMPLE:,} drawn", sample), (f"all {len(both.voted):,}", both)):
        treated = (part.column("treatment") == "Neighbors").astype(np.float64)
        X = {"letter": treated, "age": part.column("age").astype(np.float64)}
        rows.append(["difference in means", name, "", *difference(part, treated), "", ""])
        for what, options, cluster in (
            ("R's numbers", {"rule": "krls", "inference": "krls"}, None),
            ("KRLS, households", {}, part.household),
            ("KRLS, blocks", {}, part.block),
        ):
            fitted = timed(lambda X=X, o=options, c=cluster, v=part.voted: effects_of(KRLS(**o), X, v, c))
            model, table = fitted.value
            rows.append([what, name, f"{fitted.seconds:.1f}", *interval(table, 0), f"{table['estimate'][1]:.5f}"])
            rows[-1].append(f"{model.penalty_:.3g}")
            notes += [f"{what}, {name}: {note}" for note in fitted.notes]
            if what == "KRLS, households":
                by_age.append(effect_by_age(model, part, treated))
    ages = [[f"{a:.0f}", *small, *large] for a, small, large in zip(AGES, by_age[0], by_age[1], strict=True)]
    return "\n".join(
        [
            "## The neighbors' letter and age",
            "",
            lay(["", "voters", "seconds", "effect", "error", "95 % interval", "a year of age", "penalty"], rows),
            "",
            f"By age, with 95 % bands and the plain difference in means within {AGE_WINDOW:.0f} years:",
            "",
            lay(
                ["age", *(f"{SAMPLE:,}: effect", "band", "means"), *("all: effect", "band", "means")],
                ages,
            ),
            *([""] if notes else []),
            *(f"- {note}" for note in notes),
        ]
    )


def all_letters(voters: Voters, cluster: str) -> str:
    """All letters and covariates, everybody: whole-factor contrasts, dummy differences of the same fit, plain means."""
    X = {"letter": voters.column("treatment"), **{name: voters.column(name) for name in COVARIATES}}
    model = KRLS(reference={"letter": NOBODY})
    groups = voters.household if cluster == "household" else voters.block
    start, work = time.perf_counter(), time.process_time()
    fitted = timed(lambda: model.fit(X, voters.voted, cluster=groups))
    inferred = timed(model.effects)
    seconds, work, peak = time.perf_counter() - start, time.process_time() - work, peak_memory()
    table = inferred.value
    terms = table["term"].tolist()
    alone = dict(zip(terms, dummy_differences(model), strict=True))
    rows = []
    for arm, published in zip(ARMS, PUBLISHED, strict=True):
        i = terms.index(f"letter: {arm} (reference {NOBODY})")
        took = np.isin(X["letter"], [NOBODY, arm])
        part = voters.take(np.flatnonzero(took))
        means = difference(part, (part.column("treatment") == arm).astype(np.float64))
        shown = [f"{table['plug_in'][i]:.4f}", f"{alone[terms[i]]:.4f}", means[0], means[1], f"{published:.4f}"]
        rows.append([arm, *interval(table, i), *shown])
    others = [
        [terms[i], table["contrast"][i], *interval(table, i), f"{table['plug_in'][i]:.5f}"]
        for i in range(len(terms))
        if not terms[i].startswith("letter")
    ]
    notes = (*fitted.notes, *inferred.notes, *table.warnings)
    letter = ["letter", "contrast", "error", "95 % interval", "plug-in", "dummy alone", "means", "error", "published"]
    return "\n".join(
        [
            "## All letters, all covariates, everybody",
            "",
            f"{len(voters.voted):,} voters, {groups.max() + 1:,} {cluster}s ({model.path_}); penalty {model.penalty_:.3g}, "
            f"{model.edf_:,.0f} effective degrees of freedom, R² {model.r2_:.4f}. Fit {fitted.seconds:.0f} s, intervals "
            f"{inferred.seconds:.0f} s, together {seconds:.0f} s ({work:.0f} s of processor time, other programs "
            f"running); peak memory {peak / 1024:.2f} GB.",
            "",
            lay(letter, rows),
            "",
            "`dummy alone` switches one dummy and leaves the other letters as they were, as the R packages do; `means` is the "
            "difference in means of the experiment.",
            "",
            lay(["term", "", "effect", "error", "95 % interval", "plug-in"], others),
            *([""] if notes else []),
            *(f"- {note}" for note in notes),
        ]
    )


def effects_of(model: KRLS, X: Any, y: FloatArray, cluster: IntArray | None) -> tuple[KRLS, Any]:
    model.fit(X, y, cluster=cluster)
    return model, model.effects()


def timed(work: Callable[[], Any]) -> Timed:
    """Do it, and keep the time and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CrosslevelWarning)
        start = time.perf_counter()
        value = work()
        seconds = time.perf_counter() - start
    return Timed(value, seconds, tuple(str(w.message) for w in caught if issubclass(w.category, CrosslevelWarning)))


def dummy_differences(model: KRLS) -> FloatArray:
    """Average the effects of each dummy switched by itself, in the fit at hand."""
    fit = model._model
    effects = build_effects(model.encoding_, fit.cells.X, fit.scaling, contrast="dummy")
    scale = np.array([fit.y_sd / (fit.scaling.sd[e.column] if e.switch is None else 1.0) for e in effects])
    return scale * (fit.cells.m @ pointwise_effects(fit.kernel, effects, fit.solution.coef)) / fit.cells.N


def effect_by_age(model: KRLS, part: Voters, treated: FloatArray) -> list[list[str]]:
    band = model.pointwise_bands("letter", X={"letter": np.zeros(len(AGES)), "age": AGES})
    age, out = part.column("age"), []
    for i, at in enumerate(AGES):
        near = np.abs(age - at) <= AGE_WINDOW
        means = part.voted[near & (treated == 1)].mean() - part.voted[near & (treated == 0)].mean()
        out.append([f"{band['estimate'][i]:.3f}", _range(band, i, 3), f"{means:.3f}"])
    return out


def difference(part: Voters, treated: FloatArray) -> tuple[str, str, str]:
    """Give the difference in means, its error by household, and the interval, as text."""
    estimate, variance = 0.0, 0.0
    for sign, chosen in ((1.0, treated == 1), (-1.0, treated == 0)):
        y = part.voted[chosen]
        _, home = np.unique(part.household[chosen], return_inverse=True)
        estimate += sign * y.mean()
        variance += np.square(np.bincount(home, y - y.mean())).sum() / len(y) ** 2
    half = 1.96 * variance**0.5
    return f"{estimate:.4f}", f"{variance**0.5:.4f}", f"[{estimate - half:.4f}, {estimate + half:.4f}]"


def interval(table: Any, i: int) -> tuple[str, str, str]:
    return f"{table['estimate'][i]:.4f}", f"{table['std_error'][i]:.4f}", _range(table, i, 4)


def _range(table: Any, i: int, digits: int) -> str:
    return f"[{table['conf_low'][i]:.{digits}f}, {table['conf_high'][i]:.{digits}f}]"


def lay(heading: list[str], rows: list[list[str]]) -> str:
    """Lay rows out as a table of Markdown."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def peak_memory() -> float:
    """Give the most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def page(sections: list[str]) -> str:
    body = "\n\n".join(sections)
    return f"""# Social pressure and turnout

Before the Michigan primary of August 2006, households were drawn to get one of four letters: a call to civic duty (*Civic Duty*),
the same and a word that they are being studied (*Hawthorne*), the turnout of their own members (*Self*), or that of their
neighbors too (*Neighbors*). Letters were drawn by lot, so the differences in means are the truth up to chance, and a regression
with covariates must come near them.

{body}

Letters went to households, so errors are by household (CR3); the members of one are listed together in the data. Made by
`python experiments/social_pressure.py`. Data: Gerber, Green and Larimer, *Social pressure and voter turnout* (American Political
Science Review 2008).
"""


if __name__ == "__main__":
    main()
