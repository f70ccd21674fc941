"""Find small groups whose totals follow from differences of overlapping totals, whatever the curve.

The regions are cut into *atoms*, the largest pieces that each region holds whole or not at all. A group is some atoms together: an
atom, what one region has and another has not, what two share, what is left of a region without all regions inside it. Its total
follows from those observed when its atoms are a combination of regions, M' w = u for the regions' atoms M (n, a) and the group's u
(a,); the best such combination has variance min w' N w, N the noise. A group that is no region itself, whose total is small and so
determined to within half a person, is revealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from crosslevel.binned.regions.base import Pieces, Regions
from crosslevel.binned.regions.boxes import Intervals
from crosslevel.binned.regions.polygons import Polygons
from crosslevel.binned.regions.sums import Stack, WeightedSum
from crosslevel.data.checks import check_finite, check_kind, check_length
from crosslevel.data.shapes import as_shapely, import_shapely
from crosslevel.errors import InputError, MissingExtraError, listed
from crosslevel.typing import BoolArray, FloatArray

SMALL = 10.0
"""Totals up to this are those of a small group."""
CERTAIN = 0.5
"""Standard deviation below which a total of whole people is as good as known."""
MOST_CELLS, MOST_REGIONS, MOST_ATOMS, MOST_GROUPS = 20_000, 600, 1500, 20_000
"""Sizes beyond which nothing is looked for; of groups beyond which the last pairs of regions are not compared."""
LEAST_NOISE = 1e-6
SLIVER = 1e-6
"""Share of the smallest polygon below which an atom is a slip of two borders that were meant to be one."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """Regions as sets of atoms.

    Attributes
    ----------
    M : (n, a)
        Whether region i holds atom j.
    cells : list of (lower, upper), (c, d) each, or None
        The boxes that make each atom; None for polygons.
    names : list of str
        Of the regions, for the reader.
    """

    M: BoolArray
    cells: list[tuple[FloatArray, FloatArray]] | None
    names: list[str]


@dataclass(frozen=True)
class Revealed:
    """A group whose total follows: what it is, and the total."""

    description: str
    total: float


def privacy_warnings(regions: Regions, y: FloatArray, noise: FloatArray | float = LEAST_NOISE) -> tuple[str, ...]:
    """Warn of small groups that differences of overlapping totals reveal; none where nothing is revealed.

    Parameters
    ----------
    regions : Regions
    y : (n,)
        Totals.
    noise : (n,) or float
        Variances of their errors.

    Examples
    --------
    >>> privacy_warnings(Intervals([0, 0], [64, 65]), np.array([5000.0, 5002.0]))[0][:88]
    'privacy: differences of overlapping totals reveal 1 small unit(s) that no single total d'
    >>> privacy_warnings(Intervals([0, 64], [64, 65]), np.array([5000.0, 2.0]))
    ()
    """
    check_kind(regions, Regions, "regions", "pass Intervals, Boxes or Polygons")
    y = check_finite(y, "y", 1)
    check_length(y, "y", len(regions), "regions")
    noise = check_finite(noise, "noise")
    if noise.shape not in ((1,), (len(y),)):
        raise InputError(f"noise has shape {noise.shape}; pass one number, or one for each of the {len(y):,} totals.")
    found = revealed_groups(regions, y, noise)
    if not found:
        return ()
    said = [f"{one.description} holds {one.total:.0f}" for one in found]
    return (
        f"privacy: differences of overlapping totals reveal {len(found)} small unit(s) that no single total does: {listed(said, 3)}. "
        "Publish coarser or noisier totals, or fewer that overlap.",
    )


def revealed_groups(regions: Regions, y: FloatArray, noise: FloatArray | float = LEAST_NOISE) -> list[Revealed]:
    """Find the small groups whose totals follow from others; of one within another the smaller only."""
    atoms = atoms_of(regions)
    if atoms is None:
        return []
    groups, words = _groups(atoms)
    N = np.maximum(np.broadcast_to(noise, (len(y),)), LEAST_NOISE)
    total, variance = _follow(atoms.M, groups, np.asarray(y, dtype=np.float64), N)
    published = {row.tobytes() for row in atoms.M}
    small = (variance < CERTAIN**2) & (np.abs(total) < SMALL + 0.5)
    found: list[tuple[BoolArray, Revealed]] = []
    for i in sorted(np.flatnonzero(small), key=lambda i: int(groups[i].sum())):
        u = groups[i]
        if u.tobytes() in published or any((seen <= u).all() for seen, _ in found):
            continue
        found.append((u, Revealed(_span(atoms, u) or words[i], float(np.round(total[i], 6)) + 0.0)))
    return [one for _, one in found]


def _follow(M: BoolArray, groups: BoolArray, y: FloatArray, N: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give totals (g,) and variances (g,) of groups by the best combination of regions; infinite where there is none."""
    root = 1.0 / np.sqrt(N)
    U, s, Vt = np.linalg.svd(M * root[:, None], full_matrices=False)
    kept = s > 1e-11 * s[0]
    U, s, Vt = U[:, kept], s[kept], Vt[kept]
    along = groups @ Vt.T
    beyond = groups.sum(axis=1) - (along**2).sum(axis=1)
    weights = along / s
    variance = np.where(beyond < 1e-8 * groups.sum(axis=1), (weights**2).sum(axis=1), np.inf)
    return weights @ (U.T @ (root * y)), variance


