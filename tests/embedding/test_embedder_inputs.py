"""What people may be made of, and what is said when something is wrong."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosslevel.data.batches import open_batches
from crosslevel.embedding import MeanEmbedding
from crosslevel.errors import CrosslevelWarning, InputError

N = 60
RNG = np.random.default_rng(0)
BASE = {"k": [f"k{i % 4}" for i in range(N)], "x": RNG.normal(size=N), "w": RNG.random(N) + 0.1}


def table(**columns):
    return pa.table({**BASE, **columns})


def linear(people, fit=None, **options):
    """Embed with the linear map: name of each encoded column -> its means."""
    fitted = MeanEmbedding(feature_map="linear", **options).fit(people if fit is None else fit, by="k", weight="w")
    return dict(zip(fitted.get_feature_names_out(), fitted.transform(people).values.T, strict=True))


def shares(values):
    w, k = np.asarray(BASE["w"]), np.asarray(BASE["k"])
    return [
        np.average(np.asarray(values, dtype=float)[k == key], weights=w[k == key]) for key in sorted(set(BASE["k"]))
    ]


SOME = [["a", "b", None][i] for i in RNG.integers(0, 3, N)]
CODES = RNG.integers(1, 4, N)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(SOME, pa.string()),
        pa.array(SOME, pa.large_string()),
        pa.array(SOME).dictionary_encode(),
        pa.DictionaryArray.from_arrays(
            pa.array([{"a": 3, "b": 0, None: 1}[v] for v in SOME], pa.int8()), pa.array(["b", None, "unused", "a"])
        ),
    ],
)
def test_missing_is_a_level(values):
    found = linear(table(c=values))
    assert [n for n in found if n.startswith("c")] == ["c=a", "c=b", "c=missing"]
    for level, name in (("a", "c=a"), ("b", "c=b"), (None, "c=missing")):
        np.testing.assert_allclose(found[name], shares([v == level for v in SOME]), rtol=1e-6)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float32", "double"])
def test_codes_of_any_width(kind):
    found = linear(table(c=pa.array(CODES, kind)), categorical=["c"])
    for code in (1, 2, 3):
        name = next(n for n in found if n.startswith(f"c={code}"))
        np.testing.assert_allclose(found[name], shares([c == code for c in CODES]), rtol=1e-6)
    assert sum(n.startswith("c=") for n in found) == 3


def test_dictionaries_may_differ_between_batches():
    halves = [pa.array(SOME[:25]).dictionary_encode(), pa.array(SOME[25:][::-1]).dictionary_encode()]
    cuts = [table().slice(0, 25), table().slice(25)]
    pieces = [t.append_column("c", pa.chunked_array([h])) for t, h in zip(cuts, halves, strict=True)]
    plain = table(c=SOME[:25] + SOME[25:][::-1])
    expected = linear(plain)
    for people in (pieces, lambda: (b for t in pieces for b in t.to_batches(10)), pa.concat_tables(pieces)):
        found = linear(people)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


def test_an_unseen_level_names_column_value_and_row(tmp_path):
    later = table(c=["a"] * 50 + ["b"] * 9 + ["new"])
    fitted = MeanEmbedding(8).fit(table(c=["a", "a", "b"] * 20), by="k", weight="w")
    pq.write_table(later, tmp_path / "p.parquet", row_group_size=25)
    for people in (later, tmp_path / "p.parquet", lambda: later.to_batches(7)):
        with pytest.raises(InputError):
            fitted.transform(people)
    found = linear(later, fit=table(c=["a", "a", "b"] * 20), unknown="ignore")
    np.testing.assert_allclose(found["c=b"], shares([50 <= i < 59 for i in range(N)]), rtol=1e-6)
    nulls = table(c=["a"] * 59 + [None])
    with pytest.raises(InputError):
        fitted.transform(nulls)


def test_constant_columns_are_left_out_and_said():
    people = table(one=["a"] * N, none=pa.nulls(N), empty=pa.nulls(N, pa.float64()))
    with pytest.warns(CrosslevelWarning):
        fitted = MeanEmbedding(8).fit(people, by="k", weight="w")
    assert fitted.columns_ == ("x",)
    assert "'one'" in fitted.warnings_[0]


def test_columns_that_tell_the_place_are_left_out_or_kept_on_request():
    people = table(state=[f"s{i % 2}" for i in range(N)])
    with pytest.warns(CrosslevelWarning):
        fitted = MeanEmbedding(8).fit(people, by="k", weight="w")
    assert fitted.columns_ == ("x",)
    with pytest.warns(CrosslevelWarning):
        kept = MeanEmbedding(8).fit(people, by="k", weight="w", columns=["x", "state"])
    assert kept.columns_ == ("x", "state")
    with pytest.raises(InputError):
        MeanEmbedding(8).fit(people.drop_columns("x"), by="k", weight="w")


def test_keys_that_are_missing_or_of_odd_kinds():
    fitted = MeanEmbedding(8).fit(table(), by="k", weight="w")
    holes = table().set_column(0, "k", pa.array([*BASE["k"][:-1], None]))
    with pytest.raises(InputError, match="by="):
        fitted.transform(holes)
    days = [datetime.date(2020, 1, 1 + i % 3) for i in range(N)]
    people = table(day=days, flag=CODES == 1, code=pa.array(SOME).fill_null("z").dictionary_encode())
    for by, n in (("day", 3), ("flag", 2), ("code", 3), (["day", "flag"], 6), (["code", "k"], 12)):
        found = fitted.transform(people, by=by)
        assert len(found) == n
        assert found.n_rows.sum() == N


def test_bad_settings_are_refused_before_the_people_are_read():
    def never():
        raise AssertionError("the people were read")
        yield

    for options in (
        {"n_features": 7},
        {"n_features": 0},
        {"n_features": 8.0},
        {"feature_map": "fastfod"},
        {"bandwidth": "mean"},
        {"bandwidth": -1.0},
        {"bandwidth": np.nan},
        {"unknown": "skip"},
        {"random_state": -1},
        {"engine": "gpu"},
        {"engine": 3},
        {"feature_map": "linear", "n_features": 8},
        {"feature_map": "linear", "bandwidth": 2.0},
    ):
        with pytest.raises(InputError):
            MeanEmbedding(**options).fit(never, by="k")
    with pytest.raises(InputError, match="n_jobs="):
        MeanEmbedding(8, n_jobs=0).fit(table(), by="k")
    with pytest.raises(InputError, match="n_features="):
        MeanEmbedding(100, "nystrom").fit(table(), by="k")
    assert MeanEmbedding(7, "landmarks").fit(table(), by="k").transform(table()).shape == (4, 7)


def test_a_reader_can_be_embedded_after_a_fit_elsewhere():
    fitted = MeanEmbedding(8).fit(table(), by="k", weight="w")
    found = fitted.transform(table().to_reader(max_chunksize=7))
    np.testing.assert_array_equal(found.values, fitted.transform(table()).values)
    with pytest.raises(InputError):
        once = open_batches(table().to_reader())
        MeanEmbedding(8).fit(once, by="k", weight="w").transform(once)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {"by": "kk"}),
        ({}, {"weight": "ww"}),
        ({}, {"columns": ["x", "xx"]}),
        ({}, {"columns": "x"}),
        ({}, {"columns": ["k", "x"]}),
        ({}, {"columns": ["w", "x"]}),
        ({}, {"where": "agee > 3"}),
        ({}, {"where": "x > 1e9"}),
        ({"categorical": ["sx"]}, {}),
    ],
)
def test_what_cannot_be_fitted_is_refused(settings, options):
    with pytest.raises(InputError):
        MeanEmbedding(8, **settings).fit(table(), **{"by": "k", "weight": "w"} | options)


@pytest.mark.parametrize(
    "options",
    [
        {"by": "kk"},
        {"by": []},
        {"weight": "ww"},
        {"where": "x > 1e9"},
        {"subgroups": {"s": "xx > 0"}},
        {"subgroups": {"all": "x > 0"}},
    ],
)
def test_what_cannot_be_embedded_is_refused(options):
    fitted = MeanEmbedding(8).fit(table(), by="k", weight="w")
    with pytest.raises(InputError):
        fitted.transform(table(), **options)


@pytest.mark.parametrize("last", [None, np.nan, -1.0])
def test_bad_weights_are_refused(last):
    people = table().set_column(2, "w", pa.array([1.0] * 59 + [last]))
    with pytest.raises(InputError):
        MeanEmbedding(8).fit(people, by="k", weight="w")
    with pytest.raises(InputError):
        MeanEmbedding(8).fit(table(), by="k", weight="w").transform(people)
