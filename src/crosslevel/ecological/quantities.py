"""From draws of logits to draws of what is asked for: shares of voters, of people, or turnout.

Questions form a chain (voted? then for the first outcome? if not, for the second? ...). Each question's draws are shifted to its
own observed total before the next one is weighted by those who are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crosslevel.ecological.accounting import account, part_bounds, summing
from crosslevel.ecological.places import Totals

__all__ = ["SHARES", "Quantity", "quantities"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

SHARES = ("voters", "people", "turnout")


@dataclass(frozen=True, eq=False)
class Quantity:
    """Draws of one rate of every part, as a numerator and a denominator that add up over places.

    Attributes
    ----------
    outcome : str
    numerator, denominator : (n_draws, m)
        Shares of the part's people; the rate is their ratio.
    place_rate : (q,)
        The same rate of the whole place, as counted.
    low, high : (m,)
        Deterministic bounds of the rate of each part.
    fixed : bool
        Whether the denominator is everybody, so that bounds average over places like the rate.
    """

    outcome: str
    numerator: FloatArray
    denominator: FloatArray
    place_rate: FloatArray
    low: FloatArray
    high: FloatArray
    fixed: bool


def quantities(
    logits: list[FloatArray],
    totals: Totals,
    share: FloatArray,
    place: IntArray,
    *,
    of: str = "voters",
    accounted: bool = True,
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
    of : {"voters", "people", "turnout"}
        Shares of those who voted, of everybody, or who voted at all.
    accounted : bool
        Shift the draws to the observed totals.

    Returns
    -------
    list of Quantity
        One per outcome.
    shift : (n_draws, q)
        Shift of the last question's logits.
    """
    left = np.ones_like(logits[0])  # share of each part's people still asked
    q = totals.trials.shape[1]
    add = summing(place, q)
    shift = np.zeros((len(left), q))
    rates = []
    for f, k, n in zip(logits, totals.successes, totals.trials, strict=True):
        if accounted:
            weights = share * left
            weights = weights / np.maximum((add @ weights.T).T[:, place], 1e-300)
            # places where nobody is left to ask: any rate will do, it counts for nothing
            y = np.divide(k, n, out=np.full(q, 0.5), where=n > 0)
            found = account(f, weights, place, y)
            rate, shift = found.rate, found.shift
        else:
            rate = 1.0 / (1.0 + np.exp(-f))
        rates.append(rate)
        if totals.turnout and len(rates) == 1:
            left = rate
            voted = rate
        else:
            left = left * (1.0 - rate)
    n_voters = totals.successes[0] if totals.turnout else totals.trials[0]
    everybody = np.ones_like(left)
    if not totals.turnout:
        voted = everybody
    if of == "turnout":
        y = totals.successes[0] / totals.trials[0]
        return [Quantity("turnout", voted, everybody, y, *part_bounds(share, y[place]), True)], shift
    answers = []
    remaining = voted
    choices = rates[1:] if totals.turnout else rates
    counts = totals.successes[1:] if totals.turnout else totals.successes
    for index, outcome in enumerate(totals.outcomes):
        if index < len(choices):
            part = remaining * choices[index]
            remaining = remaining - part
            k = counts[index]
        else:  # the last of outcomes that exhaust the trials
            part, k = remaining, n_voters - counts.sum(axis=0)
        if of == "people" and totals.turnout:
            y = k / totals.trials[0]
            answers.append(Quantity(outcome, part, everybody, y, *part_bounds(share, y[place]), True))
        elif totals.turnout:
            y = np.divide(k, n_voters, out=np.zeros(q), where=n_voters > 0)
            answers.append(Quantity(outcome, part, voted, y, *_voter_bounds(share, place, k, totals), False))
        else:
            y = k / n_voters
            answers.append(Quantity(outcome, part, everybody, y, *part_bounds(share, y[place]), True))
    return answers, shift


def _voter_bounds(share: FloatArray, place: IntArray, k: FloatArray, totals: Totals) -> tuple[FloatArray, FloatArray]:
    """Bound a rate among the part's voters when how many of them voted is itself unknown."""
    people, voters = totals.trials[0][place], totals.successes[0][place]
    own, others = share * people, (1.0 - share) * people

    def least(yes: FloatArray) -> FloatArray:
        # as many yes votes as possible elsewhere, as many no votes as possible here
        forced = np.maximum(yes - others, 0.0)
        here = np.minimum(own, forced + voters - yes)
        return np.divide(forced, here, out=np.zeros_like(forced), where=here > 0)

    return least(k[place]), 1.0 - least(voters - k[place])
