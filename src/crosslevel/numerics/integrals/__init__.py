"""Integrals of stationary correlations over intervals, exact to all digits for any width and distance."""

from crosslevel.numerics.integrals.correlations import (
    CORRELATIONS,
    Antiderivative,
    Correlation,
    Limits,
    White,
    correlation,
    double_antiderivative,
    spectral_density,
)

__all__ = [
    "CORRELATIONS",
    "Antiderivative",
    "Correlation",
    "Limits",
    "White",
    "correlation",
    "double_antiderivative",
    "spectral_density",
]
