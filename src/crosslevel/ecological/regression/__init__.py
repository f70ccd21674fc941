"""Distribution regression: a Gaussian process of mean embeddings and position explains the totals of places."""
