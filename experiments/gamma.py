"""Do small bags know that they are small? The synthetic experiments of Law et al. (2018). Prints, and writes the guide page.

Bags of people from chi-square distributions, seeded as the published runs were, so that every comparison with them is of the
same bags. Three experiments:

1. Fixed size: bags of 1,000, ten draws. What does a converged fit of each model reach, beside the published one and the Bayes
   optimum?
2. Varying size: bags of 5, 20, 100 and 1,000. Whose predictions know which bags are small?
3. Sampled: what does NUTS add to mean shrinkage? (`gamma_sampled.py`)

Features, bandwidths and numbers of landmarks are chosen by evidence or leave-one-out on the training bags; only "as published"
looks at the validation bags, as the paper did. No model sees the test bags.

    python experiments/gamma.py                 # all; the fixed-size part takes three minutes on two idle cores
    python experiments/gamma.py --part fixed    # makes one part of the page again
    python experiments/gamma.py --quick         # a tenth of the bags, two draws; writes no page
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gamma_data import Labeled, draw_all
from gamma_page import (
    REPEATED,
    SEEDS,
    SHARES,
    by_size,
    draw_bags,
    draw_shares,
    fixed_section,
    page,
    quote_coverage,
    varying_section,
)
from gamma_sampled import DRAWS, fixed_pair, sampled_section, varying_pair
from gamma_scores import Score, Scores, best_possible, constant, score
from threadpoolctl import threadpool_limits

from crosslevel.data.atomic import whole_file
from crosslevel.distribution.features import BagFeatures, LandmarkMap, pool
from crosslevel.distribution.landmarks import FeatureSettings, candidate_maps
from crosslevel.distribution.linear.kernel_mean_shrinkage import fit_shrunk
from crosslevel.distribution.linear.penalty import fit_evidence, fit_ridge
from crosslevel.distribution.shrinkage.model import fit_shrinkage_model

FloatArray = npt.NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "gamma.md"
GUIDE = PAGE.with_name("distribution.md")
"""It quotes the coverage by size of bag."""
FILTERS = (("S-KMSE", "simple"), ("Tikhonov", "tikhonov"))
MOST = 3
"""Bandwidths, the widest, that shrinkage by leaving people out is tried with: the lengths of people cost a pass."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("fixed", "varying", "sampled", "all"), default="all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the bags, two draws; writes no page")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/guide/gamma.md)")
    args = parser.parse_args()
    shrink, seeds = (10, SEEDS[:2]) if args.quick else (1, SEEDS)
    sections = []
    if args.part in ("fixed", "all"):
        runs = dict(zip(seeds, spread(partial(fixed_size, shrink=shrink), list(seeds), args.jobs), strict=True))
        sections.append(say(fixed_section(runs)))
    if args.part in ("varying", "all"):
        asked = [(seed, share) for share in SHARES for seed in (seeds if share in REPEATED else seeds[:1])]
        found = spread(partial(varying_size, shrink=shrink), asked, args.jobs)
        by_ask = dict(zip(asked, found, strict=True))
        sections.append(say(varying_section(by_ask)))
        if not args.quick:
            shares = {name: by_size(by_ask)[name][::2] for name in ("BayesianLinear", "MeanShrinkage")}
            told = quote_coverage(GUIDE.read_text(encoding="utf-8"), shares)
            with whole_file(GUIDE) as beside:
                beside.write_text(told, encoding="utf-8")
            draw_shares(by_ask, args.out.with_name("gamma-sizes.png"))
            draw_bags(by_ask[SEEDS[0], 25], SEEDS[0], 25, args.out.with_name("gamma-bags.png"))
    if args.part in ("sampled", "all"):
        draws = DRAWS[:2] if args.quick else DRAWS
        pairs = {seed: varying_pair(seed, shrink) for seed in draws}
        sections.append(say(sampled_section(SEEDS[0], fixed_pair(SEEDS[0], shrink), pairs)))
    if not args.quick:
        before = args.out.read_text(encoding="utf-8") if args.out.exists() else ""
        with whole_file(args.out) as beside:
            beside.write_text(page(sections, before), encoding="utf-8")


