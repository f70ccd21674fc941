"""King's model of 2 x 2 tables."""
