"""Those who did not vote: recognized by the name of their outcome, and nobody's candidate unless asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crosslevel.ecological.court.reporting import names_of
from crosslevel.ecological.tables.answer_cells import Cells
from crosslevel.errors import InputError, listed
from crosslevel.results import Estimates

__all__ = ["abstention_among", "abstention_of", "denominator_of", "describe_abstention", "refuse_abstention"]

AUTO = "auto"
WORDS = frozenset(
    {
        "did not vote",
        "didn't vote",
        "no vote",
        "abstain",
        "abstained",
        "abstention",
        "abstentions",
        "nonvoter",
        "nonvoters",
        "non voter",
        "non voters",
        "nonvoting",
        "non voting",
        "not voting",
    }
)
"""Names of outcomes that mean abstention, in small letters and with spaces between words."""


def abstention_among(outcomes: Sequence[str]) -> tuple[str, ...]:
    """Name the outcomes that are abstention, whatever their letters' case and whether spaces, '_' or '-' stand between words.

    In a question with an outcome "yes" (or "yes vote"), "no vote" is an answer and not abstention.

    Examples
    --------
    >>> abstention_among(["Smith", "Did_Not_Vote", "non-voters"])
    ('Did_Not_Vote', 'non-voters')
    >>> abstention_among(["yes vote", "no vote"])
    ()
    """
    plain = {name: re.sub(r"[\s_-]+", " ", str(name)).strip().casefold() for name in outcomes}
    asked = any(text.split(" ")[0] == "yes" for text in plain.values())
    return tuple(name for name, text in plain.items() if text in WORDS and not (asked and text == "no vote"))


def abstention_of(cells: Cells, abstention: str | Sequence[str] | None) -> tuple[str, ...]:
    """Read the argument ``abstention``: recognized outcomes, none, or those named."""
    if abstention is None:
        return ()
    if abstention == AUTO:
        return abstention_among(cells.outcomes)
    names = names_of(abstention, "abstention")
    for name in names:
        cells.number("abstention", name, "outcome")
    return names


def refuse_abstention(name: str, abstaining: Sequence[str], argument: str) -> None:
    """Refuse an outcome that is abstention where a candidate is asked for."""
    if name in abstaining:
        raise InputError(
            f"{argument} names {name!r}, which counts as abstention and is no candidate; turnout tells which share of a group voted. "
            "To compare it all the same, pass abstention=None."
        )


def describe_abstention(result: Estimates, abstaining: Sequence[str], excluded: Sequence[str] = ()) -> tuple[str, ...]:
    """Say that outcomes were left out as abstention, unless the caller excluded them."""
    left = [name for name in abstaining if name not in excluded]
    if not left:
        return ()
    return (
        f"{listed(left)} counts as abstention and is nobody's candidate; shares are {denominator_of(result)}. among_voters gives "
        "shares of those who voted, abstention=None counts it as a choice.",
    )


def denominator_of(result: Estimates) -> str:
    """Say of whom the shares of a result are shares.

    Examples
    --------
    >>> from crosslevel.ecological import among_voters, neighborhood
    >>> found = neighborhood({"young": [60, 20], "old": [40, 80]}, {"yes": [30, 20], "no": [20, 60], "did not vote": [50, 20]})
    >>> denominator_of(found), denominator_of(among_voters(found))
    ('of everybody in the group', "of the group's voters")
    """
    return "of the group's voters" if "voters" in result.table.column_names else "of everybody in the group"
