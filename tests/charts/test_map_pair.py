from __future__ import annotations

import numpy as np

from crosslevel.charts import estimate_pair
from crosslevel.results import Estimates, Provenance


def feature(name, x):
    ring = [[x, 50], [x + 1, 50], [x + 1, 51], [x, 51], [x, 50]]
    return {"type": "Feature", "properties": {"region": name}, "geometry": {"type": "Polygon", "coordinates": [ring]}}


MAP = {"type": "FeatureCollection", "features": [feature("a", 0), feature("b", 1), feature("c", 2)]}


def shown(ax):
    return ax.collections[0].get_array()


def table(mean, sd, sexes=(1,)):
    columns = {
        "region": list(mean) * len(sexes),
        "sex": np.repeat(sexes, len(mean)),
        "estimate": np.concatenate([np.array(list(mean.values())) + 2 * i for i in range(len(sexes))]),
        "std_error": np.concatenate([np.array(list(sd.values())) + 0.2 * i for i in range(len(sexes))]),
    }
    columns |= {"conf_low": np.full(len(columns["sex"]), -9.0), "conf_high": np.full(len(columns["sex"]), 9.0)}
    told = {"method": "m", "level": 0.95, "interval": "credible", "provenance": Provenance.of(call="c")}
    return Estimates.build(columns, keys=["region", "sex"], **told)


ONE = table({"a": 1.0}, {"a": 1.0})


def test_mean_left_and_deviation_right_from_zero():
    left, right = estimate_pair(table({"b": 4.0, "a": -2.0}, {"b": 0.5, "a": 1.0}), MAP, label="people")
    np.testing.assert_allclose(shown(left)[:2], [-2.0, 4.0])
    np.testing.assert_allclose(shown(right)[:2], [1.0, 0.5])
    assert np.ma.getmaskarray(shown(left)).tolist() == [False, False, True]
    assert left.collections[0].get_clim() == (-2.0, 4.0)
    assert right.collections[0].get_clim() == (0.0, 1.0)
    assert left.collections[0].get_cmap().name != right.collections[0].get_cmap().name
    assert right.get_title(loc="left") == "sex 1 · standard deviation"
