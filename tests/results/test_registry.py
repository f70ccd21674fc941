from __future__ import annotations

import pytest

from crosslevel.charts import intervals
from crosslevel.errors import InputError
from crosslevel.results import registry


@pytest.fixture(autouse=True)
def _fresh_tables(monkeypatch):
    monkeypatch.setattr(registry, "_PLOTS", dict(registry._PLOTS))


def test_every_registered_home_exists():
    assert all(callable(registry.find_plot(name)) for name in registry._PLOTS)
    assert registry.find_plot("intervals") is intervals


def test_a_registered_plot_is_called_with_the_estimates(build):
    registry.register_plot("dots", lambda est, ax=None, **options: (est, ax, options))
    est = build()
    assert est.plot("dots", ax=1, size=2) == (est, 1, {"size": 2})


def test_unknown_plot_suggests_the_nearest(build):
    with pytest.raises(InputError, match="kind='interval' is not a plot.*Did you mean 'intervals'"):
        build().plot("interval")


@pytest.mark.parametrize("target", ["no_colon", "a:b:c", ":b", 3])
def test_a_target_that_points_nowhere_is_refused(target):
    with pytest.raises(InputError, match="does not say where the plot lives"):
        registry.register_plot("x", target)
    with pytest.raises(InputError, match="name='' is not a name"):
        registry.register_plot("", "a:b")
