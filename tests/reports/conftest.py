"""Results by place that pages are made of, and a map of squares."""

from __future__ import annotations

import numpy as np
import pytest

from crosslevel.results import Estimates, Provenance


def squares(names, key="region", **properties):
    """A row of unit squares far from the ranges of longitude and latitude."""
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {key: name, **{k: v[i] for k, v in properties.items()}},
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [[[x, 0], [x + 100, 0], [x + 100, 100], [x, 100], [x, 0]]],
                },
            }
            for i, (name, x) in enumerate(zip(names, range(1000, 1000 + 100 * len(names), 100), strict=True))
        ],
    }


def by_place(places, subgroups=("men", "women", "others"), key="region", who="who", seed=0, **options):
    """Estimates for each subgroup of each place, with the columns of ecological inference."""
    rng = np.random.default_rng(seed)
    n = len(places) * len(subgroups)
    estimate = rng.uniform(0.25, 0.75, n)
    columns = {
        key: np.repeat(np.array(places, dtype=object), len(subgroups)),
        who: np.tile(np.array(subgroups, dtype=object), len(places)),
        "estimate": estimate,
        "std_error": rng.uniform(0.01, 0.05, n),
        "conf_low": estimate - 0.1,
        "conf_high": estimate + 0.1,
        "bound_low": estimate - 0.2,
        "bound_high": estimate + 0.2,
        "neighborhood": rng.uniform(0.25, 0.75, n),
        "goodman": rng.uniform(0.25, 0.75, n),
        "population": rng.uniform(1e3, 1e5, n),
        "effective_size": rng.uniform(1, 50, n),
        "shift": rng.uniform(0, 1, n),
        "model_low": estimate - 0.05,
        "model_high": estimate + 0.05,
    }
    told = {"method": "distribution regression", "level": 0.95, "interval": "posterior quantiles"} | options
    provenance = told.pop("provenance", Provenance.of(call="example()"))
    return Estimates.build(columns, keys=[key, who], provenance=provenance, **told)


@pytest.fixture(name="squares")
def _squares():
    return squares


@pytest.fixture(name="by_place")
def _by_place():
    return by_place
