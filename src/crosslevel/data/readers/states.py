"""The states, the District of Columbia and the territories: postal codes and FIPS state codes."""

from __future__ import annotations

from collections.abc import Sequence

from crosslevel.errors import unknown_name

__all__ = ["FIPS_OF_STATE", "state_codes"]

_POSTAL = (
    "AL AK . AZ AR CA . CO CT DE DC FL GA . HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH "
    "OK OR PA . RI SC SD TN TX UT VT VA . WA WV WI WY"
)
FIPS_OF_STATE = {
    **{postal: f"{number:02d}" for number, postal in enumerate(_POSTAL.split(), start=1) if postal != "."},
    "AS": "60",
    "GU": "66",
    "MP": "69",
    "PR": "72",
    "VI": "78",
}
"""FIPS state code of each postal code."""


def state_codes(states: Sequence[str | int] | str | int, argument: str = "states") -> set[str]:
    """Read postal codes or state codes as two-digit state codes.

    Examples
    --------
    >>> sorted(state_codes(["al", 6, "48"]))
    ['01', '06', '48']
    """
    codes = set()
    for state in [states] if isinstance(states, str | int) else states:
        text = str(state).strip().upper()
        code = f"{int(text):02d}" if text.isdigit() else FIPS_OF_STATE.get(text)
        if code not in FIPS_OF_STATE.values():
            raise unknown_name(argument, state, [*FIPS_OF_STATE], "state")
        codes.add(str(code))
    return codes
