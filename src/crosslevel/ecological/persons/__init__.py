"""People decide one by one, and totals are sums of their probabilities."""
