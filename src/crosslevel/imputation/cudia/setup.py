"""From checked inputs to the arrays of the problem: pairs of people, atoms of places, blocks of published means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crosslevel.errors import InputError, unknown_name
from crosslevel.imputation.cells import gather
from crosslevel.imputation.cudia.encoding import Reading, learn_families, recode
from crosslevel.imputation.cudia.problem import VARIANCES, Block, Problem
from crosslevel.imputation.inputs import Inputs, Published, check_range
from crosslevel.typing import FloatArray, Int64Array

__all__ = ["Layout", "atoms_of", "build", "hidden_families", "split_families"]


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
        For each hidden feature the finest published means, to which answers are calibrated.
    atom_weight : (A,)
        People of each atom.
    """

    problem: Problem
    reading: Reading
    atoms: Int64Array
    hidden: tuple[str, ...]
    targets: tuple[tuple[int, FloatArray], ...]
    atom_weight: FloatArray


def split_families(families: Any, hidden: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """Tell the families of columns of X from those of hidden features."""
    if not isinstance(families, Mapping):
        return families, {}
    own = {k: v for k, v in families.items() if not (isinstance(k, str) and k in hidden)}
    return own, {k: v for k, v in families.items() if isinstance(k, str) and k in hidden}


def hidden_families(given: Inputs, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """Choose the family of each hidden feature: binary when every published mean lies in [0, 1], else real."""
    out = []
    for name in given.hidden:
        published = [p for p in given.published if p.name == name]
        kind = chosen.get(name, "auto")
        if kind == "auto":
            inside = all(((p.mean >= 0) & (p.mean <= 1) | np.isnan(p.mean)).all() for p in published)
            kind = "bernoulli" if inside else "gaussian"
        if kind not in VARIANCES:
            raise unknown_name(f"families[{name!r}]", kind, list(VARIANCES), "family of a hidden feature")
        for p in published:
            partition = given.schema.partitions[p.partition]
            if kind != "gaussian":
                check_range(p, partition, 0.0, 1.0 if kind == "bernoulli" else np.inf)
        out.append(kind)
    return tuple(out)


def build(given: Inputs, families: Any) -> Layout:
    """Lay out the problem.

    Parameters
    ----------
    given : Inputs
    families : as `CUDIA` takes them
    """
    own, chosen = split_families(families, given.hidden)
    kinds = hidden_families(given, chosen)
    people = given.people
    names = [c.name for c in given.schema.columns]
    reading = learn_families(people.X, given.schema.columns, own)
    cells = gather(people.X, people.group, people.weight)
    atoms, atom = np.unique(cells.pair_group, axis=0, return_inverse=True)
    atom = atom.reshape(-1)
    weight = cells.weight * (cells.count.sum() / cells.weight.sum())
    used = weight > 0
    n_atoms = len(atoms)
    total: FloatArray = np.bincount(atom, weight, n_atoms).astype(np.float64)
    if (total <= 0).any():
        raise InputError("sample_weight is zero for everybody in one combination of groups; leave these people out.")
    blocks = tuple(
        _block(given, p, atoms, total, cells.sizes(p, len(partition))[1])
        for p, partition in enumerate(given.schema.partitions)
        if any(q.partition == p for q in given.published)
    )
    problem = Problem(
        X=recode(cells.X, reading, names),
        families=reading.families,
        cell=cells.pair_cell[used].astype(np.int64),
        atom=atom[used].astype(np.int64),
        weight=weight[used],
        count=cells.count[used].astype(np.int64),
        n_atoms=n_atoms,
        blocks=blocks,
        hidden=kinds,
    )
    return Layout(
        problem,
        reading,
        atoms.astype(np.int64),
        given.hidden,
        tuple(_target(given, n) for n in given.hidden),
        total,
    )


def _block(given: Inputs, partition: int, atoms: Int64Array, total: FloatArray, size: FloatArray) -> Block:
    published = [p for p in given.published if p.partition == partition]
    group = atoms[:, partition].astype(np.int64)
    share = total / np.bincount(group, total, len(size))[group]
    return Block(
        features=np.array([given.hidden.index(p.name) for p in published]),
        group=group,
        share=share,
        S=np.column_stack([p.mean for p in published]),
        size=size,
        se=np.column_stack([p.se for p in published]),
    )


def _target(given: Inputs, name: str) -> tuple[int, FloatArray]:
    def known(p: Published) -> int:
        return int((~np.isnan(p.mean)).sum())

    finest = max((p for p in given.published if p.name == name), key=known)
    return finest.partition, finest.mean


def atoms_of(group: npt.NDArray[Any], atoms: Int64Array) -> Int64Array:
    """Find the atom of each person, (n,); a combination of groups the fit did not have is number A.

    Examples
    --------
    >>> atoms_of(np.array([[1], [0], [7]]), np.array([[0], [1]])).tolist()
    [1, 0, 2]
    """
    number = {tuple(row): i for i, row in enumerate(atoms.tolist())}
    rows, place = np.unique(np.asarray(group), axis=0, return_inverse=True)
    return np.array([number.get(tuple(r), len(atoms)) for r in rows.tolist()], dtype=np.int64)[place.reshape(-1)]
