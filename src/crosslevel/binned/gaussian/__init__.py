"""Totals and means behind regions as a Gaussian process with normal noise."""
