"""
Add a few survey results to regional totals
===========================================

A simulated nation in which we know how women and men voted in every region. Women are half of every region, so the regional
totals hardly tell their vote from the men's. A survey of 500 women and 500 men in every state enters as evidence, and the
estimates for all sixty regions move to the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

import crosslevel as cl
from crosslevel.data.simulate import nation

world = nation(n_regions=60, people_per_region=200, n_states=6, random_state=2)
truth = world.true_rates(by="sex")
settings = {"by": "region", "weight": "weight", "successes": "dem", "trials": "votes", "coords": ("lon", "lat")}
model = cl.EcologicalInference(categorical=["sex"])

model.fit(world.people, world.places, **settings)
from_totals = model.estimate(by="sex").with_truth(truth, "rate")
print(from_totals.score())

# %%
# The survey: a query over people, the state, and how many of how many.
rng = np.random.default_rng(1)
states = world.true_rates(by="sex", rollup="state").to_pylist()
survey = {
    "subgroup": [f"sex == {row['sex']}" for row in states],
    "state": [row["state"] for row in states],
    "dem": [rng.binomial(500, row["rate"]) for row in states],
    "votes": [500] * len(states),
}
model.fit(world.people, world.places, evidence=survey, **settings)
from_both = model.estimate(by="sex").with_truth(truth, "rate")
print(from_both.score())

# %%
# Every region twice, women and men: the truth against the estimate, with 95 % intervals.
fig, axes = plt.subplots(1, 2, figsize=(9, 4.5), sharex=True, sharey=True)
for ax, found, title in zip(axes, (from_totals, from_both), ("totals alone", "with a survey by state"), strict=True):
    for sex, name in ((2, "women"), (1, "men")):
        rows = found.select(sex=sex)
        error = np.abs(np.stack([rows["conf_low"], rows["conf_high"]]) - rows["estimate"])
        ax.errorbar(rows["truth"], rows["estimate"], error, fmt="o", ms=3, lw=0.7, alpha=0.7, label=name)
    ax.axline((0.5, 0.5), slope=1, color="0.6", lw=1, zorder=0)
    ax.set(xlabel="true share", title=f"{title}: error {100 * found.score()['rmse']:.1f} points")
axes[0].set_ylabel("estimated share")
axes[0].legend(frameon=False)
fig.tight_layout()
