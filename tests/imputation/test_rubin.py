import numpy as np
import pytest

from crosslevel.errors import InputError
from crosslevel.imputation.rubin import pool, pool_statistic, rubin


def test_rules_by_hand():
    Q, U = np.array([[2.0], [4.0], [3.0], [3.0]]), np.array([[1.0], [1.0], [2.0], [2.0]])
    found = rubin(Q, U)
    B = 2 / 3
    assert found.std_error[0] ** 2 == pytest.approx(1.5 + 1.25 * B)
    r = 1.25 * B / 1.5
    assert found.df[0] == pytest.approx(3 * (1 + 1 / r) ** 2)
    assert found.missing_information[0] == pytest.approx((r + 2 / (found.df[0] + 3)) / (r + 1))


def test_no_disagreement_leaves_the_complete_data_error():
    found = rubin(np.full((5, 1), 2.0), np.full((5, 1), 4.0), n_complete=10.0)
    assert found.std_error[0] == 2.0
    assert found.df[0] == pytest.approx(11 / 13 * 10)
    assert np.isinf(rubin(np.full((5, 1), 2.0), np.full((5, 1), 4.0)).df[0])


def test_intervals_cover_when_values_are_drawn_properly():
    # a normal sample with a third missing completely at random
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        seen = rng.normal(size=40)
        draws = []
        for _ in range(10):
            sd = seen.std(ddof=1) * np.sqrt(39 / rng.chisquare(39))
            mean = seen.mean() + sd / np.sqrt(40) * rng.normal()
            draws.append(np.concatenate([seen, rng.normal(mean, sd, 20)])[:, None])
        est = pool_statistic(np.array(draws), lambda u: (u.mean(), u.std(ddof=1) / np.sqrt(len(u))), n_complete=59)
        inside += est["conf_low"][0] <= 0 <= est["conf_high"][0]
    assert inside / 300 == pytest.approx(0.95, abs=0.035)


def test_several_statistics_have_names():
    est = pool([[1.0, 2.0], [2.0, 2.0]], [[0.1, 0.1], [0.1, 0.1]], names=["a", "b"])
    assert est["statistic"].tolist() == ["a", "b"]
    assert est["missing_information"][0] > est["missing_information"][1]


@pytest.mark.parametrize(
    ("Q", "U", "names"),
    [
        ([1.0], [1.0], None),
        ([1.0, 2.0], [[1.0], [1.0], [1.0]], None),
        ([1.0, np.nan], [1.0, 1.0], None),
        ([1.0, 2.0], [1.0, -1.0], None),
        ([1.0, 2.0], [1.0, 1.0], ["a", "b"]),
        (np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), None),
    ],
)
def test_bad_input(Q, U, names):
    with pytest.raises(InputError):
        pool(Q, U, names=names)
