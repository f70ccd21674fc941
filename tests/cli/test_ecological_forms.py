from __future__ import annotations

import pytest

from crosslevel.cli.ecological_forms import is_table
from crosslevel.errors import InputError


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ([], "nothing to read; name people and places .* or counts by unit"),
        (["as_json"], "nothing to read"),
        (["people"], "PLACES is missing"),
        (["people", "table"], "people and --table are both given"),
        (["people", "places", "group"], "--group goes with --table.*--state-effect"),
        (["people", "places", "weights"], "--weights goes with --table, .*Did you mean '--weight'"),
        (["people", "places", "merge_below"], "--merge-below goes with --table"),
        (["table", "estimate"], "--estimate goes with people and places, not with --table"),
        (["table", "feature_map"], "--map goes with people and places"),
        (["table", "weight"], "Did you mean '--weights'"),
    ],
)
def test_what_is_neither_form_or_both_is_refused(written, said):
    with pytest.raises(InputError, match=said):
        is_table(written)


def test_shared_options_go_with_both():
    shared = ["outcome", "level", "seed", "out", "report", "as_json"]
    assert is_table(["table", *shared])
    assert not is_table(["people", "places", *shared])


def test_the_forms_are_told_apart_on_the_command_line(crosslevel, tmp_path):
    assert "nothing to read" in crosslevel("ecological", cwd=tmp_path, code=2).err
    said = crosslevel("ecological", "--table", "t.csv", "--draws", "1000", cwd=tmp_path, code=2).err
    assert "--draws goes with people and places" in said  # written, though it is the default
    out = crosslevel("ecological", "--help", cwd=tmp_path).out
    for words in ("People and places", "Counts by unit", "--state-effect", "--merge-below", "--map"):
        assert words in out
