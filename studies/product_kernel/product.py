"""The multiplicative covariance of Flaxman, Wang and Smola (KDD 2015) against the sum, on regions left out of the election of 2024.

CROSSLEVEL_DATA=... python studies/product_kernel/product.py [--features 2048] [--quick]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from process import Process
from sklearn.model_selection import KFold

import crosslevel as cl
from crosslevel.numerics.quadrature import logistic_mean

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))
from us2024_data import CATEGORICAL, COLUMNS, data_folder, read_people, read_regions


def regions(n_features: int) -> dict[str, np.ndarray]:
    """Give embeddings, coordinates and votes of the regions."""
    folder = data_folder()
    people, places = read_people(folder / "us2024" / "persons"), read_regions(folder)
    embedder = cl.MeanEmbedding(n_features, categorical=list(CATEGORICAL), random_state=0)
    found = embedder.fit(people, by="region", weight="weight", columns=list(COLUMNS)).transform(people)
    rows = {key: i for i, key in enumerate(found.key_table["region"].to_pylist())}
    order = [rows[key] for key in places["region"].to_pylist()]
    M, weight = found.values[order], found.weight[order]
    coords = np.column_stack([np.asarray(places[name]) for name in ("lon", "lat")])
    k, n = (np.asarray(places[name], dtype=float) for name in ("votes_dem_2024", "votes"))
    return {"M": M - weight @ M / weight.sum(), "coords": coords, "k": k, "n": n}


def left_out(world: dict[str, np.ndarray], product: bool, folds: int) -> float:
    """Give the root mean square error of regions predicted from the other folds, scales learned in each."""
    M, coords, k, n = (world[name] for name in ("M", "coords", "k", "n"))
    A, predicted = np.eye(len(M)), np.zeros(len(M))
    for kept, test in KFold(folds, shuffle=True, random_state=0).split(M):
        fitted = Process(M[kept], A[kept], coords, k[kept], n[kept], product).fit()
        mean, K = fitted.predict(M[test], A[test])
        predicted[test] = logistic_mean(mean, np.diag(K))
        print(f"  fold of {len(test)}: scales {np.exp(fitted.theta).round(3)}", flush=True)
    return float(np.sqrt(np.mean((predicted - k / n) ** 2)))


def main() -> None:
    """Print the error of both kernels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--quick", action="store_true", help="every third region and three folds")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cl.errors.CrosslevelWarning)
    world, folds = regions(options.features), 10
    if options.quick:
        world, folds = {name: values[::3] for name, values in world.items()}, 3
    for name, product in (("sum", False), ("product", True)):
        print(f"{name}: {100 * left_out(world, product, folds):.2f} points over {len(world['k'])} regions", flush=True)


if __name__ == "__main__":
    main()
