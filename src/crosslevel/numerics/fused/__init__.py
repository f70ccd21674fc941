"""Weighted sums of features over bags, in one pass, without ever making the feature matrix.

``make_plan(feature_map)`` lays a map out for the kernels; ``embed_piece`` turns a piece of encoded rows into sums per
bag. Importing this package imports numba; the kernels are compiled on first use and cached on disk.
"""

from __future__ import annotations

from crosslevel.numerics.fused.embed import PieceSums, Plan, Scratch, embed_piece, embed_rows, make_plan

__all__ = ["PieceSums", "Plan", "Scratch", "embed_piece", "embed_rows", "make_plan"]
