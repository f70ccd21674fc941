"""Counts behind bins as counts: Poisson, negative binomial and binomial with the integral inside the link."""

from crosslevel.binned.counts.areas import PooledFit, pool_counts
from crosslevel.binned.counts.cells import (
    CountBins,
    bins_from_boxes,
    bins_from_design,
    bins_from_edges,
    bins_from_intervals,
)
from crosslevel.binned.counts.checking import LeaveOneOut, leave_one_out, leave_one_out_pooled
from crosslevel.binned.counts.fit import CountDraws, CountFit, RegionBands, fit_counts
from crosslevel.binned.counts.rates import RateFit, fit_rates
from crosslevel.binned.counts.skill import Skill, merged_skill

__all__ = [
    "CountBins",
    "CountDraws",
    "CountFit",
    "LeaveOneOut",
    "PooledFit",
    "RateFit",
    "RegionBands",
    "Skill",
    "bins_from_boxes",
    "bins_from_design",
    "bins_from_edges",
    "bins_from_intervals",
    "fit_counts",
    "fit_rates",
    "leave_one_out",
    "leave_one_out_pooled",
    "merged_skill",
    "pool_counts",
]
