"""Tables by unit: ``groups`` (units x groups), ``outcomes`` (units x outcomes) and ``kind`` in; shares of every group out."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]


def ours(given: Arrays, name: str, **options: Any) -> Any:
    """Ask a method of ``crosslevel.ecological``."""
    import crosslevel as cl

    return getattr(cl.ecological, name)(given["groups"], given["outcomes"], **options)


def rxc(given: Arrays) -> Any:
    """Answer with the default, told what kind of table it is."""
    kind = str(given["kind"])
    return ours(given, "rxc", kind="demographic" if kind == "participation" else kind)


def rxc_unsaid(given: Arrays) -> Any:
    """Answer with the default, not told what kind of table it is."""
    return ours(given, "rxc")


def rxc_covariates(given: Arrays) -> Any:
    """Answer with the default, told what else is known of the units."""
    others = given["covariates"]
    frame = {f"z{j}": others[:, j] for j in range(others.shape[1])}
    return ours(given, "rxc", kind="demographic", covariates=frame)


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
    return ours(given, "multinomial_dirichlet", contextual_slope=0, contextual_slope_sd=0)


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


def everybody(given: Arrays) -> Answer:
    """Give every group the shares of the district."""
    shares = given["outcomes"].sum(axis=0) / given["outcomes"].sum()
    return (np.tile(shares, given["groups"].shape[1]),)


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
    return _pooled(given, False)


def rxc_pooled_both(given: Arrays) -> Answer:
    """Answer with districts that share, in both directions."""
    return _pooled(given, True)


def _pooled(given: Arrays, symmetric: bool) -> Answer:
    import crosslevel as cl

    names = [[str(v) for v in given[key].tolist()] for key in ("group_names", "outcome_names")]
    sides = [dict(zip(n, given[key].T, strict=True)) for n, key in zip(names, ("groups", "outcomes"), strict=True)]
    districts = [f"d{d}" for d in given["district"]]
    found = cl.ecological.rxc(*sides, pool=districts, symmetric=symmetric)
    row = {key: k for k, key in enumerate(zip(*(found[name] for name in found.keys), strict=True))}
    rows = np.array([row[f"d{d}", names[0][g], names[1][o]] for d, g, o in given["asked"]])
    return tuple(found[c][rows] for c in ("estimate", "conf_low", "conf_high"))
