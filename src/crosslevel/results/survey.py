"""Standard errors of a survey's design: replicate weights, or strata and clusters.

With replicate weights any statistic t has the variance c sum_r (t_r - t)^2, c by the method that made them (4 / R for the successive
differences of the American Community Survey). With strata h and clusters (primary units) i, means have the variance of their linearized
values z, sum_h n_h / (n_h - 1) sum_i (z_hi - mean z_h)^2 (first stage with replacement), and any other statistic replicates of the
rescaled bootstrap (Rao, Wu & Yue 1992): of n_h - 1 clusters drawn with replacement, each drawn k times counts k n_h / (n_h - 1) times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from crosslevel.data import checks, frames
from crosslevel.data.cells import sums
from crosslevel.data.signatures import checked
from crosslevel.errors import InputError, listed, unknown_name
from crosslevel.results.estimates import Estimates
from crosslevel.results.intervals import normal_interval
from crosslevel.results.provenance import Provenance
from crosslevel.typing import FloatArray, IntArray, RandomState

METHODS = ("sdr", "brr", "jackknife", "bootstrap")
LONELY = ("error", "certainty")
N_REPLICATES = 200
SAME = 1e-10
OTHER_SCALE = 3.0
"""Ratio of the sums of replicate weights and weights from which on they do not stand for the same people."""


@dataclass(frozen=True)
class SurveyDesign:
    """Say how people were sampled, for standard errors of means and of any other statistic of the weights.

    Parameters
    ----------
    weight : str
        Column of survey weights.
    replicates : str or sequence of str, optional
        Columns of replicate weights, or what their names begin with before a number ("PWGTP" for PWGTP1 to PWGTP80).
    method : {"sdr", "brr", "jackknife", "bootstrap"}, default "sdr"
        What made the replicates: successive differences (variance 4/R), balanced halves (1/R), leaving one unit of an unstratified
        sample out ((R - 1) / R), a bootstrap (1/R).
    strata, cluster : str, optional
        Columns of strata and of primary sampling units, in place of replicates. Without ``cluster`` every person is one; clusters of equal
        number in two strata are two.
    lonely : {"error", "certainty"}, default "error"
        A stratum with one cluster: refused, or without variance.

    Examples
    --------
    >>> people = {"ill": [1, 0, 1, 1, 0, 0], "w": [1.0, 2.0, 1.0, 2.0, 1.0, 1.0], "stratum": [1, 1, 1, 2, 2, 2]}
    >>> found = SurveyDesign("w", strata="stratum").means(people, "ill")
    >>> found["estimate"].round(3).tolist(), found["std_error"].round(3).tolist()
    ([0.5], [0.265])
    """

    weight: str
    replicates: str | Sequence[str] | None = None
    method: str = "sdr"
    strata: str | None = None
    cluster: str | None = None
    lonely: str = "error"

    def __post_init__(self) -> None:
        for name in ("weight", "strata", "cluster"):
            value = getattr(self, name)
            if not isinstance(value, str) and (value is not None or name == "weight"):
                raise InputError(f"{name}={value!r} is not the name of a column.")
        for name, known in (("method", METHODS), ("lonely", LONELY)):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known, "choice")
        idle = {"lonely": "without strata"} if self.strata is None and self.lonely != "error" else {}
        if self.replicates is None:
            idle |= {"method": "without replicates"} if self.method != "sdr" else {}
        else:
            held = [n for n in ("strata", "cluster") if getattr(self, n) is not None]
            idle |= dict.fromkeys(held, "beside replicates, which hold the design")
        for name, because in idle.items():
            raise InputError(f"{name}={getattr(self, name)!r} cannot act {because}; leave it out.")

    @checked
    def means(
        self, people: Any, columns: str | Sequence[str], by: str | Sequence[str] | None = None, level: float = 0.95
    ) -> Estimates:
        """Estimate weighted means of columns, by subgroup, of those whose value is known; ``design_effect`` is against a random sample.

        Parameters
        ----------
        people : dataframe
        columns : str or sequence of str
            Columns of numbers; 0 and 1 (or true and false) give shares.
        by : str or sequence of str, optional
            Columns that define the subgroups.
        level : float
        """
        level = checks.check_level(level)
        read = self._read(people, by)
        taken = {"variable", "people", "design_effect"}.intersection(read.keys.column_names)
        if taken:
            raise InputError(f"by={taken.pop()!r} is also a column of the answer, which would replace it; rename it.")
        names = frames.as_names(columns, "columns")
        rows: list[pa.Table] = []
        said: list[str] = []
        for name in names:
            part = self._means_of(read, name, level)
            # of a subgroup of whom nothing is known there is no row
            part = part.filter(np.isfinite(part["estimate"].to_numpy()))
            sure = part["std_error"].to_numpy() <= SAME * np.abs(part["estimate"].to_numpy())
            if sure.any():
                first = part.select(read.keys.column_names if read.grouped else []).slice(int(np.argmax(sure)), 1)
                said.append(
                    f"{name}: {int(sure.sum()):,} estimate(s), the first of {(first.to_pylist() or ['all'])[0]}, have a standard error "
                    "of 0, since all who were asked there agree, or it is one person. That is no certainty about everybody else."
                )
            rows.append(part)
        table = pa.concat_tables(rows)
        if table.num_rows == 0:
            raise InputError(f"columns: no value of {listed(names)} is known.")
        return Estimates.build(
            {n: table[n] for n in table.column_names},
            keys=["variable", *(read.keys.column_names if read.grouped else ())],
            method="weighted means",
            level=level,
            interval=f"survey design, Student with {self._df(read):,.0f} degrees of freedom",
            provenance=Provenance.of(call=f"{self!r}.means({columns!r}, by={by!r})", data=read.data),
            diagnostics={"design": self._describe()},
            warnings=said,
            frame=read.kind,
        )

    def _means_of(self, read: _People, name: str, level: float) -> pa.Table:
        """Make the rows of one column, a row for each subgroup."""
        y, k = frames.column(read.table, name, "columns"), len(read.keys)
        known = ~np.isnan(y)
        g, y, w = read.group[known], y[known], read.weight[known]

        def mean(weight: FloatArray) -> FloatArray:
            return _ratio(sums(g, weight[known] * y, k), sums(g, weight[known], k))

        estimate, total = mean(read.weight), sums(g, w, k)
        if self.replicates is None:
            z = np.zeros(len(known))
            z[known] = w * (y - estimate[g]) / np.where(total > 0, total, 1.0)[g]
            variance = self._linearized(read, z)
        else:
            variance = np.asarray(sum(c * (mean(v) - estimate) ** 2 for c, v in self._replicates(read)))
        checks.check_finite(variance[np.isfinite(estimate)], f"{name} (the variance of its estimates)")
        spread = _ratio(sums(g, w * (y - estimate[g]) ** 2, k), total)
        counted = np.bincount(g[w > 0], minlength=k)
        low, high = normal_interval(estimate, np.sqrt(variance), level, df=self._df(read))
        keys = {n: read.keys[n] for n in read.keys.column_names} if read.grouped else {}
        return pa.table(
            {
                "variable": [name] * k,
                **keys,
                "estimate": estimate,
                "std_error": np.sqrt(variance),
                "conf_low": low,
                "conf_high": high,
                "people": np.bincount(g, minlength=k),
                "design_effect": _ratio(variance, _ratio(spread, np.maximum(counted - 1.0, 0.0))),
            }
        )

    @checked
    def vary(
        self,
        people: Any,
        statistic: Callable[[FloatArray], Any],
        names: Sequence[str] | None = None,
        n_replicates: int | None = None,
        level: float = 0.95,
        random_state: RandomState = None,
    ) -> Estimates:
        """Compute any statistic of the weights, and its standard error, by computing it again with every set of replicate weights.

        Parameters
        ----------
        people : dataframe
        statistic : callable
            Takes the weights of people, (n,), and gives a number, an array (of bag means, of an embedding, of counts), or Estimates.
        names : sequence of str, optional
            Of the numbers, where they are not Estimates.
        n_replicates : int, optional
            Of the rescaled bootstrap, where there are no replicate weights; 200 when not given.
        level : float
        random_state : int, Generator or RandomState, optional
            Of the bootstrap; 0 when not given.

        Returns
        -------
        Estimates
            Where the statistic gives Estimates with errors of their own (of a model), ``std_error`` has both, and ``design_std_error``
            that of the design.

        Examples
        --------
        >>> people = {"x": [1.0, 2.0, 4.0], "w": [1.0, 1.0, 1.0], "w1": [0.0, 1.5, 1.5], "w2": [1.5, 0.0, 1.5], "w3": [1.5, 1.5, 0.0]}
        >>> design = SurveyDesign("w", replicates=["w1", "w2", "w3"], method="jackknife")
        >>> design.vary(people, lambda w: w @ [1.0, 2.0, 4.0] / w.sum(), names=["mean"])["std_error"].round(4).tolist()
        [0.8819]
        """
        given = {"n_replicates": n_replicates, "random_state": random_state}
        if self.replicates is not None:
            checks.refuse_idle_arguments(SurveyDesign.vary, given, "beside replicate weights")
        read = self._read(people, None)
        first = statistic(read.weight.copy())
        table = first if isinstance(first, Estimates) else None
        keys = None if table is None else table.table.select(list(table.keys))

        def values(found: Any) -> FloatArray:
            if table is None:
                return np.ravel(checks.as_numbers(found, "statistic"))
            if not isinstance(found, Estimates) or not found.table.select(list(table.keys)).equals(keys):
                raise InputError(
                    "statistic gives other rows with replicate weights; ask for groups that every replicate has."
                )
            return np.asarray(found["estimate"], dtype=np.float64)

        R = N_REPLICATES if n_replicates is None else checks.check_whole(n_replicates, "n_replicates", 2)
        seed = 0 if random_state is None else checks.read_seed(random_state)
        replicates = self._bootstrap(read, R, seed) if self.replicates is None else self._replicates(read)
        estimate = values(first)
        checks.check_finite(estimate, "statistic")
        variance, count = np.zeros(len(estimate)), 0
        for scale, w in replicates:
            variance, count = variance + scale * (values(statistic(w)) - estimate) ** 2, count + 1
        checks.check_finite(variance, "statistic (with replicate weights)")
        if table is None:
            labels = [f"statistic {j}" for j in range(len(estimate))] if names is None else list(names)
            if len(labels) != len(estimate):
                raise InputError(f"names has {len(labels)} entries for {len(estimate)} statistics; pass one each.")
            columns: dict[str, Any] = {"statistic": labels}
            own, method = np.zeros(len(estimate)), "a statistic of the weights"
        else:
            if names is not None:
                raise InputError(
                    f"names={list(names)!r} cannot act where the statistic gives Estimates, which have keys."
                )
            columns = {n: table.table[n].to_pylist() for n in table.keys}
            own, method = np.nan_to_num(np.asarray(table["std_error"], dtype=np.float64)), table.method
        error = np.sqrt(variance + own**2)
        low, high = normal_interval(estimate, error, checks.check_level(level), df=self._df(read))
        columns |= {"estimate": estimate, "std_error": error, "conf_low": low, "conf_high": high}
        columns["design_std_error"] = np.sqrt(variance)
        return Estimates.build(
            columns,
            keys=["statistic"] if table is None else list(table.keys),
            method=method,
            level=level,
            interval="survey design" if not own.any() else "survey design and model",
            provenance=Provenance.of(call="SurveyDesign(...).vary(people, statistic)", data=read.data),
            diagnostics={"design": self._describe(), "replicates": count},
            warnings=() if table is None else table.warnings,
            frame=read.kind,
        )

    def _read(self, people: Any, by: str | Sequence[str] | None) -> _People:
        table, kind = frames.to_arrow(people, "people"), frames.frame_kind(people)
        if table.num_rows == 0:
            raise InputError("people has no rows; pass at least two people.")
        weight = checks.check_weights(frames.column(table, self.weight, "weight"), "weight", table.num_rows)
        groups = None if by is None else frames.group_rows(table, by, "by")
        code = np.zeros(table.num_rows, dtype=np.intp) if groups is None else groups.codes.astype(np.intp)
        keys = pa.table({"all": ["all"]}) if groups is None else groups.keys
        stratum = cluster = np.zeros(0, dtype=np.intp)
        if self.replicates is None:
            stratum = np.zeros_like(code) if self.strata is None else _codes(table, [self.strata], "strata")
            own = [name for name in (self.strata, self.cluster) if name is not None]
            cluster = np.arange(len(code)) if self.cluster is None else _codes(table, own, "cluster")
            self._check_lonely(table, stratum, cluster)
        data = {"people": frames.fingerprint(table)}
        return _People(table, kind, weight, code, keys, groups is not None, stratum, cluster, data)

    def _check_lonely(self, table: pa.Table, stratum: IntArray, cluster: IntArray) -> None:
        """Refuse strata of one cluster."""
        n_clusters = np.bincount(stratum[np.unique(cluster, return_index=True)[1]])
        if self.lonely != "error" or not (n_clusters == 1).any():
            return
        if self.strata is None:
            one = "row" if self.cluster is None else f"cluster={self.cluster!r}"
            raise InputError(f"people has one {one}, so that nothing varies; pass at least two.")
        name = table[self.strata][int(np.argmax((n_clusters == 1)[stratum]))].as_py()
        raise InputError(
            f"strata={self.strata!r}: {int((n_clusters == 1).sum()):,} strata have one cluster, the first {name!r}, so that nothing "
            "varies there; join strata, or pass lonely='certainty'."
        )

    def _replicates(self, read: _People) -> Iterator[tuple[float, FloatArray]]:
        """Give the factor and the weights of every replicate in the table; some of the census are negative."""
        names = replicate_names(self.replicates, self.weight, read.table)
        R = len(names)
        scale = {"sdr": 4 / R, "jackknife": (R - 1) / R}.get(self.method, 1 / R)
        for name in names:
            w = checks.check_finite(frames.column(read.table, name, "replicates"), f"replicates ({name})")
            if not 1 / OTHER_SCALE <= w.sum() / read.weight.sum() <= OTHER_SCALE:
                raise InputError(
                    f"replicates: {name!r} adds up to {w.sum():,.4g} and weight={self.weight!r} to {read.weight.sum():,.4g}, but both "
                    "stand for the same people. Where the file has replicate factors, multiply them by the weight first."
                )
            yield scale, w

    def _bootstrap(self, read: _People, R: int, seed: int) -> Iterator[tuple[float, FloatArray]]:
        """Draw n_h - 1 clusters of every stratum with replacement, R times; one cluster alone keeps its weights."""
        rng, n_clusters = np.random.default_rng(seed), read.clusters_of_stratum
        for _ in range(R):
            factor = np.ones(len(read.stratum_of_cluster))
            for h in np.flatnonzero(n_clusters > 1):
                n = int(n_clusters[h])
                factor[read.stratum_of_cluster == h] = rng.multinomial(n - 1, np.full(n, 1 / n)) * n / (n - 1)
            yield 1 / R, read.weight * factor[read.cluster]

    def _linearized(self, read: _People, z: FloatArray) -> FloatArray:
        """Variances of the sums of z, (n,), in the subgroups, (k,)."""
        k, n_h, of_cluster = len(read.keys), read.clusters_of_stratum.astype(np.float64), read.stratum_of_cluster
        pairs, pair = np.unique(read.group.astype(np.int64) * len(of_cluster) + read.cluster, return_inverse=True)
        total = np.bincount(pair.reshape(-1), z, len(pairs))
        group, stratum = pairs // len(of_cluster), of_cluster[pairs % len(of_cluster)]
        cell = group * len(n_h) + stratum
        first, second = (np.bincount(cell, v, k * len(n_h)).reshape(k, -1) for v in (total, total**2))
        scale = np.where(n_h > 1, n_h / np.maximum(n_h - 1.0, 1.0), 0.0)
        return np.asarray(np.maximum(((second - first**2 / n_h) * scale).sum(axis=1), 0.0))

    def _df(self, read: _People) -> float:
        if self.replicates is not None:
            return float(len(replicate_names(self.replicates, self.weight, read.table)) - 1)
        return float(max(len(read.stratum_of_cluster) - len(read.clusters_of_stratum), 1))

    def _describe(self) -> str:
        strata = f"strata {self.strata}" if self.strata else "no strata"
        by_strata = f"{strata}, clusters {self.cluster or 'are persons'}"
        return by_strata if self.replicates is None else f"replicate weights ({self.method})"


@dataclass(frozen=True, eq=False)
class _People:
    """People as arrays: weights, subgroup, stratum and cluster of each."""

    table: pa.Table
    kind: frames.FrameKind
    weight: FloatArray
    group: IntArray
    keys: pa.Table
    grouped: bool
    stratum: IntArray
    cluster: IntArray
    data: Mapping[str, str]

    @property
    def stratum_of_cluster(self) -> IntArray:
        """Stratum of every cluster."""
        out = np.zeros(int(self.cluster.max(initial=-1)) + 1, dtype=np.intp)
        out[self.cluster] = self.stratum
        return out

    @property
    def clusters_of_stratum(self) -> IntArray:
        """Number of clusters in every stratum."""
        return np.bincount(self.stratum_of_cluster)


def replicate_names(replicates: str | Sequence[str] | None, weight: str, table: pa.Table) -> list[str]:
    """Find the columns of replicate weights, in the order of their numbers; refuse one alone and numbers that are missing or there twice.

    Examples
    --------
    >>> replicate_names("w", "w", pa.table({"w": [1.0], "w2": [2.0], "w1": [0.0]}))
    ['w1', 'w2']
    """
    if not isinstance(replicates, str):
        names = list(frames.as_names(replicates or (), "replicates"))
        if len(names) < 2:
            raise InputError(f"replicates={names!r} is one column; pass all columns of replicate weights.")
        if weight in names:
            raise InputError(f"replicates names {weight!r}, the weight itself, which does not vary; leave it out.")
        return names
    pattern = re.compile(re.escape(replicates) + r"_?0*(\d+)$", re.IGNORECASE)
    # a file may number the weight itself 0
    own = [n for n in table.column_names if n != weight and not table[n].equals(table[weight])]
    found = {int(m[1]): n for n in own if (m := pattern.match(n))}
    if len(found) < 2:
        raise InputError(
            f"replicates={replicates!r}: people has {len(found)} column(s) of that name and a number; its columns are "
            f"{listed(table.column_names)}."
        )
    gaps = [i for i in range(min(1, *found), max(found)) if i not in found]
    if gaps or len(found) < sum(bool(pattern.match(n)) for n in own):
        which = f"number {gaps[0]} is missing" if gaps else "a number stands there twice"
        raise InputError(
            f"replicates={replicates!r}: of {len(found)} columns, {found[min(found)]!r} to {found[max(found)]!r}, {which}; "
            "the variance needs all of them, each once. Pass their names."
        )
    return [found[i] for i in sorted(found)]


def _codes(table: pa.Table, names: list[str], argument: str) -> IntArray:
    return frames.group_rows(table, names, argument).codes.astype(np.intp)


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Divide; NaN where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=np.asarray(bottom) > 0)
