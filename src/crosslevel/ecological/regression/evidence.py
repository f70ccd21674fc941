"""What is known of subgroups, as further rows of the regression: an exit poll, a survey by state.

A row of evidence says how many of how many in a subgroup did it. The subgroup is a query over people, the columns it shares with
places say where it holds. Its latent value is that of its own people, f_r = bias + m_r . w + sum_i A_ri u_i: m_r the mean embedding
of the subgroup over those places, A_ri the share of its people who live in place i. Its counts are binomial with their own n; a
poll with a design effect of 2 is entered with half its n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslevel.data.queries import ALL, SUBGROUP
from crosslevel.data.totals import PlaceTotals, chain
from crosslevel.ecological.claims import Claims, places_of
from crosslevel.ecological.quantities import part_bounds
from crosslevel.embedding import Embeddings
from crosslevel.errors import InputError
from crosslevel.typing import FloatArray, IntArray

FAR = 4.0
"""Standard errors by which evidence may miss what the totals allow, before it is said."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence as the regression takes it.

    Attributes
    ----------
    M : (r, p)
        Mean embeddings, not centered.
    A : (r, q)
        Share of each row's people who live in each place.
    successes, trials : (n_stages, r)
        Of each question; trials are 0 where a question was not asked.
    labels : tuple of str
    fingerprint : str
    notes : tuple of str
    """

    M: FloatArray
    A: FloatArray
    successes: FloatArray
    trials: FloatArray
    labels: tuple[str, ...]
    fingerprint: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.M)


def weigh_evidence(claims: Claims, found: Embeddings, whole: Embeddings, places: PlaceTotals) -> Evidence:
    """Find the people each row of evidence is about.

    Parameters
    ----------
    claims : Claims
    found : Embeddings
        By place and ``subgroup``, holding every query of the claims.
    whole : Embeddings
        By place, in the order of ``places``.
    places : PlaceTotals
    """
    q = len(places)
    number = {key: i for i, key in enumerate(places.keys)}
    at = np.array([number.get(k, -1) for k in found.key_table[places.by].to_pylist()], dtype=np.intp)
    several = SUBGROUP in found.key_table.column_names[1:]
    which = np.array(found.key_table[SUBGROUP].to_pylist() if several else [ALL] * len(found), dtype=object)
    M, A = np.zeros((len(claims.n), whole.values.shape[1])), np.zeros((len(claims.n), q))
    notes = list(claims.notes)
    for r, name in enumerate(claims.subgroup):
        inside = places_of(claims, r, places)
        rows = np.flatnonzero((at >= 0) & (which == name) & np.isin(at, np.flatnonzero(inside)))
        if not len(rows):
            raise InputError(
                f"evidence row {claims.rows[r]}: nobody among the people is {claims.label(r)}, so the row cannot be used; correct "
                "the query or the place, or drop the row."
            )
        weight = found.weight[rows]
        A[r, at[rows]] = weight / weight.sum()
        M[r] = A[r, at[rows]] @ found.values[rows]
        notes += _far(claims, r, places, at[rows], weight, whole)
    k, n = chain(claims.parts, claims.n, places.totals.exhaustive)
    if places.totals.turnout:  # who voted is no part of it
        k, n = (np.vstack([np.zeros(len(claims.n)), v]) for v in (k, n))
    labels = tuple(claims.label(r) for r in range(len(claims.n)))
    return Evidence(M, A, k, n, labels, claims.fingerprint, tuple(notes))


def _far(claims: Claims, r: int, places: PlaceTotals, at: IntArray, weight: FloatArray, whole: Embeddings) -> list[str]:
    """Say when a row's first outcome lies outside what the totals allow by more than chance."""
    if places.totals.turnout:  # bounds among voters are too wide to tell
        return []
    y = places.totals.successes[0, at] / places.totals.trials[0, at]
    low, high = (weight @ bound / weight.sum() for bound in part_bounds(weight / whole.weight[at], y))
    k, n = float(claims.parts[0, r]), float(claims.n[r])
    smooth = (k + 0.5) / (n + 1.0)
    error = FAR * np.sqrt(smooth * (1.0 - smooth) / n)
    if low - error <= k / n <= high + error:
        return []
    return [
        f"evidence row {claims.rows[r]} ({claims.label(r)}) says {k / n:.3f}, but the totals allow {low:.3f} to {high:.3f}; the "
        "estimates keep to the totals."
    ]
