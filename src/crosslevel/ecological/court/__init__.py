"""Reports that courts know: candidate of choice, polarisation, margins, turnout."""
