"""Parts and rests: they make up the place, by weight, embedding and Kish size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.ecological.regression.parts import EmbeddedPartition, cut
from crosslevel.ecological.subgroups import REST, Request, read_request
from crosslevel.embedding import Embeddings
from crosslevel.errors import InputError

TOWNS = ["a", "b", "c", "d"]


def people(seed: int = 0, n: int = 400) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "town": rng.integers(0, 4, n),
        "sex": rng.integers(1, 3, n),
        "age": rng.choice(["old", "young"], n),
        "w": rng.uniform(0.2, 3, n),
        "phi": rng.normal(size=(n, 5)),
    }


def bag(who: dict[str, np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, float, int, float]:
    w = who["w"][rows]
    return w @ who["phi"][rows] / w.sum(), w.sum(), len(w), w.sum() ** 2 / (w**2).sum()


def embed(
    who: dict[str, np.ndarray], groups: list[tuple[tuple[object, ...], np.ndarray]], names: list[str]
) -> Embeddings:
    kept = [(key, np.flatnonzero(rows)) for key, rows in groups if rows.any()]
    values, weight, n, kish = zip(*(bag(who, rows) for _, rows in kept), strict=True)
    table = pa.table({name: [key[j] for key, _ in kept] for j, name in enumerate(names)})
    return Embeddings(np.array(values), table, np.array(weight), np.array(n), np.array(kish))


def whole_of(who: dict[str, np.ndarray]) -> Embeddings:
    return embed(who, [((t,), who["town"] == i) for i, t in enumerate(TOWNS)], ["town"])


def check(part: EmbeddedPartition, who: dict[str, np.ndarray], members: list[np.ndarray]) -> None:
    """Compare every part with its people: members[level], and the rest."""
    M = part.vectors(np.arange(len(part.place)))
    for j, (i, level) in enumerate(zip(part.place, part.level, strict=True)):
        here = who["town"] == i
        rows = here & (members[level] if level != REST else ~np.any(members, axis=0))
        mean, weight, _, kish = bag(who, np.flatnonzero(rows))
        np.testing.assert_allclose(M[j], mean, rtol=1e-9, atol=1e-10)
        assert part.weight[j] == pytest.approx(weight)
        assert part.share[j] == pytest.approx(weight / who["w"][here].sum())
        assert part.effective[j] == pytest.approx(kish, rel=1e-9)
    np.testing.assert_allclose(np.bincount(part.place, part.share), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(part.asked, part.level != REST)


def test_levels_of_a_column_are_everybody() -> None:
    who = people()
    found = embed(
        who,
        [((t, s), (who["town"] == i) & (who["sex"] == s)) for i, t in enumerate(TOWNS) for s in (1, 2)],
        ["town", "sex"],
    )
    (part,) = cut(found, Request(("sex",), {}, None), whole_of(who), TOWNS)
    assert not (part.level == REST).any()
    assert part.levels["sex"].to_pylist() == [1, 2]
    check(part, who, [who["sex"] == 1, who["sex"] == 2])


def test_two_columns_and_a_filter_leave_a_rest() -> None:
    who = people()
    who["sex"][(who["town"] == 3)] = 1  # no women in d: everybody is the rest there
    groups = [
        ((t, s, a), (who["town"] == i) & (who["sex"] == s) & (who["age"] == a))
        for i, t in enumerate(TOWNS)
        for s in (2,)
        for a in ("old", "young")
    ]
    found = embed(who, groups, ["town", "sex", "age"])
    (part,) = cut(found, Request(("sex", "age"), {}, "sex == 2"), whole_of(who), TOWNS)
    assert part.levels.to_pylist() == [{"sex": 2, "age": "old"}, {"sex": 2, "age": "young"}]
    check(part, who, [(who["sex"] == 2) & (who["age"] == a) for a in ("old", "young")])
    assert part.level[part.place == 3].tolist() == [REST]


def test_named_subgroups_may_overlap() -> None:
    who = people()
    queries = {"women": who["sex"] == 2, "old": who["age"] == "old", "none": np.zeros(400, bool)}
    groups = [((t, name), (who["town"] == i) & rows) for i, t in enumerate(TOWNS) for name, rows in queries.items()]
    found = embed(who, groups, ["town", "subgroup"])
    parts = cut(found, Request((), dict.fromkeys(queries, "..."), None), whole_of(who), TOWNS)
    assert [p.levels["subgroup"].to_pylist() for p in parts] == [["women"], ["old"], ["none"]]
    check(parts[0], who, [queries["women"]])
    check(parts[1], who, [queries["old"]])
    assert not parts[2].asked.any()


def test_a_where_alone_is_one_subgroup() -> None:
    who = people()
    found = embed(who, [((t,), (who["town"] == i) & (who["sex"] == 2)) for i, t in enumerate(TOWNS)], ["town"])
    (part,) = cut(found, Request((), {}, "sex == 2"), whole_of(who), TOWNS)
    assert part.levels.to_pylist() == [{"subgroup": "sex == 2"}]
    check(part, who, [who["sex"] == 2])


def test_places_left_out_of_the_fit_are_left_out_here() -> None:
    who = people()
    found = embed(
        who,
        [((t, s), (who["town"] == i) & (who["sex"] == s)) for i, t in enumerate(TOWNS) for s in (1, 2)],
        ["town", "sex"],
    )
    whole = whole_of(who)
    kept = ["d", "b"]
    fewer = Embeddings(
        whole.values[[3, 1]],
        pa.table({"town": kept}),
        whole.weight[[3, 1]],
        whole.n_rows[[3, 1]],
        whole.effective_size[[3, 1]],
    )
    (part,) = cut(found, Request(("sex",), {}, None), fewer, kept)
    assert len(part.place) == 4
    who["town"] = np.select([who["town"] == 3, who["town"] == 1], [0, 1], -1)
    check(part, who, [who["sex"] == 1, who["sex"] == 2])


def test_everybody_leaves_no_rest_in_spite_of_rounding() -> None:
    who = people()
    whole = whole_of(who)
    found = Embeddings(whole.values, whole.key_table, whole.weight * (1 - 1e-13), whole.n_rows, whole.effective_size)
    (part,) = cut(found, Request((), {}, "age >= 0"), whole, TOWNS)
    np.testing.assert_array_equal(part.level, 0)
    np.testing.assert_array_equal(part.share, 1.0)


def test_bad_requests() -> None:
    for asked in (
        (None, None),
        (["sex", "town"], None),
        ("subgroup", None),
        (None, "sex == 2"),
        (None, {65: "age > 64"}),
    ):
        with pytest.raises(InputError):
            read_request(*asked, None, "town")  # type: ignore[arg-type]
    assert read_request("sex", {"old": "age > 64"}, "age > 17", "town") == Request(
        ("sex",), {"old": "age > 64"}, "age > 17"
    )
