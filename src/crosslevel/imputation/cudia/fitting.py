"""From checked inputs and parameters to a fit: choices, the layout of the problem, the five methods, and what a fit says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crosslevel.data import checks
from crosslevel.data.cells import gather, people_mark
from crosslevel.data.progress import count_steps
from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cudia.families import Reading, learn_families, recode
from crosslevel.imputation.cudia.hard import fit_hard, shares_of
from crosslevel.imputation.cudia.mcem import ITERATIONS, run_mcem
from crosslevel.imputation.cudia.model import HIDDEN_FAMILIES, Block, Parameters, Problem
from crosslevel.imputation.cudia.posterior import MixPrior, Mixture, ascend, expected_people, fit_mixture
from crosslevel.imputation.cudia.regression import (
    EtaPrior,
    Identifiability,
    eta_prior,
    identify,
    person_variance,
    regress,
)
from crosslevel.imputation.cudia.sampling import BURN, THIN, Draws, run_chain
from crosslevel.imputation.cudia.selection import Choices, Selection, numbers_of_clusters, select
from crosslevel.imputation.inputs import FEWEST_GROUPS, Inputs, read_range
from crosslevel.numerics.chains import split_chains
from crosslevel.typing import FloatArray, Int64Array, IntArray, Progress, Step

MOST_TARGET = 1e100
DEFAULT_RIDGE = 1.0
"""People by which hidden means of real features are shrunk to the target when no ridge is given."""
MOST_STRAY = 0.2
"""Largest share of published means outside [0, 1], by more than 1 each, for which the others are shares and these are slips."""
LARGEST_DRIFT = 4.0
"""Monte Carlo EM has converged when eta moved by fewer standard errors between the last two quarters."""
LARGEST_RHAT = 1.1


def left_open(choices: Choices) -> bool:
    """Whether something is left to be chosen."""
    return "auto" in (choices.n_clusters, choices.ridge, choices.target)


def read_choices(model: Any) -> Choices:
    """Check the parameters of a ``CUDIA``, and refuse those that do not act with its method."""
    options = {"method": tuple(METHODS), "likelihood": ("cudia", "count"), "aggregates_from": ("sample", "population")}
    for name, known in options.items():
        if getattr(model, name) not in known:
            raise unknown_name(name, getattr(model, name), known, "choice")
    checks.check_flags(model)
    if model.aggregates_from == "population" and model.likelihood == "count":
        raise InputError(
            "likelihood='count' is for means computed on these very people; with aggregates_from='population' pass "
            "likelihood='cudia'."
        )
    if model.method != "hard":
        checks.refuse_idle(model, ["beta"], f"with method={model.method!r}; it weighs the means in method='hard'")
    if not isinstance(model.place_sd, str) or model.place_sd != "auto":
        if isinstance(model.place_sd, str):
            raise unknown_name("place_sd", model.place_sd, ["auto"], "choice")
        checks.check_between(model.place_sd, "place_sd", 0.0, 1e6)
    K = model.n_clusters
    if isinstance(K, str) and K != "auto":
        raise unknown_name("n_clusters", K, ["auto"], "choice")
    if not isinstance(K, str) and checks.check_whole(K, "n_clusters", 1) == 1:
        raise InputError(
            "n_clusters=1 gives everybody the mean of the group, which is the naive answer; pass at least 2."
        )
    ridge, target, kind = _read_ridge(model, chosen=K == "auto")
    alpha, learn = _read_alpha(model)
    return Choices(
        n_clusters=K,
        method=model.method,
        likelihood=model.likelihood,
        ridge=ridge,
        target=target,
        kind=kind,
        logit_sd=checks.check_positive(model.logit_sd, "logit_sd"),
        alpha=alpha,
        learn=learn,
        n_restarts=checks.check_whole(model.n_restarts, "n_restarts", 1),
        beta=checks.check_positive(model.beta, "beta"),
        n_draws=checks.check_whole(model.n_draws, "n_draws", 4),
    )


def _read_ridge(model: Any, *, chosen: bool) -> tuple[float | str, str | float, str]:
    """Read ridge and target; without a ridge binary features have a prior on the logit."""
    target = model.ridge_target
    if target is None:
        target = "auto" if chosen and model.ridge is None else "mean"
    target = read_target(target, ["mean", "zero", "auto"])
    if model.ridge is None:
        return ("auto", target, "ridge") if chosen else (DEFAULT_RIDGE, target, "logit")
    if isinstance(model.ridge, str):
        if model.ridge != "auto":
            raise unknown_name("ridge", model.ridge, ["auto"], "choice")
        return "auto", target, "ridge"
    return checks.check_positive(model.ridge, "ridge"), target, "ridge"


def read_target(target: Any, known: Sequence[str]) -> str | float:
    """Read what a ridge draws the means of clusters to: a name or a number."""
    if isinstance(target, str):
        if target not in known:
            raise unknown_name("ridge_target", target, known, "choice")
        return target
    return checks.check_between(target, "ridge_target", -MOST_TARGET, MOST_TARGET)


def _read_alpha(model: Any) -> tuple[FloatArray, str | None]:
    alpha, K = model.alpha, model.n_clusters
    if isinstance(alpha, str):
        known = {"learn": "dirichlet", "logistic_normal": "logistic_normal"}
        if alpha not in known:
            raise unknown_name("alpha", alpha, list(known), "choice")
        if alpha == "logistic_normal" and model.method in ("gibbs", "mcem") and model.likelihood == "count":
            raise InputError(
                "alpha='logistic_normal' cannot be integrated out under likelihood='count'; pass likelihood='cudia'."
            )
        return np.ones(1), known[alpha]
    values = np.atleast_1d(checks.check_finite(alpha, "alpha"))
    if (values <= 0).any():
        raise InputError(
            f"alpha={alpha!r} is not positive; pass a positive number (1 is uniform), 'learn' or 'logistic_normal'."
        )
    if len(values) > 1 and len(values) != K:
        raise InputError(
            f"alpha={alpha!r} has {len(values)} exponents for n_clusters={K!r}; pass one number, or one each."
        )
    return values, None


def refuse_idle_prior(model: Any, choices: Choices, hidden: Sequence[str]) -> None:
    """Refuse parameters of the prior of eta that cannot act on hidden features of these families."""
    on_logit = choices.kind == "logit"
    if on_logit and all(kind == "bernoulli" for kind in hidden):
        checks.refuse_idle(
            model, ["ridge_target"], "without a ridge where every hidden feature is yes or no; pass ridge as well"
        )
    if not model.place_sd and not (on_logit and "bernoulli" in hidden):
        checks.refuse_idle(
            model, ["logit_sd"], "with place_sd=0 and a ridge, or where no hidden feature is yes or no; pass ridge=None"
        )


@dataclass(frozen=True)
class Layout:
    """A problem and how people come to their place in it.

    Attributes
    ----------
    problem : Problem
    reading : Reading
    atoms : (A, L) int
        Groups of each atom in every partition.
    hidden : tuple of str
        Names of the hidden features.
    targets : tuple of (partition, (P,) means)
        For each hidden feature the finest published means, which answers are made to match.
    atom_weight : (A,)
        People of each atom.
    errors : tuple of (P,), optional
        For each hidden feature the standard errors of these means; NaN where none was published.
    mark : str
        By which the people of the fit are known again; empty for a stream.
    """

    problem: Problem
    reading: Reading
    atoms: Int64Array
    hidden: tuple[str, ...]
    targets: tuple[tuple[int, FloatArray], ...]
    atom_weight: FloatArray
    errors: tuple[FloatArray, ...] | None = None
    mark: str = ""

    def without_people(self) -> Layout:
        """Give the layout of a saved model: families, sizes and published means, enough to impute."""
        nobody = np.zeros(0, dtype=np.int64)
        X, weight = np.zeros((0, self.problem.X.shape[1])), np.zeros(0)
        return replace(self, problem=replace(self.problem, X=X, cell=nobody, atom=nobody, weight=weight, count=nobody))


def hidden_families(given: Inputs, families: Any) -> tuple[Any, tuple[str, ...]]:
    """Tell families of columns from those of hidden features, which are binary by default when their means lie in [0, 1]."""
    chosen: dict[str, str] = {}
    if isinstance(families, Mapping):
        chosen = {k: v for k, v in families.items() if isinstance(k, str) and k in given.hidden}
        families = {k: v for k, v in families.items() if k not in chosen}
    out = []
    for name in given.hidden:
        kind, repair = chosen.get(name, "auto"), ""
        if kind == "auto":
            means = np.concatenate([p.mean[~np.isnan(p.mean)] for p in given.published if p.name == name])
            away = np.maximum(-means, means - 1.0)
            far = (away[away > 0] > 1.0).all() and np.sum(away > 0) <= MOST_STRAY * len(means)
            kind = "bernoulli" if far else "gaussian"
            repair = f" If it is a number, pass families={{{name!r}: 'gaussian'}}."
        if kind not in HIDDEN_FAMILIES:
            raise unknown_name(f"families[{name!r}]", kind, list(HIDDEN_FAMILIES), "family of a hidden feature")
        if kind != "gaussian":
            read_range(given, name, 0.0, 1.0 if kind == "bernoulli" else np.inf, repair)
        out.append(kind)
    return families, tuple(out)


def build(given: Inputs, families: Any) -> Layout:
    """Lay out the problem: pairs of people, atoms of places, blocks of published means."""
    own, kinds = hidden_families(given, families)
    people = given.people
    reading = learn_families(people.X, given.schema.columns, own)
    cells = gather(people.X, people.group, people.weight)
    atoms, atom = np.unique(cells.pair_group, axis=0, return_inverse=True)
    atom = atom.reshape(-1)
    weight = cells.weight * (cells.count.sum() / cells.weight.sum())
    used = weight > 0
    total: FloatArray = np.bincount(atom, weight, len(atoms)).astype(np.float64)
    if (total <= 0).any():
        raise InputError("sample_weight is zero for everybody in one combination of groups; leave these people out.")
    blocks = []
    for p, partition in enumerate(given.schema.partitions):
        published = [q for q in given.published if q.partition == p]
        if published:
            size = cells.sizes(p, len(partition))[1]
            group = atoms[:, p].astype(np.int64)
            blocks.append(
                Block(
                    features=np.array([given.hidden.index(q.name) for q in published]),
                    group=group,
                    share=total / np.bincount(group, total, len(size))[group],
                    S=np.column_stack([q.mean for q in published]),
                    size=size,
                    se=np.column_stack([q.se for q in published]),
                )
            )
    problem = Problem(
        X=recode(cells.X, reading, given.schema.names),
        families=reading.families,
        cell=cells.pair_cell[used].astype(np.int64),
        atom=atom[used].astype(np.int64),
        weight=weight[used],
        count=cells.count[used].astype(np.int64),
        n_atoms=len(atoms),
        blocks=tuple(blocks),
        hidden=kinds,
    )
    finest = [given.finest(name) for name in given.hidden]
    targets, errors = tuple((p.partition, p.mean) for p in finest), tuple(p.se for p in finest)
    places = atoms.astype(np.int64)
    return Layout(problem, reading, places, given.hidden, targets, total, errors, people_mark(cells))


def build_clusters(given: Inputs, model: Any, choices: Choices) -> Layout:
    """Lay out the problem of a ``CUDIA``; refuse more clusters than rows, and a prior that does not act."""
    layout = build(given, model.families)
    rows = len(layout.problem.X)
    if choices.n_clusters != "auto" and int(choices.n_clusters) > rows:
        raise InputError(
            f"n_clusters={model.n_clusters} is more than the {rows:,} distinct rows of X; pass at most that many."
        )
    refuse_idle_prior(model, choices, layout.problem.hidden)
    return layout


def atoms_of(group: IntArray, atoms: Int64Array) -> Int64Array:
    """Find the atom of each person, (n,); a combination of groups the fit did not have is number A.

    Examples
    --------
    >>> atoms_of(np.array([[1], [0], [7]]), np.array([[0], [1]])).tolist()
    [1, 0, 2]
    """
    number = {tuple(row): i for i, row in enumerate(atoms.tolist())}
    rows, place = np.unique(np.asarray(group), axis=0, return_inverse=True)
    return np.array([number.get(tuple(r), len(atoms)) for r in rows.tolist()], dtype=np.int64)[place.reshape(-1)]


@dataclass(frozen=True)
class Start:
    """What every method starts from: the mixture of x alone, and hidden means regressed on its shares (A, K)."""

    problem: Problem
    parameters: Parameters
    mixture: Mixture
    shares: FloatArray
    prior: EtaPrior
    step: Step | None = None


@dataclass(frozen=True)
class Found:
    """What a method found; ``convergence`` is added to what the mixture says of itself."""

    parameters: Parameters
    mix_prior: MixPrior
    shares: FloatArray
    convergence: dict[str, Any] = field(default_factory=dict)
    draws: Draws | None = None


@dataclass(frozen=True)
class Fitted:
    """A fit.

    Attributes
    ----------
    parameters : Parameters
        Clusters in order of size, largest first.
    prior : EtaPrior
    mix_prior : MixPrior
    shares : (A, K)
        Expected shares of the clusters in each atom.
    identifiability : tuple of Identifiability
        One per hidden feature.
    convergence : dict
        ``converged``, and what it rests on.
    chosen : (n_clusters, ridge, target)
    draws : Draws or None
        Of the method "gibbs".
    selection : Selection or None
    """

    parameters: Parameters
    prior: EtaPrior
    mix_prior: MixPrior
    shares: FloatArray
    identifiability: tuple[Identifiability, ...]
    convergence: dict[str, Any]
    chosen: tuple[int, float, str | float]
    draws: Draws | None = None
    selection: Selection | None = None


def fit_problem(problem: Problem, choices: Choices, rng: np.random.Generator, progress: Progress | None = None) -> Fitted:  # fmt: skip
    """Fit by the method of the choices, selecting first what was left to be chosen; starts, iterations and sweeps are counted."""
    mixtures = len(numbers_of_clusters(problem, choices)) if left_open(choices) else 1
    own = {"mcem": ITERATIONS, "gibbs": BURN + THIN * choices.n_draws}.get(choices.method, 1)
    number = mixtures * choices.n_restarts + own
    with count_steps(progress, "Fitting clusters", number) if progress is not None else nullcontext() as step:
        return _fit_problem(problem, choices, rng, step)


def _fit_problem(problem: Problem, choices: Choices, rng: np.random.Generator, step: Step | None) -> Fitted:
    scored, mixture = None, None
    seed = int(rng.integers(2**63))
    K, ridge, target = choices.n_clusters, choices.ridge, choices.target
    if left_open(choices):
        scored = select(problem, choices, seed, step)
        best = scored.best
        K, ridge, target = best.n_clusters, best.ridge, best.target
        mixture = scored.mixtures[best.n_clusters]
    K, ridge = int(K), float(ridge)
    if mixture is None:
        mix_prior = MixPrior.dirichlet(np.resize(choices.alpha, K))
        starts, learn = choices.n_restarts, choices.learn
        mixture = fit_mixture(problem, K, seed, n_restarts=starts, mix_prior=mix_prior, learn=learn, step=step)
    shares = mixture.people / problem.atom_weight[:, None]
    spread = person_variance(problem, mixture.parameters, shares)
    prior = eta_prior(problem, ridge, target, choices.kind, choices.logit_sd, spread)
    first = regress(problem, mixture.parameters, shares, prior, choices.likelihood)
    found = METHODS[choices.method](Start(problem, first, mixture, shares, prior, step), choices, rng)
    order = np.argsort(-(problem.atom_weight @ found.shares), kind="stable")
    at, shares = found.parameters.reordered(order), np.ascontiguousarray(found.shares[:, order])
    return Fitted(
        parameters=at,
        prior=prior,
        mix_prior=found.mix_prior.reordered(order),
        shares=shares,
        identifiability=identify(problem, at, shares, prior, choices.likelihood),
        convergence=mixture.convergence | found.convergence,
        chosen=(K, ridge, target),
        draws=None if found.draws is None else found.draws.reordered(order),
        selection=scored,
    )


def _two_stage(start: Start, choices: Choices, rng: np.random.Generator) -> Found:
    return Found(start.parameters, start.mixture.mix_prior, start.shares)


def _map(start: Start, choices: Choices, rng: np.random.Generator) -> Found:
    climb = ascend(start.problem, start.parameters, start.mixture.mix_prior, start.prior, choices.likelihood)
    people = expected_people(start.problem, climb.parameters)[2]
    shares = people / start.problem.atom_weight[:, None]
    return Found(climb.parameters, start.mixture.mix_prior, shares, climb.convergence)


def run_mcem_method(start: Start, choices: Choices, rng: np.random.Generator, **options: Any) -> Found:
    """Run Monte Carlo EM; ``options`` go to `run_mcem`."""
    run = run_mcem(
        start.problem, start.parameters, start.mixture.mix_prior, start.prior, rng,
        likelihood=choices.likelihood, learn=choices.learn, step=start.step, **options,
    )  # fmt: skip
    convergence = {
        "converged": start.mixture.ascent.converged and run.drift < LARGEST_DRIFT,
        "drift": run.drift,
        "accepted": run.accepted,
        "iterations": len(run.path),
    }
    return Found(run.parameters, run.mix_prior, run.shares, convergence)


def _gibbs(start: Start, choices: Choices, rng: np.random.Generator) -> Found:
    draws = run_chain(
        start.problem, start.parameters, start.mixture.mix_prior, start.prior, choices.likelihood, rng,
        n_draws=choices.n_draws, learn_mix=choices.learn == "dirichlet", step=start.step,
    )  # fmt: skip
    at = Parameters(
        tuple(t.mean(axis=0) for t in draws.theta), draws.pi.mean(axis=0), draws.H.mean(axis=0), draws.tau2.mean(axis=0)
    )
    rhat = _trace_rhat(draws)
    convergence = {
        "converged": start.mixture.ascent.converged and rhat < LARGEST_RHAT,
        "rhat": rhat,
        "draws": len(draws),
    }
    shares = draws.people.mean(axis=0) / start.problem.atom_weight[:, None]
    return Found(at, start.mixture.mix_prior, shares, convergence, draws)


def _trace_rhat(draws: Draws) -> float:
    """Split R-hat of what does not depend on the clusters' names: fit of the means, and the spread of eta."""
    spread = draws.H.reshape(len(draws), -1).std(axis=1)
    worst = 1.0
    for trace in (draws.trace, spread):
        halves = split_chains(trace[None, :, None])[..., 0]
        within = halves.var(axis=1, ddof=1).mean()
        between = halves.mean(axis=1).var(ddof=1)
        n = halves.shape[1]
        worst = max(worst, float(np.sqrt((n - 1) / n + between / max(within, 1e-300))))
    return worst


