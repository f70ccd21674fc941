"""Put the answers from several completed data sets together: Rubin's rules.

With m completed data sets, estimates Q_l and squared standard errors U_l:

    estimate = mean Q,    T = mean U + (1 + 1/m) B,    B = variance of Q between data sets
    df = (m - 1) (1 + 1/r)^2,    r = (1 + 1/m) B / mean U        (Rubin 1987; with ``n_complete`` Barnard & Rubin 1999)

The rules hold where the model that imputed knew every column of the analysis, its outcome too. Given what the imputer saw, an imputed
value is independent of everything else, so that a coefficient on a column it never saw, or of an outcome it never saw, is drawn to zero.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from crosslevel.data.checks import check_between, check_finite, check_level, refuse_idle_arguments
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray

RULE = (
    "What is regressed on must be in the imputation model, and the outcome too: an imputed value is independent of what the imputer did "
    "not see, which draws coefficients to zero."
)


@dataclass(frozen=True, eq=False)
class Pooled:
    """Statistics pooled over completed data sets; every array is (k,).

    Attributes
    ----------
    estimate, std_error : (k,)
    df : (k,)
        Degrees of freedom of Student's t.
    missing_information : (k,)
        Share of the variance that is there because values were imputed.
    """

    estimate: FloatArray
    std_error: FloatArray
    df: FloatArray
    missing_information: FloatArray


def rubin(Q: FloatArray, U: FloatArray, n_complete: float = np.inf) -> Pooled:
    """Pool estimates by Rubin's rules.

    Parameters
    ----------
    Q, U : (m, k)
        Estimates and squared standard errors of each completed data set.
    n_complete : float
        Degrees of freedom the statistic would have with complete data.

    Examples
    --------
    >>> found = rubin(np.array([[1.0], [2.0], [3.0]]), np.full((3, 1), 0.5))
    >>> found.estimate, (found.std_error**2).round(4), found.df.round(3)
    (array([2.]), array([1.8333]), array([3.781]))
    """
    m = len(Q)
    within, between = U.mean(axis=0), Q.var(axis=0, ddof=1)
    extra = (1.0 + 1.0 / m) * between
    total = within + extra
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, extra / total, 0.0)
        df = np.where(share > 0, (m - 1) / share**2, np.inf)
    if np.isfinite(n_complete):
        observed = (n_complete + 1.0) / (n_complete + 3.0) * n_complete * (1.0 - share)
        df = 1.0 / (1.0 / df + 1.0 / np.maximum(observed, 1e-12))
    r = np.where(within > 0, extra / np.maximum(within, 1e-300), np.inf)
    with np.errstate(invalid="ignore"):
        missing = np.where(np.isfinite(r), (r + 2.0 / (df + 3.0)) / (r + 1.0), 1.0)
    return Pooled(Q.mean(axis=0), np.sqrt(total), df, missing)


@checked
def pool(
    fits: Iterable[Any],
    imputer: Any = None,
    *,
    outcome: str | None = None,
    names: Sequence[str] | None = None,
    allow_unseen: bool = False,
    level: float = 0.95,
    n_complete: float = np.inf,
) -> Estimates:
    """Pool the fits to m completed data sets into one table, after comparing their columns with those of the imputer.

    Parameters
    ----------
    fits : sequence of m fits
        One for each completed data set: results with ``params`` and ``cov_params()`` as statsmodels has them; or pairs of estimates and
        their covariance (k, k) or standard errors (k,), the first of which may be a number, a Series or a scikit-learn estimator with
        ``coef_``. Fits that carry names are matched by them.
    imputer : fitted imputer, or sequence of str
        Which columns the imputation model had: those of people, the hidden features and the groups. What the analysis uses beside them is
        refused, and interactions, which it has not, are warned of. Without it nothing is compared, and models are pooled with a warning.
    outcome : str, optional
        Column of the analysis' outcome, where the fit does not know its name (scikit-learn and pairs do not).
    names : sequence of str, optional
        Of the k statistics; those of the fits when not given. Models of plain arrays know no names: pass the columns.
    allow_unseen : bool, default False
        Pool an analysis with columns the imputer never saw; the table then says so.
    level : float
    n_complete : float
        Degrees of freedom with complete data.

    Examples
    --------
    >>> est = pool([(1.0, 0.7), (2.0, 0.7), (3.0, 0.7)], names=["difference"])
    >>> est["statistic"].tolist(), est["estimate"].tolist()
    (['difference'], [2.0])
    >>> fits = [([0.1, slope], np.diag([0.01, 0.04])) for slope in (0.9, 1.1, 1.3)]
    >>> pool(fits, ["age", "died", "ill"], outcome="died", names=["Intercept", "ill"])["estimate"].round(2).tolist()
    [0.1, 1.1]
    >>> pool(fits, ["age", "ill"], outcome="died", names=["Intercept", "ill"])
    Traceback (most recent call last):
    crosslevel.errors.InputError: the analysis uses 'died', which the imputer never saw (it saw 'age', 'ill'); ...
    """
    level = check_level(level)
    if imputer is None:
        given = {"outcome": outcome, "allow_unseen": allow_unseen}
        refuse_idle_arguments(pool, given, "without imputer, whose columns it is compared with")
    models = _read_fits(fits)
    if len(models) < 2:
        raise InputError(
            "fits has one completed data set; how much imputation matters shows from two on, better twenty."
        )
    Q, U = np.array([one.estimate for one in models]), np.array([one.variance for one in models])
    names, used = names or models[0].names, names or models[0].used
    labels = list(names or [f"statistic {j}" for j in range(Q.shape[1])])
    if len(labels) != Q.shape[1]:
        raise InputError(f"names has {len(labels)} entries for {Q.shape[1]} statistics; pass one each.")
    said = []
    if imputer is not None:
        said = _compare(used, outcome or models[0].outcome, imputer, allow_unseen)
    elif not all(one.plain for one in models):
        said = [f"the columns of the analysis were not compared with those of the imputer; pass imputer. {RULE}"]
    for sentence in said:
        warnings.warn(sentence, CrosslevelWarning, stacklevel=3)
    found = rubin(Q, U, check_between(n_complete, "n_complete", 1.0, np.inf))
    half = stats.t.ppf(0.5 + 0.5 * level, found.df) * found.std_error
    return Estimates.build(
        {
            "statistic": labels,
            "estimate": found.estimate,
            "std_error": found.std_error,
            "conf_low": found.estimate - half,
            "conf_high": found.estimate + half,
            "df": np.where(np.isfinite(found.df), found.df, np.nan),
            "missing_information": found.missing_information,
        },
        keys=["statistic"],
        method=f"multiple imputation, {len(Q)} completed data sets",
        level=level,
        interval="Rubin's rules, Student",
        provenance=Provenance.of(call="pool(fits)"),
        warnings=tuple(said),
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """What pooling needs of one fit: its terms, estimates and variances, and the columns it was fitted to; plain are bare statistics."""

    names: tuple[str, ...]
    estimate: FloatArray
    variance: FloatArray
    used: tuple[str, ...]
    outcome: str | None = None
    plain: bool = False


def _read_fits(fits: Iterable[Any]) -> list[_Model]:
    """Read one fit of each completed data set, all with the same terms, which are put in one order."""
    found = [_read_fit(one) for one in fits]
    for i, one in enumerate(found):
        first = found[0].names
        if sorted(one.names) != sorted(first) or len(one.estimate) != len(found[0].estimate):
            raise InputError(
                f"fits have different terms, {listed(first)} and {listed(one.names)}; fit the same model to every completed data set."
            )
        if one.names != first:
            order = [one.names.index(name) for name in first]
            found[i] = replace(one, names=first, estimate=one.estimate[order], variance=one.variance[order])
    return found


def _read_fit(fit: Any) -> _Model:
    """Read results as statsmodels has them, or a pair of estimates (or a scikit-learn estimator) and their errors."""
    if hasattr(fit, "cov_params") and hasattr(fit, "params"):
        own = getattr(fit, "model", None)
        used = tuple(str(n) for n in getattr(own, "exog_names", None) or ())
        names = _index(fit.params) or used
        y = getattr(own, "endog_names", None)
        return _checked(names, fit.params, fit.cov_params(), used or names, None if y in (None, "y") else str(y))
    if hasattr(fit, "coef_") or not isinstance(fit, tuple | list) or len(fit) != 2:
        raise InputError(
            f"fits: a {type(fit).__name__} has no errors of its estimates; pass pairs (estimates, covariance or standard errors), or "
            "results with params and cov_params()."
        )
    fitted, errors = fit
    if not hasattr(fitted, "coef_"):
        names = _index(fitted)
        return _checked(names, fitted, errors, names)
    slopes = np.ravel(fitted.coef_)
    used = tuple(str(n) for n in getattr(fitted, "feature_names_in_", [f"x{j}" for j in range(len(slopes))]))
    if np.shape(errors)[:1] == (len(slopes),):
        return _checked(used, slopes, errors, used)
    return _checked(("Intercept", *used), [*np.ravel(fitted.intercept_), *slopes], errors, used)


def _index(values: Any) -> tuple[str, ...]:
    """Names of a Series; a list has a method of that name."""
    index = getattr(values, "index", ())
    return () if callable(index) else tuple(str(n) for n in index)


def _checked(
    names: tuple[str, ...], estimate: Any, errors: Any, used: tuple[str, ...], outcome: str | None = None
) -> _Model:
    if _index(errors) and np.ndim(errors) == 1 and sorted(_index(errors)) == sorted(names):
        errors = [dict(zip(_index(errors), errors, strict=True))[name] for name in names]
    elif _index(errors) and np.ndim(errors) == 1:
        raise InputError(
            f"fits: errors are of {listed(_index(errors))} and estimates of {listed(names)}; name the same."
        )
    values = np.atleast_1d(check_finite(np.asarray(estimate), "fits"))
    E = np.atleast_1d(check_finite(np.asarray(errors), "fits (errors)"))
    k = len(values)
    if values.ndim != 1 or E.shape not in ((k,), (k, k)):
        raise InputError(
            f"fits: one has estimates of shape {values.shape} and errors of shape {E.shape}; pass standard errors (k,) or a "
            "covariance (k, k)."
        )
    plain = E.ndim == 1
    if ((E if plain else np.diag(E)) < 0).any():
        raise InputError("fits: a standard error, or a variance on the diagonal of a covariance, is negative.")
    return _Model(names if len(names) == k else (), values, E**2 if plain else np.diag(E), used, outcome, plain)


def _compare(terms: Sequence[str], outcome: str | None, imputer: Any, allow_unseen: bool) -> list[str]:
    """Refuse, or say, which columns and interactions of the analysis the imputation model did not have."""
    if hasattr(imputer, "schema_"):
        known = [*imputer.schema_.names, *imputer.hidden_names_, *imputer.schema_.keys]
    elif isinstance(imputer, str) or not isinstance(imputer, Iterable):
        raise InputError(f"imputer={imputer!r} is neither a fitted imputer nor the names of the columns it saw.")
    else:
        known = [str(n) for n in imputer]
    said = []
    if outcome is None:
        said.append(
            f"the outcome of the analysis has no name, so that only its other columns were compared; pass outcome=. {RULE}"
        )
    asked = (*terms, *([] if outcome is None else [outcome]))
    behind = {term: [term] if term in known else _columns_of(term, known) for term in asked}
    unseen = dict.fromkeys(name for names in behind.values() for name in names if name not in known)
    if unseen:
        sentence = (
            f"the analysis uses {listed(unseen)}, which the imputer never saw (it saw {listed(known, 12)}); {RULE[0].lower()}{RULE[1:]} "
            "Add it to people, impute again and fit again"
        )
        if not allow_unseen:
            raise InputError(f"{sentence}, or pass allow_unseen=True to pool anyway.")
        said.append(f"{sentence}.")
    if crossed := [term for term, names in behind.items() if len(set(names)) > 1]:
        said.append(
            f"the analysis has the interactions {listed(crossed)}, which the imputation model has not: they are drawn to zero. Add a "
            "column of each to people, or impute the parts apart."
        )
    return said


def _columns_of(term: str, known: Sequence[str]) -> list[str]:
    """Find the columns behind a term of a model: ``C(sex)[T.2]``, ``age:ill``, ``np.log(age)``, ``sex_2``."""
    bare = re.sub(r"\[[^\]]*\]", "", term)  # levels of a factor
    quoted = re.findall(r"Q\(['\"](.+?)['\"]\)", bare)
    bare = re.sub(r"Q\(['\"].+?['\"]\)|['\"].*?['\"]", "", bare)
    named = re.findall(r"(?<![\w.])[^\W\d]\w*(?!\w*\s*[(.])", bare)  # functions and modules are no columns
    constants = {"intercept", "const", "constant", "true", "false", "treatment", "sum"}
    # a dummy is named after its column: sex_2, sex.2, sex=2
    dummy = [k for k in known if term.startswith((f"{k}_", f"{k}.", f"{k}="))]
    return dummy[:1] or [n for n in (*named, *quoted) if n in known or n.lower() not in constants]
