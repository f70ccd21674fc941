"""A fitted model for the package ``marginaleffects``: coefficients, their covariance, and a matrix to multiply them with.

Debiased effects are those of one function: kernel and unpenalized linear part, fitted at a tenth of the penalty. It is
linear in its coefficients, theta = (c, beta), so every slope, comparison or average that ``marginaleffects`` makes of its
predictions is a functional of the same kind, with the same HC3 or CR3 covariance, as those of `KRLS.effects`. With other kinds
of inference the function is the fit itself.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crosslevel.data import frames
from crosslevel.errors import InputError, MissingExtraError
from crosslevel.krls.effects import Functionals
from crosslevel.krls.inference import AS_R, estimate
from crosslevel.krls.model import Fit
from crosslevel.krls.reading import Encoding
from crosslevel.krls.subgroups import covariate_table
from crosslevel.typing import FloatArray

if TYPE_CHECKING:
    from crosslevel.krls.bands import BandReports

LARGEST = 4000
"""Distinct rows: there is a coefficient for each, and marginaleffects differentiates by one after the other."""
OFFSET = 1e4
"""Added to every coefficient, which is in units of its standard error. marginaleffects steps by 1.5e-8 of a coefficient, which
for one near zero would drown in rounding; predictions are linear, so a longer step is as exact."""


@dataclass(frozen=True)
class LinearForm:
    """A fitted function that is linear in coefficients.

    Attributes
    ----------
    fit : Fit
    linear : bool
        Whether there are coefficients of 1, z_1, .., z_P beside those of the kernel.
    theta : (k,)
    covariance : (k, k)
    dof : float
        Of Student's t; infinite for the normal.
    """

    fit: Fit
    linear: bool
    theta: FloatArray
    covariance: FloatArray
    dof: float

    def matrix(self, X: FloatArray) -> FloatArray:
        """Give the matrix Phi of rows in the units of the data, (n, k): the function there is y_mean + Phi theta."""
        Z = self.fit.scaling.apply(X)
        parts = [self.fit.kernel.between(Z)]
        if self.linear:
            parts.append(np.column_stack([np.ones(len(Z)), Z]))
        return self.fit.y_sd * np.concatenate(parts, axis=1)


def linear_form(fit: Fit, inference: str) -> LinearForm:
    """Give the function whose effects `KRLS.effects` reports, with the covariance of its coefficients."""
    U, P = len(fit.cells.m), fit.kernel.Z.shape[1]
    if U > LARGEST:
        raise InputError(
            f"the model has {U:,} distinct rows, each with a coefficient, and marginaleffects differentiates by one "
            f"after the other: too many beyond {LARGEST:,}. effects(by=), interactions() and effects_at() have no such limit."
        )
    if fit.approximate:
        raise InputError(
            "an approximate model has no coefficient per distinct row that marginaleffects could use; fit with method='exact', or "
            "use effects(by=) and interactions()."
        )
    debiased = inference == "debiased"
    # every coefficient is a functional: of the kernel functions one each, of the linear ones likewise
    linear = P + 1 if debiased else 0
    every = Functionals(np.eye(U, U + linear), np.eye(P + 1, U + linear, k=U))
    weights, found = estimate(fit, every, inference)
    dof = np.inf if inference in AS_R else found.dof
    return LinearForm(fit, debiased, weights.estimate, found.matrix, dof)


def to_marginaleffects(model: BandReports, data: Any, y: str) -> Any:
    """Wrap a fitted model for marginaleffects; see `KRLS.to_marginaleffects`."""
    try:
        import polars as pl

        classes = importlib.import_module("marginaleffects.classes")
    except ImportError as error:
        raise MissingExtraError(
            "the package marginaleffects (0.6 or newer) is not installed; pip install 'crosslevel[effects]'. effects(by=) and "
            "interactions() answer without it."
        ) from error
    form = linear_form(model._model, model.inference)
    encoding = model.encoding_
    # marginaleffects is written for polars, and takes the order of levels from its Enum alone
    enums = {name: pl.Enum([str(v) for v in levels]) for name, levels in encoding.factors.items()}
    cells = form.fit.cells
    table = (
        covariate_table(encoding, cells.X).take(pa.array(cells.row)) if data is None else frames.to_arrow(data, "data")
    )
    frames.check_columns(table, [c.name for c in encoding.columns], "data")
    known = _as_polars(table, enums)
    errors = np.sqrt(np.diag(form.covariance))
    unit = np.where(errors > 0, errors, 1.0)

    class KRLSForMarginalEffects(classes.ModelAbstract):  # type: ignore[name-defined]
        """A fitted KRLS as marginaleffects sees a model."""

        df_resid = float(form.dof)

        def validation(self) -> None:
            # its own compares columns with [0, 1], which polars 2 refuses for columns of floats
            self.coef, self.response_name = self.get_coef(), y
            self.vault.variables_type = _kinds(known, encoding)

        def get_exog(self, newdata: Any) -> FloatArray:
            return form.matrix(encoding.encode(_as_text(newdata, encoding), "newdata")) * unit

        def get_predict(self, params: Any, newdata: Any) -> Any:
            Phi = newdata if isinstance(newdata, np.ndarray) else self.get_exog(newdata)
            made = form.fit.y_mean + Phi @ (np.asarray(params) - OFFSET)
            return pl.DataFrame({"rowid": np.arange(len(made), dtype=np.int32), "estimate": made})

    vault = classes.ModelVault(
        coef=OFFSET + form.theta / unit,
        coefnames=np.array([f"theta{i}" for i in range(len(form.theta))]),
        formula=lambda frame: (None, frame),  # a function tells marginaleffects not to parse one
        modeldata=known,
        package="crosslevel",
        vcov=form.covariance / np.outer(unit, unit),
        variable_names=[y, *(c.name for c in encoding.columns)],
        engine_running=model,
    )
    return KRLSForMarginalEffects(model, vault)


def _kinds(data: Any, encoding: Encoding) -> dict[str, str]:
    """Name the kind of every column in the words of marginaleffects."""
    factors, found = encoding.factors, {}
    for name in data.columns:
        values = data[name]
        if name in factors or not (values.dtype.is_numeric() or str(values.dtype) == "Boolean"):
            found[name] = "character"
        elif str(values.dtype) == "Boolean":
            found[name] = "boolean"
        elif set(values.unique().to_list()) <= {0, 1}:
            found[name] = "binary"
        else:
            found[name] = "integer" if values.dtype.is_integer() else "numeric"
    return found


def _as_polars(table: pa.Table, enums: dict[str, Any]) -> Any:
    import polars as pl

    made = frames.from_arrow(table, "polars")
    return made.with_columns([pl.col(n).cast(pl.String).cast(kind) for n, kind in enums.items()])


def _as_text(newdata: Any, encoding: Encoding) -> pa.Table:
    """Read a frame of marginaleffects, with the levels of factors as fit knew them."""
    table = frames.to_arrow(newdata, "newdata")
    for name, levels in encoding.factors.items():
        if name in table.column_names:
            known = {str(v): v for v in levels}
            values = [known.get(str(v), v) for v in table[name].to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table
