"""People to one vector per bag, in one pass over a stream."""

from crosslevel.embedding.embeddings import Embeddings
from crosslevel.embedding.estimator import MeanEmbedding
from crosslevel.embedding.state import BagSums

__all__ = ["BagSums", "Embeddings", "MeanEmbedding"]
