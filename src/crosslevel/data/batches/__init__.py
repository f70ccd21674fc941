"""Streams of people larger than memory: any file, folder, frame or function in, Arrow record batches out.

``stream`` holds :func:`open_batches` and :class:`Batches`, reads frames, and makes several files agree on one schema; ``sources`` says
what every source gives; ``formats`` finds files and reads parquet, Arrow, functions and readers; ``delimited`` reads CSV;
``text_numbers`` numbers that are written as 1,234 or 45 %.
"""

from crosslevel.data.batches.sources import Piece, Source
from crosslevel.data.batches.stream import Batches, open_batches

__all__ = ["Batches", "Piece", "Source", "open_batches"]
