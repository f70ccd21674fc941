"""Counts behind bins as counts: Poisson, negative binomial and binomial with the integral inside the link."""
