"""A world with known truth, to learn on and to be wrong in safely."""

from crosslevel.data.simulate.files import NationFiles, write_nation
from crosslevel.data.simulate.nation import Nation, nation

__all__ = ["Nation", "NationFiles", "nation", "write_nation"]
