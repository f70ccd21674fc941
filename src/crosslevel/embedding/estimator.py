"""``MeanEmbedding``: fit learns how people are encoded, transform makes one vector per bag."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks, frames
from crosslevel.data.bags import Bags, as_bags
from crosslevel.data.batches import Batches, open_batches
from crosslevel.data.engines import ClusterEngine, OnEngine
from crosslevel.data.frames import as_names
from crosslevel.data.learning import Learned, learn_people
from crosslevel.data.queries import ALL, SUBGROUP, read_query
from crosslevel.embedding.chunks import Recipe
from crosslevel.embedding.embeddings import Embeddings, finish
from crosslevel.embedding.engines import Engine, check_engine, cluster_of, find_engine
from crosslevel.embedding.run import Pass, run_pass
from crosslevel.embedding.state import BagSums
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.numerics.features import MAPS, FeatureMap, FourierMap, make_map, median_bandwidth
from crosslevel.typing import FloatArray, Progress, RandomState

N_SAMPLE = 1000
"""People in the sample behind the median heuristic: half a million pairs."""
LANDMARKS = ("nystrom", "landmarks")
"""Maps whose features are people of the sample."""


class _AsFitted:
    """The default of ``transform``'s arguments that repeat those of ``fit``."""

    def __repr__(self) -> str:
        return "as fitted"


AS_FITTED: Any = _AsFitted()


