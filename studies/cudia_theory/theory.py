"""Variance of learned cluster means, and error of imputed values, against the size of groups (CUDIA, theorem 5.1 and lemma 5.3)."""

from __future__ import annotations

import argparse

import numpy as np

X_MEANS, X_SD = np.array([0.0, 1.0]), 0.26457513110645907
"""Means and deviation of the known feature in two clusters; variance .07."""
U_MEANS, U_SD = np.array([0.0, 1.0]), 0.26457513110645907
"""Those of the hidden one."""


def draw(rng: np.random.Generator, groups: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw mixes (P, 2), clusters, known and hidden features (P, M)."""
    share = rng.random(groups)
    cluster = (rng.random((groups, size)) < share[:, None]).astype(int)
    x = rng.normal(X_MEANS[cluster], X_SD)
    u = rng.normal(U_MEANS[cluster], U_SD)
    mix = np.column_stack([1 - cluster.mean(axis=1), cluster.mean(axis=1)])
    return mix, share, x, u


def learned(mix: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Regress group means on known mixes, without ridge (eq 17)."""
    return np.linalg.lstsq(mix, u.mean(axis=1), rcond=None)[0]


def imputed(share: np.ndarray, x: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Weight the cluster means by the chance of each cluster, given x and the mix of the group (eq 25)."""
    likelihood = np.exp(-0.5 * ((x[..., None] - X_MEANS) / X_SD) ** 2)
    prior = np.column_stack([1 - share, share])[:, None, :]
    chance = likelihood * prior
    return (chance / chance.sum(axis=-1, keepdims=True)) @ eta


def measure(groups: int, size: int, repeats: int, seed: int = 0) -> dict[str, float]:
    """Give bias and variance of the second cluster's mean, and errors of persons, over repeated draws."""
    rng = np.random.default_rng([seed, groups, size])
    etas, errors, naive = [], [], []
    for _ in range(repeats):
        mix, share, x, u = draw(rng, groups, size)
        eta = learned(mix, u)
        etas.append(eta[1])
        errors.append(np.mean((imputed(share, x, eta) - u) ** 2))
        naive.append(np.mean((u.mean(axis=1, keepdims=True) - u) ** 2))
    return {
        "bias": float(np.mean(etas) - U_MEANS[1]),
        "variance": float(np.var(etas)),
        "error": float(np.mean(errors)),
        "group_mean": float(np.mean(naive)),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print both designs: the number of groups fixed, and the number of people fixed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repeats")
    repeats = 200 if parser.parse_args(arguments).quick else 2000
    print("groups  size      bias  variance  error of persons  of group means")
    designs = [(6, 40), (6, 160), (6, 640), (48, 20), (12, 80), (6, 160), (4, 240)]
    for groups, size in designs:
        row = measure(groups, size, repeats)
        print(
            f"{groups:6d} {size:5d} {row['bias']:9.4f} {row['variance']:9.2e} {row['error']:17.4f} {row['group_mean']:15.4f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
