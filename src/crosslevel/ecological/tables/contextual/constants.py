"""The constants of the contextual model by kind of table, and what they were learned on.

Two choices of the same people (a party and a candidate) and groups of people (race, age) differ in how far rates of groups are
apart and in what the model's variance leaves out, so each kind has constants of its own:

    sd^2 = k^2 v + rho^2 h^2 + s0^2 (p (1 - p) + 1e-4)

with v the model's variance of a share p, and h how far a share is off when what moves the outcomes beside composition is
correlated with composition (``hidden_context.py``). That term does not shrink with the number of units, as v does.
"""

from __future__ import annotations

from dataclasses import dataclass

from crosslevel.errors import InputError, unknown_name
from crosslevel.typing import FloatArray

__all__ = ["KINDS", "Constants", "choose_constants"]

KINDS = ("votes", "demographic")
ELECTIONS = "two votes of the same people (split tickets counted in New Zealand, 2002 to 2014)"
PEOPLE = "tables of people (ACS 2024 by PUMA, states other than 12, 13, 17, 36, 37, 39, and voter registration in North Carolina)"


@dataclass(frozen=True)
class Constants:
    """What the model assumes, and how its variance becomes that of the error.

    Attributes
    ----------
    tau : float
        How far the groups may differ, as the prior sd of log rates.
    k, s0, rho : float
        Of the model's variance, of the variance of a share, and of the hidden context.
    slope, slope_sd : float
        The contextual slope and its standard deviation.
    learned_on : str
    """

    tau: float
    k: float
    s0: float
    rho: float = 0.0
    slope: float = 0.35
    slope_sd: float = 0.1
    learned_on: str = ELECTIONS

    def variance(self, share: FloatArray, variance: FloatArray, h: FloatArray) -> FloatArray:
        """Turn the model's variance of shares into that of their error."""
        return self.k**2 * variance + self.rho**2 * h**2 + self.s0**2 * (share * (1 - share) + 1e-4)


DEMOGRAPHIC = Constants(tau=0.5, k=0.6, s0=0.03, rho=0.11, slope=0.4, slope_sd=0.2, learned_on=PEOPLE)
VOTES = {  # what the districts share, both directions; learned on five elections, leaving one out at a time
    ("nothing", False): Constants(tau=0.8, k=1.04, s0=0.053),
    ("nothing", True): Constants(tau=0.8, k=1.08, s0=0.0),
    ("labels", False): Constants(tau=0.5, k=1.4, s0=0.02),
    ("labels", True): Constants(tau=0.5, k=1.2, s0=0.07),
    ("pool", False): Constants(tau=0.3, k=1.46, s0=0.039),
    ("pool", True): Constants(tau=0.3, k=1.45, s0=0.032),
}


def choose_constants(kind: str | None, *, pool: bool, labels: bool, symmetric: bool) -> tuple[str, Constants]:
    """Give the kind of table and its constants; options that say "choices of the same people" decide where none is stated.

    Examples
    --------
    >>> kind, constants = choose_constants(None, pool=False, labels=False, symmetric=True)
    >>> kind, constants.k
    ('votes', 1.08)
    """
    said = [name for name, given in (("pool", pool), ("labels", labels), ("symmetric", symmetric)) if given]
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind", kind, KINDS, "kind")
    if kind == "demographic" and said:
        raise InputError(
            f"kind='demographic' has no constants with {' and '.join(said)}=, which is for two choices of the same people; leave "
            f"{'it' if len(said) == 1 else 'them'} out, or pass kind='votes'."
        )
    if kind == "demographic" or not (kind or said):
        return "demographic", DEMOGRAPHIC
    return "votes", VOTES["pool" if pool else "labels" if labels else "nothing", symmetric]
