"""Official files as they are downloaded: census microdata, county votes, health surveys, ages of areas, voting districts."""

from crosslevel.data.codebook import read_labels
from crosslevel.data.readers.acs_pums import read_acs_pums
from crosslevel.data.readers.brfss import read_brfss
from crosslevel.data.readers.county_votes import read_county_votes
from crosslevel.data.readers.ons_ages import read_ons_ages
from crosslevel.data.readers.vtd import read_vtd

__all__ = ["read_acs_pums", "read_brfss", "read_county_votes", "read_labels", "read_ons_ages", "read_vtd"]
