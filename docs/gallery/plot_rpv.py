"""
Study polarized voting from precincts to a proposed district
============================================================

An invented county with three contests in which every ballot is known. The study sees what a court would see: who lives in each
precinct, and how many votes each candidate had there.
"""

import numpy as np

import crosslevel as cl
from crosslevel import charts

rng = np.random.default_rng(8)
n = 70
share = rng.beta(0.9, 1.1, n)
people = np.column_stack([rng.binomial(1200, share), rng.binomial(1200, 1 - share)])
rates = {
    "Sheriff": [[0.46, 0.03, 0.01], [0.08, 0.47, 0.01]],
    "Judge": [[0.40, 0.06, 0.01], [0.10, 0.42, 0.01]],
    "Assessor": [[0.25, 0.12, 0.01], [0.35, 0.12, 0.01]],
}
frame = {"precinct": [f"p{i:02d}" for i in range(n)], "black": people[:, 0], "white": people[:, 1]}
for office, (black, white) in rates.items():
    context = 0.06 * (share - share.mean())[:, None] * np.array([1, -1, 0])  # everybody follows the precinct a little
    votes = np.zeros((n, 3))
    for g, rate in enumerate((black, white)):
        p = np.clip(np.array(rate) + context, 0, 1)
        votes += [rng.multinomial(k, [*q, 1 - q.sum()])[:3] for k, q in zip(people[:, g], p, strict=True)]
    frame |= {f"{office}: Ames": votes[:, 0], f"{office}: Brown": votes[:, 1], f"{office}: all": votes.sum(axis=1)}

counts = cl.Counts(frame, unit="precinct", groups={"Black": "black", "white": "white"})
contests = {o: {"Ames": f"{o}: Ames", "Brown": f"{o}: Brown", "total": f"{o}: all"} for o in rates}
study = cl.ecological.rpv(counts, contests)
print("\n".join(study.sentences()))

# %%
# One row for each contest and group, and how often the candidate of each group lost.
print(study.summary.summary())
print(study.tally.summary())

# %%
# Every method that courts know, side by side; light bars are what is possible at all.
charts.methods(study.contests["Sheriff"].comparison)

# %%
# A proposed district of the precincts in which most people are Black: would the candidate of Black voters have won there?
inside = [name for name, s in zip(frame["precinct"], share, strict=True) if s > 0.5]
print("\n".join(study.performance({"proposed": inside}, "Black").diagnostics["findings"]))
