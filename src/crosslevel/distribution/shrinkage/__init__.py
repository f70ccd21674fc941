"""Labels with the uncertainty of small bags carried through, in closed form (Laplace)."""
