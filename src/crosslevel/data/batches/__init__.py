"""Streams of people larger than memory: any file, folder, frame or function in, Arrow record batches out.

``stream`` holds :func:`open_batches` and :class:`Batches`; ``locate`` turns what the caller named into sources; one file
per format knows how to read it (``parquet``, ``delimited``, ``arrow_files``, ``memory``); ``schemas`` makes several
files agree on one schema.
"""

from crosslevel.data.batches.source import Piece, Source
from crosslevel.data.batches.stream import Batches, open_batches

__all__ = ["Batches", "Piece", "Source", "open_batches"]
