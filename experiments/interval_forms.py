"""Which form of the interval covers labels with large effects? Forms that were tried and are not shipped, on the fits of hidden labels.

The estimates are those of ``hidden_labels.py``; only the variance that intervals allow for differs. Per column c of a group, with
slopes G and effects e, it has the parts tau^2 G_c R G_c' and share^2 (G_c e_c)^2, e as shrunk or as estimated, and by effect
k^2 (G_c * e_c) R (G_c * e_c)'. With few degrees of freedom every column's parts are multiplied by one inverse-gamma scale, and the
interval ends at the quantile of that mixture. tau, and what is said to be learned, has the least mean score over labels of other families.

    OMP_NUM_THREADS=1 python experiments/interval_forms.py --data FOLDER      # three minutes of one core; prints the table
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from hidden_labels import LATER, fitted, hide_labels
from hidden_labels_data import DEVELOPMENT, FIFTEEN, LABELS, write_people
from scipy import special, stats
from us2024_data import lay, read_regions

from crosslevel.ecological.confounding import SHIPPED
from crosslevel.ecological.persons import hidden_errors
from crosslevel.ecological.persons.aggregate import EFFECT_VARIANCE
from crosslevel.ecological.persons.groups import correlation_root
from crosslevel.ecological.persons.hidden_errors import Groups, HiddenLabel
from crosslevel.results.scores import interval_score
from crosslevel.typing import FloatArray

Z = float(stats.norm.ppf(0.975))
TAUS = np.arange(0.0, 0.45, 0.02).tolist()
SCALES = 60
"""Equally probable scales that stand for the inverse-gamma law."""
LEVELS = ("nation", "crossings", "places")
Part = dict[str, FloatArray]


@dataclass(frozen=True)
class Form:
    """A form of the variance: shares and k that are tried, effects as "shrunk" or "estimated", degrees of freedom."""

    name: str
    effects: str = "shrunk"
    shares: tuple[float, ...] = (0.5,)
    ks: tuple[float, ...] = (0.0,)
    degrees: float = np.inf


TRIED = (
    Form("by column, .5 of the effect as shrunk (shipped)"),
    Form("by column, share of the effect as shrunk learned", shares=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    *(Form(f"by column, .{i} of the effect as estimated", "estimated", (i / 10,)) for i in (3, 4, 5, 6)),
    Form("by column, share of the effect as estimated learned", "estimated", (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    Form("by effect alone, k learned", shares=(0.0,), ks=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    Form("shipped, and by effect, k learned", ks=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)),
    Form("shipped, and by effect, k = .3", ks=(0.3,)),
    Form("by column, .5 of the effect as estimated, and by effect, k = .3", "estimated", ks=(0.3,)),
    *(Form(f"Student, {nu} degrees, .5 of the effect as shrunk", degrees=nu) for nu in (3, 4, 5)),
    Form("Student, 3 degrees, share of the effect as estimated learned", "estimated", (0.2, 0.3, 0.4, 0.5), degrees=3),
    Form("Student, 4 degrees, .35 of the effect as estimated", "estimated", (0.35,), degrees=4),
    Form("Student, 3 degrees, .45 of the effect as shrunk", shares=(0.45,), degrees=3),
)


def with_student_prior(half: HiddenLabel, degrees: float, rounds: int = 20) -> HiddenLabel:
    """Let the effects of every column have a prior variance of their own, inverse gamma about the shipped one, by expectation-maximization.

    The model is linear about the effects that were fitted, so that nothing is fitted again: an approximation.
    """
    B, widths = half.structure.B, half.structure.widths
    back = np.linalg.pinv(B)
    beta, precision = back @ half.effects, np.linalg.inv(back @ half.covariance @ back.T)
    force, seen = precision @ beta, precision - np.eye(len(beta)) / EFFECT_VARIANCE
    variance, ends = np.full(len(widths), EFFECT_VARIANCE), np.cumsum([0, *widths])
    for _ in range(rounds):
        covariance = np.linalg.inv(seen + np.diag(1.0 / np.repeat(variance, widths)))
        beta = covariance @ force
        squares = np.add.reduceat(beta**2 + np.diag(covariance), ends[:-1])
        variance = (degrees * EFFECT_VARIANCE + squares) / (degrees + np.array(widths))
    return replace(half, effects=B @ beta, covariance=B @ covariance @ B.T)


def parts_of(half: HiddenLabel, shrinkage: Mapping[str, float]) -> dict[str, list[Part]]:
    """Give the parts of the variance of every group, by column of the features."""
    state = hidden_errors._State(half, shrinkage)
    errors = hidden_errors.errors_of(half, shrinkage)
    found: dict[str, list[Part]] = {}
    for level, groups in (("nation", half.dimensions), ("crossings", half.crossings), ("places", half.dimensions)):
        found[level] = [_part(state, d, errors[level][d.name], level == "places") for d in groups]
    return found


def _part(state: hidden_errors._State, d: Groups, errors: hidden_errors.Errors, within: bool) -> Part:
    half, at = state.hidden, state.parts(d)
    if within:
        G, count = at.G, d.count.ravel()[at.place * len(d.names) + at.group]
        kept = count >= hidden_errors.LEAST_PEOPLE
    else:
        found = hidden_errors.rates_over(at, half.people, len(d.names))
        G, kept = found.G, (d.weight.sum(axis=0) > 0) & (found.people > 0)
    columns: dict[str, list[FloatArray]] = {"shared": [], "shrunk": [], "estimated": [], "by_effect": []}
    for number, (a, b) in enumerate(half.structure.columns):
        own, e, R = G[:, a:b], half.effects[a:b], correlation_root(half.structure, number)
        columns["shared"].append(((own @ R) ** 2).sum(axis=1))
        columns["shrunk"].append((own @ (state.keep[a:b] * e)) ** 2)
        columns["estimated"].append((own @ e) ** 2)
        columns["by_effect"].append((((own * e) @ R) ** 2).sum(axis=1))
    kept &= np.sum(columns["shared"], axis=0) >= hidden_errors.LEAST_FACTOR
    fixed = errors.model + SHIPPED.omega**2 * errors.own + errors.noise
    out = {name: np.column_stack(values)[kept] for name, values in columns.items()}
    out |= {"fixed": fixed, "tau": SHIPPED.pairs * errors.pairs + errors.untold, "people": errors.people}
    return out | {"estimate": errors.estimate, "truth": errors.truth}


def scored(parts: Sequence[Part], form: Form, tau: float, share: float, k: float, by_people: bool) -> FloatArray:
    """Give coverage and score of one label's intervals."""
    low, high, truth, people = [], [], [], []
    for part in parts:
        column = tau**2 * part["shared"] + share**2 * part[form.effects] + k**2 * part["by_effect"]
        reach = _reach(part["fixed"] + tau**2 * part["tau"], column, form.degrees)
        middle = special.logit(part["estimate"])
        low.append(special.expit(middle - reach))
        high.append(special.expit(middle + reach))
        truth.append(part["truth"])
        people.append(part["people"])
    L, H, T, w = (np.concatenate(values) for values in (low, high, truth, people))
    w = w / w.sum() if by_people else np.full(len(w), 1.0 / len(w))
    return np.array([w @ ((L <= T) & (H >= T)), 100.0 * interval_score(L, H, T, 0.95, w)])