class MeanEmbedding(OnEngine, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn weighted people into one vector per bag: the mean of their random features.

    mu_i = sum_j w_ij phi(x_ij) / sum_j w_ij, where phi(x) . phi(y) approximates the Gaussian kernel
    ``exp(-|x - y|^2 / (2 b^2))``. People are read as a stream, once to learn the encoding and once to embed, at flat memory.

    Parameters
    ----------
    n_features : int, default 4096
        Length of the vectors; for the Fourier maps half are cosines and half sines. The map ``linear`` has as many as there
        are encoded columns and takes neither this nor ``bandwidth``.
    feature_map : str, default "sorf"
        ``sorf``, ``fastfood``, ``rff``, ``nystrom``, ``landmarks`` or ``linear``.
    bandwidth : "median" or float, default "median"
        b of the kernel; "median" takes the median distance between two people of a weighted sample.
    categorical : sequence of str, optional
        Columns of numbers that are codes. Text and booleans always are categories, other numbers are not.
    unknown : {"error", "ignore"}, default "error"
        What to do with levels that ``fit`` has not seen: refuse, or give them no feature.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the features and of the sample.
    engine : {"local", "jax", "spark"}, session or Engine, default "local"
        Where the passes run: threads of this machine; JAX (CPU or GPU, the second pass); the active SparkSession or one passed.
        Workers of a cluster read the files themselves, and agree with "local" to 1e-9.
    n_jobs : int, optional
        Threads; all cores when not given. The answer does not depend on it.

    Attributes
    ----------
    encoder_ : Encoder
        How each column is encoded.
    feature_map_ : FeatureMap
    bandwidth_ : float
    columns_ : tuple of str
        The features used.
    n_inputs_ : int
        Length of the encoded vector.
    warnings_ : tuple of str
        What was left out, and why.

    See Also
    --------
    crosslevel.Bags : people in memory, for scikit-learn pipelines; also a valid input here.

    Notes
    -----
    A categorical column gets a position per level, missing being a level of its own. A numeric column is centered and
    divided by its weighted standard deviation; where it is missing it is 0 and a second position says so. Neither the
    encoded matrix nor the feature matrix is ever formed.

    Features are float32, sums are float64: answers agree to 1e-12 of a bag's largest entry for any number of threads, and
    counts are exact.

    References
    ----------
    Le, Q., Sarlos, T. and Smola, A. (2013). Fastfood: approximating kernel expansions in loglinear time. ICML.
    Yu, F. et al. (2016). Orthogonal random features. NeurIPS.

    Examples
    --------
    >>> from crosslevel.data.simulate import nation
    >>> world = nation(20, 50)
    >>> emb = MeanEmbedding(n_features=64, categorical=["sex"]).fit(world.people, by="region", weight="weight")
    >>> emb.transform(world.people, by=["region", "sex"])
    <Embeddings: 40 bags by region, sex, 64 features; see .values, .keys>
    >>> emb.transform(world.people, subgroups={"women over 65": "sex == 2 and age >= 65"}).key_table.column_names
    ['region', 'subgroup']
    """

    def __init__(
        self,
        n_features: int = 4096,
        feature_map: str = "sorf",
        bandwidth: str | float = "median",
        *,
        categorical: Sequence[str] | None = None,
        unknown: str = "error",
        random_state: RandomState = 0,
        engine: str | Engine = "local",
        n_jobs: int | None = None,
    ) -> None:
        self.n_features = n_features
        self.feature_map = feature_map
        self.bandwidth = bandwidth
        self.categorical = categorical
        self.unknown = unknown
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs

    def fit(
        self,
        people: Any,
        y: object = None,
        *,
        by: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        where: str | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn levels, scales and bandwidth in one pass over the people, and draw the features.

        Parameters
        ----------
        people : path, frame, stream or Bags
            Anything :func:`crosslevel.data.batches.open_batches` reads.
        y : ignored
        by : str or sequence of str, optional
            The columns that will name the bags. They are no features; columns that have one value within every bag are
            left out (or, when named in ``columns``, kept with a warning), because they tell the place.
        columns : sequence of str, optional
            The features; all columns but ``by``, ``weight`` and those left out when not given.
        weight : str, optional
            The column of survey weights.
        where : str, optional
            Learn from these people only.
        progress : bool or callable, optional
            True for a bar on stderr; or a function, called with the rows done and, where known, the rows in all.
        """
        self._fit_and_sample(people, by, columns, weight, where, progress)
        return self

    def _fit_and_sample(
        self,
        people: Any,
        by: str | Sequence[str] | None,
        columns: Sequence[str] | None,
        weight: str | None,
        where: str | None,
        progress: Progress | None,
    ) -> FloatArray:
        """Fit, and give the encoded people of a weighted sample, (n_sample, n_inputs), whom the fit does not keep."""
        self._check_parameters()
        seed = checks.read_seed(self.random_state)
        stream, by, weight = _open(people, by, weight, where)
        names = as_names(by, "by") if by is not None else ()
        learned = learn_people(
            stream,
            by=names,
            columns=columns,
            weight=weight,
            categorical=self.categorical,
            unknown=self.unknown,
            n_sample=max(N_SAMPLE, self.n_features if self.feature_map in LANDMARKS else 0),
            seed=seed,
            n_jobs=checks.count_jobs(self.n_jobs),
            progress=progress,
            engine=cluster_of(self.engine),
        )
        self.warnings_ = learned.warnings
        for text in self.warnings_:
            warnings.warn(text, CrosslevelWarning, stacklevel=3)
        self.encoder_ = learned.encoder
        self.columns_ = self.encoder_.names
        self.n_inputs_ = self.encoder_.n_inputs
        self.n_rows_ = learned.n_rows
        # Bags bring their own, which later people need not have
        in_bags = isinstance(people, Bags | np.ndarray)
        self.by_: tuple[str, ...] = () if in_bags else names
        self.weight_ = None if in_bags else weight
        sample = learned.encoded_sample()
        self.feature_map_ = self._draw(learned, sample, seed)
        self.bandwidth_ = self.feature_map_.bandwidth
        return sample

    def transform(
        self,
        people: Any,
        *,
        by: str | Sequence[str] = AS_FITTED,
        weight: str | None = AS_FITTED,
        where: str | None = None,
        subgroups: Mapping[str, str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 30.0,
        progress: Progress | None = None,
    ) -> Any:
        """Embed every bag in one pass over the people.

        Parameters
        ----------
        people : path, frame, stream or Bags
        by : str or sequence of str
            The columns that name a bag; those of ``fit`` when not given.
        weight : str or None
            The column of survey weights; that of ``fit`` when not given, None to count people equally.
        where : str, optional
            Embed these people only.
        subgroups : mapping of name to query, optional
            Further bags within each bag, in the same pass; the answer gains the key ``subgroup``, ``"all"`` being
            everybody.
        checkpoint : path, optional
            A file the state is written to now and then. A pass that finds it there resumes from it and ends with the same
            bits; it is removed at the end.
        checkpoint_every : float, default 30
            Seconds between two writings.
        progress : bool or callable, optional
            True for a bar on stderr; or a function, called with the rows done and, where known, the rows in all.

        Returns
        -------
        Embeddings
            Or, for Bags, an array (n_bags, n_features), as scikit-learn's pipelines expect (or the kind of frame asked for
            with ``set_output``). A two-dimensional array is bags of one person.
        """
        check_is_fitted(self, "feature_map_")
        people = as_bags(people) if isinstance(people, np.ndarray) else people
        kind = frames.frame_kind(people) if frames.is_frame(people) else "pyarrow"
        if isinstance(people, Bags) and (where is not None or subgroups):
            raise InputError(
                "where and subgroups are not used with Bags, whose answer has one row per bag; pass a frame of people and by."
            )
        if checkpoint is None:
            given = {"checkpoint_every": checkpoint_every}
            checks.refuse_idle_arguments(MeanEmbedding.transform, given, "without a file; name one in checkpoint")
        elif not isinstance(checkpoint, str | os.PathLike):
            raise InputError(f"checkpoint={checkpoint!r} is no path; name a file.")
        checks.check_between(checkpoint_every, "checkpoint_every", 0.0, np.inf)
        job, engine = self._job(people, by, weight, where, subgroups)
        state = run_pass(job, engine, checkpoint, checkpoint_every, progress)
        found = finish(state, self.feature_map_, kind)
        for text in found.warnings:
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        return self._contained(found.values) if isinstance(people, Bags) else found

    def accumulate(
        self,
        people: Any,
        *,
        by: str | Sequence[str] = AS_FITTED,
        weight: str | None = AS_FITTED,
        where: str | None = None,
        subgroups: Mapping[str, str] | None = None,
    ) -> BagSums:
        """Sum over part of the people: states of disjoint parts merge, and ``finish`` turns them into embeddings."""
        check_is_fitted(self, "feature_map_")
        return run_pass(*self._job(people, by, weight, where, subgroups))

    def finish(self, state: BagSums) -> Embeddings:
        """Turn a (merged) state into embeddings."""
        check_is_fitted(self, "feature_map_")
        return finish(state, self.feature_map_)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Say what ``transform`` gives for Bags: "default" (an array), "pandas" or "polars"; None changes nothing.

        For people the answer is always :class:`Embeddings`, which has ``to_frame``.
        """
        if transform is not None:
            if transform not in ("default", "pandas", "polars"):
                raise unknown_name("transform", transform, ["default", "pandas", "polars"], "kind of output")
            # the attribute scikit-learn's clone carries over
            self._sklearn_output_config = {"transform": transform}
        return self

    def _contained(self, values: npt.NDArray[np.float64]) -> Any:
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if chosen == "default":
            return values
        names = self.get_feature_names_out()
        return frames.from_arrow(pa.table({str(n): values[:, j] for j, n in enumerate(names)}), chosen)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Name the features: cos0 .., sin0 .. for Fourier maps, the encoded columns for the linear map."""
        check_is_fitted(self, "feature_map_")
        n = self.feature_map_.n_features
        if self.feature_map == "linear":
            return np.asarray(self.encoder_.input_names(), dtype=object)
        if self.feature_map in LANDMARKS:
            return np.asarray([f"{self.feature_map}{j}" for j in range(n)], dtype=object)
        return np.asarray([f"{f}{j}" for f in ("cos", "sin") for j in range(n // 2)], dtype=object)

    def _job(
        self, people: Any, by: Any, weight: Any, where: str | None, subgroups: Mapping[str, str] | None
    ) -> tuple[Pass, Engine | ClusterEngine]:
        """Check what a pass is asked to do, before it begins."""
        is_bags = isinstance(people, Bags)
        if by is AS_FITTED:
            by = None if is_bags else self.by_ or None
        if weight is AS_FITTED:
            weight = None if is_bags else self.weight_
        stream, by, weight = _open(people, by, weight, where)
        if by is None:
            raise InputError("by is missing; name the column(s) of people that say which bag they belong to.")
        names = as_names(by, "by")
        for argument, wanted in (
            ("by", names),
            ("weight", [] if weight is None else [weight]),
            ("columns", self.columns_),
        ):
            for column in wanted:
                if column not in stream.schema.names:
                    raise unknown_name(argument, column, stream.schema.names)
        if subgroups is not None and not isinstance(subgroups, Mapping):
            raise InputError(
                f"subgroups={subgroups!r} is no mapping of a name to a query; pass subgroups={{'old': 'age >= 65'}}."
            )
        queries = tuple(
            (str(n), read_query(q, f"subgroups[{n!r}]", stream.schema)) for n, q in (subgroups or {}).items()
        )
        if ALL in dict(queries):
            raise InputError(f"subgroups names {ALL!r}, which is everybody; choose another name.")
        if queries and SUBGROUP in names:
            raise InputError(
                f"by names {SUBGROUP!r}, which is the key that subgroups add; rename that column, or leave out subgroups."
            )
        recipe = Recipe(self.encoder_, names, weight, queries)
        key_names = (*names, SUBGROUP) if queries else names
        return Pass(stream, recipe, self.feature_map_, key_names), find_engine(self.engine, self.n_jobs)

    def _check_parameters(self) -> None:
        if self.feature_map not in MAPS:
            raise unknown_name("feature_map", self.feature_map, list(MAPS), "feature map")
        if self.feature_map == "linear":
            checks.refuse_idle(
                self, ["n_features", "bandwidth"], "with feature_map='linear', which takes the columns as they are"
            )
        check_engine(self.engine)
        if self.unknown not in ("error", "ignore"):
            raise unknown_name("unknown", self.unknown, ["error", "ignore"], "choice")
        if self.bandwidth != "median":
            number = isinstance(self.bandwidth, Real) and not isinstance(self.bandwidth, bool)
            if not number or not 0 < self.bandwidth < np.inf:  # type: ignore[operator]
                raise InputError(f"bandwidth={self.bandwidth!r} is neither 'median' nor a positive number.")
        n = checks.check_whole(self.n_features, "n_features", 1)
        if n % 2 and issubclass(MAPS[self.feature_map], FourierMap):
            raise InputError(
                f"n_features={n:,} is odd; the {self.feature_map} map makes a cosine and a sine of every frequency. Pass "
                f"{n + 1:,}."
            )

    def _draw(self, learned: Learned, sample: FloatArray, seed: int) -> FeatureMap:
        d = self.encoder_.n_inputs
        if self.feature_map == "linear":
            return make_map("linear", d)
        bandwidth = self.bandwidth
        if bandwidth == "median":
            bandwidth = median_bandwidth(sample, n_sample=N_SAMPLE, random_state=seed)
        points = None
        if self.feature_map in LANDMARKS:
            kinds = self.encoder_.encode(learned.kinds).dense(d)
            first = np.sort(np.unique(kinds, axis=0, return_index=True)[1])
            if len(first) < self.n_features:
                raise InputError(
                    f"n_features={self.n_features:,} landmarks were asked for, but the people drawn for them have only "
                    f"{len(first):,} distinct ones; pass fewer."
                )
            points = kinds[first[: self.n_features]]
        return make_map(self.feature_map, d, self.n_features, float(bandwidth), seed, points)


def _open(
    people: Any, by: str | Sequence[str] | None, weight: str | None, where: str | None
) -> tuple[Batches, str | Sequence[str] | None, str | None]:
    """Open what the caller passed as a stream; Bags become a table of their people, keyed by position."""
    if isinstance(people, np.ndarray):
        people = as_bags(people, "people")
    if not isinstance(people, Bags):
        return open_batches(people, where=where), by, weight
    for argument, value in (("by", by), ("weight", weight)):
        if value is not None:
            raise InputError(f"{argument} is not used with Bags, which are grouped and weighted already; leave it out.")
    values = checks.check_finite(people.values[:], "people")
    table = pa.table(
        {name: values[:, j] for j, name in enumerate(people.columns)}
        | {"__bag": np.repeat(np.arange(len(people)), people.sizes), "__weight": people.weights}
    )
    return open_batches(table, where=where), "__bag", "__weight"
