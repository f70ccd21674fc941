"""Both sides of every row in Python: a world in, {"estimate", "low", "high"} out. The sides in R are in ``sides.R``."""

from __future__ import annotations

from typing import Any

import numpy as np

from peer_sides.worlds import COLUMNS, World, squares

Answer = dict[str, Any]


def ours_features(w: World) -> Answer:
    import pyarrow as pa

    import crosslevel as cl

    table = pa.table({"g": w["all_group"], **{f"x{j}": w["all_x"][:, j] for j in range(5)}})
    few = pa.table({"g": w["group"], **{f"x{j}": w["x"][:, j] for j in range(5)}})
    people = cl.People(table, by="g")
    emb = cl.MeanEmbedding(n_features=2048, bandwidth=2.0, random_state=0).fit(people)
    emb.transform(people)
    values = emb.transform(people.with_data(few)).values
    return {"estimate": values @ values.T}


def peer_features(w: World) -> Answer:
    from sklearn.kernel_approximation import RBFSampler

    sampler = RBFSampler(gamma=1 / 8.0, n_components=2048, random_state=0).fit(w["all_x"][:2])

    def means(x: np.ndarray, g: np.ndarray) -> np.ndarray:
        total = np.zeros((20, 2048))
        for i in range(0, len(x), 10_000):
            member = (g[i : i + 10_000, None] == np.arange(20)).astype(float)
            total += member.T @ sampler.transform(x[i : i + 10_000])
        return total / np.bincount(g, minlength=20)[:, None]

    means(w["all_x"], w["all_group"])
    values = means(w["x"], w["group"])
    return {"estimate": values @ values.T}


def ours_curve(w: World) -> Answer:
    import crosslevel as cl

    model = cl.KRLS().fit(w["x"], w["y"])
    model.effects()
    mean, std = model.predict(w["new"], return_std=True)
    return {"estimate": mean, "low": mean - 1.96 * std, "high": mean + 1.96 * std}


def peer_curve(w: World) -> Answer:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    grid = GridSearchCV(KernelRidge(kernel="rbf", gamma=1 / 3), {"alpha": np.logspace(-2, 2, 9)}, cv=5)
    return {"estimate": grid.fit(w["x"], w["y"]).predict(w["new"])}


def ours_means(w: World) -> Answer:
    import pandas as pd

    import crosslevel as cl

    columns = {"age": w["age"].astype(int).astype(str), "school": w["school"].astype(int).astype(str)}
    people = cl.People(pd.DataFrame({**columns, "place": w["place"]}), by="place")
    places = cl.Places({"place": np.arange(60), "ill": w["share"]}, by="place", means=["ill"])
    found = cl.CrossLevelImputer().fit(people, places).estimate(by="age").to_frame("pandas")
    found = found.sort_values(found.columns[found.columns.get_loc("estimate") - 1])
    return {"estimate": found["estimate"], "low": found["conf_low"], "high": found["conf_high"]}


def peer_means(w: World) -> Answer:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    person = np.column_stack([w["age"], w["school"], np.full(6000, np.nan)])
    of_place = np.column_stack([np.bincount(w["place"], w[c]) / 100 for c in ("age", "school")] + [w["share"]])
    filled = IterativeImputer(
        random_state=0, min_value=[-np.inf, -np.inf, 0.0], max_value=[np.inf, np.inf, 1.0]
    ).fit_transform(np.concatenate([of_place, person]))[60:, 2]
    return {"estimate": [filled[w["age"] == a].mean() for a in range(6)]}


def ours_bins(w: World) -> Answer:
    import crosslevel as cl

    gp = cl.BinnedGP(kernel="eq").fit(cl.Intervals(w["edges"][:-1], w["edges"][1:]), w["y"], quantity="total")
    mean, std = gp.predict(w["points"], quantity="density", return_std=True)
    return {"estimate": mean, "low": mean - 1.96 * std, "high": mean + 1.96 * std}


def peer_gpy(w: World) -> Answer:
    import GPy

    kernel = GPy.kern.Integral_Limits(input_dim=2, variances=1.0, lengthscale=10.0)
    model = GPy.models.GPRegression(np.column_stack([w["edges"][1:], w["edges"][:-1]]), w["y"][:, None], kernel)
    model.optimize()
    mean, variance = model.predict_noiseless(
        np.column_stack([w["points"], w["points"]])
    )  # of the density, not of integrals
    mean, std = mean[:, 0], np.sqrt(np.maximum(variance[:, 0], 0))
    return {"estimate": mean, "low": mean - 1.96 * std, "high": mean + 1.96 * std}


