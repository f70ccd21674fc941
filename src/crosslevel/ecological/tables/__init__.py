"""Counts by unit: methods that see two margins of every unit, and no people."""