def _hard(start: Start, choices: Choices, rng: np.random.Generator) -> Found:
    K = start.parameters.n_clusters
    fit = fit_hard(start.problem, K, start.prior, rng, beta=choices.beta, n_restarts=choices.n_restarts)
    convergence = {"converged": fit.converged, "objective": [float(v) for v in fit.path[-5:]], "steps": len(fit.path)}
    return Found(fit.parameters, start.mixture.mix_prior, shares_of(start.problem, fit.Z), convergence)


METHODS: dict[str, Callable[[Start, Choices, np.random.Generator], Found]] = {
    "two_stage": _two_stage,
    "map": _map,
    "mcem": run_mcem_method,
    "gibbs": _gibbs,
    "hard": _hard,
}


def describe_convergence(convergence: Mapping[str, Any]) -> str:
    """Say in a few words what convergence rests on."""
    shown = {k: v for k, v in convergence.items() if k in ("gradient", "steps", "drift", "rhat", "modes")}
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items())


def describe_few_groups(layout: Layout) -> tuple[str, ...]:
    """Warn of few groups, or say nothing."""
    counts = [int(np.isfinite(mean).sum()) for _, mean in layout.targets]
    return tuple(
        f"{name!r} is known for {groups} groups only; with so few, some choices of clusters and ridge are worse for people "
        "than the naive group mean, and group means cannot show which. Compare CrossLevelImputer, and rely on the ranking of "
        "people more than on the levels."
        for name, groups in zip(layout.hidden, counts, strict=True)
        if groups < FEWEST_GROUPS
    )


