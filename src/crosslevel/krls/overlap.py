"""Do the two arms of a comparison hold people who are alike? Who has neighbors in the other arm.

An effect of a binary column or of a level of a factor compares two arms at the same values of all other covariates. Where an arm has
nobody with such values the answer comes from the shape of the kernel alone. A *neighbor* is a row of the other arm that differs by
at most one standard deviation (that inside the arms) per covariate, as a root mean square over the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import KDTree

from crosslevel.errors import listed
from crosslevel.krls.effects import Effect
from crosslevel.typing import FloatArray

MOST_ALONE = 0.1
"""Share of people without neighbors in the other arm from which on a fit says so."""
MOST_LOOKED_UP = 2_000
"""Distinct rows of an arm that are looked up among those of the other."""


def share_alone(effect: Effect, Z: FloatArray, m: FloatArray) -> float:
    """Give the share of the people of both arms who have no neighbor in the other.

    Parameters
    ----------
    effect : Effect
        Of a binary column or a level.
    Z : (U, P)
        Distinct rows, standardized.
    m : (U,)
        Weight of each.
    """
    assert effect.switch is not None
    level = effect.switch.levels(Z)
    others = np.delete(Z, effect.switch.columns, axis=1)
    arms = [np.flatnonzero(level == point) for point in (effect.high, effect.low)]
    # in units of the spread inside the arms: distance between them must not make them look alike
    centered = np.concatenate([others[r] - np.average(others[r], axis=0, weights=m[r]) for r in arms if len(r)])
    weight = np.concatenate([m[r] for r in arms])
    others = others / np.maximum(np.sqrt(weight @ centered**2 / weight.sum()), 1e-6)
    alone = 0.0
    for arm, other in (arms, arms[::-1]):
        looked_up = arm[:: max(1, len(arm) // MOST_LOOKED_UP)]
        share = 1.0
        if len(other) and len(looked_up):
            distance = np.zeros(len(looked_up))
            if others.shape[1]:
                distance, _ = KDTree(others[other]).query(others[looked_up])
            share = float(np.average(distance > np.sqrt(max(others.shape[1], 1)), weights=m[looked_up]))
        alone += share * float(m[arm].sum())
    return alone / float(weight.sum())


def describe_overlap(effects: Sequence[Effect], Z: FloatArray, m: FloatArray) -> list[str]:
    """Say which effects compare people who have nobody like them in the other arm."""
    shares = {e.term: share_alone(e, Z, m) for e in effects if e.switch is not None}
    far = {term: s for term, s in shares.items() if s > MOST_ALONE}
    if not far:
        return []
    worst = max(far, key=lambda term: far[term])
    return [
        f"the groups of {listed(list(far))} overlap little: {100 * far[worst]:.0f} % of the people compared by {worst!r} have nobody in "
        "the other group within one standard deviation per covariate, and their effect is extrapolated."
    ]
