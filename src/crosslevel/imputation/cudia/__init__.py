"""CUDIA on arrays: clusters of people, the laws of published means, and the ways of fitting them."""
