"""Worlds with known truth, to learn on and to be wrong in safely; and a census, to measure speed on."""

from crosslevel.data.simulate.census import Census, census
from crosslevel.data.simulate.census_files import CensusFiles, write_census
from crosslevel.data.simulate.files import NationFiles, write_nation
from crosslevel.data.simulate.nation import Nation, nation

__all__ = ["Census", "CensusFiles", "Nation", "NationFiles", "census", "nation", "write_census", "write_nation"]