def _table(found: Any) -> Answer:
    return {"estimate": found["estimate"], "low": found["conf_low"], "high": found["conf_high"]}


def _counts(w: World) -> Any:
    import crosslevel as cl

    names = {side: [f"{side} {j}" for j in range(w[side].shape[1])] for side in ("groups", "outcomes")}
    data = {name: w[side][:, j] for side, own in names.items() for j, name in enumerate(own)}
    return cl.Counts(data, **names)


def ours_king(w: World) -> Answer:
    import crosslevel as cl

    return _table(cl.ecological.king(_counts(w)))


def peer_king(w: World) -> Answer:
    from pyei.two_by_two import TwoByTwoEI

    people = w["groups"].sum(axis=1)
    model = TwoByTwoEI("king99_pareto_modification", pareto_scale=15, pareto_shape=2)
    model.fit(w["groups"][:, 0] / people, w["outcomes"][:, 0] / people, people, **SAMPLING)
    draws = np.asarray(model.sampled_voting_prefs)
    draws = draws if draws.shape[0] == 2 else draws.T
    return _of_draws(np.stack([draws, 1 - draws], axis=1).reshape(4, -1))


def ours_dirichlet(w: World) -> Answer:
    import crosslevel as cl

    return _table(cl.ecological.multinomial_dirichlet(_counts(w), contextual_slope=(0, 0)))


def peer_dirichlet(w: World) -> Answer:
    from pyei.r_by_c import RowByColumnEI

    people = w["groups"].sum(axis=1)
    model = RowByColumnEI("multinomial-dirichlet")
    model.fit((w["groups"] / people[:, None]).T, (w["outcomes"] / people[:, None]).T, people, **SAMPLING)
    draws = np.asarray(model.sampled_voting_prefs)  # (n_draws, R, C)
    return _of_draws(draws.reshape(len(draws), -1).T)


def ours_rxc(w: World) -> Answer:
    import crosslevel as cl

    return _table(cl.ecological.rxc(_counts(w), kind="demographic"))


SAMPLING: dict[str, Any] = {
    "draws": 1000,
    "tune": 1000,
    "chains": 2,
    "cores": 1,
    "target_accept": 0.9,
    "random_seed": 0,
    "progressbar": False,
}


def _of_draws(draws: np.ndarray) -> Answer:
    low, high = np.quantile(draws, [0.025, 0.975], axis=1)
    return {"estimate": draws.mean(axis=1), "low": low, "high": high}


def ours_survey(w: World) -> Answer:
    import pandas as pd

    import crosslevel as cl

    people, asked = (pd.DataFrame({c: w[f"{name}_{c}"] for c in (*COLUMNS, "region")}) for name in ("people", "asked"))
    people["weight"], asked["voted"] = w["people_weight"], w["asked_y"]
    places = pd.DataFrame({"region": w["place_region"], **{c: w[c] for c in ("dem", "votes", "lon", "lat")}})
    model = cl.EcologicalInference().fit(
        cl.People(people, by="region", weight="weight", columns=list(COLUMNS)),
        cl.Places(places, by="region", successes="dem", trials="votes", coords=("lon", "lat")),
        cl.Survey(asked, outcome="voted", by="region"),
    )
    found = [model.estimate(by=c, rollup="all").to_frame("pandas").sort_values(c) for c in COLUMNS]
    return {
        key: np.concatenate([f[name] for f in found])
        for key, name in (("estimate", "estimate"), ("low", "conf_low"), ("high", "conf_high"))
    }


def ours_areas(w: World) -> Answer:
    import crosslevel as cl

    source, target = (cl.Polygons(squares(w[n])) for n in ("source", "target"))
    found = cl.binned.interpolate(source, target, w["y"])
    return {"estimate": found["estimate"], "low": found["conf_low"], "high": found["conf_high"]}


def _frames(w: World) -> tuple[Any, Any]:
    import geopandas
    from shapely.geometry import Polygon

    source, target = (
        geopandas.GeoDataFrame(geometry=[Polygon(s) for s in squares(w[n])], crs="EPSG:3857")
        for n in ("source", "target")
    )
    source["n"] = w["y"]
    return source, target


def peer_area(w: World) -> Answer:
    from tobler.area_weighted import area_interpolate

    return {"estimate": area_interpolate(*_frames(w), extensive_variables=["n"])["n"]}


def peer_pycno(w: World) -> Answer:
    from tobler.pycno import pycno_interpolate

    return {"estimate": pycno_interpolate(*_frames(w), variables=["n"], cellsize=1)["n"]}
