"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.ecological.court.choice import candidate_of_choice as candidate_of_choice
from crosslevel.ecological.court.polarization import margin as margin
from crosslevel.ecological.court.polarization import polarization as polarization
from crosslevel.ecological.court.rpv import rpv as rpv
from crosslevel.ecological.court.study import ContestStudy as ContestStudy
from crosslevel.ecological.court.study import PolarizationStudy as PolarizationStudy
from crosslevel.ecological.court.voters import among_voters as among_voters
from crosslevel.ecological.court.voters import turnout as turnout
from crosslevel.ecological.persons.estimator import EcologicalInference as EcologicalInference
from crosslevel.ecological.regression.estimator import DistributionRegression as DistributionRegression
from crosslevel.ecological.tables.assumptions.car_test import car_test as car_test
from crosslevel.ecological.tables.assumptions.robustness import sensitivity as sensitivity
from crosslevel.ecological.tables.baselines import bounds as bounds
from crosslevel.ecological.tables.baselines import homogeneous as homogeneous
from crosslevel.ecological.tables.baselines import neighborhood as neighborhood
from crosslevel.ecological.tables.compare import compare as compare
from crosslevel.ecological.tables.constant_rates import rxc_em as rxc_em
from crosslevel.ecological.tables.contextual.estimator import rxc as rxc
from crosslevel.ecological.tables.dirichlet.estimator import multinomial_dirichlet as multinomial_dirichlet
from crosslevel.ecological.tables.goodman import goodman as goodman
from crosslevel.ecological.tables.group_counts import group_counts as group_counts
from crosslevel.ecological.tables.king.estimator import king as king
from crosslevel.ecological.tables.king.iterated import king_iterated as king_iterated
from crosslevel.ecological.tables.memberships import MembershipCounts as MembershipCounts
