"""One question about subgroups, from partitions to the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from crosslevel.data.frames import FrameKind
from crosslevel.data.places import Totals
from crosslevel.ecological.confounding import Confounding
from crosslevel.ecological.contrasts import Joint
from crosslevel.ecological.quantities import Block, Sums, facts, goodman_rates, quantities
from crosslevel.ecological.subgroups import Partition, Question, Rollup
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, IntArray

KEPT_DRAWS = 5_000_000
"""Draws of a larger answer are not part of its files: 40 MB."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws of parts of places.

    Attributes
    ----------
    logits : list of (n_draws, m)
        By question, as the model has them.
    confounded : list of (n_draws, m) or None
        The same with what the model does not know, where that is allowed for.
    distance : (m,)
        Of the parts from the places.
    """

    logits: list[FloatArray]
    confounded: list[FloatArray] | None
    distance: FloatArray


class Source(Protocol):
    """A fitted model and the parts of places it is asked about.

    Attributes
    ----------
    partitions : sequence of Partition
    block : int
        Logits to draw at a time.
    """

    @property
    def partitions(self) -> Sequence[Partition]:
        """The parts of places, a partition for each thing asked."""

    @property
    def block(self) -> int:
        """Logits to draw at a time."""

    def draw(self, number: int, places: slice, parts: IntArray, n_stages: int) -> Drawn:
        """Draw the first questions of parts of neighboring places, the same whichever other places are asked for."""


@dataclass(frozen=True)
class Setting:
    """What the answer says about itself.

    Attributes
    ----------
    totals : Totals
    match_totals : bool
    several : bool
        Whether the answer has a key ``outcome``.
    method, provenance, frame, warnings, diagnostics
        Of the estimates.
    confounding : Confounding or None
        What intervals allow for beyond the model.
    """

    totals: Totals
    match_totals: bool
    several: bool
    method: str
    provenance: Provenance
    frame: FrameKind
    warnings: tuple[str, ...]
    diagnostics: Mapping[str, Any]
    confounding: Confounding | None = None


def answer(source: Source, question: Question, setting: Setting) -> Estimates:
    """Draw, match totals, add up, and lay out."""
    totals, parts = setting.totals, source.partitions
    if question.share_of == "turnout":
        totals = Totals(("turnout",), totals.successes[:1], totals.trials[:1], True)
    asking = [_Asked(number, part, totals, question, setting) for number, part in enumerate(parts)]
    for places, index in _blocks(source, len(totals.trials[0]), question.n_draws):
        for one, mine in zip(asking, index, strict=True):
            if len(mine) and one.part.asked.any():
                one.add(mine, source.draw(one.number, places, mine, len(totals.trials)))
    blocks = [block for one in asking if one.part.asked.any() for block in one.blocks()]
    if not blocks:
        raise InputError("no place has people in any of the subgroups asked for; check by, subgroups and where.")
    return _estimates(_stacked(blocks), parts, question, setting)


class _Asked:
    """One partition: the sums of its draws as the model has them, and those that allow for confounding."""

    def __init__(self, number: int, part: Partition, totals: Totals, question: Question, setting: Setting) -> None:
        self.number, self.part, self.totals, self.question, self.setting = number, part, totals, question, setting
        self.known = facts(totals, part.share, part.place, question.share_of)
        self.confounded = question.interval == "confounding"
        if not part.asked.any():
            return
        self.plain = Sums(part, question.rollup, self.known, question.n_draws)
        if self.confounded:
            self.wide = Sums(part, question.rollup, self.known, question.n_draws)

    def add(self, index: IntArray, drawn: Drawn) -> None:
        """Take in all parts of some places."""
        self._add(self.plain, index, drawn.logits, drawn.distance)
        if drawn.confounded is not None:
            self._add(self.wide, index, drawn.confounded, drawn.distance)

    def _add(self, sums: Sums, index: IntArray, logits: list[FloatArray], distance: FloatArray) -> None:
        places, local = np.unique(self.part.place[index], return_inverse=True)
        found, shift = quantities(
            logits,
            self.totals.take(places),
            self.part.share[index],
            local,
            share_of=self.question.share_of,
            match_totals=self.setting.match_totals,
        )
        sums.add(index, found, np.nan_to_num(np.abs(shift)).mean(axis=0)[local], distance)

    def blocks(self) -> Iterator[Block]:
        """Put every outcome in rows."""
        for i, fact in enumerate(self.known):
            goodman = goodman_rates(self.part, fact.place_rate, fact.trials)
            block = self.plain.block(i, goodman)
            if self.confounded:
                block = replace(block, draws=self.wide.block(i, goodman).draws, plain=block.draws)
            if self.setting.several:
                block = replace(block, keys={**block.keys, "outcome": [fact.outcome] * len(block)})
            yield block


def _blocks(source: Source, q: int, n_draws: int) -> Iterator[tuple[slice, list[IntArray]]]:
    """Cut the places in neighbors whose parts are about as many as can be drawn at a time."""
    orders = [np.argsort(part.place, kind="stable") for part in source.partitions]
    counts = np.sum([np.bincount(part.place, minlength=q) for part in source.partitions], axis=0)
    size = max(1, source.block // n_draws)
    first, held = 0, 0
    for i in range(q):
        held += int(counts[i])
        if i + 1 == q or held + int(counts[i + 1]) > size:
            index = []
            for part, order in zip(source.partitions, orders, strict=True):
                a, b = np.searchsorted(part.place[order], [first, i + 1])
                index.append(order[a:b])
            yield slice(first, i + 1), index
            first, held = i + 1, 0


def _stacked(blocks: Sequence[Block]) -> Block:
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return Block(
        {name: [v for block in blocks for v in block.keys[name]] for name in first.keys},
        np.hstack([block.draws for block in blocks]),
        {name: np.concatenate([block.columns[name] for block in blocks]) for name in first.columns},
        None if first.plain is None else np.hstack([block.plain for block in blocks if block.plain is not None]),
    )


def _estimates(block: Block, parts: Sequence[Partition], question: Question, setting: Setting) -> Estimates:
    draws, outer = block.draws, {question.rollup.name, "outcome"}
    low, high, error, _ = quantile_interval(draws, question.level)
    columns = dict(block.columns)
    if block.plain is not None:
        columns["model_low"], columns["model_high"], _, _ = quantile_interval(block.plain, question.level)
    estimate = columns.pop("estimate")
    if setting.match_totals:
        # rounding of sums must not cross what the sums imply
        low, high, estimate = (np.clip(v, columns["bound_low"], columns["bound_high"]) for v in (low, high, estimate))
    n_absent = sum(_n_absent(part, question.rollup) for part in parts)
    warnings = list(setting.warnings)
    if n_absent:
        warnings.append(
            f"{n_absent:,} subgroup(s) of places have no people in the sample and are absent from the table."
        )
    values = {
        **block.keys,
        "estimate": estimate,
        "std_error": error,
        "conf_low": low,
        "conf_high": high,
        **columns,
    }
    found = Estimates.build(
        values,
        keys=tuple(block.keys),
        method=setting.method,
        level=question.level,
        interval=_describe_interval(setting),
        provenance=setting.provenance,
        diagnostics={**setting.diagnostics, "n_draws": question.n_draws},
        warnings=warnings,
        frame=setting.frame,
        title=_title(question, setting),
        kind="subgroups",
        draws=draws if draws.size <= KEPT_DRAWS else None,
    )
    held, levels = draws if found.draws is None else found.draws, tuple(n for n in block.keys if n not in outer)
    return replace(found, joint=Joint(held, block.plain, levels))


def _describe_interval(setting: Setting) -> str:
    c = setting.confounding
    if c is None:
        return "posterior quantiles, under the model"
    return f"posterior quantiles that allow for confounding (tau {c.of_effects.tau:.2f}, omega {c.omega:.2f})"


def _n_absent(part: Partition, rollup: Rollup) -> int:
    if not part.levels.num_rows:
        return len(rollup.labels)
    asked = part.asked
    cells = rollup.member[part.place[asked]] * part.levels.num_rows + part.level[asked]
    return len(rollup.labels) * part.levels.num_rows - len(np.unique(cells))


def _title(question: Question, setting: Setting) -> str:
    what = {"turnout": "turnout", "people": "share of everybody", "voters": "share"}[question.share_of]
    outcome = "" if setting.several or question.share_of == "turnout" else f" with {setting.totals.outcomes[0]}"
    where = "everywhere" if question.rollup.name is None else f"by {question.rollup.name}"
    words = f"{what}{outcome} of each subgroup, {where}"
    return words[0].upper() + words[1:]
