"""``MeanEmbedding``: fit learns how people are encoded, transform makes one vector per bag."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from crosslevel.data import checks, frames
from crosslevel.data.audit import audit
from crosslevel.data.bags import Bags, as_bags
from crosslevel.data.expressions import ALL, SUBGROUP
from crosslevel.data.people import People
from crosslevel.data.people_columns import learn_columns
from crosslevel.data.progress import follow
from crosslevel.embedding.chunks import Recipe
from crosslevel.embedding.embeddings import finish
from crosslevel.embedding.engines import check_engine
from crosslevel.embedding.run import run_pass
from crosslevel.embedding.sample import Sample, draw_people
from crosslevel.errors import CrosslevelWarning, InputError, unknown_name
from crosslevel.numerics.features import MAPS, FeatureMap, FourierMap, make_map, median_bandwidth
from crosslevel.typing import FloatArray, Progress, RandomState

N_SAMPLE = 1000
"""People in the sample behind the median heuristic: half a million pairs."""
LANDMARKS = ("nystrom", "landmarks")
"""Maps whose features are people of the sample."""
BAG, WEIGHT = "crosslevel_bag", "crosslevel_weight"
"""Columns of the people of Bags, beside their own."""
DRAWS = 4
"""People drawn for a landmark, since some are alike."""


class MeanEmbedding(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn weighted people into one vector per bag: the mean of their random features.

    mu_i = sum_j w_ij phi(x_ij) / sum_j w_ij, where phi(x) . phi(y) approximates the Gaussian kernel
    ``exp(-|x - y|^2 / (2 b^2))``. People are counted by SQL to learn the encoding and gone over once to embed, at flat memory; a
    DataFrame of Spark is embedded where it is.

    Parameters
    ----------
    n_features : int, default 4096
        Length of the vectors; for the Fourier maps half are cosines and half sines. The map ``linear`` has as many as there
        are encoded columns and takes neither this nor ``bandwidth``.
    feature_map : str, default "sorf"
        ``sorf``, ``fastfood``, ``rff``, ``nystrom``, ``landmarks`` or ``linear``.
    bandwidth : "median" or float, default "median"
        b of the kernel; "median" takes the weighted median distance between different people: of all, where they are of few kinds,
        or of a sample of 1,000.
    unknown : {"error", "ignore"}, default "error"
        What to do with levels that ``fit`` has not seen: refuse, or give them no feature.
    random_state : int, None, Generator or RandomState, default 0
        Seed of the features and of the sample.
    engine : {"local", "jax"}, default "local"
        What computes the features of people of this process: threads, or JAX (CPU or GPU). Workers of Spark have the first.

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
    n_rows_ : int
        Number of people that were learned from.
    warnings_ : tuple of str
        What was left out, and why.

    See Also
    --------
    crosslevel.People : what is known of people, and which bag they belong to.
    crosslevel.Bags : people in memory, for scikit-learn pipelines; also a valid input here.

    Notes
    -----
    A categorical column gets a position per level, missing being a level of its own. A numeric column is centered and
    divided by its weighted standard deviation; where it is missing it is 0 and a second position says so. Neither the
    encoded matrix nor the feature matrix is ever formed.

    Features are float32, sums are float64: answers agree to 1e-12 of a bag's largest entry for any number of threads, to 1e-9 on
    Spark, and counts are exact. Neither the order of rows nor what levels are called changes what is learned.

    References
    ----------
    Le, Q., Sarlos, T. and Smola, A. (2013). Fastfood: approximating kernel expansions in loglinear time. ICML.
    Yu, F. et al. (2016). Orthogonal random features. NeurIPS.

    Examples
    --------
    >>> import crosslevel as cl
    >>> from crosslevel.data.simulate import nation
    >>> people = cl.People(nation(20, 50).people, by="region", weight="weight", categorical=["sex"])
    >>> emb = MeanEmbedding(n_features=64).fit(people)
    >>> emb.transform(people)
    <Embeddings: 20 bags by region, 64 features; see .values, .keys>
    >>> emb.transform(people, subgroups={"women over 65": "sex = 2 and age >= 65"}).key_table.column_names
    ['region', 'subgroup']
    """

    warnings_: tuple[str, ...]

    def __init__(
        self,
        n_features: int = 4096,
        feature_map: str = "sorf",
        bandwidth: str | float = "median",
        *,
        unknown: str = "error",
        random_state: RandomState = 0,
        engine: str = "local",
    ) -> None:
        self.n_features = n_features
        self.feature_map = feature_map
        self.bandwidth = bandwidth
        self.unknown = unknown
        self.random_state = random_state
        self.engine = engine

    def fit(self, people: People | Bags | FloatArray, y: object = None, *, progress: Progress | None = None) -> Self:
        """Learn levels, scales and bandwidth, and draw the features.

        Parameters
        ----------
        people : People or Bags
            The columns that name bags (``by``) are no features; columns that have one value within every bag are left out (or, when
            named in ``columns``, kept with a warning), because they tell the place.
        y : ignored
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the rows done and the rows in all.
        """
        self._fit_and_sample(_read(people), progress)
        doubts = audit(people).sentences if isinstance(people, People | Bags) else []
        self.warnings_ = (*doubts, *self.warnings_)
        for text in self.warnings_:
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        return self

    def _fit_and_sample(self, people: People, progress: Progress | None) -> FloatArray:
        """Fit, and give the vectors of people who were drawn by weight, (n_sample, n_inputs), whom the fit does not keep."""
        self._check_parameters()
        seed = checks.read_seed(self.random_state)
        with follow(progress, "Reading people") as tell:
            learned = learn_columns(people, None)
            encoder = replace(learned.bins.encoder, unknown=self.unknown)
            n = max(N_SAMPLE, DRAWS * self.n_features if self.feature_map in LANDMARKS else 0)
            sample = draw_people(people, encoder, learned.n_rows, n, seed)
            if tell is not None:
                tell(learned.n_rows, learned.n_rows)
        self.warnings_ = learned.warnings
        self.encoder_ = encoder
        self.columns_, self.n_inputs_, self.n_rows_ = encoder.names, encoder.n_inputs, learned.n_rows
        self.feature_map_ = self._draw(sample, seed)
        self.bandwidth_ = self.feature_map_.bandwidth
        return sample.people(N_SAMPLE)

    def transform(
        self,
        people: People | Bags | FloatArray,
        *,
        subgroups: Mapping[str, str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Embed every bag in one pass over the people.

        Parameters
        ----------
        people : People or Bags
            Those of ``fit`` or others with the same columns; ``by``, ``weight`` and ``where`` are theirs.
        subgroups : mapping of name to expression, optional
            Further bags within each bag, in the same pass; the answer gains the key ``subgroup``, ``"all"`` being
            everybody.
        checkpoint : path, optional
            A file that the sums are written to now and then, where people are in several files of Parquet or text. A pass that finds it
            there resumes from it and ends with the same bits; it is removed at the end.
        progress : bool or callable, optional
            True for a bar on stderr; or a function of the rows done and the rows in all.

        Returns
        -------
        Embeddings
            Or, for Bags, an array (n_bags, n_features), as scikit-learn's pipelines expect (or the kind of frame asked for
            with ``set_output``). A two-dimensional array is bags of one person.
        """
        check_is_fitted(self, "feature_map_")
        if not isinstance(people, People) and subgroups:
            raise InputError(
                "subgroups are not used with Bags, whose answer has one row per bag; pass crosslevel.People."
            )
        known = _read(people)
        state = run_pass(known, self._recipe(known, subgroups), self.feature_map_, self.engine, checkpoint, progress)
        kind = frames.frame_kind(known.data) if frames.is_frame(known.data) else "pyarrow"
        found = finish(state, self.feature_map_, kind)
        for text in found.warnings:
            warnings.warn(text, CrosslevelWarning, stacklevel=2)
        return found if isinstance(people, People) else self._contained(found.values)

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
        return frames.from_arrow(pa.table(dict(zip(self.get_feature_names_out(), values.T, strict=True))), chosen)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Name the features: cos0 .., sin0 .. for Fourier maps, the encoded columns for the linear map."""
        check_is_fitted(self, "feature_map_")
        n = self.feature_map_.n_features
        names = [f"{f}{j}" for f in ("cos", "sin") for j in range(n // 2)]
        if self.feature_map == "linear":
            names = self.encoder_.input_names()
        elif self.feature_map in LANDMARKS:
            names = [f"{self.feature_map}{j}" for j in range(n)]
        return np.asarray(names, dtype=object)

    def _recipe(self, people: People, subgroups: Mapping[str, str] | None) -> Recipe:
        """Check what a pass is asked to do, before it begins."""
        check_engine(self.engine)
        if not people.keys:
            raise InputError(
                "by is missing; name the column(s) of people that say which bag they belong to in crosslevel.People."
            )
        for column in self.columns_:
            if column not in people.schema.names:
                raise unknown_name("columns", column, people.schema.names)
        if not isinstance(subgroups, Mapping | None):
            raise InputError(f"subgroups={subgroups!r} is no mapping; pass subgroups={{'old': 'age >= 65'}}.")
        parts = {str(n): people.expression(text, f"subgroups[{n!r}]") for n, text in (subgroups or {}).items()}
        if ALL in parts:
            raise InputError(f"subgroups names {ALL!r}, which is everybody; choose another name.")
        if parts and SUBGROUP in people.keys:
            raise InputError(f"by names {SUBGROUP!r}, which is the key that subgroups add; rename that column.")
        return Recipe(self.encoder_, people.keys, people.weight_sql, parts)

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
            checks.check_positive(self.bandwidth, "bandwidth")
        n = checks.check_whole(self.n_features, "n_features", 1)
        if n % 2 and issubclass(MAPS[self.feature_map], FourierMap):
            raise InputError(
                f"n_features={n:,} is odd; the {self.feature_map} map makes a cosine and a sine of every frequency. Pass "
                f"{n + 1:,}."
            )

    def _draw(self, sample: Sample, seed: int) -> FeatureMap:
        d, n, bandwidth, points = self.n_inputs_, self.n_features, self.bandwidth, None
        if self.feature_map == "linear":
            return make_map("linear", d)
        if bandwidth == "median":
            X, weights = sample.weighted(N_SAMPLE)
            bandwidth = median_bandwidth(X, weights, N_SAMPLE)
        if self.feature_map in LANDMARKS:
            points = sample.different(n)
            if len(points) < n:
                raise InputError(
                    f"n_features={n:,} landmarks were asked for, but of the people drawn for them only {len(points):,} differ; pass fewer."
                )
        return make_map(self.feature_map, d, n, float(bandwidth), seed, points)


def _read(people: Any) -> People:
    """Give people; Bags become a table of their people, keyed by position."""
    if isinstance(people, People):
        return people
    if not isinstance(people, Bags | np.ndarray):
        raise InputError(
            f"people is a {type(people).__name__}; pass crosslevel.People(data, by=...) or crosslevel.Bags."
        )
    bags = as_bags(people, "people")
    values = checks.check_finite(bags.values[:], "people")
    columns = {name: values[:, j] for j, name in enumerate(bags.columns)}
    bag = np.repeat(np.arange(len(bags)), bags.sizes)
    return People(pa.table(columns | {BAG: bag, WEIGHT: bags.weights}), by=BAG, weight=WEIGHT)
