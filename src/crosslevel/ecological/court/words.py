"""Findings in sentences: what a report says, said once for each group or pair of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["choice_sentences", "differ_words", "leaving_out", "say_chance"]


def say_chance(chance: float, n_draws: int) -> str:
    """Say a chance, and no more than the draws can tell: never 0 or 1.

    Examples
    --------
    >>> say_chance(0.953, 1000), say_chance(1.0, 1000), say_chance(0.0, 100)
    ('0.95', 'above 0.999', 'below 0.01')
    """
    if chance >= 1 - 0.5 / n_draws:
        return f"above {1 - 1 / n_draws:.10g}"
    if chance <= 0.5 / n_draws:
        return f"below {1 / n_draws:.10g}"
    return f"{chance:.2f}" if 0.01 <= chance <= 0.99 else f"{chance:.3f}"


def leaving_out(names: Sequence[str]) -> str:
    """Name what is left out, for the end of a title.

    Examples
    --------
    >>> leaving_out(["did not vote"]), leaving_out([])
    (', leaving out did not vote', '')
    """
    return f", leaving out {', '.join(names)}" if names else ""


def differ_words(differ: bool | None, chance: float | None, n_draws: int) -> str:
    """Say whether two groups choose differently, with the chance of what is said.

    Examples
    --------
    >>> differ_words(True, 0.9, 100), differ_words(False, 0.25, 100), differ_words(None, None, 0)
    ('their candidates of choice differ (probability 0.90)', 'their candidate of choice is the same (probability 0.75)',
     'which candidates they choose is not settled')
    """
    if differ is None:
        words, chance = "which candidates they choose is not settled", None
    elif differ:
        words = "their candidates of choice differ"
    else:
        words, chance = "their candidate of choice is the same", None if chance is None else 1 - chance
    known = chance is not None and np.isfinite(chance)
    return f"{words} (probability {say_chance(float(chance), n_draws)})" if known and chance is not None else words


def choice_sentences(
    columns: Mapping[str, Any], place_keys: Sequence[str], level: float | None, n_draws: int
) -> list[str]:
    """Say the candidate of choice of every group, from the columns of the table (the first of each group first)."""
    said = []
    ranks, shares = columns["rank"], columns["estimate"]
    firsts = [i for i, rank in enumerate(ranks.to_pylist()) if rank == 1]
    blocks: dict[tuple[Any, ...], list[int]] = {}
    for i in firsts:
        blocks.setdefault((*(columns[k][i] for k in place_keys), columns["group"][i]), []).append(i)
    for name, rows in blocks.items():
        who = ", ".join(map(str, name))
        i = rows[0]
        if len(rows) > 1:
            level_with = " and ".join(columns["outcome"][j] for j in rows)
            said.append(f"{who}: {level_with} are level with {shares[i]:.3f} of the group each.")
            continue
        words = f"{who}: {columns['outcome'][i]}, with {shares[i]:.3f} of the group"
        lead, low, high = (columns[k][i] for k in ("lead", "lead_low", "lead_high"))
        if np.isfinite(lead):
            words += f", leads {columns['outcome'][i + 1]} by {lead:.3f}"
        if np.isfinite(low) and level is not None:
            words += f" ({100 * level:.10g} % interval {low:.3f} to {high:.3f})"
        chance = columns["probability_first"][i]
        words += f"; first with probability {say_chance(float(chance), n_draws)}." if np.isfinite(chance) else "."
        said.append(words)
    return said
