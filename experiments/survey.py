"""Surveys beside totals, on columns of United States microdata whose truth is known.

A known column is hidden. Composition comes from one half of the households, the totals that the effects are learned from from the other
half; answers are matched to everybody's totals and compared with everybody's truth. Respondents are drawn, with replacement and by their
weights, from the half that gave the totals: people whom composition never saw, so that no sampling noise of who lives where is in their
answers. They answer in four ways (log-odds of answering, for those who have the label):

    a    alike
    b1   +.3
    b2   +.3 below a bachelor's degree (where the label is a degree: below 45 years), 0 above
    b3   +.2, and a draw from N(0, .1^2) for every level of every column

Selection is taken as 0, as .1 (the default), or as measured on labels of other families, same seed: one for all columns (``measured``), or
one for each, as learn_confounding measures it (``by column``). Beside them: the totals
alone; the respondents as they answered (``raw``); multilevel regression and poststratification with scales learned from the survey
(``mrp``), and the same shifted to the totals (``calibrated``). Constants of confounding are the shipped ones, chosen on these labels
among others, or with ``--others`` tau is that of the other families. Intervals are those of the covariance of effects, without the
confounding of single places.

    OMP_NUM_THREADS=1 python experiments/survey.py --data FOLDER --others --kinds a --out a.csv       # ten minutes for each kind
    OMP_NUM_THREADS=1 python experiments/survey.py --data FOLDER --others --kinds b2 b3 --sizes 10000 1000000 --no-measured --no-baselines
    OMP_NUM_THREADS=1 python experiments/survey.py --read a.csv b1.csv b2.csv b3.csv
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from hidden_labels import fitted
from hidden_labels_data import DIMENSIONS, FIFTEEN, LABELS, write_people
from scipy import special, stats
from us2024_data import read_regions

import crosslevel as cl
from crosslevel.data.columns import Encoder
from crosslevel.data.place_cells import Bins, Labels, count_people
from crosslevel.data.sql import quoted
from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons.groups import allowance_of
from crosslevel.ecological.persons.hidden_errors import Groups, HiddenLabel
from crosslevel.ecological.persons.hidden_labels import Label, hide
from crosslevel.ecological.persons.labels import comparison, read_labels
from crosslevel.ecological.persons.learner import solve_columns, solve_selection
from crosslevel.ecological.persons.model import Kinds, cell_logits
from crosslevel.ecological.persons.poststratification import direct_rates, mrp_rates, regress
from crosslevel.ecological.persons.respondents import Respondents, spread_rows
from crosslevel.ecological.persons.survey import (
    EffectPrior,
    Likelihood,
    SurveyPosterior,
    SurveyRows,
    effect_prior,
    fuse,
    pairs_of,
)
from crosslevel.typing import AnyArray, FloatArray

NAMES = ("own", "inc100", "emp", "gov", "unins", "ba", "pinc50", "h40", "self", "manuf")
TAU_OF_OTHERS = {
    "own": 0.22,
    "inc100": 0.25,
    "emp": 0.24,
    "gov": 0.19,
    "unins": 0.22,
    "ba": 0.22,
    "pinc50": 0.25,
    "h40": 0.24,
    "self": 0.19,
    "manuf": 0.22,
}
"""tau learned from the other families of labels in the fifteen states (the last column of the guide's table of hidden labels)."""
KINDS = ("a", "b1", "b2", "b3")
SIZES = (0, 500, 2_000, 10_000)
"""Respondents; with 0 the totals alone are scored too."""
DEGREE, MIDDLE_AGE = 5, 2
"""First code of educ6 that is a bachelor's degree; number of the first age band of 45 years and more."""
LEAST_PEOPLE = 100
Z = float(stats.norm.ppf(0.975))


@dataclass(frozen=True, eq=False)
class Asked:
    """A hidden label and the people of the other half, who may be asked."""

    half: HiddenLabel
    levels: AnyArray  # (n_kinds, n_columns) of the features kept
    kept: Bins
    place: AnyArray  # of every kind of people and answer
    kind: AnyArray
    has: AnyArray
    weight: FloatArray
    below: AnyArray  # without a degree, or under 45
    state: AnyArray  # number of the state of each place


def prepare(model: cl.EcologicalInference, bins: Bins, cuts: list, label: Label) -> Asked:
    """Hide a label, and count the people of the other half by what may be asked."""
    people, places = model.people_, model.places_
    half = hide(model, people, bins, cuts, label, (0.0, 1.0))[0]
    known = people.expression(" and ".join(f"{quoted(c)} is not null" for c in label.query.columns), "labels")
    found = count_people(people, bins, places.keys, Labels((), (("has", label.query),), half=model.seed_), only=known)
    has, first = (np.array([j in matched for _, matched in found.labels])[found.label] for j in (0, 1))
    number = np.full(len(places), -1)
    number[half.places] = np.arange(len(half.places))
    mine = ~first & (number[found.pairs.place] >= 0)
    at = [bins.names.index(name) for name in half.columns]
    read = {c.name: c for c in bins.encoder.columns}
    kept = Bins(Encoder(tuple(read[n] for n in half.columns), bins.encoder.unknown), bins.edges)
    levels, kind = np.unique(found.codes[:, at], axis=0, return_inverse=True)
    cell = found.pairs.cell[mine]
    column = "age4" if label.name == "ba" else "educ6"
    codes = found.codes[cell, bins.names.index(column)]
    values = np.array(read[column].levels.to_pylist())[codes]
    below = values < (MIDDLE_AGE if column == "age4" else DEGREE)
    weight = (found.pairs.weight * found.total[found.pairs.place])[mine]
    where = number[found.pairs.place[mine]]
    state = np.unique(np.array(places.column("st", "places"))[half.places], return_inverse=True)[1].reshape(-1)
    return Asked(half, levels, kept, where, kind.reshape(-1)[cell], has[mine], weight, below, state)


def draw(asked: Asked, how: str, n: int, rng: np.random.Generator) -> Respondents:
    """Draw respondents who answer in one of the four ways."""
    odds = np.zeros(len(asked.weight))
    if how == "b1":
        odds += 0.3
    elif how == "b2":
        odds += 0.3 * asked.below
    elif how == "b3":
        odds += 0.2
        for j, size in enumerate(asked.kept.sizes):
            odds += 0.1 * rng.normal(size=size)[asked.levels[asked.kind, j]]
    p = asked.weight * np.exp(odds * asked.has)
    drawn = rng.multinomial(n, p / p.sum())
    both, inverse = np.unique(np.column_stack([asked.place, asked.kind]), axis=0, return_inverse=True)
    k, trials = (np.bincount(inverse.reshape(-1), v, len(both)) for v in (drawn * asked.has, drawn))
    some = np.flatnonzero(trials > 0)
    area, levels = both[some, 0], asked.levels[both[some, 1]].astype(np.int32)
    counts = (k[some][None].astype(float), trials[some][None].astype(float))
    places = np.arange(len(asked.half.total))
    sizes = (np.array([n]), np.array([float(n)]))
    return Respondents(("survey",), levels, area, places, *counts, np.zeros(len(some), dtype=np.intp), *sizes, ())


@dataclass(frozen=True, eq=False)
class World:
    """What every survey of a label needs."""

    asked: Asked
    kinds: Kinds
    prior: EffectPrior

    def rows(self, respondents: Respondents) -> SurveyRows:
        """Spread respondents over places; they say where they live."""
        half = self.asked.half
        found = spread_rows(respondents, 0, self.kinds.pairs, self.kinds.levels, half.people, self.asked.kept)
        assert found is not None
        return found

    def fuse(self, rows: SurveyRows, selection: float | FloatArray) -> SurveyPosterior:
        """Fit totals and survey."""
        return fuse(self.kinds, self.prior, self.asked.half.total, rows, selection)


def world_of(model: cl.EcologicalInference, asked: Asked, tau: float | None = None) -> World:
    """Make the prior of a label: that of the totals, with the shipped confounding or another tau."""
    half, effects = asked.half, asked.half.structure
    kinds = replace(half.kinds, crossed=pairs_of(effects))
    shrinkage = allowance_of(model.model_, None).shrinkage
    keep = 1.0 - np.repeat([shrinkage.get(name, 0.0) for name in half.columns], effects.sizes)
    constants = SHIPPED if tau is None else replace(SHIPPED, tau=tau)
    prior = effect_prior(effects, half.effects, half.effect_covariance, keep, constants, kinds.crossed)
    return World(asked, kinds, prior)


def told(g: Groups, sd: FloatArray) -> tuple[AnyArray, FloatArray]:
    """Say which groups are large enough and not fixed by the totals, and give their truth."""
    weight, yes = g.weight.sum(axis=0), g.yes.sum(axis=0)
    shown = (weight > 0.002 * weight.sum()) & (sd > 1e-3) & np.isfinite(sd)
    return shown, np.clip(yes / np.maximum(weight, 1e-9), 1e-6, 1 - 1e-6)


def compared(
    world: World, rows: SurveyRows, theta: FloatArray, covariance: FloatArray, crossed: bool = True
) -> dict[str, tuple[FloatArray, ...]]:
    """Give logit, its sd, truth and slopes of the groups of every column and crossing, their contrasts, and errors in places."""
    half, pairs = world.asked.half, world.kinds.pairs
    problem = Likelihood(world.kinds, half.total, rows)
    at = problem.plain(theta)

    def over(groups: Sequence[Groups]) -> list[tuple[FloatArray, ...]]:
        out = []
        for g in groups:
            found = problem.groups(at, half.people, g.group, len(g.names))
            sd = found.spread(covariance)
            shown, T = told(g, sd)
            out.append((special.logit(found.rate)[shown], sd[shown], T[shown], found.G[shown]))
        return out

    nation, crossings = over(half.dimensions), over(half.crossings) if crossed else []
    eta = cell_logits(theta, world.kinds.codes)[pairs.cell]
    p = special.expit(eta + at.f[pairs.place])
    errors, people = [], []
    for g in half.dimensions:
        row, size = pairs.place * len(g.names) + g.group, len(half.total) * len(g.names)
        weight = np.bincount(row, pairs.weight, size)
        rate = np.bincount(row, pairs.weight * p, size) / np.maximum(weight, 1e-300)
        shown = (g.count.ravel() >= LEAST_PEOPLE) & (weight > 0)
        errors.append((rate - (g.yes / np.maximum(g.weight, 1e-9)).ravel())[shown])
        people.append(g.weight.ravel()[shown])
    more = {"crossings": tuple(np.concatenate(v) for v in zip(*crossings, strict=True))} if crossed else {}
    return more | {
        "nation": tuple(np.concatenate(v) for v in zip(*nation, strict=True)),
        "contrasts": tuple(np.concatenate(v) for v in zip(*(contrasts(c, covariance) for c in nation), strict=True)),
        "places": (np.concatenate(errors), np.concatenate(people)),
    }


def contrasts(column: tuple[FloatArray, ...], covariance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give the difference of the rates of every two groups of a column, its sd, and the true difference."""
    logit, _, T, G = column
    P = special.expit(logit)
    a, b = np.triu_indices(len(P), 1)
    slope = (P * (1 - P))[:, None] * G
    D = slope[a] - slope[b]
    return P[a] - P[b], np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", D, covariance, D), 0.0)), T[a] - T[b]


def scored(found: dict[str, tuple[FloatArray, ...]]) -> dict[str, float]:
    """Score intervals of a label's groups: points of a percentage."""
    out = {}
    for part, first in (("nation", ""), ("crossings", "crossing_")):
        if part in found:
            logit, sd, T = found[part][:3]
            out |= intervals(*(special.expit(logit + s * Z * sd) for s in (0, -1, 1)), T, first)
    if "contrasts" in found:
        D, sd, T = found["contrasts"]
        out |= intervals(D, D - Z * sd, D + Z * sd, T, "contrast_")
    if "places" in found:
        errors, people = found["places"]
        out["place_rmse"] = 100 * float(np.sqrt(people @ errors**2 / people.sum()))
    return out


def intervals(P: FloatArray, low: FloatArray, high: FloatArray, T: FloatArray, first: str) -> dict[str, float]:
    """Score intervals: error, coverage, width, and width with 40 times what is missed."""
    missed = np.maximum(low - T, 0) + np.maximum(T - high, 0)
    return {
        f"{first}error": 100 * float(np.abs(P - T).mean()),
        f"{first}cover": float(((low <= T) & (high >= T)).mean()),
        f"{first}width": 100 * float((high - low).mean()),
        f"{first}score": 100 * float((high - low + 40 * missed).mean()),
    }


def raw(world: World, respondents: Respondents) -> dict[str, tuple[FloatArray, ...]]:
    """Give the shares of respondents as they answered, of groups that follow from one feature."""
    half, out = world.asked.half, []
    for g in half.dimensions:
        if len(g.telling.columns) != 1:
            continue
        column = g.telling.columns[0]
        pairs, n = world.kinds.pairs, half.structure.sizes[column]
        level = world.kinds.levels[pairs.cell, column]
        count = np.bincount(level * len(g.names) + g.group, pairs.weight, n * len(g.names)).reshape(n, -1)
        group = count.argmax(axis=1)[respondents.levels[:, column]]
        answered = (respondents.successes[0], respondents.trials[0], group, len(g.names))
        rate, low, high = (np.clip(v, 1e-3, 1 - 1e-3) for v in direct_rates(*answered, 1.96))
        sd = (special.logit(high) - special.logit(low)) / (2 * 1.96)
        shown, T = told(g, sd)
        out.append((special.logit(rate)[shown], sd[shown], T[shown]))
    return {"nation": tuple(np.concatenate(v) for v in zip(*out, strict=True))}


def regressed(world: World, rows: SurveyRows) -> dict[str, dict[str, tuple[FloatArray, ...]]]:
    """Regress the survey by itself, and give groups as it says and as they are when shifted to the totals."""
    half = world.asked.half
    areas = (np.arange(len(half.total)), world.asked.state)
    found = regress(world.kinds, rows, areas)
    out = []
    for g in half.dimensions:
        rate, sd = mrp_rates(found, world.kinds, half.people, areas, g.group, len(g.names))
        shown, T = told(g, sd)
        out.append((special.logit(rate)[shown], sd[shown], T[shown]))
    alone = {"nation": tuple(np.concatenate(v) for v in zip(*out, strict=True))}
    return {"mrp": alone, "calibrated": compared(world, rows, found.theta, found.theta_covariance, False)}


def study(
    worlds: dict[str, World],
    sizes: Sequence[int],
    kinds: Sequence[str],
    seeds: Sequence[int],
    measured: bool,
    baselines: bool = True,
) -> Iterator[dict[str, object]]:
    """Draw the surveys and score every way of using them."""
    for name, world in worlds.items() if 0 in sizes else ():
        nobody = world.rows(draw(world.asked, "a", 10, np.random.default_rng(0)))
        prior = world.prior
        found = compared(world, nobody, prior.mean, prior.root @ prior.root)
        yield {"label": name, "kind": "-", "n": 0, "way": "totals"} | scored(found)
    for kind in kinds:
        for n in [n for n in sizes if n]:
            drawn, plain, parts = {}, {}, {}
            for number, (name, world) in enumerate(worlds.items()):
                for seed in seeds:
                    rng = np.random.default_rng([number, KINDS.index(kind), n, seed])
                    begun = time.perf_counter()
                    respondents = draw(world.asked, kind, n, rng)
                    rows = world.rows(respondents)
                    fits = {f"selection {s:g}": world.fuse(rows, s) for s in (0.0, 0.1)}
                    took = (time.perf_counter() - begun) / 2
                    entry = {"label": name, "kind": kind, "n": n, "seed": seed, "seconds": took}
                    others = {"raw": raw(world, respondents)} | regressed(world, rows) if baselines else {}
                    for way, found in others.items():
                        yield {**entry, "way": way} | scored(found)
                    for way, fit in fits.items():
                        found = compared(world, rows, fit.theta, fit.covariance, way != "selection 0")
                        yield {**entry, "way": way, "offset": float(fit.offset[0])} | scored(found)
                        if way == "selection 0":
                            logit, sd, T, G = found["nation"]
                            bias = G @ fit.by_delta @ world.prior.selection
                            half = world.asked.half
                            K = pd.DataFrame(
                                np.add.reduceat(bias**2, half.structure.first[: len(half.columns)], axis=1)
                            )
                            K.columns = list(half.columns)
                            parts[name, seed] = (special.logit(T) - logit, sd**2, K)
                    drawn[name, seed], plain[name, seed] = rows, entry
            for (name, seed), rows in drawn.items() if measured else ():
                family = LABELS[name].family
                others = [v for (other, s), v in parts.items() if s == seed and LABELS[other].family != family]
                sd = solve_selection([(e, V, K.to_numpy().sum(axis=1)) for e, V, K in others])
                e, V = (np.concatenate(values) for values in list(zip(*others, strict=True))[:2])
                half = worlds[name].asked.half
                K = (
                    pd.concat([*(K for _, _, K in others), pd.DataFrame(columns=list(half.columns))])
                    .astype(float)
                    .fillna(0.0)
                )
                by = dict(zip(K.columns, solve_columns(e, V, K.to_numpy(), sd), strict=True))
                each = np.repeat([by[column] for column in half.columns], half.structure.sizes)
                for way, selection in (("measured", sd), ("by column", each)):
                    fit = worlds[name].fuse(rows, selection)
                    found = compared(worlds[name], rows, fit.theta, fit.covariance)
                    own = {f"selection {column}": v for column, v in by.items()} if way == "by column" else {}
                    yield {**plain[name, seed], "way": way, "selection": sd} | own | scored(found)
            print(f"{kind} {n:,}", flush=True)


def main() -> None:
    """Write the table of every survey, and print the means over labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--states", nargs="+", default=list(FIFTEEN))
    parser.add_argument("--labels", nargs="+", default=list(NAMES))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--no-measured", action="store_false", dest="measured")
    parser.add_argument("--no-baselines", action="store_false", dest="baselines", help="neither raw shares nor MRP")
    parser.add_argument("--others", action="store_true", help="tau learned from the other families of labels")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path, nargs="+", help="print the tables of earlier runs, and run nothing")
    asked = parser.parse_args()
    if asked.read:
        print(summarized(pd.concat([pd.read_csv(path) for path in asked.read])).to_string())
        return
    with tempfile.TemporaryDirectory() as folder:
        people = Path(folder) / "people.parquet"
        n = write_people(asked.data / "us2024" / "persons", people, asked.states)
        model = fitted(people, read_regions(asked.data))
        print(f"{n:,} adult citizens, {len(model.places_)} regions", flush=True)
        hidden = {name: LABELS[name].hidden for name in asked.labels}
        labels = read_labels({name: f"{name} = 1" for name in asked.labels}, hidden, model.people_, model)
        bins, cuts = comparison(model, model.people_, list(DIMENSIONS))
        worlds = {}
        for label in labels:
            tau = TAU_OF_OTHERS[label.name] if asked.others else None
            worlds[label.name] = world_of(model, prepare(model, bins, cuts, label), tau)
            print(label.name, flush=True)
        rows: list[dict[str, object]] = []
        for row in study(worlds, asked.sizes, asked.kinds, asked.seeds, asked.measured, asked.baselines):
            rows.append(row)
            if asked.out is not None and len(rows) % 20 == 0:
                pd.DataFrame(rows).to_csv(asked.out, index=False)
    table = pd.DataFrame(rows)
    if asked.out is not None:
        table.to_csv(asked.out, index=False)
    print(summarized(table).to_string())


def summarized(table: pd.DataFrame) -> pd.DataFrame:
    """Average over draws, and then over labels."""
    keys = ["kind", "n", "way", "label"]
    numbers = [c for c in table.columns if c not in (*keys, "seed")]
    every = table.drop_duplicates([*keys, *(["seed"] if "seed" in table else [])])
    return every.groupby(keys)[numbers].mean().groupby(keys[:-1]).mean().round(3)


if __name__ == "__main__":
    main()
