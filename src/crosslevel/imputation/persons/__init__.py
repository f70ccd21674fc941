"""Each person's probability from the group means: one logistic model of persons, fitted to the means alone."""
