"""How well are the labels of bags predicted from other bags, by size of bag, beside a forecast that knows no people?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from crosslevel.data.bags import Bags, as_bags
from crosslevel.data.checks import check_level, read_seed
from crosslevel.data.progress import follow
from crosslevel.data.signatures import checked
from crosslevel.diagnostics.calibration import calibration_table, size_strata, strata_of
from crosslevel.distribution import reading
from crosslevel.distribution.base import BagClassifier, BagRegressor
from crosslevel.distribution.predictive import class_table, label_table
from crosslevel.errors import ConvergenceError, InputError, listed
from crosslevel.results import Estimates, Provenance
from crosslevel.results.scores import share_row
from crosslevel.typing import AnyArray, BoolArray, FloatArray, Int64Array, IntArray, Progress, RandomState, Tell


@dataclass(frozen=True)
class BagValidation:
    """What cross-validation found; see `cross_validate_bags`.

    Attributes
    ----------
    scores : Estimates
        Key ``stratum`` (the size of bags; the first row is "all").
    predictions : Estimates
        Key ``bag`` (and ``class``), each predicted without its own label; with ``truth``, ``stratum`` and ``fold``.
    """

    scores: Estimates
    predictions: Estimates

    def _report_tables(self) -> dict[str, Estimates]:
        return {"scores": self.scores, "predictions": self.predictions}


@checked
def cross_validate_bags(
    model: BagRegressor | BagClassifier,
    X: Any,
    y: Any,
    *,
    folds: int = 5,
    level: float = 0.95,
    edges: Any = None,
    random_state: RandomState = 0,
    progress: Progress | None = None,
) -> BagValidation:
    """Predict every bag from the others, fold by fold, and score the predictions by size of bag.

    Parameters
    ----------
    model : estimator of `crosslevel.distribution`
        It is cloned; everything it chooses is chosen again in each fold.
    X : Bags, list of arrays or 2-D array
    y : (n_bags,)
        Numbers for a regressor, classes for a classifier.
    folds : int
        Small and large bags, or the classes, are dealt out evenly.
    level : float
        Level of the intervals of a regressor.
    edges : sequence of float, int or None
        Classes of sizes, as in `size_strata`.
    random_state : int, None, Generator or RandomState
        Which bags go into which fold.
    progress : bool or callable, optional
        True for a bar on stderr; or a function, told the number of folds done and their total.

    Returns
    -------
    BagValidation
        A regressor's scores are those of `calibration_table` (``estimate`` is the coverage) with ``mse``, and ``baseline_mse``,
        ``baseline_nll`` and ``baseline_coverage`` of a normal forecast from mean and spread of the other bags' labels. A
        classifier's are the accuracy (``estimate``, Wilson interval) and ``log_loss``, and ``baseline_accuracy`` and
        ``baseline_log_loss`` of a forecast from the other bags' shares of the classes.

    Examples
    --------
    >>> from crosslevel.distribution import BayesianLinear
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, 60)
    >>> bags = [rng.normal(0, s, size=(n, 1)) for s, n in zip(y, rng.choice([5, 100], 60))]
    >>> found = cross_validate_bags(BayesianLinear(n_landmarks=10), bags, y).scores
    >>> found["stratum"].tolist(), bool((found["mse"] < found["baseline_mse"]).all())
    (['all', '5', '100'], True)
    """
    check_level(level)
    bags = as_bags(X)
    labels = (
        reading.read_labels(y, reading.bag_names(X), len(bags))
        if isinstance(model, BagClassifier)
        else reading.read_numbers(y, reading.bag_names(X), len(bags))
    )
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or not 2 <= folds <= len(bags):
        raise InputError(f"folds={folds!r} of {len(bags):,} bags is not possible; pass 2 to {len(bags):,} folds.")
    # effective sizes of weighted people are no whole numbers, which classes of sizes would be named by
    strata = size_strata(np.maximum(np.round(bags.effective_sizes), 1.0), edges)
    with follow(progress, "Predicting bags left out", "folds") as tell:
        work = _Folds(model, bags, labels, strata, int(folds), level, read_seed(random_state), tell)
        return _classes(work) if isinstance(model, BagClassifier) else _numbers(work)


@dataclass(frozen=True, eq=False)
class _Folds:
    model: Any
    bags: Bags
    labels: AnyArray
    strata: npt.NDArray[np.str_]
    folds: int
    level: float
    seed: int
    tell: Tell | None

    @property
    def n(self) -> int:
        return len(self.labels)

    def fold_of(self, balance: AnyArray) -> Int64Array:
        return deal(balance, self.folds, self.seed)

    def fitted(self, keep: BoolArray, fold: int) -> Any:
        """Fit on the bags kept; a refusal says in which fold."""
        try:
            return clone(self.model).fit(self.bags[np.flatnonzero(keep)], self.labels[keep])
        except ConvergenceError as error:
            raise ConvergenceError(f"fold {fold + 1} of {self.folds}: {error}") from error

    def done(self, fold: int) -> None:
        if self.tell is not None:
            self.tell(fold + 1, self.folds)

    @property
    def words(self) -> str:
        return f"{type(self.model).__name__} in {self.folds} folds"

    def about(self, score: str) -> dict[str, Any]:
        """Words for the tables."""
        name = type(self.model).__name__
        said = reading.describe_parameters(self.model.get_params())
        call = f"cross_validate_bags({name}({said}), X, y, folds={self.folds})"
        return {
            "method": f"{score} of {self.words}, by size of bag",
            "provenance": Provenance.of(call=call, seed=self.seed, data=reading.fingerprints(self.bags, self.labels)),
            "title": "Cross-validation over bags",
        }


def deal(balance: npt.ArrayLike, folds: int, seed: int) -> Int64Array:
    """Deal bags out to folds at random, the bags of each kind evenly, (n,).

    Examples
    --------
    >>> kinds = np.repeat(["a", "b"], [4, 2])
    >>> fold = deal(kinds, 2, 0)
    >>> [np.bincount(fold[kinds == k]).tolist() for k in ("a", "b")]
    [[2, 2], [1, 1]]
    """
    kinds = np.unique(np.asarray(balance), return_inverse=True)[1].reshape(-1)
    order = np.random.default_rng(seed).permutation(len(kinds))
    order = order[np.argsort(kinds[order], kind="stable")]
    fold = np.empty(len(kinds), dtype=np.int64)
    fold[order] = np.arange(len(kinds)) % folds
    return fold


@dataclass(frozen=True, eq=False)
class _Held:
    """Predictions of all bags, put together from the folds."""

    mean: FloatArray
    std: FloatArray
    ends: FloatArray
    logs: FloatArray
    pit: FloatArray


def _numbers(work: _Folds) -> BagValidation:
    y, n = work.labels, work.n
    held = _Held(np.empty(n), np.empty(n), np.empty((n, 2)), np.empty(n), np.empty(n))
    plain_mean, plain_std = np.empty(n), np.empty(n)
    fold = work.fold_of(work.strata)
    for k in range(work.folds):
        out, rest = fold == k, y[fold != k]
        if np.ptp(rest) == 0:
            raise InputError(
                f"y is {rest[0]:g} for every bag outside fold {k + 1}; there is nothing to learn from them."
            )
        found = work.fitted(fold != k, k).predictive(work.bags[np.flatnonzero(out)])
        held.mean[out], held.std[out], held.logs[out] = found.mean, found.std, found.log_density(y[out])
        held.ends[out], held.pit[out] = np.column_stack(found.interval(work.level)), found.cdf(y[out])
        plain_mean[out] = rest.mean()
        plain_std[out] = rest.std(ddof=1) * np.sqrt(1.0 + 1.0 / len(rest)) if len(rest) > 1 else np.nan
        work.done(k)
    about = work.about("scores")
    scored = calibration_table(
        y, held.mean, held.std, work.strata, level=work.level, interval=held.ends, log_density=held.logs, pit=held.pit
    )
    plain = calibration_table(y, plain_mean, plain_std, work.strata, level=work.level)
    scores = scored.with_columns(
        mse=scored["rmse"] ** 2,
        baseline_mse=plain["rmse"] ** 2,
        baseline_nll=plain["nll"],
        baseline_coverage=plain["estimate"],
    )
    table = label_table(
        work.bags, held.mean, held.std, held.ends, y, work.level, method=work.words, provenance=about["provenance"]
    )
    return BagValidation(replace(scores, **about), table.with_columns(stratum=work.strata, fold=fold + 1))


def _classes(work: _Folds) -> BagValidation:
    classes, code, counts = np.unique(work.labels, return_inverse=True, return_counts=True)
    code = code.reshape(-1)
    if len(classes) < 2:
        raise InputError(f"y holds one class only, {classes.tolist()[0]!r}; a classifier needs at least two.")
    if (counts < 2).any():
        raise InputError(
            f"y holds {listed(classes[counts < 2].tolist())} once only; a class that is left out must also be learned, so that each "
            "needs two bags. Drop it, or join it with another."
        )
    p, plain = np.empty((work.n, len(classes))), np.empty((work.n, len(classes)))
    fold = work.fold_of(work.labels)
    for k in range(work.folds):
        out = fold == k
        p[out] = work.fitted(~out, k).predict_proba(work.bags[np.flatnonzero(out)])
        shares = np.bincount(code[~out], minlength=len(classes)).astype(np.float64)
        plain[out] = shares / shares.sum()
        work.done(k)
    about = work.about("accuracy")
    made = [_class_row(name, keep, code, p, plain) for name, keep in strata_of(work.strata)]
    scores = Estimates.build(
        {name: [r[name] for r in made] for name in made[0]},
        keys=("stratum",),
        kind="coverage",
        level=0.95,
        interval="Wilson, of the accuracy",
        **about,
    )
    truth = work.labels[:, None] == classes
    table = class_table(work.bags, p, classes, truth, method=work.words, provenance=about["provenance"])
    each = {"stratum": np.repeat(work.strata, len(classes)), "fold": np.repeat(fold + 1, len(classes))}
    return BagValidation(scores, table.with_columns(**each))


def _class_row(name: str, keep: BoolArray, code: IntArray, p: FloatArray, plain: FloatArray) -> dict[str, Any]:
    own, n = code[keep], int(keep.sum())

    def loss(q: FloatArray) -> float:
        return float(-np.log(np.maximum(q[keep][np.arange(n), own], np.finfo(np.float64).tiny)).mean())

    return {
        "stratum": name,
        **share_row(p[keep].argmax(axis=1) == own),
        "log_loss": loss(p),
        "baseline_accuracy": float((plain[keep].argmax(axis=1) == own).mean()),
        "baseline_log_loss": loss(plain),
    }
