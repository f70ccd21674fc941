"""The contextual model of R x C tables."""
