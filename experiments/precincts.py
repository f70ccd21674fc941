"""President 2020 in every American voting district: what each group of voters did, from counts alone, and how well districts are predicted.

    python experiments/precincts.py fit --data FOLDER                 # all districts: time, memory, scales, the nation by group
    python experiments/precincts.py held-out --data FOLDER            # a fifth of the districts predicted from the others, by state
    python experiments/precincts.py scatter --data FOLDER             # the same among fitted districts: scatter by state and votes
    python experiments/precincts.py exact --data FOLDER --state AL    # one state: collapsed and on points, against the matrix of all places

Composition: adults (VAP) of the census of 2020 by race, counted, not sampled. Totals: votes for Biden and Trump. Coordinates: the
centroid of the county. Effects: county and state. Nothing was chosen on the held-out districts.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

import crosslevel as cl
from crosslevel.ecological import collapsed
from crosslevel.numerics.quadrature import share_quantiles

GROUPS = {
    "white": ["White"],
    "hispanic": ["Hispanic"],
    "black": ["BlackAlone"],
    "asian": ["AsianAlone"],
    "native": ["NativeAlone"],
    "other": ["PacificAlone", "OtherAlone", "TwoOrMore"],
}
MOVED = {"02063": "02261", "02066": "02261"}
"""Counties of Alaska that were one when the centroids were made."""
SOME = ["OR", "WA", "MA", "ID", "MT", "NE", "NV", "ND", "SD", "AK", "PA", "WI", "NC", "GA"]
"""Ten states whose intervals are too short when held out, and four others."""
SIZES = [0, 50, 200, 500, 1000, np.inf]
FILE = "precincts/us_vtd_vap_cvap_president_2008_2024.parquet"


def read(data: Path, states: list[str] | None = None) -> pd.DataFrame:
    """Give districts with votes and adults: counts by group, votes, county and its centroid."""
    t = pd.read_parquet(data / FILE)
    if states:
        t = t[t["st"].isin(states)]
    out = pd.DataFrame({"vtd": t["GEOID20"].astype(str), "state": t["st"].astype(str)})
    for name, parts in GROUPS.items():
        out[name] = sum(t[f"V_20_VAP_NH_{part}"].astype(float) for part in parts)
    dem, rep = (t[f"E_20_PRES_{party}"].astype(float) for party in ("Dem", "Rep"))
    out["dem"], out["votes"], out["county"] = dem, dem + rep, out["vtd"].str[:5]
    centroids = pd.read_csv(data / "geometry" / "county_centroids.csv")
    centroids["county"] = centroids["fips"].astype(str).str.zfill(5)
    where = centroids.set_index("county")[["lon", "lat"]]
    found = where.reindex(out["county"].replace(MOVED)).to_numpy()
    out["lon"], out["lat"] = found.T
    used = (out["votes"] > 0) & (out[list(GROUPS)].sum(axis=1) > 0)
    print(f"{len(out):,} districts, {int(used.sum()):,} with votes and adults")
    return out[used].reset_index(drop=True)


def fit(places: pd.DataFrame, **parameters: Any) -> tuple[cl.EcologicalInference, dict[str, float]]:
    """Fit the model, with its time and memory."""
    groups = ["state", "county"] if places["state"].nunique() > 1 else "county"
    model = cl.EcologicalInference(group=groups, **parameters)
    wall, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        totals = cl.Places(places, by="vtd", successes="dem", trials="votes", coords=("lon", "lat"))
        model.fit(cl.GroupCounts({"race": list(GROUPS)}), totals)
    for one in said:
        print("warning:", one.message)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    spent = {"wall_s": time.perf_counter() - wall, "processor_s": time.process_time() - processor, "peak_gib": peak}
    return model, {"places": len(places), **spent}


def whole(data: Path, **parameters: Any) -> dict[str, Any]:
    """Fit all districts."""
    model, spent = fit(read(data), **parameters)
    found = model.model_.effects.B @ model.model_.fits[0].beta
    effects = dict(zip(model.model_.bins.describe()["race"], found.tolist(), strict=True))
    print(json.dumps({**spent, **model.convergence_, "effects": effects}, default=str), flush=True)
    begun = time.perf_counter()
    answer = model.estimate(by="race", rollup="all", n_draws=100)
    columns = ["race", "estimate", "std_error", "conf_low", "conf_high", "model_low", "model_high", "neighborhood"]
    return {
        **spent,
        **model.convergence_,
        "effects": effects,
        "answer_s": time.perf_counter() - begun,
        "nation": answer.to_frame("pandas")[columns].round(4).to_dict("records"),
    }


def limits_of(model: cl.EcologicalInference, new: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Predict districts: mean and sd of the logit of the rate, and whether the observed share lies in its interval."""
    at = model.predict_places(new, level=level).to_frame("pandas").set_index("vtd").loc[new["vtd"]].reset_index()
    low, high = special.logit(at["conf_low"]), special.logit(at["conf_high"])
    at["mean"], at["sd"] = 0.5 * (low + high), (high - low) / (2.0 * stats.norm.ppf(0.5 * (1.0 + level)))
    tail = 0.5 * (1.0 - level)
    votes, mean, variance = new["votes"].to_numpy(), at["mean"].to_numpy(), (at["sd"] ** 2).to_numpy()
    limits = share_quantiles(votes, mean, variance, [tail, 1 - tail])
    share = (new["dem"] / new["votes"]).to_numpy()
    at["inside"] = (limits[:, 0] <= share) & (share <= limits[:, 1])
    return at


