"""People, places and evidence put together: what a link is fitted to."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosslevel.data.batches import Batches
from crosslevel.ecological.evidence import Claims, Evidence, weigh_evidence
from crosslevel.ecological.group.link import Sampling, sampling_of
from crosslevel.ecological.matching import match, take_bags
from crosslevel.ecological.places import Places
from crosslevel.embedding import Embeddings, MeanEmbedding
from crosslevel.embedding.chunks import ALL, SUBGROUP
from crosslevel.embedding.run import Progress
from crosslevel.errors import CrosslevelWarning

__all__ = ["Gathered", "gather", "people_fingerprint", "sampling_error"]


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
