"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel import binned as binned
from crosslevel import charts as charts
from crosslevel import data as data
from crosslevel import diagnostics as diagnostics
from crosslevel import distribution as distribution
from crosslevel import ecological as ecological
from crosslevel import embedding as embedding
from crosslevel import errors as errors
from crosslevel import imputation as imputation
from crosslevel import krls as krls
from crosslevel import results as results
from crosslevel.binned.counts.estimator import BinnedCountGP as BinnedCountGP
from crosslevel.binned.gaussian.estimator import BinnedGP as BinnedGP
from crosslevel.binned.regions.boxes import Boxes as Boxes
from crosslevel.binned.regions.boxes import Intervals as Intervals
from crosslevel.binned.regions.polygons import Polygons as Polygons
from crosslevel.binned.regions.simplices import Simplices as Simplices
from crosslevel.data.audit import audit as audit
from crosslevel.data.bags import Bags as Bags
from crosslevel.data.people import People as People
from crosslevel.data.place_columns import GroupCounts as GroupCounts
from crosslevel.data.places import Means as Means
from crosslevel.data.places import Places as Places
from crosslevel.data.surveys import PublishedShares as PublishedShares
from crosslevel.data.surveys import Survey as Survey
from crosslevel.distribution.shrinkage.estimator import MeanShrinkage as MeanShrinkage
from crosslevel.ecological.persons.estimator import EcologicalInference as EcologicalInference
from crosslevel.ecological.tables.counts import Counts as Counts
from crosslevel.embedding.embeddings import Embeddings as Embeddings
from crosslevel.embedding.estimator import MeanEmbedding as MeanEmbedding
from crosslevel.imputation.cudia.estimator import CUDIA as CUDIA
from crosslevel.imputation.persons.estimator import CrossLevelImputer as CrossLevelImputer
from crosslevel.krls.estimator import KRLS as KRLS
from crosslevel.reports.report import report as report
from crosslevel.results.estimates import Estimates as Estimates
from crosslevel.results.files import load as load
from crosslevel.results.files import save as save

__version__: str
