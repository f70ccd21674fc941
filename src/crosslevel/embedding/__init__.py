"""People to one vector per bag, in one pass."""

from crosslevel.embedding.embeddings import Embeddings
from crosslevel.embedding.estimator import MeanEmbedding

__all__ = ["Embeddings", "MeanEmbedding"]
