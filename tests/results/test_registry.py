from __future__ import annotations

import pytest

from crosslevel.charts.intervals import intervals
from crosslevel.errors import InputError
from crosslevel.results import Estimates, registry


@pytest.fixture(autouse=True)
def _fresh_tables(monkeypatch):
    monkeypatch.setattr(registry, "_PLOTS", dict(registry._PLOTS))
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))


def test_every_registered_home_exists():
    assert all(callable(registry.find_plot(name)) for name in registry._PLOTS)
    for name in registry.kinds():
        assert {"to_payload", "from_payload"} <= set(dir(registry.find_kind(name)))
    assert registry.find_plot("intervals") is intervals
    assert registry.find_kind("estimates") is Estimates


def test_a_registered_plot_is_called_with_the_estimates(build):
    registry.register_plot("dots", lambda est, ax=None, **options: (est, ax, options))
    est = build()
    assert est.plot("dots", ax=1, size=2) == (est, 1, {"size": 2})


def test_unknown_plot_suggests_the_nearest(build):
    with pytest.raises(InputError, match="kind='interval' is not a plot.*Did you mean 'intervals'"):
        build().plot("interval")
    with pytest.raises(InputError, match="kind='estimate' is not a kind"):
        registry.find_kind("estimate")


def test_kind_of_knows_paths_and_classes(build):
    class Thing:
        pass

    assert registry.kind_of(build()) == "estimates"
    assert registry.kind_of(Thing()) is None
    registry.register_kind("thing", Thing)
    assert registry.kind_of(Thing()) == "thing"


@pytest.mark.parametrize("target", ["no_colon", "a:b:c", ":b", 3])
def test_a_target_that_points_nowhere_is_refused(target):
    with pytest.raises(InputError, match="does not say where the plot lives"):
        registry.register_plot("x", target)
    with pytest.raises(InputError, match="name='' is not a name"):
        registry.register_kind("", "a:b")
