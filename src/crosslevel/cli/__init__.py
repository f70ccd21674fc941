"""The command line: one file per verb. Data on stdout, progress on stderr; exit 0 done, 1 could not answer, 2 bad input."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with the exit code that says how it went."""
    from crosslevel.cli.app import app
    from crosslevel.errors import ConvergenceError, CrosslevelError

    try:
        app()
    except CrosslevelError as error:
        print(f"crosslevel: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, ConvergenceError) else 2)
    except KeyboardInterrupt:
        print("crosslevel: stopped; nothing was written half.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # the reader of stdout (head, less) has gone: not an error of ours
        sys.stderr.close()
        sys.exit(0)
