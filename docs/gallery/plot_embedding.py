"""
Turn the people of each region into one vector and predict its vote
===================================================================

The mean of random features of a region's people is one vector per region; any regression takes it from there. Twelve lines
with scikit-learn, and the regions held out are predicted.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict

import crosslevel as cl
from crosslevel.data.simulate import nation

world = nation(n_regions=120, people_per_region=150, random_state=0)
columns = ["age", "sex", "race", "education", "urban"]
people = cl.People(world.people, by="region", weight="weight", columns=columns, categorical=["sex"])
vectors = cl.MeanEmbedding(n_features=512, random_state=0).fit_transform(people)
print(vectors)

# %%
# The rows of the vectors have keys; the votes are matched by them.
at = {r: i for i, r in enumerate(world.places["region"].to_pylist())}
order = [at[key] for key in vectors.keys]
share = (world.places["dem"].to_numpy() / world.places["votes"].to_numpy())[order]
predicted = cross_val_predict(RidgeCV(np.logspace(-6, 2, 20)), vectors.values, share, cv=10)
print("R2 of regions held out:", round(1 - np.mean((share - predicted) ** 2) / share.var(), 2))

# %%
# Predicted against counted. Good predictions of *places* say nothing yet about subgroups.
_, axes = plt.subplots()
axes.scatter(predicted, share, s=12)
axes.axline((0.5, 0.5), slope=1, color="0.6")
axes.set(xlabel="predicted from who lives there", ylabel="share of the vote", title="Regions held out")
