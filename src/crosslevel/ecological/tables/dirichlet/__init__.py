"""The Multinomial-Dirichlet model of R x C tables."""
