"""One question about subgroups, from partitions to the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import special

from crosslevel.data.frames import FrameKind
from crosslevel.data.queries import SUBGROUP
from crosslevel.data.totals import Totals
from crosslevel.ecological.confounding import FALLBACK, NOBODY, Confounding, Shared, draw_shared, perturb, shrink
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
    together : bool
        Whether the parts of all places must be drawn at once.
    block : int
        Logits to draw at a time.
    """

    @property
    def partitions(self) -> Sequence[Partition]:
        """The parts of places, a partition for each thing asked."""

    @property
    def together(self) -> bool:
        """Whether the parts of all places must be drawn at once."""

    @property
    def block(self) -> int:
        """Logits to draw at a time."""

    def logits(self, places: slice, parts: Sequence[IntArray], n_draws: int, seed: int) -> list[list[FloatArray]]:
        """Draw the logits of parts of neighboring places: by partition, then by question, (n_draws, m) each."""

    def confounded(
        self, number: int, places: slice, index: IntArray, logits: Sequence[FloatArray], seed: int
    ) -> list[FloatArray] | None:
        """Allow for confounding in the logits of parts; None where that is done for the parts themselves."""

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
    confounding : Confounding
    shrinkage : tuple of float
        How far each partition is shrunk toward the places' own rates.
    apart : tuple of int
        How many columns, beside those of its levels, tell each partition's people from the rest.
    """

    totals: Totals
    match_totals: bool
    several: bool
    method: str
    provenance: Provenance
    frame: FrameKind
    warnings: tuple[str, ...]
    diagnostics: Mapping[str, Any]
    confounding: Confounding = FALLBACK
    shrinkage: tuple[float, ...] = ()
    apart: tuple[int, ...] = ()


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
        self.shrinkage = setting.shrinkage[number] if self.confounded and setting.shrinkage else 0.0
        if not part.asked.any():
            return
        self.plain = Sums(part, question.rollup, self.known, question.n_draws)
        if self.confounded:
            self.wide = Sums(part, question.rollup, self.known, question.n_draws)
            self.shared = [self._shared(stage) for stage in range(len(totals.trials))]

    def _shared(self, stage: int) -> Shared:
        rng = np.random.default_rng(np.random.SeedSequence(self.question.seed, spawn_key=(3, stage, self.number)))
        apart = self.setting.apart[self.number] if self.setting.apart else 0
        return draw_shared(_codes(self.part, apart), self.setting.confounding, self.question.n_draws, rng)

    def add(
        self,
        index: IntArray,
        logits: Sequence[FloatArray],
        wide: Sequence[FloatArray] | None,
        distance: FloatArray | None,
    ) -> None:
        """Take in all parts of some places; ``wide`` are the logits that allow for confounding, where the source has them."""
        if not self.part.asked.any():
            return
        place = self.part.place[index]
        if self.shrinkage:
            logits = [shrink(f, self._place_logit(stage)[place], self.shrinkage) for stage, f in enumerate(logits)]
        self._add(self.plain, index, logits, distance)
        if self.confounded:
            moved = wide or [
                perturb(
                    f,
                    self.shared[stage],
                    index,
                    place,
                    self.setting.confounding,
                    self.question.seed,
                    (4, stage, self.number),
                )
                for stage, f in enumerate(logits)
            ]
            self._add(self.wide, index, moved, distance)

    def _place_logit(self, stage: int) -> FloatArray:
        k, n = self.totals.successes[stage], self.totals.trials[stage]
        return np.asarray(special.logit((k + 0.5) / (n + 1.0)))

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


def _codes(part: Partition, apart: int = 0) -> list[IntArray]:
    """Number the levels of the parts in each column that cuts them.

    White women are a crossing of race and sex, however they are asked for: by both columns, by race where sex is 2, or by name. A
    column in which all people asked for are alike sets them apart from the rest of their place, if there is one. The rest is a level
    of the first column only, and where one crossing alone is asked for of none: it is all other crossings, whose effects average out.
    """
    names = [name for name in part.levels.column_names if name != SUBGROUP] or part.levels.column_names
    columns: list[IntArray] = []
    for name in names:
        values = part.levels[name].to_pylist()
        number = {value: i for i, value in enumerate(dict.fromkeys(values))}
        if len(number) == 1 and len(names) > 1:
            apart += 1
            continue
        code = np.array([number[value] for value in values], dtype=np.intp)
        rest = NOBODY if columns or (apart and names == [SUBGROUP]) else len(number)
        columns.append(np.where(part.asked, np.append(code, 0)[part.level], rest))
    if not columns:  # every column has one level
        columns, apart = [np.where(part.asked, part.level, part.levels.num_rows)], apart - 1
    if not part.asked.all():
        columns += [np.where(part.asked, 0, NOBODY)] * apart
    return columns


def _blocks(source: Source, q: int, n_draws: int) -> Iterator[tuple[slice, list[IntArray]]]:
    """Cut the places in neighbors whose parts are about as many as can be drawn at a time."""
    orders = [np.argsort(part.place, kind="stable") for part in source.partitions]
    counts = np.sum([np.bincount(part.place, minlength=q) for part in source.partitions], axis=0)
    size = np.inf if source.together else max(1, source.block // n_draws)
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
        interval=_describe_interval(question, setting),
        provenance=setting.provenance,
        diagnostics={**setting.diagnostics, "n_draws": question.n_draws},
        warnings=warnings,
        frame=setting.frame,
        title=_title(question, setting),
        kind="subgroups",
        draws=None if many or not finite.all() else draws,
    )


def _describe_interval(question: Question, setting: Setting) -> str:
    if question.interval == "model":
        return "posterior quantiles, under the model"
    c = setting.confounding
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
