"""
Impute who is ill when only the share of each place was published
=================================================================

Everybody's age and schooling are known; of an illness only the share in each of forty places. In this simulated world everybody's answer is
known too, so that imputed values can be compared with it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

import crosslevel as cl

rng = np.random.default_rng(3)
n_places, size = 40, 250
place = np.repeat(np.arange(n_places), size)
tilt = rng.normal(size=(n_places, 2))
age = rng.binomial(5, 1 / (1 + np.exp(-0.7 * tilt[place, 0]))) + 1
school = rng.binomial(3, 1 / (1 + np.exp(-0.7 * tilt[place, 1]))) + 1
# places differ for reasons of their own, too
own = 0.25 * rng.normal(size=n_places)
chance = 1 / (1 + np.exp(1.2 - 0.6 * (age - 3.5) + 0.4 * (school - 2.5) - own[place]))
ill = (rng.random(len(place)) < chance).astype(float)
X = pa.table({"age": age, "school": school, "place": place})
people = cl.People(X, by="place")
means = {"place": np.arange(n_places), "ill": np.bincount(place, ill) / size}
places = cl.Places(means, by="place", means=["ill"])

# %%
# One model of persons, fitted to forty numbers: how likely is each person's answer, beside the mean of the place?
link = cl.CrossLevelImputer().fit(people, places)
imputed = link.transform(people)["ill"].to_numpy()
for name, p in (("mean of the place", means["ill"][place]), ("imputed", imputed), ("true chance", chance)):
    print(f"{name}: mean log-likelihood {np.log(np.where(ill == 1, p, 1 - p)).mean():.4f}")

# %%
# Means by age, and by age and schooling: imputed, with intervals, against what the places of the same people would say. On the dashed line
# nothing is learned; crosses are the truth.
fig, axes = plt.subplots(1, 2, figsize=(11.5, 4.8), layout="constrained")
for ax, by in zip(axes, (["age"], ["age", "school"]), strict=True):
    cells = X.append_column("truth", pa.array(ill)).group_by(by).aggregate([("truth", "mean")])
    truth = cells.rename_columns([*by, "truth"]).append_column("feature", pa.array(["ill"] * len(cells)))
    link.estimate(by=by).with_truth(truth).plot("imputed", ax=ax)

# %%
# Completed data sets: each has the published means, and a statistic is pooled over them by Rubin's rules.
old = age >= 5


def difference(u):
    a, b = u[old, 0], u[~old, 0]
    return a.mean() - b.mean(), np.sqrt(a.var() / len(a) + b.var() / len(b))


pooled = cl.imputation.pool([difference(u) for u in link.sample(people, n_draws=10)], names=["old minus young"])
print(pooled.summary())
print(f"the truth: {ill[old].mean() - ill[~old].mean():.3f}")

# %%
# Clusters of people instead, for those who want to know what kinds there are.
clusters = cl.CUDIA(3, method="two_stage").fit(people, places).clusters()
clusters.plot("clusters")
