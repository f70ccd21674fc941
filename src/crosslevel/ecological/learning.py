"""People, places and evidence put together: what a link is fitted to."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from crosslevel.data.batches import Batches
from crosslevel.data.queries import ALL, SUBGROUP
from crosslevel.ecological.evidence import Claims, Evidence, weigh_evidence
from crosslevel.ecological.group.link import Sampling, sampling_of
from crosslevel.ecological.individual.collapse import Coarsening, Collapsed, TooManyKindsError, coarsen, collapse
from crosslevel.ecological.individual.link import level_shares
from crosslevel.ecological.matching import match, take_bags
from crosslevel.ecological.places import Places
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.errors import CrosslevelWarning
from crosslevel.typing import Progress

__all__ = ["Counted", "Gathered", "count_people", "gather", "people_fingerprint", "sampling_error"]


@dataclass(frozen=True, eq=False)
class Gathered:
    """What a link is fitted to.

    Attributes
    ----------
    embedder : MeanEmbedding
    places : Places
        Those with people and trials, in sorted order of their keys.
    whole : Embeddings
        Of the places, in their order.
    evidence : Evidence or None
    notes : tuple of str
        What the reader of the numbers should know.
    """

    embedder: MeanEmbedding
    places: Places
    whole: Embeddings
    evidence: Evidence | None
    notes: tuple[str, ...]


def gather(
    people: Batches,
    places: Places,
    embedder: MeanEmbedding,
    claims: Claims | None,
    *,
    weight: str | None,
    columns: Sequence[str] | None,
    unmatched: str,
    progress: Progress | None,
) -> Gathered:
    """Go over the people twice, to learn their encoding and to embed places and the subgroups of the evidence."""
    by = places.by
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CrosslevelWarning)
        embedder.fit(people, by=by, columns=columns, weight=weight, progress=progress)
        found = embedder.transform(people, subgroups=(claims.queries or None) if claims else None, progress=progress)
    whole = found
    if SUBGROUP in found.key_table.column_names[1:]:
        everybody = np.array([name == ALL for name in found.key_table[SUBGROUP].to_pylist()])
        whole = take_bags(found, np.flatnonzero(everybody))
        whole = replace(whole, key_table=whole.key_table.select([by]))
    keys = whole.key_table[by].to_pylist()
    places = match(places, keys, whole.weight, whole.n_rows, unmatched)
    number = {key: i for i, key in enumerate(keys)}
    whole = take_bags(whole, np.array([number[key] for key in places.keys], dtype=np.intp))
    evidence = None if claims is None else weigh_evidence(claims, found, whole, places)
    texts = dict.fromkeys(
        [*(str(w.message) for w in said), *places.notes, *(() if evidence is None else evidence.notes)]
    )
    return Gathered(embedder, places, whole, evidence if evidence else None, tuple(texts))


@dataclass(frozen=True, eq=False)
class Counted:
    """What the individual link is fitted to.

    Attributes
    ----------
    embedder : MeanEmbedding
        How columns are read.
    places : Places
        Those with people and trials, in sorted order of their keys.
    whole : Embeddings
        Composition of the places: the share of people in every level.
    coarsening : Coarsening
    collapsed : Collapsed
    notes : tuple of str
    """

    embedder: MeanEmbedding
    places: Places
    whole: Embeddings
    coarsening: Coarsening
    collapsed: Collapsed
    notes: tuple[str, ...]


def count_people(
    people: Batches,
    places: Places,
    embedder: MeanEmbedding,
    *,
    weight: str | None,
    columns: Sequence[str] | None,
    n_bins: int,
    unmatched: str,
    progress: Progress | None,
) -> Counted:
    """Go over the people twice, to learn their encoding and to count them by place and cell."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CrosslevelWarning)
        embedder.fit(people, by=places.by, columns=columns, weight=weight, progress=progress)
    places = places.take(np.array(sorted(range(len(places)), key=lambda i: places.keys[i]), dtype=np.intp))  # type: ignore[arg-type,return-value]
    coarsening, found, coarser = _coarsened(people, places, embedder, n_bins, weight, progress)
    lived = np.flatnonzero(found.total > 0)
    keys = [places.keys[i] for i in lived] + list(found.strangers)
    weights = np.concatenate([found.total[lived], [w for w, _ in found.strangers.values()]])
    rows = np.concatenate([found.count.sum(axis=1)[lived], [n for _, n in found.strangers.values()]])
    places = match(places, keys, weights, rows.astype(np.intp), unmatched)
    found = found.inhabited()
    first = np.concatenate([[0], np.cumsum(coarsening.sizes)]).astype(np.int32)
    whole = Embeddings(
        level_shares(found.pairs, found.codes + first[:-1], int(first[-1])),
        pa.table({places.by: places.table[places.by]}),
        found.total,
        found.count.sum(axis=1),
        found.total**2 / np.maximum(found.squares.sum(axis=1), 1e-300),
    )
    texts = dict.fromkeys([*(str(w.message) for w in said), *places.notes, *coarser])
    return Counted(embedder, places, whole, coarsening, found, tuple(texts))


def _coarsened(
    people: Batches, places: Places, embedder: MeanEmbedding, n_bins: int, weight: str | None, progress: Progress | None
) -> tuple[Coarsening, Collapsed, list[str]]:
    """Count people by place and cell; with fewer bins of numbers where the kinds of people would not fit in memory."""
    bins = n_bins
    while True:
        coarsening = coarsen(embedder.encoder_, embedder.sample_, bins)
        try:
            found = collapse(people, coarsening, place=places.by, keys=places.keys, weight=weight, progress=progress)
        except TooManyKindsError:
            if bins == 2 or not coarsening.edges:
                raise
            bins = max(2, bins // 2)
            continue
        coarser = (
            f"Numbers are in at most {bins} bins, not {n_bins}: with more, the kinds of people do not fit in memory."
        )
        return coarsening, found, [coarser] if bins < n_bins else []


def people_fingerprint(whole: Embeddings, columns: Sequence[str]) -> str:
    """Name the people by what was found anyway: the features, and how many people of what weight every place has.

    Two files of different format with the same people give the same name; nobody is read again for it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bags = Embeddings(np.zeros((1, 2)), pa.table({"town": ["a"]}), np.ones(1), np.ones(1, int), np.ones(1))
    >>> people_fingerprint(bags, ["age"]), people_fingerprint(bags, ["sex"])
    ('sha256:...', 'sha256:...')
    """
    keys = [str(key) for key in whole.key_table.column(0).to_pylist()]
    told = [list(columns), keys, whole.n_rows.tolist(), [f"{w:.9g}" for w in whole.weight]]
    return f"sha256:{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]}"


def sampling_error(embedder: MeanEmbedding, whole: Embeddings) -> Sampling:
    """Prepare what the sampling of people does to the embedding of a part, from the embedder's sample of them."""
    features = embedder.feature_map_.transform(embedder.sample_)
    return sampling_of(features, whole.values, whole.weight, whole.effective_size)
