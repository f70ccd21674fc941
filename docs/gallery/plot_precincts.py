"""
Estimate the vote by race and age from precinct totals
======================================================

A file of precincts alone, no survey: counts of people by race and by age, and the votes. Each table of groups is estimated by
several methods, with the bounds that assume nothing beside them; how everybody really voted is known here. In this world people
follow their neighbors, as in most tables whose truth was counted. It was made so after a first one in which they did the opposite:
there ``rxc``, which expects the former, put the Democratic share of Black voters at .70 to .80, and it was .87.
"""

import numpy as np
import pandas as pd

import crosslevel as cl

rng = np.random.default_rng(0)
n = 150
black = rng.beta(0.7, 1.6, n)
old = rng.beta(4, 6, n)
voters = rng.integers(300, 1200, n)
kinds = {
    ("Black", "under 45"): 0.88,
    ("Black", "45 and over"): 0.92,
    ("white", "under 45"): 0.48,
    ("white", "45 and over"): 0.34,
}
counts, dem = {}, {}
for (race, age), rate in kinds.items():
    share = (black if race == "Black" else 1 - black) * (old if age == "45 and over" else 1 - old)
    counts[race, age] = rng.binomial(voters, share)
    lean = np.clip(
        rate + rng.normal(0, 0.05, n) + 0.2 * (black - 0.3), 0.02, 0.98
    )  # everybody follows the neighbors a little
    dem[race, age] = rng.binomial(counts[race, age], lean)


votes = sum(dem.values())
outcomes = {"dem": votes, "rep": sum(counts.values()) - votes}


def table(position):
    """Counts by race (0) or by age (1), with the true share of each."""
    names = list(dict.fromkeys(kind[position] for kind in kinds))
    groups = pd.DataFrame({g: sum(c for k, c in counts.items() if k[position] == g) for g in names})
    true = {g: sum(d for k, d in dem.items() if k[position] == g).sum() / groups[g].sum() for g in names}
    return cl.Counts({**groups, **outcomes}, groups=names, outcomes=["dem", "rep"]), true


# %%
# By race, whose shares differ widely between precincts.
by_race, truth = table(0)
print(cl.ecological.compare(by_race, methods=["neighborhood", "goodman", "rxc"]).summary())
print("truth", {g: round(float(v), 3) for g, v in truth.items()})

# %%
# By age, whose shares differ little: bounds and intervals are wide, and say so.
by_age, truth = table(1)
found = cl.ecological.rxc(by_age, kind="demographic")
print(found.summary())
print("truth", {g: round(float(v), 3) for g, v in truth.items()})
found.plot()
