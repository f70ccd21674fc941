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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from crosslevel.data.checks import as_numbers, check_between, check_finite, check_level, names_of, refuse_idle_arguments
from crosslevel.data.progress import count_steps
from crosslevel.data.signatures import checked
from crosslevel.errors import CrosslevelWarning, InputError, listed
from crosslevel.results import Estimates, Provenance
from crosslevel.typing import FloatArray, Progress

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
    within, between : (k,)
        mean U, and B.
    missing_information : (k,)
        Share of the variance that is there because values were imputed.
    """

    estimate: FloatArray
    std_error: FloatArray
    df: FloatArray
    within: FloatArray
    between: FloatArray
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
    return Pooled(Q.mean(axis=0), np.sqrt(total), df, within, between, missing)


@checked
def pool(
    estimates: Any,
    std_errors: Any = None,
    *,
    names: Sequence[str] | None = None,
    imputer: Any = None,
    outcome: str | None = None,
    allow_unseen: bool = False,
    level: float = 0.95,
    n_complete: float = np.inf,
) -> Estimates:
    """Pool the estimates of m completed data sets into one table, after comparing their columns with those of the imputer.

    Parameters
    ----------
    estimates : array of shape (m,) or (m, k), or sequence of m fitted models
        Numbers, with ``std_errors``; or, without, one model of each completed data set: results with ``params`` and ``cov_params()`` as
        statsmodels has them, or pairs (estimates, covariance), the first of which may be a scikit-learn estimator with ``coef_``.
    std_errors : array of the same shape, optional
    names : sequence of str, optional
        Of the k statistics; those of the models when not given. Models of plain arrays know no names: pass the columns.
    imputer : fitted imputer, or sequence of str
        Which columns the imputation model had: its X, the hidden features and the groups. What the analysis uses beside them is refused.
        Without it nothing is compared, and models are pooled with a warning.
    outcome : str, optional
        Column of the analysis' outcome, where the model does not know its name (scikit-learn and pairs do not).
    allow_unseen : bool, default False
        Pool an analysis with columns the imputer never saw; the table then says so.
    level : float
    n_complete : float
        Degrees of freedom with complete data.

    Examples
    --------
    >>> est = pool([1.0, 2.0, 3.0], [0.7, 0.7, 0.7], names=["difference"])
    >>> est["statistic"].tolist(), est["estimate"].tolist()
    (['difference'], [2.0])
    >>> fits = [([0.1, slope], np.diag([0.01, 0.04])) for slope in (0.9, 1.1, 1.3)]
    >>> pool(fits, names=["Intercept", "ill"], outcome="died", imputer=["age", "died", "ill"])["estimate"].round(2).tolist()
    [0.1, 1.1]
    >>> pool(fits, names=["Intercept", "ill"], outcome="died", imputer=["age", "ill"])
    Traceback (most recent call last):
    crosslevel.errors.InputError: the analysis uses 'died', which the imputer never saw (it saw 'age', 'ill'); ...
    """
    level = check_level(level)
    if imputer is None:
        given = {"outcome": outcome, "allow_unseen": allow_unseen}
        refuse_idle_arguments(pool, given, "without imputer, whose columns it is compared with")
    models = _read_models(estimates) if std_errors is None else _read_numbers(estimates, std_errors)
    if len(models) < 2:
        raise InputError(
            "estimates has one completed data set; how much imputation matters shows from two on, better twenty."
        )
    Q, U = np.array([one.estimate for one in models]), np.array([one.variance for one in models])
    names, used = names or models[0].names, names or models[0].used
    labels = list(names or [f"statistic {j}" for j in range(Q.shape[1])])
    if len(labels) != Q.shape[1]:
        raise InputError(f"names has {len(labels)} entries for {Q.shape[1]} statistics; pass one each.")
    said = []
    if imputer is not None:
        said = _compare(used, outcome or models[0].outcome, imputer, allow_unseen)
    elif std_errors is None:
        said = [f"the columns of the analysis were not compared with those of the imputer; pass imputer=. {RULE}"]
    for sentence in said:
        warnings.warn(sentence, CrosslevelWarning, stacklevel=2)
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
        provenance=Provenance.of(call="pool(estimates, std_errors)" if std_errors is not None else "pool(models)"),
        warnings=tuple(said),
    )


@checked
def pool_statistic(
    draws: Any,
    statistic: Callable[[FloatArray], Any],
    *,
    names: Sequence[str] | None = None,
    imputer: Any = None,
    outcome: str | None = None,
    allow_unseen: bool = False,
    level: float = 0.95,
    n_complete: float = np.inf,
    progress: Progress | None = None,
) -> Estimates:
    """Compute a statistic on every completed data set, or fit a model to it, and pool.

    Parameters
    ----------
    draws : array of shape (m, n, d_u)
        From ``sample``.
    statistic : callable
        Takes the imputed columns of one draw, (n, d_u), and gives estimates and standard errors, numbers or (k,); or a fitted model, or a
        pair of estimates and their (k, k) covariance.
    names, imputer, outcome, allow_unseen, level, n_complete
        As in :func:`pool`.
    progress : bool or callable, optional
        True for a bar on stderr; or a function of the data sets done and of all.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(5, 100, 1))
    >>> est = pool_statistic(draws, lambda u: (u.mean(), u.std() / 10), names=["mean"])
    >>> bool(abs(est["estimate"][0]) < 0.2)
    True
    """
    completed, found = as_numbers(draws, "draws", 3), []
    with count_steps(progress, "Computing the statistic", len(completed), "data sets") as step:
        for one in completed:
            found.append(statistic(one))
            if step is not None:
                step()
    plain = all(isinstance(one, tuple) and not hasattr(one[0], "coef_") and np.ndim(one[1]) < 2 for one in found)
    return pool(
        [one[0] for one in found] if plain else found,
        [one[1] for one in found] if plain else None,
        names=names,
        imputer=imputer,
        outcome=outcome,
        allow_unseen=allow_unseen,
        level=level,
        n_complete=n_complete,
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """What pooling needs of one fitted model: its terms, estimates and variances, and the columns it was fitted to."""

    names: tuple[str, ...]
    estimate: FloatArray
    variance: FloatArray
    used: tuple[str, ...]
    outcome: str | None = None


def _read_models(models: Any) -> list[_Model]:
    """Read one model of each completed data set, all with the same terms."""
    given = list(models) if isinstance(models, Iterable) and not isinstance(models, str) else []
    if not given or any(isinstance(one, int | float | np.number) for one in given):
        raise InputError("std_errors is None; pass one error per estimate, or fitted models as estimates.")
    found = [_read_model(one) for one in given]
    for one in found:
        if one.names != found[0].names or len(one.estimate) != len(found[0].estimate):
            raise InputError(
                f"estimates: the models have different terms, {listed(found[0].names)} and {listed(one.names)}; fit the same model "
                "to every completed data set."
            )
    return found


def _read_numbers(estimates: Any, std_errors: Any) -> list[_Model]:
    """Read numbers and their standard errors, by name where they carry names."""
    values, terms = _by_name(estimates, "estimates", ())
    Q, errors = _two(values, "estimates"), _two(_by_name(std_errors, "std_errors", terms)[0], "std_errors")
    if Q.shape != errors.shape:
        raise InputError(f"estimates has shape {Q.shape} and std_errors {errors.shape}; pass one error per estimate.")
    if (errors < 0).any():
        raise InputError("std_errors has a negative value; pass standard errors, which are >= 0.")
    return [_Model(terms, q, e**2, terms) for q, e in zip(Q, errors, strict=True)]


def _read_model(model: Any) -> _Model:
    """Read results as statsmodels has them, or a pair of estimates (or a scikit-learn estimator) and their covariance."""
    if hasattr(model, "cov_params") and hasattr(model, "params"):
        own = getattr(model, "model", None)
        used = tuple(str(n) for n in getattr(own, "exog_names", None) or ())
        names = _index(model.params) or used
        y = getattr(own, "endog_names", None)
        return _checked(names, model.params, model.cov_params(), used or names, None if y in (None, "y") else str(y))
    if hasattr(model, "coef_") or not isinstance(model, tuple | list) or len(model) != 2:
        raise InputError(
            f"estimates: a {type(model).__name__} has no covariance of its estimates; pass pairs (model, covariance), or results with "
            "params and cov_params()."
        )
    fitted, covariance = model
    if not hasattr(fitted, "coef_"):
        names = _index(fitted)
        return _checked(names, fitted, covariance, names)
    slopes = np.ravel(fitted.coef_)
    used = tuple(str(n) for n in getattr(fitted, "feature_names_in_", [f"x{j}" for j in range(len(slopes))]))
    if np.shape(covariance)[:1] == (len(slopes),):
        return _checked(used, slopes, covariance, used)
    return _checked(("Intercept", *used), [*np.ravel(fitted.intercept_), *slopes], covariance, used)


def _index(values: Any) -> tuple[str, ...]:
    """Names of a Series; a list has a method of that name."""
    index = getattr(values, "index", ())
    return () if callable(index) else tuple(str(n) for n in index)


def _checked(
    names: tuple[str, ...], estimate: Any, covariance: Any, used: tuple[str, ...], outcome: str | None = None
) -> _Model:
    values = check_finite(np.asarray(estimate), "estimates")
    V = check_finite(np.asarray(covariance), "estimates (covariance)")
    if values.ndim != 1 or V.shape != (len(values), len(values)):
        raise InputError(
            f"estimates: a model has estimates of shape {values.shape} and a covariance of shape {V.shape}; pass (k,) and (k, k)."
        )
    if (np.diag(V) < 0).any():
        raise InputError("estimates: a covariance has a negative variance on its diagonal.")
    return _Model(names if len(names) == len(values) else (), values, np.diag(V), used, outcome)


def _compare(terms: Sequence[str], outcome: str | None, imputer: Any, allow_unseen: bool) -> list[str]:
    """Refuse, or say, which columns of the analysis the imputation model did not have."""
    if hasattr(imputer, "schema_"):
        groups = [p.name for p in imputer.schema_.partitions]
        known = [*imputer.schema_.names, *imputer.hidden_names_, *groups]
    elif isinstance(imputer, str) or not isinstance(imputer, Iterable):
        raise InputError(f"imputer={imputer!r} is neither a fitted imputer nor the names of the columns it saw.")
    else:
        known = [str(n) for n in imputer]
    said = []
    if outcome is None:
        said.append(
            f"the outcome of the analysis has no name, so that only its other columns were compared; pass outcome=. {RULE}"
        )
    unseen = {c: None for term in (*terms, *([] if outcome is None else [outcome])) for c in _columns_of(term, known)}
    if unseen:
        sentence = (
            f"the analysis uses {listed(unseen)}, which the imputer never saw (it saw {listed(known, 12)}); {RULE[0].lower()}{RULE[1:]} "
            "Add it to X, impute again and fit again"
        )
        if not allow_unseen:
            raise InputError(f"{sentence}, or pass allow_unseen=True to pool anyway.")
        said.append(f"{sentence}.")
    return said


def _columns_of(term: str, known: Sequence[str]) -> list[str]:
    """Find the columns behind a term of a model that are not among the known: ``C(sex)[T.2]``, ``age:ill``, ``np.log(age)``, ``sex_2``."""
    if term in known:
        return []
    bare = re.sub(r"\[[^\]]*\]", "", term)  # levels of a factor
    quoted = re.findall(r"Q\(['\"](.+?)['\"]\)", bare)
    bare = re.sub(r"Q\(['\"].+?['\"]\)|['\"].*?['\"]", "", bare)
    named = re.findall(r"(?<![\w.])[^\W\d]\w*(?!\w*\s*[(.])", bare)  # functions and modules are no columns
    constants = {"intercept", "const", "constant", "True", "False", "Treatment", "Sum"}
    # a dummy is named after its column: sex_2, sex.2, sex=2
    return [
        n
        for n in (*named, *quoted)
        if n.lower() not in constants
        and n not in constants
        and n not in known
        and not any(term.startswith((f"{k}_", f"{k}.", f"{k}=")) for k in known)
    ]


def _by_name(values: Any, argument: str, terms: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """Put statistics that carry names, columns of a frame or a Series of each data set, in one order; give it too."""
    rows = (
        [values.iloc[i] for i in range(len(values))]
        if hasattr(values, "columns") and hasattr(values, "iloc")
        else values
    )
    if not isinstance(rows, list | tuple) or not rows or any(names_of(row) is None for row in rows):
        return values, terms
    terms = terms or _index(rows[0])
    for row in rows:
        if sorted(_index(row)) != sorted(terms) or len(set(terms)) < len(terms):
            raise InputError(
                f"{argument} names the statistics {listed(_index(row))} where others are {listed(terms)}; name the same ones, each once."
            )
    return [[dict(zip(_index(row), row, strict=True))[term] for term in terms] for row in rows], terms


def _two(values: Any, argument: str) -> FloatArray:
    array = as_numbers(values, argument)
    if array.ndim not in (1, 2):
        raise InputError(
            f"{argument} has {array.ndim} dimensions; pass (m,) or (m, k), one row per completed data set."
        )
    if not np.isfinite(array).all():
        raise InputError(f"{argument} has a missing or infinite value; a completed data set gave no answer.")
    return array[:, None] if array.ndim == 1 else array