def _reach(fixed: FloatArray, column: FloatArray, degrees: float) -> FloatArray:
    """Give the 97.5 % quantile of a normal whose columns have scales of their own."""
    if np.isinf(degrees):
        return np.asarray(Z * np.sqrt(fixed + column.sum(axis=1)))
    scales = 1.0 / stats.gamma(degrees / 2.0, scale=2.0 / degrees).ppf((np.arange(SCALES) + 0.5) / SCALES)
    rng = np.random.default_rng(0)
    drawn = np.stack([rng.permutation(scales) for _ in range(column.shape[1])])
    sd = np.sqrt(fixed[:, None] + column @ drawn)  # (m, SCALES)
    low, high = np.zeros(len(fixed)), 8.0 * sd.max(axis=1)
    for _ in range(30):
        middle = 0.5 * (low + high)
        above = special.ndtr(middle[:, None] / sd).mean(axis=1) > 0.975
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))


def nested(found: Mapping[str, Mapping[str, Sequence[Part]]], form: Form) -> dict[str, FloatArray]:
    """Score every label with constants of the other families: coverage and score by level, (6,)."""
    grid = list(itertools.product(TAUS, form.shares, form.ks))
    by = {n: np.array([scored(parts["nation"], form, *c, False)[1] for c in grid]) for n, parts in found.items()}
    out = {}
    for name, parts in found.items():
        others = [by[n] for n in found if LABELS[n].family != LABELS[name].family]
        best = grid[int(np.argmin(np.mean(others, axis=0)))]
        out[name] = np.concatenate([scored(parts[level], form, *best, level == "places") for level in LEVELS])
    return out


def _error(parts: Sequence[Part]) -> float:
    return 100.0 * float(np.mean(np.concatenate([np.abs(p["estimate"] - p["truth"]) for p in parts])))


def table(found: Mapping[str, Mapping[str, Sequence[Part]]], forms: Sequence[Form] = TRIED) -> str:
    """Lay out the forms, for the sixteen labels and for those opened later."""
    heading = ["uncertainty about contextual effects"]
    columns = ("error", "coverage", "score", "crossings", "regions")
    heading += [f"{who}{what}" for who in ("", "later: ") for what in columns]
    rows = []
    for form in forms:
        scores, row = nested(found, form), [form.name]
        for names in (DEVELOPMENT, LATER):
            mean = np.mean([scores[n] for n in names if n in scores], axis=0)
            error = np.mean([_error(found[n]["nation"]) for n in names if n in found])
            row += [f"{error:.2f}", f"{mean[0]:.3f}", f"{mean[1]:.1f}", f"{mean[2]:.3f}", f"{mean[4]:.3f}"]
        rows.append(row)
        print(" ".join(row), flush=True)
    return lay(heading, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prior", type=float, help="degrees of freedom of a Student prior of each column's effects")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        people = Path(folder) / "people.parquet"
        write_people(asked.data / "us2024" / "persons", people, FIFTEEN)
        learner = hide_labels(fitted(people, read_regions(asked.data), 1), people, [*DEVELOPMENT, *LATER])
    found: dict[str, dict[str, list[Part]]] = {}
    for name, halves in learner.labels.items():
        chosen = halves if asked.prior is None else tuple(with_student_prior(half, asked.prior) for half in halves)
        both = [parts_of(half, learner.shrinkage) for half in chosen]
        found[name] = {level: [*both[0][level], *both[1][level]] for level in LEVELS}
    print(table(found))


if __name__ == "__main__":
    main()
