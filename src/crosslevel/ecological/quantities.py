"""From draws of logits to rows of the answer: shares of voters, of people, or turnout, summed over places and compared.

Questions form a chain (voted? then for the first outcome? if not, for the second? ...). Each question's draws are shifted to its
own observed total before the next one is weighted by those who are left: for each draw and place one constant c is added to the
logits of all its parts until sum_g share_g sigmoid(f_g + c) = y. The parts then lie inside the Duncan-Davis bounds.

Goodman's regression on arrays: shares of outcomes on shares of groups, with robust errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse, special

from crosslevel.data.places import Totals
from crosslevel.ecological.subgroups import Partition, Rollup
from crosslevel.errors import InputError, listed
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Facts:
    """What the totals say about one rate, whatever the model.

    Attributes
    ----------
    outcome : str
    place_rate : (q,)
        The rate of the whole place, as counted.
    low, high : (m,)
        Bounds of the rate of each part.
    trials : (q,)
        How many were counted.
    fixed : bool
        Whether the denominator is everybody, so that bounds average over places like the rate.
    """

    outcome: str
    place_rate: FloatArray
    low: FloatArray
    high: FloatArray
    trials: FloatArray
    fixed: bool


@dataclass(frozen=True, eq=False)
class Quantity:
    """Draws of one rate of every part, as a numerator and a denominator that add up over places.

    Attributes
    ----------
    outcome : str
    numerator : (n_draws, m)
        Share of the part's people.
    denominator : (n_draws, m) or None
        Likewise, None when it is everybody; the rate is the ratio.
    """

    outcome: str
    numerator: FloatArray
    denominator: FloatArray | None


def facts(totals: Totals, share: FloatArray, place: IntArray, share_of: str = "voters") -> list[Facts]:
    """Say what the totals alone tell about every part, for each outcome asked for.

    Parameters
    ----------
    totals : Totals
    share : (m,)
        Share of the place's people in each part.
    place : (m,) int
    share_of : {"voters", "people", "turnout"}
    """
    if share_of == "turnout":
        y = totals.successes[0] / totals.trials[0]
        return [Facts("turnout", y, *part_bounds(share, y[place]), totals.trials[0], True)]
    voters = totals.successes[0] if totals.turnout else totals.trials[0]
    counts = totals.successes[1:] if totals.turnout else totals.successes
    if len(counts) < len(totals.outcomes):  # the last of outcomes that exhaust the trials
        counts = np.vstack([counts, voters - counts.sum(axis=0)])
    answers = []
    for outcome, k in zip(totals.outcomes, counts, strict=True):
        if totals.turnout and share_of == "voters":
            y = np.divide(k, voters, out=np.zeros(len(k)), where=voters > 0)
            bounds = _voter_bounds(share, place, k, totals)
            answers.append(Facts(outcome, y, *bounds, voters, False))
        else:
            y = k / totals.trials[0]
            answers.append(Facts(outcome, y, *part_bounds(share, y[place]), totals.trials[0], True))
    return answers


def quantities(
    logits: list[FloatArray],
    totals: Totals,
    share: FloatArray,
    place: IntArray,
    *,
    share_of: str = "voters",
    match_totals: bool = True,
) -> tuple[list[Quantity], FloatArray]:
    """Answer the chain of questions for every part.

    Parameters
    ----------
    logits : list of (n_draws, m)
        One for each question.
    totals : Totals
    share : (m,)
        Share of the place's people in each part.
    place : (m,) int
    share_of : {"voters", "people", "turnout"}
        Shares of those who voted, of everybody, or who voted at all.
    match_totals : bool
        Shift the draws to the observed totals.

    Returns
    -------
    list of Quantity
        One per outcome.
    shift : (n_draws, q)
        Shift of the last question's logits; NaN where there is none.
    """
    left: FloatArray | None = None  # share of each part's people still asked; None is everybody
    voted: FloatArray | None = None
    shift = np.full((len(logits[0]), totals.trials.shape[1]), np.nan)
    answers: list[FloatArray] = []
    for stage, (f, k, n) in enumerate(zip(logits, totals.successes, totals.trials, strict=True)):
        if match_totals:
            found = shift_to_total(f, share, place, np.divide(k, n, out=np.full(len(n), np.nan), where=n > 0), left)
            rate, shift = found.rate, found.shift
        else:
            rate = special.expit(f)
        if totals.turnout and stage == 0:
            left = voted = rate
            continue
        answers.append(rate if left is None else left * rate)
        left = 1.0 - rate if left is None else left * (1.0 - rate)
    if share_of == "turnout":
        assert voted is not None
        return [Quantity("turnout", voted, None)], shift
    if len(answers) < len(totals.outcomes):
        assert left is not None
        answers.append(left)
    below = voted if share_of == "voters" else None
    return [Quantity(name, part, below) for name, part in zip(totals.outcomes, answers, strict=True)], shift


def part_bounds(share: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Say between which rates a part must lie, given its share and the whole's rate (Duncan & Davis 1953).

    Parameters
    ----------
    share, total : (m,)

    Examples
    --------
    >>> low, high = part_bounds(np.array([0.8]), np.array([0.4]))
    >>> low.round(3), high.round(3)
    (array([0.25]), array([0.5]))
    """
    safe = np.maximum(share, 1e-300)
    low = np.clip((total - (1.0 - share)) / safe, 0.0, 1.0)
    high = np.clip(total / safe, 0.0, 1.0)
    # a part that is everyone: rounding of its share must not cross the two
    return np.minimum(low, total), np.maximum(high, total)


