"""Landmarks learned by gradient, and a network before the mean over each bag. Needs torch.

python studies/distribution_gradient/landmarks.py --seeds 23 24 25 26      # 20 s a draw on a GPU
python studies/distribution_gradient/landmarks.py --quick                  # a tenth of the bags, fewer steps
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from gamma_data import SIZES, Labeled, draw_all

try:
    import torch
except ImportError:  # tests look at every script of this folder
    torch = None  # type: ignore[assignment]

STEPS, EVERY = 600, 10
"""Steps of Adam, and how often the early bags are looked at: the fit of their largest log density is kept."""


def tensors(data: Labeled, device: str) -> tuple[Any, Any, Any, Any]:
    """People, bag of each, people of each bag, labels."""
    sizes = np.diff(data.bags.offsets)
    values = (
        np.asarray(data.bags.values),
        np.repeat(np.arange(len(sizes)), sizes),
        sizes.astype(float),
        np.asarray(data.y),
    )
    kinds = (torch.float64, torch.int64, torch.float64, torch.float64)
    return tuple(torch.tensor(v, dtype=k, device=device) for v, k in zip(values, kinds, strict=True))  # type: ignore[return-value]


def bag_means(features: Any, bag: Any, sizes: Any) -> Any:
    """Means of features over the people of each bag."""
    total = torch.zeros(len(sizes), features.shape[1], dtype=features.dtype, device=features.device)
    return total.index_add(0, bag, features) / sizes[:, None].to(features.dtype)


class Landmarks(torch.nn.Module if torch else object):  # type: ignore[misc]
    """Mean shrinkage whose landmarks are parameters: y ~ N(b + a'm_i, s2 + a'C_i a), m_i and C_i the posterior of the embedding."""

    def __init__(self, x: Any, bag: Any, sizes: Any, y: Any, n_landmarks: int, seed: int) -> None:
        super().__init__()
        rng = torch.Generator().manual_seed(seed)
        z = x[torch.randperm(len(x), generator=rng)[:n_landmarks].to(x.device)].clone()
        some = x[torch.randperm(len(x), generator=rng)[:60_000].to(x.device)]
        for _ in range(20):  # k-means
            near = torch.cdist(some, z).argmin(1)
            z = bag_means(some, near, torch.bincount(near, minlength=n_landmarks).clamp(min=1))
        self.z = torch.nn.Parameter(z)
        self.log_width = torch.nn.Parameter(torch.cdist(z, z).median().log().expand(x.shape[1]).clone())
        self.log_between = torch.nn.Parameter(torch.tensor(np.log(0.002), device=x.device, dtype=x.dtype))
        self.a = torch.nn.Parameter(torch.zeros(n_landmarks, device=x.device, dtype=x.dtype))
        self.b = torch.nn.Parameter(y.mean().clone())
        self.log_noise = torch.nn.Parameter(torch.log(y.var() / 4))
        self.log_prior = torch.nn.Parameter(torch.tensor(np.log(100.0), device=x.device, dtype=x.dtype))

    def features(self, x: Any) -> Any:
        width = self.log_width.exp()
        return torch.exp(-0.5 * torch.cdist(x / width, self.z / width) ** 2)

    def forward(self, x: Any, bag: Any, sizes: Any, state: Any = None) -> tuple[Any, Any, Any]:
        """Mean and variance of labels, and the center and spread of people, which are those of the training bags."""
        f = self.features(x)
        means = bag_means(f, bag, sizes)
        if state is None:
            center = f.mean(0)
            inside = (f - means[bag]).T @ (f - means[bag]) / (len(f) - len(sizes))
            state = (center, inside)
        center, inside = state
        eye = 1e-8 * torch.eye(len(self.a), device=x.device, dtype=x.dtype)
        K = self.features(self.z) + eye
        prior = self.log_between.exp() * K
        root = torch.linalg.cholesky(K)
        a = torch.linalg.solve_triangular(root.T, self.a[:, None], upper=True)[:, 0]  # a prior in the RKHS
        mean, variance = torch.zeros_like(sizes), torch.zeros_like(sizes)
        for n in SIZES:
            own = sizes == n
            gain = torch.linalg.solve(prior + inside / n + eye, prior).T
            mean = torch.where(own, (means - center) @ gain.T @ a, mean)
            variance = torch.where(own, a @ (prior - gain @ prior) @ a, variance)
        return self.b + mean, self.log_noise.exp() + variance.clamp(min=0), state

    def penalty(self) -> Any:
        return 0.5 * (self.a**2).sum() / self.log_prior.exp() + 0.5 * len(self.a) * self.log_prior


class Deep(torch.nn.Module if torch else object):  # type: ignore[misc]
    """A network before the mean over the people of a bag and one after it."""

    def __init__(self, x: Any, bag: Any, sizes: Any, y: Any, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        layer, act = torch.nn.Linear, torch.nn.SiLU
        self.inner = torch.nn.Sequential(layer(x.shape[1], 64), act(), layer(64, 64), act()).to(x.device)
        self.outer = torch.nn.Sequential(layer(65, 64), act(), layer(64, 2)).to(x.device)
        self.scale = (x.mean(0).float(), x.std(0).float(), float(y.mean()), float(y.std()))

    def forward(self, x: Any, bag: Any, sizes: Any, state: Any = None) -> tuple[Any, Any, Any]:
        at, by, center, spread = self.scale
        pooled = bag_means(self.inner((x.float() - at) / by), bag, sizes)
        out = self.outer(torch.cat([pooled, sizes.float().log()[:, None] - 4], 1)).double()
        return center + spread * out[:, 0], spread**2 * torch.exp(2 * out[:, 1].clamp(-5, 2)), None

    def penalty(self) -> Any:
        return 0.0


def log_loss(y: Any, mean: Any, variance: Any) -> Any:
    return 0.5 * (torch.log(2 * torch.pi * variance) + (y - mean) ** 2 / variance).mean()


def train(model: Any, sets: dict[str, Any], steps: int, rate: float, decay: float = 0.0) -> tuple[Any, Any]:
    """Train, stop by the early bags; give mean and variance of the test bags' labels."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    x, bag, sizes, y = sets["train"]
    best, found = np.inf, None
    for step in range(steps):
        mean, variance, state = model(x, bag, sizes)
        loss = log_loss(y, mean, variance) + model.penalty() / len(y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if step % EVERY == EVERY - 1:
            with torch.no_grad():
                *_, state = model(x, bag, sizes)
                own = [model(*sets[name][:3], state)[:2] for name in ("early", "test")]
                now = float(log_loss(sets["early"][3], *own[0]))
            if now < best:
                best, found = now, own[1]
    assert found is not None
    return found


def one(seed: int, share: int, device: str, quick: bool) -> dict[str, tuple[float, float]]:
    """Test MSE and NLL of both models on one draw; of five networks, the mean and variance of them together."""
    data = draw_all(seed, (share / 100, 0.25, 0.25), 0.0, shrink=10 if quick else 1)
    steps = STEPS // 10 if quick else STEPS
    sets = {name: tensors(own, device) for name, own in data.items() if name != "validation"}
    y = sets["test"][3]
    few = [train(Landmarks(*sets["train"], 60, 0), sets, steps, 0.02)]
    deep = [train(Deep(*sets["train"], s), sets, steps, 0.003, 0.01) for s in range(5)]
    found = {}
    for name, parts in (("learned landmarks", few), ("deep kernel", deep)):
        mean = torch.stack([m for m, _ in parts]).mean(0)
        variance = torch.stack([v + m**2 for m, v in parts]).mean(0) - mean**2
        found[name] = (float(((y - mean) ** 2).mean()), float(log_loss(y, mean, variance)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[23])
    parser.add_argument("--shares", type=int, nargs="*", default=[25, 50], help="percent of bags of five people")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if torch is None:
        raise SystemExit("torch is not installed")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for seed in args.seeds:
        for share in args.shares:
            start = time.perf_counter()
            found = one(seed, share, device, args.quick)
            shown = {k: f"{a:.4f} / {b:.4f}" for k, (a, b) in found.items()}
            print(seed, share, shown, f"{time.perf_counter() - start:.1f} s on {device}", flush=True)


if __name__ == "__main__":
    main()