def _groups(atoms: Atoms) -> tuple[BoolArray, list[str]]:
    """List the groups to look at, (g, a), each with words for it."""
    M, names = atoms.M, atoms.names
    rows: dict[bytes, tuple[BoolArray, str]] = {}

    def add(u: BoolArray, words: str) -> None:
        if u.any():
            rows.setdefault(u.tobytes(), (u, words))

    for j in range(M.shape[1]):
        holders = [names[i] for i in np.flatnonzero(M[:, j])]
        many = f"{holders[0]} has" if len(holders) == 1 else f"{', '.join(holders[:-1])} and {holders[-1]} share"
        add(np.arange(M.shape[1]) == j, f"what only {many}")
    for i in range(len(M)):
        inside = (~M | M[i]).all(axis=1) & (M[i] != M).any(axis=1)
        if inside.any():
            add(M[i] & ~M[inside].any(axis=0), f"{names[i]} without the {int(inside.sum())} region(s) inside it")
    shared = (M.astype(np.float64) @ M.T) > 0
    for i, j in zip(*np.nonzero(shared), strict=True):
        if len(rows) > MOST_GROUPS:
            break
        if i != j:
            add(M[i] & ~M[j], f"{names[i]} without {names[j]}")
            add(M[i] & M[j], f"what {names[i]} and {names[j]} share")
    return np.array([u for u, _ in rows.values()]), [w for _, w in rows.values()]


def atoms_of(regions: Regions) -> Atoms | None:
    """Cut regions into atoms; None where none overlap, where they are points, or where they are too many to compare.

    Examples
    --------
    >>> atoms_of(Intervals([0, 0], [64, 65])).M.astype(int).tolist()
    [[0, 1], [1, 1]]
    """
    if isinstance(regions, Intervals) and not regions.overlaps():
        return None
    if len(regions) > MOST_REGIONS:
        return None
    names = _names(regions)
    try:
        shapes = _shapes(regions)
    except MissingExtraError:  # a saved model may be read where polygons cannot be cut
        return None
    if shapes is not None:
        M = _overlay(*shapes, len(regions))
        return None if M is None or M.shape[1] > MOST_ATOMS else Atoms(M, None, names)
    pieces = _boxes(regions)
    found = None if pieces is None else _cells(pieces)
    if found is None:
        return None
    M, low, high = found
    patterns, which = np.unique(M, axis=1, return_inverse=True)
    if patterns.shape[1] > MOST_ATOMS or (patterns.sum(axis=0) <= 1).all():
        return None
    which = which.ravel()
    cells = [(low[which == j], high[which == j]) for j in range(patterns.shape[1])]
    return Atoms(np.ascontiguousarray(patterns), cells, names)


def _names(regions: Regions) -> list[str]:
    labels = regions.labels()
    if isinstance(regions, Polygons) and regions.names is not None:
        return [repr(n) for n in next(iter(labels.values()))]
    return [f"row {i}" for i in range(len(regions))]


def _boxes(regions: Regions) -> Pieces | None:
    """Give the boxes that regions are unions of; None where they are not, or are sums with weights."""
    pieces = regions.pieces()
    if pieces is None or (pieces.weight != 1.0).any():
        return None
    flat = pieces.lower == pieces.upper
    # an axis on which all are slices has categories; slices among boxes, and points, hold nobody
    return None if flat.all() or (flat.any(axis=0) & ~flat.all(axis=0)).any() else pieces


