"""Effects, their priors and who lives where: array functions against loops over people."""

import numpy as np
import pyarrow as pa
import pytest

from crosslevel.data.columns import Category, Encoder, Number
from crosslevel.data.place_cells import Bins, Pairs
from crosslevel.ecological.persons import model

COLUMNS = (
    Category("sex", pa.array(["f", "m"]), False),
    Number("age", 40.0, 10.0, True),
    Category("race", pa.array(["a", "b", "c"]), False),
)
BINS = Bins(Encoder(COLUMNS), {"age": np.array([-1.0, 0.0, 1.0])})  # four bins and a level for missing
CELLS = np.array([[0, 0, 0], [1, 4, 2], [0, 3, 1], [1, 2, 0]], dtype=np.int32)
PAIRS = Pairs(np.array([0, 3, 5]), np.array([0, 1, 3, 1, 2], dtype=np.int32), np.array([0.5, 0.3, 0.2, 0.6, 0.4]))


@pytest.fixture
def effects():
    return model.effects_of(BINS, [("age", "race"), ("race", "sex")])


def test_effects_are_numbered_column_by_column_and_pair_by_pair(effects):
    assert effects.sizes == (2, 5, 3)
    assert effects.pairs == ((1, 2), (2, 0))
    assert effects.widths == [2, 5, 3, 15, 6]
    assert effects.first.tolist() == [0, 2, 7, 10, 25]
    assert effects.columns == [(0, 2), (2, 7), (7, 10)]
    assert effects.names(["sex", "age", "race"]) == ["sex", "age", "race", "age x race", "race x sex"]
    for cell, codes in zip(CELLS, effects.codes(CELLS), strict=True):
        sex, age, race = cell.tolist()
        assert codes.tolist() == [sex, 2 + age, 7 + race, 10 + age * 3 + race, 25 + race * 2 + sex]


def test_priors_of_effects(effects):
    """Categories and missing values independent, bins a trend and a curve of width .35 from -1 to 1, pairs a quarter."""
    expected = np.eye(31)
    x = np.array([-1.0, -1 / 3, 1 / 3, 1.0])
    for i in range(4):
        for j in range(4):
            expected[2 + i, 2 + j] = x[i] * x[j] + np.exp(-((x[i] - x[j]) ** 2) / (2 * 0.35**2))
    expected[10:, 10:] *= 0.25
    np.testing.assert_allclose(effects.B @ effects.B.T, expected, atol=1e-8)


def test_two_bins_have_no_curve_and_three_have_one():
    B = model.effects_of(Bins(Encoder(COLUMNS[1:2]), {"age": np.array([0.0])})).B
    np.testing.assert_array_equal(B, np.eye(3))
    B = model.effects_of(Bins(Encoder(COLUMNS[1:2]), {"age": np.array([0.0, 1.0])})).B
    one, two = np.exp(-0.5 / 0.35**2), np.exp(-2.0 / 0.35**2)
    expected = [[2.0, one, two - 1.0, 0.0], [one, 1.0, one, 0.0], [two - 1.0, one, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    np.testing.assert_allclose(B @ B.T, expected, atol=1e-8)


def test_pairs_of_levels_are_numbered_behind_all_others(effects):
    found = model.Kinds(effects, CELLS, PAIRS, [(0, 1), (1, 2)]).codes
    np.testing.assert_array_equal(found[:, :5], effects.codes(CELLS))
    for (sex, age, race), row in zip(CELLS.tolist(), found.tolist(), strict=True):
        assert row[5:] == [31 + sex * 5 + age, 31 + 10 + age * 3 + race]


def test_logits_of_cells_add_up_their_effects(effects):
    beta = np.random.default_rng(0).normal(size=(2, 31))
    design = model.Design(effects.codes(CELLS), effects.B, PAIRS)
    expected = np.array([[(effects.B @ b)[c].sum() for c in effects.codes(CELLS)] for b in beta])
    np.testing.assert_allclose(design.eta(beta), expected, rtol=1e-12)
    np.testing.assert_allclose(design.eta(beta[0]), expected[0], rtol=1e-12)


def test_shares_are_means_over_people(effects):
    codes = effects.codes(CELLS)
    expected = np.zeros((2, 31))
    for place, some in ((0, slice(0, 3)), (1, slice(3, 5))):
        for cell, weight in zip(PAIRS.cell[some], PAIRS.weight[some], strict=True):
            for code in codes[cell]:
                expected[place, code] += weight
    np.testing.assert_allclose(model.level_shares(PAIRS, codes, 31), expected, rtol=1e-14)
