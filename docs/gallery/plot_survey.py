"""
Estimate the vote by race and age from totals and a survey
==========================================================

A simulated nation whose regions published how many voted for whom. Two thousand voters, drawn from everybody, were asked how they voted;
those who voted for the winner answered more readily. The totals alone leave wide intervals, the survey alone is seven points off, both
together are near the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

import crosslevel as cl
from crosslevel.data.simulate import nation

world = nation(n_regions=80, people_per_region=500, n_states=8, contextual=0.15, spatial=0.12, random_state=1)
survey = world.survey(2000, shift=0.3, random_state=2)
columns = ["age_group", "race", "education", "sex"]
people = cl.People(world.people, by="region", weight="weight", columns=columns, categorical=["sex"])
places = cl.Places(world.places, by="region", successes="dem", trials="votes", coords=("lon", "lat"))

totals = cl.EcologicalInference().fit(people, places)
both = cl.EcologicalInference().fit(people, places, cl.Survey(survey, outcome="voted_dem", by="region"))
print(both.survey_.surveys.to_pandas()[["respondents", "offset", "points", "points_low", "points_high"]])

# %%
# Every group of four columns: the truth, the share of the respondents as they answered, the totals alone, and both.
frame = survey.to_pandas()
rows = []
for name in columns:
    truth = {row[name]: row["rate"] for row in world.true_rates(by=name, rollup="all").to_pylist()}
    direct = frame.groupby(name).voted_dem.mean()
    one, two = (model.estimate(by=name, rollup="all") for model in (totals, both))
    for i, level in enumerate(one[name]):
        found = [(e["estimate"][i], e["conf_low"][i], e["conf_high"][i]) for e in (one, two)]
        rows.append((f"{name} {level}", truth[level], direct[level], *found))

fig, ax = plt.subplots(figsize=(8, 5.5))
for y, (_, true, asked, alone, together) in enumerate(rows):
    ax.plot(alone[1:], [y + 0.15] * 2, color="0.75", lw=4, label="totals" if y == 0 else None)
    ax.plot(together[1:], [y - 0.15] * 2, color="C0", lw=4, label="totals and survey" if y == 0 else None)
    ax.plot(asked, y, "x", color="C1", label="respondents" if y == 0 else None)
    ax.plot(true, y, "ko", ms=4, label="truth" if y == 0 else None)
ax.set_yticks(range(len(rows)), [row[0] for row in rows])
ax.set_xlabel("share that voted dem")
ax.legend(frameon=False)
errors = {
    "respondents": np.mean([abs(row[2] - row[1]) for row in rows]),
    "totals": np.mean([abs(row[3][0] - row[1]) for row in rows]),
    "both": np.mean([abs(row[4][0] - row[1]) for row in rows]),
}
widths = [np.mean([row[j][2] - row[j][1] for row in rows]) for j in (3, 4)]
inside = [np.mean([row[j][1] <= row[1] <= row[j][2] for row in rows]) for j in (3, 4)]
print({name: round(100 * value, 1) for name, value in errors.items()}, np.round(widths, 3), inside)
ax.set_title(", ".join(f"{name}: {100 * value:.1f} points off" for name, value in errors.items()))
fig.tight_layout()
