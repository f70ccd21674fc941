"""Integrals of stationary correlations over intervals, exact to all digits for any width and distance."""
