"""Results to one self-contained HTML file that opens offline."""

from crosslevel.reports.report import Exhibit, Report, report

__all__ = ["Exhibit", "Report", "report"]
