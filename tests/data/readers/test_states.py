from __future__ import annotations

import pytest

from crosslevel.data.readers.acs_pums import FIPS_OF_STATE, state_codes
from crosslevel.errors import InputError


def test_known_codes():
    known = {"AL": "01", "CA": "06", "DC": "11", "HI": "15", "NY": "36", "PA": "42", "RI": "44", "VA": "51", "WY": "56"}
    assert known.items() <= FIPS_OF_STATE.items()
    assert len(FIPS_OF_STATE) == len(set(FIPS_OF_STATE.values())) == 56


def test_codes_may_be_written_in_several_ways():
    assert state_codes(["al", 1, "01", "1"]) == {"01"}
    assert state_codes("TX") == {"48"}
    for state in ("XX", 3, 99, "²"):
        with pytest.raises(InputError):
            state_codes([state])