def _voter_bounds(share: FloatArray, place: IntArray, k: FloatArray, totals: Totals) -> tuple[FloatArray, FloatArray]:
    """Bound a rate among the part's voters when how many of them voted is itself unknown."""
    people, voters = totals.trials[0][place], totals.successes[0][place]
    own, others = share * people, (1.0 - share) * people

    def least(yes: FloatArray) -> FloatArray:
        # as many yes votes as possible elsewhere, as many no votes as possible here
        forced = np.maximum(yes - others, 0.0)
        here = np.minimum(own, forced + voters - yes)
        # nobody said no: whoever voted here said yes
        return np.clip(np.divide(forced, here, out=np.ones_like(forced), where=here > 0), 0.0, 1.0)

    low, high = least(k[place]), 1.0 - least(voters - k[place])
    # a part that is everyone: rounding of its share must not cross the two
    y = np.divide(k[place], voters, out=np.zeros_like(low), where=voters > 0)
    return np.minimum(low, y), np.maximum(high, y)


def summing(index: IntArray, n: int) -> sparse.csr_array:
    """Give the (n, m) matrix that adds up entries of equal index."""
    m = len(index)
    return sparse.csr_array((np.ones(m), (index, np.arange(m))), shape=(n, m))


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of the answer.

    Attributes
    ----------
    keys : dict of column to list
    draws : (n_draws, n_rows)
    columns : dict of column to (n_rows,)
        Everything but the interval.
    plain : (n_draws, n_rows) or None
        The draws without confounding, where both are needed to the end.
    """

    keys: dict[str, list[Any]]
    draws: FloatArray
    columns: dict[str, FloatArray]
    plain: FloatArray | None = None

    def __len__(self) -> int:
        return int(self.draws.shape[1])


class Sums:
    """Sums over places of what is asked for, taken in a few places at a time.

    Parameters
    ----------
    part : Partition
    rollup : Rollup
    facts : sequence of Facts
        One per outcome.
    n_draws : int
    """

    def __init__(self, part: Partition, rollup: Rollup, facts: Sequence[Facts], n_draws: int) -> None:
        self.part, self.rollup, self.facts = part, rollup, facts
        asked = np.flatnonzero(part.asked)
        cell = rollup.member[part.place[asked]] * part.levels.num_rows + part.level[asked]
        self.present, row = np.unique(cell, return_inverse=True)
        self.row = np.full(len(part.place), -1, dtype=np.intp)
        self.row[asked] = row
        size = (n_draws, len(self.present))
        self.top = [np.zeros(size) for _ in facts]
        # several outcomes of one question are shares of the same people
        self.bottom = None if facts[0].fixed else np.zeros(size)
        self.voters = np.ones(len(part.place))
        self.shift = np.zeros(len(part.place))
        self.distance = np.zeros(len(part.place))

    def add(self, parts: IntArray, found: Sequence[Quantity], shift: FloatArray, distance: FloatArray) -> None:
        """Take in all parts of some places.

        Parameters
        ----------
        parts : (m,) int
            Which of the partition's parts.
        found : sequence of Quantity
            Of these parts, one per outcome.
        shift : (m,)
            Mean size of the shift.
        distance : (m,)
            From the places.
        """
        self.shift[parts], self.distance[parts] = shift, distance
        asked = np.flatnonzero(self.row[parts] >= 0)
        weight = self.part.weight[parts[asked]]
        rows, at = np.unique(self.row[parts[asked]], return_inverse=True)
        add = summing(at, len(rows))
        for top, quantity in zip(self.top, found, strict=True):
            top[:, rows] += (add @ (quantity.numerator[:, asked] * weight).T).T
        denominator = found[0].denominator
        if self.bottom is not None and denominator is not None:
            self.bottom[:, rows] += (add @ (denominator[:, asked] * weight).T).T
            self.voters[parts] = denominator.mean(axis=0)

    def block(self, outcome: int, goodman: FloatArray) -> Block:
        """Put one outcome in rows: one per place (or roll-up) and level. The sums themselves become the draws.

        Parameters
        ----------
        outcome : int
        goodman : (n_levels,)
            Goodman's rate of each level.
        """
        part, fact = self.part, self.facts[outcome]
        asked = np.flatnonzero(part.asked)
        row, weight, place = self.row[asked], part.weight[asked], part.place[asked]
        size = len(self.present)

        def added(values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(row, weights=values * weight, minlength=size), dtype=np.float64)

        people = added(np.ones(len(asked)))
        draws, bottom = self.top[outcome], people if self.bottom is None else self.bottom
        np.divide(draws, bottom, out=draws, where=bottom > 0)
        if fact.fixed:
            low, high = added(fact.low[asked]) / people, added(fact.high[asked]) / people
        else:
            low, high = np.ones(size), np.zeros(size)
            np.minimum.at(low, row, fact.low[asked])
            np.maximum.at(high, row, fact.high[asked])
        voters = self.voters[asked]
        near = added(voters * fact.place_rate[place]) / np.maximum(added(voters), 1e-300)
        level = self.present % part.levels.num_rows
        keys: dict[str, list[Any]] = {}
        if self.rollup.name is not None:
            keys[self.rollup.name] = [self.rollup.labels[i] for i in self.present // part.levels.num_rows]
        for name in part.levels.column_names:
            values = part.levels[name].to_pylist()
            keys[name] = [values[i] for i in level]
        columns = {
            "estimate": draws.mean(axis=0),
            "bound_low": low,
            "bound_high": high,
            "neighborhood": near,
            "goodman": goodman[level],
            "population": people,
            "effective_size": people**2 / added(weight / part.effective[asked]),
            "distance": added(self.distance[asked]) / people,
            "shift": added(self.shift[asked]) / people,
        }
        return Block(keys, draws, columns)


def goodman_rates(part: Partition, rate: FloatArray, trials: FloatArray) -> FloatArray:
    """Give Goodman's constant rate of every level, (n_levels,); NaN where the places cannot tell the levels apart."""
    q, n = len(rate), part.levels.num_rows
    x = np.zeros((q, n + 1))
    x[part.place, np.where(part.asked, part.level, n)] = part.share
    used = x.sum(axis=0) > 0
    names = tuple(str(i) for i in np.flatnonzero(used))
    out = np.full(n + 1, np.nan)
    try:
        found = goodman_fit(x[:, used], np.column_stack([rate, 1.0 - rate]), trials, names)
    except InputError:
        return out[:n]
    out[used] = found.B[:, 0]
    return out[:n]


