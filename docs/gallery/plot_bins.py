"""
Estimate how many people are 26 to 40 from ten-year age groups
==============================================================

A town publishes its people in ten-year age groups. The curve behind the groups answers for others, with bands, and keeps
every published total.
"""

import numpy as np

import crosslevel as cl

rng = np.random.default_rng(0)
age = np.arange(90)
expected = 60 * np.exp(-0.5 * ((age - 33) / 11) ** 2) + 70 * np.exp(-age / 55) * (
    1 - 0.3 * np.exp(-0.5 * ((age - 20) / 3) ** 2)
)
people = rng.poisson(expected)

edges = np.arange(0, 100, 10)
groups = cl.Intervals.from_edges(edges)
counts = people.reshape(9, 10).sum(axis=1)

model = cl.BinnedCountGP().fit(groups, counts, cell=1)
print(model.summary())

# %%
# New age groups, with the truth beside: ``estimate`` is the expected number, ``count_low`` and ``count_high`` hold the number itself.
new = cl.Intervals([18, 26, 65], [26, 41, 90])
truth = [people[18:26].sum(), people[26:41].sum(), people[65:].sum()]
found = model.estimate(new).with_columns(truth=truth)
print(found.summary())

# %%
# The histogram, the density behind it and its band.
ax = model.plot(xlabel="age", ylabel="people per year of age")
ax.plot(age + 0.5, people, ".", color="#222222", markersize=3, label="single years")

# %%
# Two towns that share a curve: the small one borrows from the large one.
small = rng.poisson(expected / 12).reshape(9, 10).sum(axis=1)
both = cl.BinnedCountGP().fit(
    cl.Intervals(np.tile(edges[:-1], 2), np.tile(edges[1:], 2)),
    np.concatenate([counts, small]),
    pool={"town": ["large"] * 9 + ["small"] * 9},
)
print(both.estimate(new).summary())
both.plot(pool="small", xlabel="age", ylabel="people per year of age")