def spread(work: Callable[[Any], Any], asks: Sequence[Any], jobs: int) -> list[Any]:
    """Do the work for every ask, in several processes."""
    if jobs < 2:
        return [work(a) for a in asks]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool_of_processes:
        return list(pool_of_processes.map(work, asks))


def say(text: str) -> str:
    print(text, flush=True)
    return text


def join(parts: Sequence[BagFeatures]) -> BagFeatures:
    """Put sets of bags together; the covariance within bags is pooled by degrees of freedom."""
    mu, sizes = np.concatenate([p.mu for p in parts]), np.concatenate([p.sizes for p in parts])
    free = [float((p.sizes - 1.0).sum()) for p in parts]
    within = sum(f * p.within for f, p in zip(free, parts, strict=True) if p.within is not None) / sum(free)
    return replace(parts[0], mu=mu, sizes=sizes, within=np.asarray(within), m0=mu.mean(axis=0))


@dataclass
class Bench:
    """One draw: the candidates' features of each set, and the scores so far."""

    sets: dict[str, Labeled]
    features: dict[str, list[BagFeatures]]
    scores: Scores

    def try_model(self, name: str, fit: Callable[[], Any], keep: bool = False) -> None:
        start = time.process_time()
        found = fit()
        predicted = found.predict(self.features["test"][found.chosen])
        found_score = score(predicted, self.sets["test"], time.process_time() - start, keep)
        self.scores[name] = replace(found_score, evidence=getattr(found, "log_evidence", np.nan))

    def by_validation(self, name: str, fit: Callable[[BagFeatures], Any]) -> None:
        """Fit each candidate and let the validation bags choose, as the paper did."""
        start = time.process_time()
        fits = [fit(c) for c in self.features["train"]]
        y = self.sets["validation"].y
        losses = [-f.predict(v).log_density(y).mean() for f, v in zip(fits, self.features["validation"], strict=True)]
        best = int(np.argmin(losses))
        predicted = fits[best].predict(self.features["test"][best])
        self.scores[name] = score(predicted, self.sets["test"], time.process_time() - start)


def prepare(sets: dict[str, Labeled], maps: Sequence[LandmarkMap], names: Sequence[str]) -> Bench:
    start = time.process_time()
    features = {name: pool(sets[name].bags, maps, within=name != "test") for name in names}
    return Bench(sets, features, {"features": Score(np.nan, np.nan, seconds=time.process_time() - start)})


def fixed_size(seed: int, shrink: int = 1) -> Scores:
    """Run all models on one draw of bags of 1,000."""
    with threadpool_limits(1):
        start = time.process_time()
        sets = draw_all(seed, shrink=shrink)
        drawn = time.process_time() - start
        settings = FeatureSettings(landmarks="paper", standardize=False)
        bench = prepare(sets, candidate_maps(sets["train"].bags, settings), list(sets))
        out, train, y, test = bench.scores, bench.features["train"], sets["train"].y, sets["test"]
        out["draw"] = Score(np.nan, np.nan, seconds=drawn)
        out["optimum"] = best_possible(test, 1.0, whole_ends=True)
        out["optimum, exact ends"] = best_possible(test, 1.0, whole_ends=False)
        out["mean label"] = constant(y, test)
        bench.by_validation("BayesianLinear, as published", lambda c: fit_evidence([c], y, "iid", False))
        bench.try_model("BayesianLinear", lambda: fit_evidence(train, y))
        bench.try_model("RBFNetwork", lambda: fit_ridge(train, y))
        for name, method in FILTERS:
            shrunk_bench(bench, f"FrequentistShrinkage, {name}", method)
        bench.try_model("MeanShrinkage", lambda: fit_shrinkage_model(train, y))
        wide = [i for i, c in enumerate(train) if c.d == max(t.d for t in train)]
        bench.try_model(
            "MeanShrinkage, integral",
            lambda: renumber(fit_shrinkage_model([train[i] for i in wide], y, kernel="integral"), wide),
        )
        names = ("train", "early", "validation")
        everyone = [join([bench.features[n][i] for n in names]) for i in range(len(train))]
        labels = np.concatenate([sets[n].y for n in names])
        bench.try_model("BayesianLinear, 2,000 bags", lambda: fit_evidence(everyone, labels))
        bench.try_model("MeanShrinkage, 2,000 bags", lambda: fit_shrinkage_model(everyone, labels))
        out["all"] = Score(np.nan, np.nan, seconds=time.process_time() - start)
        return out


