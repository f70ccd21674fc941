"""From draws of logits to draws of what is asked for: shares of voters, of people, or turnout.

Questions form a chain (voted? then for the first outcome? if not, for the second? ...). Each question's draws are shifted to its
own observed total before the next one is weighted by those who are left: for each draw and place one constant c is added to the
logits of all its parts until sum_g share_g sigmoid(f_g + c) = y. The parts then lie inside the Duncan-Davis bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special

from crosslevel.data.totals import Totals
from crosslevel.numerics.logit_shift import shift_to_total
from crosslevel.typing import FloatArray, IntArray

__all__ = ["DENOMINATORS", "Facts", "Quantity", "facts", "part_bounds", "quantities", "summing"]


DENOMINATORS = ("voters", "people", "turnout")


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


def facts(totals: Totals, share: FloatArray, place: IntArray, denominator: str = "voters") -> list[Facts]:
    """Say what the totals alone tell about every part, for each outcome asked for.

    Parameters
    ----------
    totals : Totals
    share : (m,)
        Share of the place's people in each part.
    place : (m,) int
    denominator : {"voters", "people", "turnout"}
    """
    if denominator == "turnout":
        y = totals.successes[0] / totals.trials[0]
        return [Facts("turnout", y, *part_bounds(share, y[place]), totals.trials[0], True)]
    voters = totals.successes[0] if totals.turnout else totals.trials[0]
    counts = totals.successes[1:] if totals.turnout else totals.successes
    if len(counts) < len(totals.outcomes):  # the last of outcomes that exhaust the trials
        counts = np.vstack([counts, voters - counts.sum(axis=0)])
    answers = []
    for outcome, k in zip(totals.outcomes, counts, strict=True):
        if totals.turnout and denominator == "voters":
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
    denominator: str = "voters",
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
    denominator : {"voters", "people", "turnout"}
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
    if denominator == "turnout":
        assert voted is not None
        return [Quantity("turnout", voted, None)], shift
    if len(answers) < len(totals.outcomes):
        assert left is not None
        answers.append(left)
    below = voted if denominator == "voters" else None
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
