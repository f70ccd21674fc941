"""What the individual link says about subgroups: sums of people's own probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import special

from crosslevel.ecological.group.covariance import Terms
from crosslevel.ecological.group.posterior import Draws, draw
from crosslevel.ecological.individual.collapse import Coarsening, Collapsed
from crosslevel.ecological.individual.fit import IndividualFit, fit_individual, level_roots
from crosslevel.ecological.individual.model import Design
from crosslevel.ecological.individual.sweeps import Targets, shifts, target_sums, target_weights
from crosslevel.ecological.partitions import REST, Partition, Request
from crosslevel.ecological.places import Totals
from crosslevel.embedding.chunks import SUBGROUP
from crosslevel.errors import InputError
from crosslevel.numerics.laplace import Binomial

__all__ = ["IndividualModel", "IndividualParts", "fit_link", "parts_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

DRAWS_AT_ONCE = 50
NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class IndividualModel:
    """A fitted individual link.

    Attributes
    ----------
    coarsening : Coarsening
    B : (n_levels, p)
    first : (n_columns,) int32
        First level of each column.
    terms : Terms
    fits : tuple of IndividualFit
        One for each question of the chain.
    shares : (q, n_levels)
        Composition of the places.
    """

    coarsening: Coarsening
    B: FloatArray
    first: npt.NDArray[np.int32]
    terms: Terms
    fits: tuple[IndividualFit, ...]
    shares: FloatArray


def fit_link(
    collapsed: Collapsed, coarsening: Coarsening, terms: Terms, totals: Totals, *, n_jobs: int = 1, **options: Any
) -> IndividualModel:
    """Fit the one question of the totals.

    Parameters
    ----------
    collapsed : Collapsed
        People by place and cell.
    coarsening : Coarsening
    terms : Terms
    totals : Totals
    options
        Of :func:`crosslevel.ecological.individual.fit.fit_individual`.
    """
    if len(totals.trials) != 1:
        raise InputError(
            f"totals ask {len(totals.trials)} questions; the individual link answers one. Leave out population and name one outcome."
        )
    B, first = level_roots(coarsening)
    codes = collapsed.codes + first
    design = Design(codes, B, collapsed.pairs)
    found = fit_individual(design, terms, Binomial(totals.successes[0], totals.trials[0]), n_jobs=n_jobs, **options)
    return IndividualModel(coarsening, B, first, terms, (found,), level_shares(collapsed, first, len(B)))


def level_shares(collapsed: Collapsed, first: npt.NDArray[np.int32], n_levels: int) -> FloatArray:
    """Give the share of each place's people in every level, (q, n_levels)."""
    pairs = collapsed.pairs
    q = pairs.n_places
    place = np.repeat(np.arange(q), np.diff(pairs.start))
    out = np.zeros((q, n_levels))
    for column in range(collapsed.codes.shape[1]):
        level = collapsed.codes[pairs.cell, column] + first[column]
        out += np.bincount(place * n_levels + level, weights=pairs.weight, minlength=q * n_levels).reshape(q, n_levels)
    return out


@dataclass(frozen=True, eq=False)
class IndividualParts:
    """Parts of places, and draws of their logits.

    Attributes
    ----------
    model : IndividualModel
    collapsed : Collapsed
        People by place, cell and label.
    targets : Targets
    partitions : list of Partition
    columns : list of (m,) int
        Target of each part, or -1 for what is left of the place.
    totals : Totals
    account : bool
    n_jobs : int
    """

    model: IndividualModel
    collapsed: Collapsed
    targets: Targets
    partitions: list[Partition]
    columns: list[IntArray]
    totals: Totals
    account: bool
    n_jobs: int

    def all_logits(self, stage: int, n_draws: int, seed: int) -> list[FloatArray]:
        """Draw the logits of the parts of every partition, (n_draws, m) each, in one sweep over the people."""
        fit, pairs = self.model.fits[stage], self.collapsed.pairs
        drawn = draw(
            fit.rows,
            self.model.terms,
            fit.hyperparameters,
            fit.mode,
            n_draws,
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stage,))),
        )
        codes = self.collapsed.codes + self.model.first
        effects = drawn.w @ self.model.B.T
        y = self.totals.successes[stage] / self.totals.trials[stage]
        out = [np.empty((n_draws, len(p.place))) for p in self.partitions]
        for begin in range(0, n_draws, DRAWS_AT_ONCE):
            some = slice(begin, min(begin + DRAWS_AT_ONCE, n_draws))
            eta = effects[some][:, codes].sum(axis=-1)
            whole = np.broadcast_to(y, drawn.u[some].shape) if self.account else _place_rates(fit, drawn, some)
            f = shifts(pairs, eta, whole, drawn.u[some], self.n_jobs)
            sums = target_sums(pairs, self.collapsed.label, self.targets, eta, f, self.n_jobs)
            for k, (part, column) in enumerate(zip(self.partitions, self.columns, strict=True)):
                out[k][some] = _logits(sums, whole, part, column)
        return out


