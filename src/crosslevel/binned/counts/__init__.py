"""Counts behind bins as counts: Poisson and binomial with the integral inside the link."""
