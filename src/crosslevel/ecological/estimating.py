"""One question about subgroups, from partitions to the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.data.frames import FrameKind
from crosslevel.ecological.answers import Block, Rollup, contrast_block, goodman_rates, tabulate_part
from crosslevel.ecological.group.link import GroupModel
from crosslevel.ecological.partitions import Partition
from crosslevel.ecological.places import Totals
from crosslevel.ecological.quantities import Quantity, quantities
from crosslevel.errors import InputError
from crosslevel.numerics.quadrature import logistic_mean
from crosslevel.results import Estimates, Provenance

__all__ = ["Question", "Setting", "answer"]

FloatArray = npt.NDArray[np.float64]

KEPT_DRAWS = 5_000_000
"""Draws of a larger answer are not kept in it: 40 MB."""


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
    stages = range(1 if question.of == "turnout" else len(setting.totals.trials))
    totals = setting.totals
    if question.of == "turnout":
        totals = Totals(("turnout",), totals.successes[:1], totals.trials[:1], True)
    drawn = [model.draws(stage, question.n_draws, question.seed) for stage in stages]
    blocks: list[Block] = []
    for number, part in enumerate(parts):
        if not part.asked.any():
            continue
        logits = [
            model.logits(
                stage, drawn[stage], part.M, part.place, part.effective, question.n_draws, [question.seed, 1 + number]
            )
            for stage in stages
        ]
        found, shift = quantities(logits, totals, part.share, part.place, of=question.of, accounted=setting.account)
        plain = None
        if not setting.account and len(logits) == 1:
            moment = model.moments(0, part.M, part.place)
            noise = np.maximum(logits[0].var(axis=0) - moment.variance, 0.0) if model.sampling is not None else 0.0
            plain = logistic_mean(moment.mean, moment.variance + noise)
        distance = model.distance(part.M, part.effective)
        for quantity in found:
            blocks.append(_block(part, quantity, shift, question, setting, distance, plain))
    if not blocks:
        raise InputError("no place has people in any of the subgroups asked for; check by, subgroups and where.")
    return _estimates(_stacked(blocks), parts, question, setting)


def _block(
    part: Partition,
    quantity: Quantity,
    shift: FloatArray,
    question: Question,
    setting: Setting,
    distance: FloatArray,
    plain: FloatArray | None,
) -> Block:
    trials = setting.totals.trials[1 if setting.totals.turnout and question.of == "voters" else 0]
    block = tabulate_part(
        part,
        quantity,
        shift,
        question.rollup,
        distance=distance,
        goodman=goodman_rates(part, quantity.place_rate, trials),
        estimate=plain,
    )
    if setting.several:
        block = Block({**block.keys, "outcome": [quantity.outcome] * len(block)}, block.draws, block.columns)
    return block


def _stacked(blocks: Sequence[Block]) -> Block:
    first = blocks[0]
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
    low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    columns = dict(block.columns)
    estimate = columns.pop("estimate")
    if "bound_low" in columns and setting.account:
        # rounding of sums must not cross what the sums imply
        low, high, estimate = (np.clip(v, columns["bound_low"], columns["bound_high"]) for v in (low, high, estimate))
    finite = np.isfinite(draws).all(axis=0)
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
        "std_error": np.where(finite, np.nan_to_num(draws, posinf=0.0, neginf=0.0).std(axis=0), np.nan),
        "conf_low": np.where(finite, low, np.nan),
        "conf_high": np.where(finite, high, np.nan),
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


def _n_absent(part: Partition, rollup: Rollup) -> int:
    asked = part.asked
    cells = rollup.member[part.place[asked]] * max(part.levels.num_rows, 1) + part.level[asked]
    return len(rollup.labels) * part.levels.num_rows - len(np.unique(cells))


def _title(question: Question, setting: Setting) -> str:
    what = {
        "turnout": "Turnout",
        "people": "Share of everybody",
        "voters": "Share",
    }[question.of]
    outcome = "" if setting.several or question.of == "turnout" else f" with {setting.totals.outcomes[0]}"
    where = "by place" if question.rollup.name is not None else "everywhere"
    compared = {"difference": "Difference in ", "ratio": "Ratio of ", None: ""}[question.contrast]
    return f"{compared}{what}{outcome} of each subgroup, {where}"
