"""A confounding of known size, put into simulated labels, is learnt back and its intervals hold."""

import numpy as np
import pytest
from scipy import special

from crosslevel.ecological.covariance import Hyperparameters
from crosslevel.ecological.hidden_errors import errors_of, learn_confounding, scores_of
from crosslevel.ecological.persons.hidden_labels import Dimension, Task
from crosslevel.numerics.logit_shift import shift_to_total

Q = 150


def make_task(label: str, tau: float, omega: float, rng: np.random.Generator) -> Task:
    """The truth is the model's rate moved by effects of groups and of single places, and matched to the totals again."""
    dimensions = []
    total = special.expit(rng.normal(0, 0.4, Q))
    for name, sizes in (("sex", [5, 5]), ("race", [8, 2, 1]), ("education", [2, 3, 2, 1])):
        n = len(sizes)
        share = rng.dirichlet(sizes, Q).ravel()
        place, level = np.repeat(np.arange(Q), n), np.tile(np.arange(n), Q)
        f = rng.normal(0, 0.5, n)[level]
        moved = f + tau * rng.standard_normal(n)[level] + omega * rng.standard_normal(Q * n)
        draws = f + 0.03 * rng.standard_normal((40, n))[:, level]
        truth = shift_to_total(moved[None], share, place, total).rate[0]
        rate = shift_to_total(draws, share, place, total).rate
        people = np.full(Q * n, 1e5)
        dimensions.append(
            Dimension(name, tuple(map(str, range(n))), place, level, share, share * 1e6, people, people, rate, truth)
        )
    return Task(label, total, tuple(dimensions), Hyperparameters(1.0), 0.5, ())


def test_a_known_confounding_is_learnt_from_ten_labels():
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        tasks = [make_task(str(k), 0.3, 0.15, rng) for k in range(10)]
        found.append(learn_confounding(tasks))
    tau = np.array([c.confounding.tau for c in found])
    assert tau.mean() == pytest.approx(0.3, rel=0.1)
    assert np.abs(tau - 0.3).max() < 0.25 * 0.3 + 0.03
    assert np.mean([c.confounding.omega for c in found]) == pytest.approx(0.15, rel=0.25)
    assert 0.92 <= np.mean([c.coverage for c in found]) <= 0.98
    assert 0.92 <= np.mean([c.place_coverage for c in found]) <= 0.98


def test_groups_that_are_overstated_are_pulled():
    """Truths half way between the model and the place: the largest pull on offer is chosen."""
    rng = np.random.default_rng(1)
    tasks = []
    for k in range(4):
        task = make_task(str(k), 0.0, 0.0, rng)
        halved = []
        for d in task.dimensions:
            near = special.logit(task.total)[d.place]
            f = 0.5 * special.logit(d.rate.mean(axis=0)) + 0.5 * near
            truth = shift_to_total(f[None], d.share, d.place, task.total).rate[0]
            halved.append(Dimension(**{**vars(d), "truth": truth}))
        tasks.append(Task(task.label, task.total, tuple(halved), task.hyperparameters, 0.5, ()))
    assert set(learn_confounding(tasks).shrinkage.values()) == {0.5}


def test_the_noise_of_a_sampled_truth_is_what_matched_totals_leave_of_it():
    """Two groups alike, asked as many as live there: errors are sampling alone, less what the place's total takes out."""
    rng = np.random.default_rng(0)
    q, n, p = 4000, np.array([300, 100]), 0.3
    yes = rng.binomial(n, p, (q, 2))
    total, share = yes.sum(axis=1) / n.sum(), np.tile(n / n.sum(), q)
    place, level = np.repeat(np.arange(q), 2), np.tile([0, 1], q)
    people = np.tile(n, q).astype(float)
    rate = np.repeat(total, 2)[None] + np.zeros((2, 1))
    d = Dimension("g", ("a", "b"), place, level, share, people, people, people, rate, (yes / n).ravel())
    found = errors_of(Task("t", total, (d,), Hyperparameters(1.0), 0.3, ()), d, 0.0)
    for group in (0, 1):
        mine = level == group
        assert (found.place_error[mine] ** 2 / found.place_noise[mine]).mean() == pytest.approx(1.0, rel=0.08)


def test_a_label_is_scored_with_what_the_others_taught():
    """Nine labels without confounding, one with much: the others know nothing of it, so its intervals miss."""
    rng = np.random.default_rng(2)
    tasks = [make_task(str(k), 0.8 if k == 4 else 0.0, 0.0, rng) for k in range(10)]
    found = learn_confounding(tasks)
    covered = found.table["coverage"].to_numpy()
    assert covered[4] < 0.7
    assert np.delete(covered, 4).min() > 0.9
    others = learn_confounding([task for k, task in enumerate(tasks) if k != 4])
    errors = [errors_of(tasks[4], d, others.shrinkage[d.name]) for d in tasks[4].dimensions]
    alone = scores_of(errors, others.confounding)
    for name in ("error", "width", "place_width"):
        assert found.table[name][4].as_py() == pytest.approx(alone[name])
    assert found.confounding.tau > others.confounding.tau + 0.1
