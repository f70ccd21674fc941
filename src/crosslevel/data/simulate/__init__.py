"""A world with known truth, to learn on and to be wrong in safely; and stand-ins for official files."""

from crosslevel.data.simulate.files import NationFiles, write_nation
from crosslevel.data.simulate.nation import Nation, nation
from crosslevel.data.simulate.official import brfss, county_votes, ons_ages, pums, vtd

__all__ = ["Nation", "NationFiles", "brfss", "county_votes", "nation", "ons_ages", "pums", "vtd", "write_nation"]