def _cells(pieces: Pieces) -> tuple[BoolArray, FloatArray, FloatArray] | None:
    """Cut the space along all limits: which region holds which cell (n, c), and the cells' corners."""
    axes = []
    for low, high in zip(pieces.lower.T, pieces.upper.T, strict=True):
        if (low == high).all():
            values = np.unique(low)
            axes.append((values, values))
        else:
            edges = np.unique([low, high])
            axes.append((edges[:-1], edges[1:]))
    if np.prod([float(len(a)) for a, _ in axes]) > MOST_CELLS:
        return None
    low = np.array(list(product(*(a.tolist() for a, _ in axes))))
    high = np.array(list(product(*(b.tolist() for _, b in axes))))
    M = np.zeros((pieces.n, len(low)), dtype=bool)
    for s, t, owner in zip(pieces.lower, pieces.upper, pieces.owner, strict=True):
        M[owner] |= ((low >= s) & (high <= t)).all(axis=1)
    covered = M.any(axis=0)
    return M[:, covered], low[covered], high[covered]


def _shapes(regions: Regions) -> tuple[list[Any], list[int]] | None:
    """Give polygons, and the region of each, where all regions are made of them."""
    if isinstance(regions, Polygons):
        return list(as_shapely(regions.shapes)), list(range(len(regions)))
    if isinstance(regions, WeightedSum) and (regions.weights >= 0).all() and isinstance(regions.parts, Polygons):
        return list(as_shapely(regions.parts.shapes)), regions.owner.tolist()
    if not isinstance(regions, Stack):
        return None
    shapes: list[Any] = []
    owner: list[int] = []
    start = 0
    for member in regions.members:
        found = _shapes(member)
        if found is None:
            return None
        shapes += found[0]
        owner += [start + o for o in found[1]]
        start += len(member)
    return shapes, owner


def _overlay(shapes: Sequence[Any], owner: Sequence[int], n: int) -> BoolArray | None:
    """Cut overlapping polygons along all their borders and tell which region holds which part, (n, a); None without overlaps."""
    shapely = import_shapely()
    given = np.asarray(shapes, dtype=object)
    least = SLIVER * float(shapely.area(given).min())
    tree = shapely.STRtree(given)
    a, b = tree.query(given, predicate="intersects")
    pairs = (a < b) & (np.asarray(owner)[a] != np.asarray(owner)[b])
    a, b = a[pairs], b[pairs]
    over = shapely.area(shapely.intersection(given[a], given[b])) > least
    if not over.any():
        return None
    lines = shapely.union_all(shapely.boundary(given))
    faces = shapely.get_parts(shapely.polygonize([lines]))
    faces = faces[shapely.area(faces) > least]
    inside, face = tree.query(shapely.point_on_surface(faces), predicate="within")[::-1]
    M = np.zeros((n, len(faces)), dtype=bool)
    M[np.asarray(owner)[inside], face] = True
    return np.ascontiguousarray(np.unique(M[:, M.any(axis=0)], axis=1))


def _span(atoms: Atoms, u: BoolArray) -> str:
    """Say a group as intervals or one box where it is that; else give no words."""
    if atoms.cells is None:
        return ""
    low, high = (np.concatenate([atoms.cells[j][k] for j in np.flatnonzero(u)]) for k in (0, 1))
    if low.shape[1] == 1:
        order = np.argsort(low[:, 0])
        starts, ends = low[order, 0], high[order, 0]
        new = np.append(True, starts[1:] > ends[:-1])
        last = np.append(new[1:], True)
        return " and ".join(f"[{s:g}, {t:g})" for s, t in zip(starts[new], ends[last], strict=True))
    bottom, top = low.min(axis=0), high.max(axis=0)
    width, whole = (np.where(t > s, t - s, 1.0) for s, t in ((low, high), (bottom, top)))
    if not np.isclose(np.prod(width, axis=1).sum(), np.prod(whole)):
        return ""
    if ((bottom < top) != (low < high).all(axis=0)).any():
        return ""  # several categories, of which a box does not tell
    return " x ".join(f"{s:g}" if s == t else f"[{s:g}, {t:g})" for s, t in zip(bottom, top, strict=True))
