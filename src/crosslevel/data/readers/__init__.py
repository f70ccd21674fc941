"""Official files as they are downloaded: census microdata, county votes, health surveys."""

from crosslevel.data.readers.acs_pums import read_acs_pums
from crosslevel.data.readers.brfss import read_brfss
from crosslevel.data.readers.county_votes import read_county_votes

__all__ = ["read_acs_pums", "read_brfss", "read_county_votes"]
