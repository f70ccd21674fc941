from __future__ import annotations

import sys

import pytest

from crosslevel.cli import main


@pytest.fixture
def crosslevel(monkeypatch, capsys):
    """Run the command line in this process, which spares its start."""

    def run(*arguments, cwd, code=0):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["crosslevel", *arguments])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as leaving:
            main()
        said = capsys.readouterr()
        assert (leaving.value.code or 0) == code, said.err
        return said

    return run
