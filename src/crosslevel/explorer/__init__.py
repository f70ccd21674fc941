"""Results to one self-contained HTML file that opens offline."""

from crosslevel.explorer.report import Report, report

__all__ = ["Report", "report"]
