"""One question about subgroups, from partitions to the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.data.frames import FrameKind
from crosslevel.ecological.answers import Block, Rollup, Sums, contrast_block, goodman_rates
from crosslevel.ecological.group.link import GroupModel
from crosslevel.ecological.group.posterior import Draws
from crosslevel.ecological.partitions import Partition
from crosslevel.ecological.places import Totals
from crosslevel.ecological.quantities import Facts, facts, quantities
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance

__all__ = ["Question", "Setting", "answer"]

FloatArray = npt.NDArray[np.float64]

KEPT_DRAWS = 5_000_000
"""Draws of a larger answer are not kept in it: 40 MB."""
BLOCK = 1_000_000
"""Logits drawn at a time: 8 MB for each of the few copies the way takes."""


@dataclass(frozen=True)
class Question:
    """What is asked, checked.

    Attributes
    ----------
    rollup : Rollup
    of : {"voters", "people", "turnout"}
    contrast : {"difference", "ratio"} or None
    reference : level to compare with, or None for all pairs
    level : float
    n_draws : int
    seed : int
    """

    rollup: Rollup
    of: str
    contrast: str | None
    reference: object
    level: float
    n_draws: int
    seed: int


@dataclass(frozen=True)
class Setting:
    """What the answer says about itself.

    Attributes
    ----------
    totals : Totals
    account : bool
    several : bool
        Whether the answer has a key ``outcome``.
    method, provenance, frame, warnings, diagnostics
        Of the estimates.
    """

    totals: Totals
    account: bool
    several: bool
    method: str
    provenance: Provenance
    frame: FrameKind
    warnings: tuple[str, ...]
    diagnostics: Mapping[str, Any]


def answer(model: GroupModel, parts: Sequence[Partition], question: Question, setting: Setting) -> Estimates:
    """Draw, account, add up, and lay out."""
    totals = setting.totals
    if question.of == "turnout":
        totals = Totals(("turnout",), totals.successes[:1], totals.trials[:1], True)
    drawn = [model.draws(stage, question.n_draws, question.seed) for stage in range(len(totals.trials))]
    blocks: list[Block] = []
    for number, part in enumerate(parts):
        if not part.asked.any():
            continue
        known = facts(totals, part.share, part.place, question.of)
        sums = _summed(model, drawn, part, number, known, totals, question, setting)
        for i, fact in enumerate(known):
            block = sums.block(i, goodman_rates(part, fact.place_rate, fact.trials))
            if setting.several:
                block = Block({**block.keys, "outcome": [fact.outcome] * len(block)}, block.draws, block.columns)
            blocks.append(block)
    if not blocks:
        raise InputError("no place has people in any of the subgroups asked for; check by, subgroups and where.")
    return _estimates(_stacked(blocks), parts, question, setting)


def _summed(
    model: GroupModel,
    drawn: Sequence[Draws | None],
    part: Partition,
    number: int,
    known: Sequence[Facts],
    totals: Totals,
    question: Question,
    setting: Setting,
) -> Sums:
    """Draw the parts of a few places at a time, so that embeddings and logits are never all copied at once."""
    n_draws = question.n_draws
    sums = Sums(part, question.rollup, known, n_draws)
    together = drawn[0] is None  # a product kernel: parts must be drawn at once
    for index in part.blocks(None if together else max(1, BLOCK // n_draws)):
        M, place, effective = part.vectors(index), part.place[index], part.effective[index]
        logits = [
            model.logits(stage, draws, M, place, effective, n_draws, (question.seed, number))
            for stage, draws in enumerate(drawn)
        ]
        places, local = np.unique(place, return_inverse=True)
        found, shift = quantities(
            logits, totals.take(places), part.share[index], local, of=question.of, accounted=setting.account
        )
        moved = np.nan_to_num(np.abs(shift)).mean(axis=0)[local]
        asked = part.asked[index]
        distance = np.zeros(len(index))  # of rests nobody asks
        distance[asked] = model.distance(M[asked], effective[asked])
        sums.add(index, found, moved, distance)
    return sums


def _stacked(blocks: Sequence[Block]) -> Block:
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return Block(
        {name: [v for block in blocks for v in block.keys[name]] for name in first.keys},
        np.hstack([block.draws for block in blocks]),
        {name: np.concatenate([block.columns[name] for block in blocks]) for name in first.columns},
    )


def _estimates(block: Block, parts: Sequence[Partition], question: Question, setting: Setting) -> Estimates:
    outer = {question.rollup.name, "outcome"}
    if question.contrast is not None:
        levels = [name for name in block.keys if name not in outer]
        block = contrast_block(block, levels, question.contrast, question.reference)
    tail = 0.5 * (1.0 - question.level)
    draws = block.draws
    low, high, error, finite = _spread(draws, tail)
    columns = dict(block.columns)
    estimate = columns.pop("estimate")
    if "bound_low" in columns and setting.account:
        # rounding of sums must not cross what the sums imply
        low, high, estimate = (np.clip(v, columns["bound_low"], columns["bound_high"]) for v in (low, high, estimate))
    n_absent = sum(_n_absent(part, question.rollup) for part in parts)
    warnings = list(setting.warnings)
    if n_absent:
        warnings.append(
            f"{n_absent:,} subgroup(s) of places have no people in the sample and are absent from the table."
        )
    if not finite.all():
        warnings.append(f"{int((~finite).sum()):,} ratio(s) divide by a rate that can be zero and have no interval.")
    many = draws.size > KEPT_DRAWS
    values = {
        **block.keys,
        "estimate": np.where(np.isfinite(estimate), estimate, np.nan),
        "std_error": error,
        "conf_low": low,
        "conf_high": high,
        **columns,
    }
    return Estimates.build(
        values,
        keys=tuple(block.keys),
        method=setting.method,
        level=question.level,
        interval="posterior quantiles, under the model",
        provenance=setting.provenance,
        diagnostics={**setting.diagnostics, "draws": question.n_draws},
        warnings=warnings,
        frame=setting.frame,
        title=_title(question, setting),
        draws=None if many or not finite.all() else draws,
    )


def _spread(draws: FloatArray, tail: float) -> tuple[FloatArray, FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Give lower and upper quantile and standard deviation of every column, NaN where draws are infinite, and where they are not."""
    n = draws.shape[1]
    low, high, error = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
    finite = np.zeros(n, dtype=bool)
    step = max(1, BLOCK // len(draws))
    for first in range(0, n, step):
        some = np.ascontiguousarray(draws[:, first : first + step].T)
        good = np.isfinite(some).all(axis=1)
        rows = first + np.flatnonzero(good)
        finite[rows] = True
        if len(rows):
            low[rows], high[rows] = np.quantile(some[good], [tail, 1.0 - tail], axis=1)
            error[rows] = some[good].std(axis=1)
    return low, high, error, finite


def _n_absent(part: Partition, rollup: Rollup) -> int:
    if not part.levels.num_rows:
        return len(rollup.labels)
    asked = part.asked
    cells = rollup.member[part.place[asked]] * part.levels.num_rows + part.level[asked]
    return len(rollup.labels) * part.levels.num_rows - len(np.unique(cells))


def _title(question: Question, setting: Setting) -> str:
    what = {"turnout": "turnout", "people": "share of everybody", "voters": "share"}[question.of]
    outcome = "" if setting.several or question.of == "turnout" else f" with {setting.totals.outcomes[0]}"
    where = "everywhere" if question.rollup.name is None else f"by {question.rollup.name}"
    compared = {"difference": "Difference in ", "ratio": "Ratio of ", None: ""}[question.contrast]
    whose = "between subgroups" if question.contrast else "of each subgroup"
    words = f"{compared}{what}{outcome} {whose}, {where}"
    return words[0].upper() + words[1:]
