"""
Compare Goodman's regression with the truth and with its bounds
===============================================================

A simulated nation in which we know how every group voted. Goodman's regression sees only regional totals; because
composition and context move together, its intervals miss the truth, while the deterministic bounds hold.
"""

import numpy as np

import crosslevel as cl
from crosslevel.data.simulate import nation

world = nation(n_regions=120, people_per_region=300, random_state=0)
groups, regions = cl.ecological.group_counts(
    world.people, by="region", group="race", places=world.places, total="votes", weight="weight"
)
dem = np.asarray(world.places["dem"], dtype=float)
votes = np.asarray(world.places["votes"], dtype=float)
found = cl.ecological.goodman(groups, {"dem": dem, "other": votes - dem}, units=regions)
print(found.summary())

# %%
# The picture: dots with 95 % intervals, and the bounds as light bars.
found.plot()
