"""Tables by unit: ``groups`` (units x groups), ``outcomes`` (units x outcomes) and ``kind`` in; shares of every group out."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]


def counts_of(given: Arrays, pool: np.ndarray | None = None) -> Any:
    """Lay units out as the library takes them; what else is known of them are covariates."""
    import crosslevel as cl

    sides, data = {}, {}
    for side in ("groups", "outcomes"):
        names = [str(v) for v in given.get(f"{side[:-1]}_names", np.arange(given[side].shape[1])).tolist()]
        sides[side] = {name: f"{side} {name}" for name in names}
        data |= {f"{side} {name}": column for name, column in zip(names, given[side].T, strict=True)}
    others = given.get("covariates", np.zeros((len(given["groups"]), 0)))
    data |= {f"z{j}": column for j, column in enumerate(others.T)}
    if pool is not None:
        data["district"] = pool
    return cl.Counts(data, **sides, covariates=[f"z{j}" for j in range(others.shape[1])] or None)


def ours(given: Arrays, name: str, **options: Any) -> Any:
    """Ask a method of ``crosslevel.ecological``, which is told of no covariates."""
    import crosslevel as cl

    plain = {key: values for key, values in given.items() if key != "covariates"}
    return getattr(cl.ecological, name)(counts_of(plain), **options)


def rxc(given: Arrays) -> Any:
    """Answer with the default, told what kind of table it is."""
    kind = str(given["kind"])
    return ours(given, "rxc", kind="demographic" if kind == "participation" else kind)


def rxc_unsaid(given: Arrays) -> Any:
    """Answer with the default, not told what kind of table it is."""
    return ours(given, "rxc")


def rxc_covariates(given: Arrays) -> Any:
    """Answer with the default, told what else is known of the units."""
    import crosslevel as cl

    return cl.ecological.rxc(counts_of(given), kind="demographic")


def king_iterated(given: Arrays) -> Any:
    """Answer with King's model, each group and each outcome against the rest."""
    return ours(given, "king_iterated")


def homogeneous(given: Arrays) -> Answer:
    """Answer with the units that are nearly of one group."""
    return (ours(given, "homogeneous")["estimate"],)


def rxc_em(given: Arrays) -> Answer:
    """Answer with constant rates."""
    return (ours(given, "rxc_em")["estimate"],)


def multinomial_dirichlet(given: Arrays) -> Any:
    """Answer with the Dirichlet model and its contextual effect."""
    return ours(given, "multinomial_dirichlet")


def dirichlet_published(given: Arrays) -> Any:
    """Answer with the published Dirichlet model."""
    return ours(given, "multinomial_dirichlet", contextual_slope=0)


def king(given: Arrays) -> Any:
    """Answer with King's model."""
    return ours(given, "king")


def goodman(given: Arrays) -> Any:
    """Answer with Goodman's regression as it is."""
    return ours(given, "goodman")


def bounds(given: Arrays) -> Answer:
    """Answer with the bounds, and their midpoint."""
    found = ours(given, "bounds")
    return found["estimate"], found["lower"], found["upper"]


def neighborhood(given: Arrays) -> Answer:
    """Give every group the shares of its units."""
    X, T = given["groups"], given["outcomes"]
    rates = T / np.maximum(T.sum(axis=1, keepdims=True), 1e-12)
    return (X.T @ rates / X.sum(axis=0)[:, None],)


def least_squares(given: Arrays) -> Answer:
    """Regress counts on counts without negative rates, and divide by the sum."""
    from scipy.optimize import nnls

    X, T = given["groups"], given["outcomes"]
    rates = np.column_stack([nnls(X, column)[0] for column in T.T])
    return (rates / np.maximum(rates.sum(axis=1, keepdims=True), 1e-12),)


def _alone(given: Arrays, method: Any) -> Answer:
    """Answer the districts of a pooled case one by one."""
    out, asked = [], given["asked"]
    for d in np.unique(asked[:, 0]):
        g, o = (list(dict.fromkeys(asked[asked[:, 0] == d, k].tolist())) for k in (1, 2))
        rows = given["district"] == d
        own = {
            "groups": given["groups"][rows][:, g],
            "outcomes": given["outcomes"][rows][:, o],
            "kind": np.array("votes"),
        }
        found = method(own)
        out.append(
            found if isinstance(found, tuple) else tuple(found[c] for c in ("estimate", "conf_low", "conf_high"))
        )
    return tuple(np.concatenate(parts) for parts in zip(*out, strict=True))


def rxc_alone(given: Arrays) -> Answer:
    """Answer every district by itself with the default."""
    return _alone(given, rxc)


def em_alone(given: Arrays) -> Answer:
    """Answer every district by itself with constant rates."""
    return _alone(given, rxc_em)


def neighborhood_alone(given: Arrays) -> Answer:
    """Give every group the shares of its units."""
    return _alone(given, lambda own: (neighborhood(own)[0].ravel(),))


def rxc_pooled(given: Arrays) -> Answer:
    """Answer with districts that share what they have in common."""
    return _pooled(given, "votes")


def rxc_pooled_both(given: Arrays) -> Answer:
    """Answer with districts that share, in both directions."""
    return _pooled(given, "symmetric votes")


def _pooled(given: Arrays, kind: str) -> Answer:
    import crosslevel as cl

    names = [[str(v) for v in given[key].tolist()] for key in ("group_names", "outcome_names")]
    districts = np.array([f"d{d}" for d in given["district"]])
    found = cl.ecological.rxc(counts_of(given, districts), kind=kind, pool="district")
    row = {key: k for k, key in enumerate(zip(*(found[name] for name in found.keys), strict=True))}
    rows = np.array([row[f"d{d}", names[0][g], names[1][o]] for d, g, o in given["asked"]])
    return tuple(found[c][rows] for c in ("estimate", "conf_low", "conf_high"))
