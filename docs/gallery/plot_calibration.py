"""
Learn on your own columns how wide intervals must be
====================================================

Totals cannot tell whether people of a kind behave so, or whether the places where they live make everybody do it. How far answers
are off for that reason can be measured with columns that are known: hide one, sum it to the regions, learn it back. This is done here
in a simulated nation, whose vote is known too.
"""

import warnings

import matplotlib.pyplot as plt

import crosslevel as cl
from crosslevel.charts import contextual_variance
from crosslevel.data.simulate import nation
from crosslevel.errors import CrosslevelWarning

warnings.simplefilter("ignore", CrosslevelWarning)
world = nation(n_regions=80, people_per_region=250, n_states=8, random_state=4)
people = cl.People(world.people, by="region", weight="weight", categorical=["sex"])
places = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))
model = cl.EcologicalInference().fit(people, places)

# %%
# Each label is hidden in turn, and what is learned from the others must hold it.
labels = {
    "white": "race = 'white'",
    "degree": "education in ('bachelor', 'graduate')",
    "over 65": "age >= 65",
    "under 30": "age < 30",
    "at work": "hours > 0",
    "long hours": "hours >= 45",
    "income over 50,000": "income >= 50000",
    "urban": "urban = 'urban'",
}
model.learn_confounding(labels=labels)
print(model.confounding_)
print(
    model.confounding_.table.select(["label", "error", "neighborhood_error", "coverage", "width"]).to_pandas().round(3)
)

# %%
# The vote by sex and race: intervals that hold under the model alone, and those that allow for confounding. Diamonds are the truth,
# small bars what the
# group would have if everybody voted like their region.
fig, axes = plt.subplots(2, 2, figsize=(11, 5), sharex="col", layout="constrained")
for column, by in enumerate(("sex", "race")):
    truth = world.true_rates(by=by, rollup="all")
    for ax, interval in zip(axes[:, column], ("model", "confounding"), strict=True):
        found = model.estimate(by=by, rollup="all", interval=interval, n_draws=400).with_truth(truth, "rate")
        found.plot(ax=ax, bounds=False, baselines=["neighborhood"], legend=False)
        ax.set_title(f"{by}, interval={interval!r}: {found.score()['coverage']:.0%} held", loc="left")
        ax.set_xlabel("")

# %%
# Intervals with confounding are wider, and by race they still miss: where minorities are many everybody in this nation votes
# otherwise, by more than in any of the labels. Labels stand for the question as far as they are like it; a survey of the group itself
# would tell more.
# What would be said if composition acted on everybody, more and more:
contextual_variance(model.sensitivity(by="race", rollup="all", n_draws=200))