def renumber(fit: Any, places: Sequence[int]) -> Any:
    """Name the chosen one of some candidates by its place among all."""
    return replace(fit, chosen=places[fit.chosen])


def shrunk_bench(bench: Bench, name: str, method: str) -> None:
    """Shrink each bag's embedding by leaving people out, then ridge; with the most landmarks."""
    start = time.process_time()
    train = bench.features["train"]
    places = [i for i, c in enumerate(train) if c.d == max(t.d for t in train)][-MOST:]
    maps = [m for i in places if (m := train[i].map) is not None]
    if method == "simple":
        fit = fit_shrunk(pool(bench.sets["train"].bags, maps, within=True, norms=True), bench.sets["train"].y, method)
        new = pool(bench.sets["test"].bags, [maps[fit.chosen]], norms=True)[0]
    else:
        fit = fit_shrunk([train[i] for i in places], bench.sets["train"].y, method)
        new = bench.features["test"][places[fit.chosen]]
    bench.scores[name] = score(fit.predict(new), bench.sets["test"], time.process_time() - start)


def varying_size(ask: tuple[int, int], shrink: int = 1) -> Scores:
    """Run the models on one draw of bags of 5, 20, 100 and 1,000."""
    seed, share = ask
    with threadpool_limits(1):
        start = time.process_time()
        sets = draw_all(seed, (share / 100, 0.25, 0.25), noise=0.0, shrink=shrink)
        names = ("train", "validation", "test")
        # each model has the landmarks that are its default: k-means, or for mean shrinkage random people
        means, people = (
            prepare(sets, candidate_maps(sets["train"].bags, FeatureSettings(landmarks=rule, standardize=False)), names)
            for rule in ("kmeans", "random")
        )
        people.scores = out = means.scores
        y, test = sets["train"].y, sets["test"]
        centers, drawn = means.features["train"], people.features["train"]
        out["optimum"] = best_possible(test, 0.0, whole_ends=False)
        out["mean label"] = constant(y, test)
        means.by_validation("BayesianLinear, as published", lambda c: fit_evidence([c], y, "iid", False))
        means.try_model("BayesianLinear", lambda: fit_evidence(centers, y))
        means.try_model("RBFNetwork", lambda: fit_ridge(centers, y))
        for name, method in FILTERS:
            shrunk_bench(means, f"FrequentistShrinkage, {name}", method)
        people.try_model("MeanShrinkage", lambda: fit_shrinkage_model(drawn, y), keep=True)
        means.try_model("MeanShrinkage, k-means", lambda: fit_shrinkage_model(centers, y))
        wide = [i for i, c in enumerate(drawn) if c.d == max(t.d for t in drawn)]
        people.try_model(
            "MeanShrinkage, integral",
            lambda: renumber(fit_shrinkage_model([drawn[i] for i in wide], y, kernel="integral"), wide),
        )
        # evidence needs no validation bags, so they can be learned from, as the published BDR did
        more = [join([t, v]) for t, v in zip(drawn, people.features["validation"], strict=True)]
        labels = np.concatenate([y, sets["validation"].y])
        people.try_model("MeanShrinkage, 1,500 bags", lambda: fit_shrinkage_model(more, labels))
        out["all"] = Score(np.nan, np.nan, seconds=time.process_time() - start)
        return out


if __name__ == "__main__":
    main()
