"""Standard errors of a survey's design: replicate weights, or strata and clusters.

With replicate weights any statistic t has the variance c sum_r (t_r - t)^2, c by the method that made them (4 / R for the successive
differences of the American Community Survey). With strata h and clusters (primary units) i, means and totals have the variance of their
linearized values z, sum_h n_h / (n_h - 1) sum_i (z_hi - mean z_h)^2 (first stage with replacement), and any other statistic replicates of
the rescaled bootstrap (Rao, Wu & Yue 1992): of n_h - 1 clusters drawn with replacement, each drawn k times counts k n_h / (n_h - 1) times.
"""

from __future__ import annotations

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
from crosslevel.results.replicates import check_scale, replicate_names, rescaled_bootstrap
from crosslevel.typing import FloatArray, IntArray, RandomState

METHODS = ("sdr", "brr", "fay", "jackknife", "bootstrap")
LONELY = ("error", "certainty", "center")
N_REPLICATES = 200
SAME = 1e-10


@dataclass(frozen=True)
class SurveyDesign:
    """Say how people were sampled, for standard errors of means, counts, standardized rates and any other statistic.

    Parameters
    ----------
    weight : str
        Column of survey weights.
    replicates : str or sequence of str, optional
        Columns of replicate weights, or what their names begin with before a number ("PWGTP" for PWGTP1 to PWGTP80).
    method : {"sdr", "brr", "fay", "jackknife", "bootstrap"}, default "sdr"
        What made the replicates: successive differences (variance 4/R), balanced halves (1/R), Fay's (1 / (R (1 - fay)^2)), leaving one
        unit of an unstratified sample out ((R - 1) / R), a bootstrap (1/R).
    fay : float, optional
        Fay's factor, with ``method="fay"``.
    strata, cluster : str, optional
        Columns of strata and of primary sampling units, in place of replicates. Without ``cluster`` every person is one; clusters of equal
        number in two strata are two.
    lonely : {"error", "certainty", "center"}, default "error"
        A stratum with one cluster: refused, without variance, or compared with the mean of all strata.

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
    fay: float | None = None
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
            idle |= {n: "without replicates" for n in ("method", "fay") if getattr(self, n) not in ("sdr", None)}
        else:
            idle |= {
                n: "beside replicates, which hold the design"
                for n in ("strata", "cluster")
                if getattr(self, n) is not None
            }
        for name, because in idle.items():
            raise InputError(f"{name}={getattr(self, name)!r} cannot act {because}; leave it out.")
        if (self.method == "fay") != (self.fay is not None):
            raise InputError(
                f"fay={self.fay!r} with method={self.method!r}; pass Fay's factor with method='fay', and only there."
            )
        if self.fay is not None:
            checks.check_between(self.fay, "fay", 0.0, 0.99)

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
        read = self._read(people, by)
        parts, k = [], len(read.keys)
        for name in frames.as_names(columns, "columns"):
            y = frames.column(read.table, name, "columns")
            known = ~np.isnan(y)
            g, y = read.group[known], y[known]

            def mean(w: FloatArray, g: IntArray = g, y: FloatArray = y, known: Any = known) -> FloatArray:
                return _ratio(sums(g, w[known] * y, k), sums(g, w[known], k))

            estimate, total = mean(read.weight), sums(g, read.weight[known], k)
            z = np.zeros(len(known))
            z[known] = read.weight[known] * (y - estimate[g]) / np.where(total > 0, total, 1.0)[g]
            variance = self._variance(read, mean, z)
            n = np.bincount(g, minlength=k)
            counted = np.bincount(g[read.weight[known] > 0], minlength=k)
            spread = _ratio(sums(g, read.weight[known] * (y - estimate[g]) ** 2, k), total)
            simple = _ratio(spread, np.maximum(counted - 1.0, 0.0))
            parts.append((name, estimate, variance, {"people": n, "design_effect": _ratio(variance, simple)}))
        return self._table(read, parts, level, "weighted means", f"means({columns!r}, by={by!r})")

    @checked
    def totals(
        self,
        people: Any,
        columns: str | Sequence[str] | None = None,
        by: str | Sequence[str] | None = None,
        level: float = 0.95,
    ) -> Estimates:
        """Estimate how many people there are in each subgroup, or weighted totals of columns.

        Parameters
        ----------
        people : dataframe
        columns : str or sequence of str, optional
            Columns of numbers to add up; without them people are counted.
        by : str or sequence of str, optional
        level : float
        """
        read = self._read(people, by)
        parts, k = [], len(read.keys)
        for name in ("people",) if columns is None else frames.as_names(columns, "columns"):
            y = np.ones(len(read.weight)) if columns is None else frames.column(read.table, name, "columns")
            known = ~np.isnan(y)
            y = np.where(known, y, 0.0)

            def total(w: FloatArray, y: FloatArray = y) -> FloatArray:
                return sums(read.group, w * y, k)

            variance = self._variance(read, total, read.weight * y)
            counted = {"people": np.bincount(read.group[known], minlength=k)}
            parts.append((name, total(read.weight), variance, counted))
        return self._table(read, parts, level, "weighted totals", f"totals({columns!r}, by={by!r})")

    @checked
    def standardized(
        self,
        people: Any,
        column: str,
        age: str,
        standard: Mapping[Any, float],
        by: str | Sequence[str] | None = None,
        level: float = 0.95,
    ) -> Estimates:
        """Estimate means as they would be if every subgroup had the ages of a standard population (direct standardization).

        Parameters
        ----------
        people : dataframe
        column : str
            Column of numbers.
        age : str
            Column of age groups; any other column works as well.
        standard : mapping of age group to share
            Shares, or counts, of the standard population.
        by : str or sequence of str, optional
        level : float

        Returns
        -------
        Estimates
            ``crude`` is the mean without standardization.

        Examples
        --------
        >>> people = {"ill": [0, 1, 1, 1], "w": [3.0, 1.0, 2.0, 2.0], "age": ["young", "young", "old", "old"]}
        >>> SurveyDesign("w").standardized(people, "ill", "age", {"young": 0.5, "old": 0.5})["estimate"].tolist()
        [0.625]
        """
        read = self._read(people, by)
        y, ages = frames.column(read.table, column, "column"), frames.group_rows(read.table, age, "age")
        levels = ages.keys.column(0).to_pylist()
        checks.check_kind(standard, Mapping, "standard", "pass a mapping of age group to share")
        share = np.array([checks.check_between(v, f"standard[{k!r}]", 0.0, 1e300) for k, v in standard.items()])
        strange = [v for v in levels if v not in standard]
        if strange:
            raise InputError(f"standard has no share for {listed(strange)} of age={age!r}; it has {listed(standard)}.")
        if not share.sum() > 0:
            raise InputError(f"standard={dict(standard)!r} adds up to zero; pass shares or counts.")
        k, n_ages = len(read.keys), len(levels)
        share = np.array([float(standard[v]) for v in levels]) / share.sum()
        absent = [v for v, s in standard.items() if s > 0 and v not in set(levels)]
        known = ~np.isnan(y)
        cell = (read.group * n_ages + ages.codes)[known]
        y = y[known]
        seen = sums(cell, read.weight[known], k * n_ages).reshape(k, n_ages) > 0
        if absent or not (seen | (share == 0)).all():
            where = int(np.argmin((seen | (share == 0)).all(axis=1)))
            lacking = absent or [levels[i] for i in np.flatnonzero(~seen[where] & (share > 0))]
            raise InputError(
                f"age={age!r}: subgroup {read.keys.slice(where, 1).to_pylist()[0]} has nobody in {listed(lacking)}, which the standard "
                "has; join age groups."
            )

        def rates(w: FloatArray) -> FloatArray:
            return _ratio(sums(cell, w[known] * y, k * n_ages), sums(cell, w[known], k * n_ages))

        def standard_mean(w: FloatArray) -> FloatArray:
            return np.asarray(np.where(share > 0, rates(w).reshape(k, n_ages), 0.0) @ share)

        rate, total = rates(read.weight), sums(cell, read.weight[known], k * n_ages)
        z, share_of_cell = np.zeros(len(known)), np.tile(share, k)
        z[known] = (
            np.where(total > 0, share_of_cell / np.maximum(total, 1e-300), 0.0)[cell]
            * read.weight[known]
            * (y - np.nan_to_num(rate)[cell])
        )
        group, own = read.group[known], read.weight[known]
        crude = _ratio(sums(group, own * y, k), sums(group, own, k))
        more = {"crude": crude, "people": np.bincount(group, minlength=k)}
        parts = [(column, standard_mean(read.weight), self._variance(read, standard_mean, z), more)]
        call = f"standardized({column!r}, {age!r}, by={by!r})"
        return self._table(read, parts, level, f"means standardized by {age}", call)

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
        estimate = values(first)
        checks.check_finite(estimate, "statistic")
        variance, count = np.zeros(len(estimate)), 0
        for scale, w in self._replicated(read, R, 0 if random_state is None else checks.read_seed(random_state)):
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
        weight = self._weights(table, self.weight, "weight")
        groups = None if by is None else frames.group_rows(table, by, "by")
        code = np.zeros(table.num_rows, dtype=np.intp) if groups is None else groups.codes.astype(np.intp)
        keys = pa.table({"all": ["all"]}) if groups is None else groups.keys
        stratum = cluster = np.zeros(0, dtype=np.intp)
        if self.replicates is None:
            stratum = np.zeros_like(code) if self.strata is None else _codes(table, [self.strata], "strata")
            own = [name for name in (self.strata, self.cluster) if name is not None]
            cluster = np.arange(len(code)) if self.cluster is None else _codes(table, own, "cluster")
        data = {"people": frames.fingerprint(table)}
        return _People(table, kind, weight, code, keys, groups is not None, stratum, cluster, data)

    def _weights(self, table: pa.Table, name: str, argument: str) -> FloatArray:
        values = frames.column(table, name, argument)
        if argument == "weight":
            return checks.check_weights(values, argument, table.num_rows)
        return checks.check_finite(values, f"{argument} ({name})")  # some replicates of the census are negative

    def _replicated(self, read: _People, R: int, seed: int) -> Iterator[tuple[float, FloatArray]]:
        """Give the factor and the weights of every replicate."""
        if self.replicates is not None:
            names = replicate_names(self.replicates, self.weight, read.table)
            R = len(names)
            scale = {"sdr": 4 / R, "jackknife": (R - 1) / R, "fay": 1 / (R * (1 - (self.fay or 0)) ** 2)}
            for name in names:
                w = self._weights(read.table, name, "replicates")
                yield scale.get(self.method, 1 / R), check_scale(w, name, read.weight, self.weight)
            return
        self._check_lonely(read)
        if self.lonely == "center" and (read.clusters_of_stratum == 1).any():
            raise InputError(
                f"lonely={self.lonely!r} has no replicates, since of one cluster nothing can be drawn; join strata, or pass "
                "lonely='certainty'."
            )
        rng = np.random.default_rng(seed)
        for _ in range(R):
            drawn = rescaled_bootstrap(read.stratum_of_cluster, read.clusters_of_stratum, rng)
            yield 1 / R, read.weight * drawn[read.cluster]

    def _variance(self, read: _People, statistic: Callable[[FloatArray], FloatArray], z: FloatArray) -> FloatArray:
        """Variances of a statistic of the subgroups, (k,): by replication, or of its linearized values z, (n,)."""
        k = len(read.keys)
        if self.replicates is not None:
            at = statistic(read.weight)
            return np.asarray(sum(c * (statistic(w) - at) ** 2 for c, w in self._replicated(read, 0, 0)))
        self._check_lonely(read)
        n_h, of_cluster = read.clusters_of_stratum.astype(np.float64), read.stratum_of_cluster
        pairs, pair = np.unique(read.group.astype(np.int64) * len(of_cluster) + read.cluster, return_inverse=True)
        total = np.bincount(pair.reshape(-1), z, len(pairs))
        group, stratum = pairs // len(of_cluster), of_cluster[pairs % len(of_cluster)]
        cell = group * len(n_h) + stratum
        first, second = (np.bincount(cell, v, k * len(n_h)).reshape(k, -1) for v in (total, total**2))
        scale = np.where(n_h > 1, n_h / np.maximum(n_h - 1.0, 1.0), 0.0)
        variance = ((second - first**2 / n_h) * scale).sum(axis=1)
        if self.lonely == "center":
            middle = sums(read.group, z, k) / len(of_cluster)
            variance += ((first - middle[:, None]) ** 2 * (n_h == 1)).sum(axis=1)
        return np.asarray(np.maximum(variance, 0.0))

    def _check_lonely(self, read: _People) -> None:
        n_h = read.clusters_of_stratum
        if self.lonely == "error" and (n_h == 1).any():
            first = int(np.argmax(read.stratum == int(np.argmax(n_h == 1))))
            if self.strata is None:
                one = "row" if self.cluster is None else f"cluster={self.cluster!r}"
                raise InputError(f"people has one {one}, so that nothing varies; pass at least two.")
            name = read.table[self.strata][first].as_py()
            raise InputError(
                f"strata={self.strata!r}: {int((n_h == 1).sum()):,} strata have one cluster, the first {name!r}, so that nothing varies "
                "there; join strata, or pass lonely='certainty' or 'center'."
            )

    def _df(self, read: _People) -> float:
        if self.replicates is not None:
            return float(len(replicate_names(self.replicates, self.weight, read.table)) - 1)
        return float(max(len(read.stratum_of_cluster) - len(read.clusters_of_stratum), 1))

    def _describe(self) -> str:
        strata = f"strata {self.strata}" if self.strata else "no strata"
        by_strata = f"{strata}, clusters {self.cluster or 'are persons'}"
        return by_strata if self.replicates is None else f"replicate weights ({self.method})"

    def _table(
        self,
        read: _People,
        parts: Sequence[tuple[str, FloatArray, FloatArray, Mapping[str, Any]]],
        level: float,
        method: str,
        call: str,
    ) -> Estimates:
        """Put the columns of every variable below one another; subgroups of whom nothing is known are left out."""
        level = checks.check_level(level)
        rows: dict[str, list[Any]] = {"variable": []}
        said: list[str] = []
        for name, estimate, variance, more in parts:
            here = np.isfinite(estimate)
            checks.check_finite(variance[here], f"{name} (the variance of its estimates)")
            if "totals" not in method and (sure := here & (np.sqrt(variance) <= SAME * np.abs(estimate))).any():
                first = read.keys.slice(int(np.argmax(sure)), 1).to_pylist()[0]
                said.append(
                    f"{name}: {int(sure.sum()):,} estimate(s), the first of {first}, have a standard error of 0, since all who were asked "
                    "there agree, or it is one person. That is no certainty about everybody else."
                )
            if taken := [n for n in read.keys.column_names if n in ("variable", *more)]:
                raise InputError(f"by={taken[0]!r} is also a column of the answer, which would replace it; rename it.")
            low, high = normal_interval(estimate, np.sqrt(variance), level, df=self._df(read))
            part: dict[str, Any] = {"variable": [name] * len(estimate)}
            part |= {n: read.keys[n].to_pylist() for n in read.keys.column_names} if read.grouped else {}
            part |= {"estimate": estimate, "std_error": np.sqrt(variance), "conf_low": low, "conf_high": high, **more}
            for column, values in part.items():
                rows.setdefault(column, []).extend(v for v, keep in zip(values, here, strict=True) if keep)
        if not rows["variable"]:
            raise InputError(f"columns: no value of {listed([p[0] for p in parts])} is known.")
        return Estimates.build(
            rows,
            keys=["variable", *(read.keys.column_names if read.grouped else ())],
            method=method,
            level=level,
            interval=f"survey design, Student with {self._df(read):,.0f} degrees of freedom",
            provenance=Provenance.of(call=f"{self!r}.{call}", data=read.data),
            diagnostics={"design": self._describe()},
            warnings=said,
            frame=read.kind,
        )


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
    data: dict[str, str]

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


def _codes(table: pa.Table, names: list[str], argument: str) -> IntArray:
    return frames.group_rows(table, names, argument).codes.astype(np.intp)


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Divide; NaN where there is nothing to divide by."""
    return np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=np.asarray(bottom) > 0)