def parts_of(
    model: IndividualModel,
    collapsed: Collapsed,
    request: Request,
    totals: Totals,
    *,
    account: bool,
    types: dict[str, pa.DataType],
    n_jobs: int = 1,
) -> IndividualParts:
    """Cut places in the parts that are asked for.

    Parameters
    ----------
    collapsed : Collapsed
        Counted with the labels of the request.
    types : mapping of by column to its Arrow type
    """
    names = list(request.subgroups)
    found: list[tuple[int, tuple[Any, ...]]] = []  # (partition, level values) of each target
    members: list[list[int]] = []
    number: dict[tuple[int, tuple[Any, ...]], int] = {}
    for values, matched in collapsed.labels:
        own: list[int] = []
        if values is not None:
            for partition in matched if names else (0,):
                key = (partition, values)
                if key not in number:
                    number[key] = len(found)
                    found.append(key)
                own.append(number[key])
        members.append(own)
    start = np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64)
    targets = Targets(start, np.array([t for m in members for t in m], dtype=np.int32), len(found))
    weights = target_weights(collapsed.pairs, collapsed.label, targets, n_jobs)
    member = np.zeros((len(members), len(found)))
    for label, own in enumerate(members):
        member[label, own] = 1.0
    squares = collapsed.squares @ member
    all_squares = collapsed.squares.sum(axis=1)
    partitions, columns = [], []
    for k in range(max(len(names), 1)):
        mine = [t for t, (partition, _) in enumerate(found) if partition == k]
        mine.sort(
            key=lambda t: tuple((str(type(v).__name__), v) if isinstance(v, str) else ("", v) for v in found[t][1])
        )
        levels = _levels(request, [found[t][1] for t in mine], names[k] if names else None, types)
        cut, column = _partition(weights, squares, all_squares, collapsed.total, mine, levels)
        partitions.append(cut)
        columns.append(column)
    return IndividualParts(model, collapsed, targets, partitions, columns, totals, account, n_jobs)


def _levels(
    request: Request, values: Sequence[tuple[Any, ...]], name: str | None, types: dict[str, pa.DataType]
) -> pa.Table:
    columns: dict[str, pa.Array] = {n: pa.array([v[j] for v in values], types[n]) for j, n in enumerate(request.by)}
    if name is not None:
        columns[SUBGROUP] = pa.array([name] * len(values), pa.string())
    elif not request.by:
        columns[SUBGROUP] = pa.array([str(request.where)] * len(values), pa.string())
    return pa.table(columns)


def _partition(
    weights: FloatArray,
    squares: FloatArray,
    all_squares: FloatArray,
    total: FloatArray,
    mine: list[int],
    levels: pa.Table,
) -> tuple[Partition, IntArray]:
    q = len(total)
    own = weights[:, mine]
    place, level = np.nonzero(own > 0)
    rest = 1.0 - own.sum(axis=1)
    left = np.flatnonzero(rest > NEGLIGIBLE)
    share = np.concatenate([own[place, level], rest[left]])
    where = np.concatenate([place, left])
    share = share / np.bincount(where, weights=share, minlength=q)[where]
    weight = share * total[where]
    square = np.concatenate([squares[:, mine][place, level], all_squares[left] - squares[left][:, mine].sum(axis=1)])
    effective = weight**2 / np.maximum(square, 1e-12 * weight**2)
    partition = Partition(
        levels,
        where.astype(np.intp),
        np.concatenate([level, np.full(len(left), REST)]).astype(np.intp),
        share,
        weight,
        effective,
        np.empty((0, 0)),
        np.empty(0, dtype=np.intp),
        np.empty((0, 0)),
    )
    column = np.concatenate([np.array(mine, dtype=np.intp)[level], np.full(len(left), -1)]).astype(np.intp)
    return partition, column


def _logits(sums: FloatArray, whole: FloatArray, part: Partition, column: IntArray) -> FloatArray:
    asked = column >= 0
    out = np.empty((len(sums), len(column)))
    out[:, asked] = sums[:, part.place[asked], column[asked]] / part.share[asked]
    if (~asked).any():
        taken = np.zeros((len(sums), whole.shape[1]))
        for place, target in zip(part.place[asked], column[asked], strict=True):
            taken[:, place] += sums[:, place, target]
        here = part.place[~asked]
        out[:, ~asked] = (whole[:, here] - taken[:, here]) / part.share[~asked]
    return np.asarray(special.logit(np.clip(out, 1e-15, 1.0 - 1e-15)))


def _place_rates(fit: IndividualFit, drawn: Draws, some: slice) -> FloatArray:
    """Draw the rates of places: their logits are what the look-alike is linear in, effects and place alone are not."""
    off = drawn.w[some] @ fit.linear.J.T + drawn.u[some] - fit.mode.f
    return np.asarray(special.expit(fit.linear.level + fit.linear.slope * off))