def describe_warnings(layout: Layout, fitted: Fitted, likelihood: str, aggregates_from: str) -> tuple[str, ...]:
    """Say what the reader of the numbers should know."""
    out = list(describe_few_groups(layout))
    for j, name in enumerate(layout.hidden if aggregates_from == "population" else ()):
        errors = [b.se[:, b.features == j][np.isfinite(b.S[:, b.features == j])] for b in layout.problem.blocks]
        if not np.isfinite(np.concatenate(errors)).all():
            out.append(
                f"the means of {name!r} come from the population without standard errors; they are taken to rest on as many people as "
                "are here. Pass aggregate_se."
            )
    K = fitted.parameters.n_clusters
    for name, report in zip(layout.hidden, fitted.identifiability, strict=True):
        if report.n_groups < K:
            out.append(
                f"{name!r}: {report.n_groups} published means for {K} clusters; about {report.effective_df:.1f} contrasts of clusters "
                "come from the data and the rest from the prior (see identifiability_)."
            )
    convergence = fitted.convergence
    if not convergence["converged"]:
        out.append(f"the fit did not converge ({describe_convergence(convergence)}); do not rely on these numbers.")
    if likelihood == "cudia" and convergence.get("accepted", 1.0) < 0.02:
        out.append(
            f"only {convergence['accepted']:.1%} of the moves of the mixes were accepted, so the E-step saw hardly anything; pass "
            "method='map'."
        )
    return tuple(out)
