"""Reports that courts use: candidate of choice, racially polarized voting, margins, turnout."""
