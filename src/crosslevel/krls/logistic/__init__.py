"""Kernel logistic regression: a binary outcome, on the scale of log odds."""
