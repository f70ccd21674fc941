"""The way out: one tidy table with its provenance, scores, and files that hold it."""

from __future__ import annotations

from crosslevel.results.estimates import Estimates
from crosslevel.results.files import load, save
from crosslevel.results.provenance import Provenance
from crosslevel.results.survey import SurveyDesign

__all__ = ["Estimates", "Provenance", "SurveyDesign", "load", "save"]
