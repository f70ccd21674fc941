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
