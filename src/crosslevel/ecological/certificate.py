"""How well did the fit converge, and with which hyperparameters? Flat and plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from crosslevel.ecological.group.covariance import Terms
from crosslevel.ecological.group.fit import Fit
from crosslevel.ecological.individual.fit import IndividualFit

__all__ = ["certificate", "limit_words"]


def certificate(fits: Sequence[Fit | IndividualFit], terms: Terms, questions: Sequence[str]) -> dict[str, Any]:
    """Say for every question what was learnt and how flat the ground is there.

    Parameters
    ----------
    fits : sequence of Fit or IndividualFit
        One for each question.
    terms : Terms
    questions : sequence of str
        Their names, which begin the entries' names where there are several.
    """
    said: dict[str, Any] = {}
    for name, fit in zip(questions, fits, strict=True):
        first = f"{name}: " if len(fits) > 1 else ""
        said |= {f"{first}{term}": getattr(fit.hyperparameters, term) for term in terms.names}
        said |= {
            f"{first}at_limit": ", ".join(fit.at_limit) or "none",
            f"{first}log_evidence": fit.mode.log_evidence,
            f"{first}gradient_at_mode": fit.mode.gradient,
            f"{first}newton_steps": fit.mode.iterations,
        }
        if isinstance(fit, IndividualFit):
            said |= {
                f"{first}decrement_at_mode": fit.linear.decrement,
                f"{first}rounds": fit.rounds,
                f"{first}last_change_of_log_scales": fit.change,
                f"{first}points_of_scales": len(fit.points),
            }
            if fit.sampled is not None:
                said |= {f"{first}{name}": value for name, value in asdict(fit.sampled.diagnostics).items()}
        else:
            said |= {
                f"{first}evidence_slope": fit.slope,
                f"{first}evaluations": fit.evaluations,
                f"{first}log_evidence_by_start": list(fit.evidences),
            }
    return said


def limit_words(fits: Sequence[Fit | IndividualFit], questions: Sequence[str]) -> list[str]:
    """Say which hyperparameters ended at the limit of their range: a term that is absent, or takes all."""
    texts = []
    for name, fit in zip(questions, fits, strict=True):
        for term in fit.at_limit:
            value = getattr(fit.hyperparameters, term)
            question = f" (question {name!r})" if len(fits) > 1 else ""
            texts.append(
                f"The hyperparameter {term!r} ended at the limit of its range, {value:.3g}{question}: these places cannot tell it."
            )
    return texts