def scatter(data: Path, seed: int = 0) -> dict[str, Any]:
    """How districts scatter about what is said of them, among those that ``held_out`` fits: a fifth of these predicted from the others."""
    places = read(data)
    fitted = np.random.default_rng(seed).permutation(len(places)) % 5 != 0
    places = places[fitted & places["state"].isin(SOME)].reset_index(drop=True)
    test = np.random.default_rng(seed + 1).permutation(len(places)) % 5 == 0
    model, spent = fit(places[~test], nugget_by="state")
    new = places[test].reset_index(drop=True)
    at = limits_of(model, new)
    p, votes = special.expit(at["mean"]), new["votes"]
    seen = special.logit((new["dem"] + 0.5) / (votes + 1.0))
    new["z"] = (seen - at["mean"]) / np.sqrt(at["sd"] ** 2 + 1.0 / (votes * p * (1.0 - p)))
    new["inside"], new["size"] = at["inside"], pd.cut(votes, SIZES).astype(str)

    def told(rows: pd.DataFrame) -> dict[str, float]:
        z = rows["z"].to_numpy()
        return {
            "n": len(z),
            "coverage": float(rows["inside"].mean()),
            "spread": float(np.sqrt(np.mean(z**2))),
            "excess_kurtosis": float(stats.kurtosis(z)),
        }

    return {**spent} | {by: {str(k): told(rows) for k, rows in new.groupby(by)} for by in ("size", "state")}


def held_out(data: Path, level: float = 0.95, seed: int = 0, **parameters: Any) -> dict[str, Any]:
    """Predict every fifth district, drawn at random, from the others."""
    places = read(data)
    test = np.random.default_rng(seed).permutation(len(places)) % 5 == 0
    model, spent = fit(places[~test], **parameters)
    new = places[test].reset_index(drop=True)
    at = limits_of(model, new, level)
    share = (new["dem"] / new["votes"]).to_numpy()
    trained = places[~test]
    means = trained.groupby("county")[["dem", "votes"]].sum().eval("dem / votes")
    county = means.reindex(new["county"]).fillna(trained["dem"].sum() / trained["votes"].sum()).to_numpy()
    new["error"], new["by_county"] = (at["estimate"].to_numpy() - share) ** 2, (county - share) ** 2
    new["inside"] = at["inside"]
    by_state = new.groupby("state").agg(
        n=("error", "size"), rmse=("error", "mean"), county=("by_county", "mean"), coverage=("inside", "mean")
    )
    by_state[["rmse", "county"]] = np.sqrt(by_state[["rmse", "county"]])
    return {
        **spent,
        **model.convergence_,
        "held_out": len(new),
        "rmse": float(np.sqrt(new["error"].mean())),
        "rmse_of_county_means": float(np.sqrt(new["by_county"].mean())),
        "coverage": float(new["inside"].mean()),
        "by_state": by_state.round(4).reset_index().to_dict("records"),
    }


def against_exact(data: Path, state: str, points: list[int]) -> dict[str, Any]:
    """Compare posteriors of districts with those of a fit whose covariance is the matrix of all of them."""
    places, out = read(data, [state]), {}

    def posterior(**parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        model, spent = fit(places, **parameters)
        at = model.predict_places()
        out[str(parameters or "collapsed")] = spent | {"scales": str(model.hyperparameters_[0])}
        return at["estimate"], at["std_error"]

    shipped = collapsed.collapse
    try:
        import crosslevel.ecological.persons.aggregate as aggregate

        aggregate.collapse = lambda terms: collapsed.Cells(  # type: ignore[attr-defined]
            np.arange(terms.n_places), replace(terms, nugget=False), terms.n_places
        )
        exact = posterior()
        out["matrix of all places"] = out.pop("collapsed")
    finally:
        aggregate.collapse = shipped  # type: ignore[attr-defined]
    for parameters in ({}, *({"inducing_points": m} for m in points)):
        mean, error = posterior(**parameters)
        out[str(parameters or "collapsed")] |= {
            "mean_rms_points": 100 * float(np.sqrt(np.mean((mean - exact[0]) ** 2))),
            "mean_largest_points": 100 * float(np.abs(mean - exact[0]).max()),
            "std_error_rms": float(np.sqrt(np.mean((error / exact[1] - 1) ** 2))),
            "std_error_largest": float(np.abs(error / exact[1] - 1).max()),
        }
    return out


def main() -> None:
    """Run one part and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["fit", "held-out", "scatter", "exact"])
    parser.add_argument("--data", type=Path, required=True, help="folder with precincts/ and geometry/")
    parser.add_argument("--state", default="AL", help="for exact")
    parser.add_argument("--points", type=int, nargs="*", default=[30, 50])
    parser.add_argument(
        "--nugget-by", help="a column such as state, for fit and held-out; one nugget for all when left out"
    )
    parser.add_argument("--inducing-points", type=int, help="carry the field by so many points, for fit and held-out")
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    given = parser.parse_args()
    parameters = {"nugget_by": given.nugget_by, "inducing_points": given.inducing_points}
    found = (
        whole(given.data, **parameters)
        if given.part == "fit"
        else held_out(given.data, **parameters)
        if given.part == "held-out"
        else scatter(given.data)
        if given.part == "scatter"
        else against_exact(given.data, given.state, given.points)
    )
    text = json.dumps(found, indent=1, default=str)
    print(text)
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
