"""Results to one self-contained HTML file that opens offline."""

from crosslevel.reports.report import Report, report

__all__ = ["Report", "report"]
