"""Labels that are linear in the means of bags: evidence, ridge regression, logistic regression, shrunken means."""
