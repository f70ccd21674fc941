"""One question about subgroups, from partitions to the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from crosslevel.data.frames import FrameKind
from crosslevel.data.totals import Totals
from crosslevel.ecological.confounding import Confounding
from crosslevel.ecological.quantities import Block, Sums, contrast_block, facts, goodman_rates, quantities
from crosslevel.ecological.subgroups import Partition, Question, Rollup
from crosslevel.errors import InputError
from crosslevel.results import Estimates, Provenance
from crosslevel.results.intervals import quantile_interval
from crosslevel.typing import FloatArray, IntArray

KEPT_DRAWS = 5_000_000
"""Draws of a larger answer are not kept in it: 40 MB."""


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

    def logits(self, places: slice, parts: Sequence[IntArray], n_draws: int, seed: int) -> list[list[FloatArray]]:
        """Draw the logits of parts of neighboring places: by partition, then by question, (n_draws, m) each."""

    def confounded(
        self, number: int, places: slice, index: IntArray, logits: Sequence[FloatArray], seed: int
    ) -> list[FloatArray] | None:
        """Allow for confounding in the logits of parts: by question, (n_draws, m)."""

    def distance(self, number: int, parts: IntArray) -> FloatArray | None:
        """Say how far parts of a partition lie from the places; None where distance has no meaning."""


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
    if question.denominator == "turnout":
        totals = Totals(("turnout",), totals.successes[:1], totals.trials[:1], True)
    asking = [_Asked(number, part, totals, question, setting) for number, part in enumerate(parts)]
    for places, index in _blocks(source, len(totals.trials[0]), question.n_draws):
        logits = source.logits(places, index, question.n_draws, question.seed)
        for one, mine, f in zip(asking, index, logits, strict=True):
            if len(mine):
                f = f[: len(totals.trials)]
                wide = source.confounded(one.number, places, mine, f, question.seed) if one.confounded else None
                one.add(mine, f, wide, source.distance(one.number, mine))
    blocks = [block for one in asking if one.part.asked.any() for block in one.blocks()]
    if not blocks:
        raise InputError("no place has people in any of the subgroups asked for; check by, subgroups and where.")
    return _estimates(_stacked(blocks), parts, question, setting)


class _Asked:
    """One partition: the sums of its draws as the model has them, and those that allow for confounding."""

    def __init__(self, number: int, part: Partition, totals: Totals, question: Question, setting: Setting) -> None:
        self.number, self.part, self.totals, self.question, self.setting = number, part, totals, question, setting
        self.known = facts(totals, part.share, part.place, question.denominator)
        self.confounded = question.interval == "confounding"
        if not part.asked.any():
            return
        self.plain = Sums(part, question.rollup, self.known, question.n_draws)
        if self.confounded:
            self.wide = Sums(part, question.rollup, self.known, question.n_draws)

    def add(
        self,
        index: IntArray,
        logits: Sequence[FloatArray],
        wide: Sequence[FloatArray] | None,
        distance: FloatArray | None,
    ) -> None:
        """Take in all parts of some places; ``wide`` are the logits that allow for confounding, where these are asked for."""
        if not self.part.asked.any():
            return
        self._add(self.plain, index, logits, distance)
        if wide is not None:
            self._add(self.wide, index, wide, distance)

    def _add(self, sums: Sums, index: IntArray, logits: Sequence[FloatArray], distance: FloatArray | None) -> None:
        places, local = np.unique(self.part.place[index], return_inverse=True)
        found, shift = quantities(
            list(logits),
            self.totals.take(places),
            self.part.share[index],
            local,
            denominator=self.question.denominator,
            match_totals=self.setting.match_totals,
        )
        sums.add(index, found, np.nan_to_num(np.abs(shift)).mean(axis=0)[local], distance)

    def blocks(self) -> Iterator[Block]:
        """Put every outcome in rows."""
        for i, fact in enumerate(self.known):
            goodman = goodman_rates(self.part, fact.place_rate, fact.trials)
            block = self.plain.block(i, goodman)
            if self.confounded:
                wide, plain = self.wide.block(i, goodman).draws, block.draws
                columns = dict(block.columns)
                if self.question.contrast is None:
                    columns["model_low"], columns["model_high"], _, _ = quantile_interval(plain, self.question.level)
                block = Block(block.keys, wide, columns, plain if self.question.contrast else None)
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
    outer = {question.rollup.name, "outcome"}
    if question.contrast is not None:
        levels = [name for name in block.keys if name not in outer]
        block = contrast_block(block, levels, question.contrast, question.reference)
    draws = block.draws
    low, high, error, finite = quantile_interval(draws, question.level)
    columns = dict(block.columns)
    if block.plain is not None:
        columns["model_low"], columns["model_high"], _, _ = quantile_interval(block.plain, question.level)
    estimate = columns.pop("estimate")
    if "bound_low" in columns and setting.match_totals:
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
        interval=_describe_interval(setting),
        provenance=setting.provenance,
        diagnostics={**setting.diagnostics, "n_draws": question.n_draws},
        warnings=warnings,
        frame=setting.frame,
        title=_title(question, setting),
        kind="subgroups",
        draws=None if many or not finite.all() else draws,
    )


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
    what = {"turnout": "turnout", "people": "share of everybody", "voters": "share"}[question.denominator]
    outcome = "" if setting.several or question.denominator == "turnout" else f" with {setting.totals.outcomes[0]}"
    where = "everywhere" if question.rollup.name is None else f"by {question.rollup.name}"
    compared = {"difference": "Difference in ", "ratio": "Ratio of ", None: ""}[question.contrast]
    whose = "between subgroups" if question.contrast else "of each subgroup"
    words = f"{compared}{what}{outcome} {whose}, {where}"
    return words[0].upper() + words[1:]
