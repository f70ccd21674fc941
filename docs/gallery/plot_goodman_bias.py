"""
Compare Goodman's regression with the truth and with its bounds
===============================================================

A simulated nation in which we know how every group voted. Goodman's regression sees only regional totals; because
composition and context move together, its intervals miss the truth, while the deterministic bounds hold.
"""

import crosslevel as cl
from crosslevel.data.simulate import nation

world = nation(n_regions=120, people_per_region=300, random_state=0)
groups = cl.ecological.group_counts(
    world.people, by="region", group="race", places=world.places, total="votes", weight="weight"
)
counts = cl.Counts(world.places, unit="region", groups=groups, outcomes=["dem"], total_outcomes="votes")
found = cl.ecological.goodman(counts)
print(found.summary())

# %%
# The picture: dots with 95 % intervals, and the bounds as light bars.
found.plot()
