"""Merge two overlapping geographies into regions, and sum votes and people onto them."""

from crosslevel.data.regions.merge import merge_regions
from crosslevel.data.regions.sums import MergeReport, Regions

__all__ = ["MergeReport", "Regions", "merge_regions"]
