"""The command line: one file per verb. Data on stdout, progress on stderr; exit 0 done, 1 could not answer, 2 bad input, 130 stopped."""

from __future__ import annotations

import json
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with the exit code that says how it went."""
    from crosslevel.errors import ConvergenceError, CrosslevelError

    arguments = sys.argv[1:] or ["--help"]
    try:
        from crosslevel.cli.app import run

        sys.exit(run(arguments))
    except CrosslevelError as error:
        _leave(arguments, error, str(error), 1 if isinstance(error, ConvergenceError) else 2)
    except KeyboardInterrupt as error:
        _leave(arguments, error, "stopped. Finished files were kept, none is incomplete; run the command again.", 130)
    except BrokenPipeError:
        # the reader of stdout (head, less) has gone: not an error of ours
        sys.stderr.close()
        sys.exit(0)


def _leave(arguments: list[str], error: BaseException, text: str, code: int) -> None:
    if "--json" in arguments:
        print(json.dumps({"error": {"type": type(error).__name__, "message": text}, "exit_code": code}))
    print(f"crosslevel: {text}", file=sys.stderr)
    sys.exit(code)
