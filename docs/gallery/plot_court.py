"""
Find each group's candidate of choice and whether voting is polarized
=====================================================================

An invented district in which we know every ballot. The reports see only what a court would see: who lives in each precinct,
and how many votes each candidate had there.
"""

import numpy as np

import crosslevel as cl
from crosslevel import charts

rng = np.random.default_rng(3)
groups, outcomes = ["Black", "white", "Latino"], ["Ames", "Brown", "Clark", "did not vote"]
base = np.log([[0.42, 0.12, 0.04, 0.42], [0.14, 0.42, 0.11, 0.33], [0.20, 0.18, 0.06, 0.56]])

# precincts on a grid; groups live apart, and rates have a small contextual effect
side = 9
x, y = (v.ravel() for v in np.meshgrid(np.arange(side), np.arange(side)))
location = np.column_stack([(y - x) / 4, (x - y) / 5 + 0.8, np.where((x > 5) & (y > 3), 1.2, -0.9)])
mix = np.exp(location + 0.4 * rng.normal(size=location.shape))
people = np.array([rng.multinomial(900, row / row.sum()) for row in mix])
around = np.log(people @ np.exp(base) / 900)
rates = np.exp(base + 0.35 * (around - around.mean(axis=0))[:, None, :])
rates /= rates.sum(axis=2, keepdims=True)
ballots = np.array(
    [[rng.multinomial(n, p) for n, p in zip(*unit, strict=True)] for unit in zip(people, rates, strict=True)]
)
units = [f"precinct {i:02d}" for i in range(side * side)]
columns = np.column_stack([people, ballots.sum(axis=1)])
data = {"precinct": units, **dict(zip([*groups, *outcomes], columns.T, strict=True))}
counts = cl.Counts(data, unit="precinct", groups=groups, outcomes=outcomes)

found = cl.ecological.rxc(counts)
charts.transfers(found)

# %%
# The candidate of choice of each group. People who did not vote are an outcome here; it is recognized, and nobody's choice.
choice = cl.ecological.candidate_of_choice(found)
print(choice.summary())
print("\n".join(choice.diagnostics["findings"]))

# %%
# The same among those who voted, with turnout beside it.
voters = cl.ecological.among_voters(found)
print(cl.ecological.turnout(found).summary())
charts.transfers(voters)

# %%
# Polarized voting: the difference between two groups, and whether their choices differ.
apart = cl.ecological.polarization(voters, ("Black", "white"), threshold=0.1)
print(apart.summary())
charts.margins(apart)

# %%
# The lead of one candidate over another in each group.
lead = cl.ecological.margin(voters, ("Ames", "Brown"))
print(lead.summary())
charts.margins(lead)

# %%
# Because this district is invented, the reports can be checked: among voters, Ames less Brown was truly
ballot = ballots.sum(axis=0)[:, :3]
print(dict(zip(groups, ((ballot[:, 0] - ballot[:, 1]) / ballot.sum(axis=1)).round(3).tolist(), strict=True)))

# %%
# Methods disagree, and a report should show it. Light bars are what is possible at all.
truth = {
    "group": np.repeat(groups, 4 * 4),
    "outcome": np.tile(np.repeat(outcomes, 4), 3),
    "method": np.tile(["neighborhood", "goodman", "rxc_em", "rxc"], 12),
    "truth": np.repeat(ballots.sum(axis=0) / people.sum(axis=0)[:, None], 4),
}
methods = ["neighborhood", "goodman", "rxc_em", "rxc"]
charts.methods(cl.ecological.compare(counts, methods).with_truth(truth))

# %%
# Where the answer comes from: the estimate of every precinct, and how much the counts leave open there.
squares = {
    u: [[[0.1 * (i + a), 0.1 * (j + b)] for a, b in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))]]
    for u, i, j in zip(units, x, y, strict=True)
}
charts.unit_map(found, squares, group="Black", outcome="Ames")
charts.unit_map(found, squares, group="Black", outcome="Ames", column="width", cmap="Greys")