MAX_CONDITION = 1e10
"""Beyond this condition number of the group shares the coefficients have fewer than six correct digits."""


@dataclass(frozen=True)
class GoodmanFit:
    """The regression's answer.

    Attributes
    ----------
    B : (n_groups, n_outcomes)
        Share of each group with each outcome; can lie outside [0, 1].
    std_error : (n_groups, n_outcomes)
        Heteroskedasticity-robust (HC1).
    condition : float
        Condition number of the weighted group shares.
    """

    B: FloatArray
    std_error: FloatArray
    condition: float


def goodman_fit(x: FloatArray, t: FloatArray, weights: FloatArray, groups: tuple[str, ...]) -> GoodmanFit:
    """Fit Goodman's regression by weighted least squares.

    Parameters
    ----------
    x : (n_units, n_groups)
        Group shares, rows adding up to one.
    t : (n_units, n_outcomes)
        Outcome shares.
    weights : (n_units,)
        Weight of each unit's squared error.
    groups : tuple of str
        Names of the groups, for messages.
    """
    n, R = x.shape
    if n <= R:
        raise InputError(
            f"groups has {n} unit(s) for {R} groups; Goodman's regression needs more units than groups. Add units or merge "
            "groups; the bounds need neither."
        )
    root = np.sqrt(weights)[:, None]
    singular = scipy.linalg.svdvals(root * x)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else np.inf
    if condition > MAX_CONDITION:
        raise InputError(
            f"the shares of the groups {listed(groups)} move together or are zero in every unit (condition number "
            f"{condition:.0e}), so their outcomes cannot be told apart; merge or drop groups."
        )
    Q, upper = scipy.linalg.qr(root * x, mode="economic")
    B = scipy.linalg.solve_triangular(upper, Q.T @ (root * t))
    bread = scipy.linalg.solve_triangular(upper, Q.T)  # (X'WX)^-1 X' W^(1/2)
    residual = root * (t - x @ B)
    variance = np.square(bread) @ np.square(residual) * (n / (n - R))
    return GoodmanFit(B=B, std_error=np.sqrt(variance), condition=condition)
