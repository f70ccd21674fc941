"""Average effects: ``X`` (rows x columns) and ``y`` in; a derivative, or a difference of two values, for each column out."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]
Answer = tuple[np.ndarray, ...]
Z = 1.959964


def krls(given: Arrays) -> Answer:
    """Answer with the default."""
    return _krls(given)


def krls_published(given: Arrays) -> Answer:
    """Answer with the numbers of the published package."""
    return _krls(given, rule="krls", inference="krls")


def _krls(given: Arrays, **options: str) -> Answer:
    import crosslevel as cl

    found = cl.KRLS(**options).fit(given["X"], given["y"]).effects()
    scale = [_span(column) for column in given["X"].T]
    return tuple(found[name] / scale for name in ("estimate", "conf_low", "conf_high"))


def _span(column: np.ndarray) -> float:
    """Give the distance of two values, which a difference is divided by; 1 of any other column."""
    values = np.unique(column)
    return float(values[1] - values[0]) if len(values) == 2 else 1.0


def least_squares(given: Arrays) -> Answer:
    """Answer with a line; heteroskedastic standard errors (HC3)."""
    X, y = np.column_stack([np.ones(len(given["y"])), given["X"]]), given["y"]
    inverse = np.linalg.inv(X.T @ X)
    slope = inverse @ X.T @ y
    rest = (y - X @ slope) / (1 - np.einsum("ij,jk,ik->i", X, inverse, X))
    std = np.sqrt(np.diag(inverse @ (X * rest[:, None] ** 2).T @ X @ inverse))[1:]
    return slope[1:], slope[1:] - Z * std, slope[1:] + Z * std


def kernel_ridge(given: Arrays) -> Answer:
    """Answer with differences of scikit-learn's kernel ridge, its penalty by cross-validation."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    X, y = given["X"], given["y"]
    grid = GridSearchCV(KernelRidge(kernel="rbf", gamma=1 / X.shape[1]), {"alpha": np.logspace(-2, 2, 9)}, cv=5)
    fit, out = grid.fit(X, y - y.mean()), []
    for j, column in enumerate(X.T):
        low, high, values = X.copy(), X.copy(), np.unique(column)
        low[:, j], high[:, j] = values if len(values) == 2 else (column - 0.01, column + 0.01)
        out.append(np.mean(fit.predict(high) - fit.predict(low)) / np.mean(high[:, j] - low[:, j]))
    return (np.array(out),)
