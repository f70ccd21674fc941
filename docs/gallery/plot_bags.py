"""
Predict the label of a group from a small sample of its members
===============================================================

Each group has a label, and a sample of its members. Some samples are large and some are of five people: the mean of five says little, and
a model that takes it for the truth is too sure of itself. Here the label of a group is the spread of its members.
"""

import matplotlib.pyplot as plt
import numpy as np

import crosslevel as cl
from crosslevel.charts import bag_calibration, predicted_bags
from crosslevel.diagnostics import calibration_table, size_strata
from crosslevel.distribution import BayesianLinear, MeanShrinkage

rng = np.random.default_rng(0)
n = 400
y = rng.uniform(1.0, 3.0, n)
sizes = rng.choice([5, 30, 300], n)
bags = cl.Bags.from_list([rng.normal(0.0, s, size=(k, 1)) for s, k in zip(y, sizes, strict=True)])
train, test = np.arange(n) < 200, np.arange(n) >= 200

model = MeanShrinkage(n_landmarks=30).fit(bags[train], y[train])
found = model.estimate(bags[test], y=y[test])
print(found.summary(5))

# %%
# Predictions against the truth, by size of bag. Of a bag of five little can be said: its prediction is drawn to the middle, its interval is
# wide. A large bag is known well.
fig, axes = plt.subplots(1, 3, figsize=(13.5, 4.2), sharex=True, sharey=True, layout="constrained")
limits = (0.0, float(found["std_error"].max()))
for ax, size in zip(axes, (5, 30, 300), strict=True):
    predicted_bags(found, ax, sizes=(size, size), limits=limits, colorbar=size == 300)

# %%
# A model that takes every mean as exact has one width for all. Overall it may hold what it promises; by size it does not: too sure of
# small bags, too timid with large ones.
plain = BayesianLinear(n_landmarks=30).fit(bags[train], y[train])
fig, axes = plt.subplots(1, 2, figsize=(11, 2.8), sharex=True, layout="constrained")
for ax, fitted in zip(axes, (plain, model), strict=True):
    mean, std = fitted.predict(bags[test], return_std=True)
    scores = calibration_table(y[test], mean, std, size_strata(sizes[test]))
    bag_calibration(scores, ax)
    ax.set_title(f"{type(fitted).__name__}: log score {-scores['nll'][0]:.3f}", loc="left")
