"""Counts of small areas from those of large ones.

``source_file``, ``target_file`` (borders), ``source_codes``, ``target_codes``, ``parent`` (the large area of a small one), ``y`` and, where
it is known, ``population`` of the small ones in; the count of each small area out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]


def ours(given: Arrays) -> Answer:
    """Answer with the default."""
    return _ours(given)


def similar(given: Arrays) -> Answer:
    """Answer with the default, told that areas were drawn to hold as many people."""
    return _ours(given, "similar")


def _ours(given: Arrays, population: Any = None) -> Answer:
    import crosslevel as cl

    source = cl.Polygons(str(given["source_file"]), key="area_code", project="local")
    target = cl.Polygons(str(given["target_file"]), key="area_code", project=source)
    y = given["y"][np.searchsorted(given["source_codes"], source.names)]
    order = np.searchsorted(given["target_codes"], target.names)
    population = given["population"][order] if "population" in given else population
    found = cl.binned.interpolate(source, target, y, population=population)
    back = np.argsort(order)
    return tuple(found[name][back] for name in ("estimate", "conf_low", "conf_high"))


def by_people(given: Arrays) -> Answer:
    """Give small areas the rate of their large one; where nobody is counted, equal parts."""
    people = given.get("population", np.ones(len(given["parent"])))
    return ((given["y"] / np.bincount(given["parent"], people))[given["parent"]] * people,)


def _frames(given: Arrays) -> tuple[Any, Any]:
    """Read the borders with geopandas, in the order of the arrays."""
    import geopandas

    frames = [
        geopandas.read_file(str(given[f"{side}_file"])).set_index("area_code").loc[given[f"{side}_codes"].tolist()]
        for side in ("source", "target")
    ]
    source, target = (frame[["geometry"]].to_crs("EPSG:27700").reset_index(drop=True) for frame in frames)
    return source.assign(n=given["y"]), target


def tobler_area(given: Arrays) -> Answer:
    """Answer by tobler's area weighting."""
    from tobler.area_weighted import area_interpolate

    return (area_interpolate(*_frames(given), extensive_variables=["n"])["n"].to_numpy(),)


def tobler_pycno(given: Arrays) -> Answer:
    """Answer by tobler's pycnophylactic interpolation."""
    from tobler.pycno import pycno_interpolate

    return (pycno_interpolate(*_frames(given), variables=["n"], cellsize=100)["n"].to_numpy(),)
