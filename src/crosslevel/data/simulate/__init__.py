"""A world with known truth, to learn on and to be wrong in safely."""

from crosslevel.data.simulate.nation import Nation, nation

__all__ = ["Nation", "nation"]
