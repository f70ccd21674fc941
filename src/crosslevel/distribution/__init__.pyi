"""Public names of this package and where each is defined; :mod:`crosslevel.lazy` loads them from here."""

from crosslevel.distribution.linear.estimator import BayesianLinear as BayesianLinear
from crosslevel.distribution.linear.estimator import BayesianLinearClassifier as BayesianLinearClassifier
from crosslevel.distribution.linear.estimator import FrequentistShrinkage as FrequentistShrinkage
from crosslevel.distribution.linear.estimator import RBFNetwork as RBFNetwork
from crosslevel.distribution.sampled.estimator import FullBayes as FullBayes
from crosslevel.distribution.sampled.estimator import FullBayesClassifier as FullBayesClassifier
from crosslevel.distribution.shrinkage.estimator import MeanShrinkage as MeanShrinkage
from crosslevel.distribution.shrinkage.estimator import MeanShrinkageClassifier as MeanShrinkageClassifier
