import numpy as np
import pytest
from scipy.linalg import hadamard

from crosslevel.errors import InputError
from crosslevel.numerics.features.maps import fwht, next_power_of_two


@pytest.mark.parametrize("width", [1, 2, 4, 8, 64, 256])
def test_equals_the_sylvester_matrix(width: int) -> None:
    x = np.random.default_rng(width).standard_normal((3, 2, width))
    np.testing.assert_allclose(fwht(x), x @ hadamard(width), rtol=0, atol=1e-11)


def test_twice_is_the_width_times_the_input_and_the_input_is_untouched() -> None:
    x = np.random.default_rng(0).standard_normal((5, 128))
    kept = x.copy()
    np.testing.assert_allclose(fwht(fwht(x)), 128 * x, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("shape", [(3,), (2, 6), (0,), ()])
def test_refuses_widths_that_are_no_power_of_two(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        fwht(np.zeros(shape))


def test_next_power_of_two() -> None:
    assert [next_power_of_two(n) for n in (1, 2, 3, 4, 5, 4096, 4097)] == [1, 2, 4, 4, 8, 4096, 8192]
    with pytest.raises(InputError, match="n="):
        next_power_of_two(0)
