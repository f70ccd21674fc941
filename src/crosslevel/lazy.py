"""Names of a package, loaded on first use (PEP 562) from where the package's stub says."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Give ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose public names stand in ``__init__.pyi`` beside ``file``.

    The stub is what editors and type checkers read, and a name stands nowhere else: ``from home import name as name``, one in a
    line. The name of a module may be imported from its package.

    Examples
    --------
    >>> import crosslevel.krls
    >>> load, names, public = attach("crosslevel.krls", crosslevel.krls.__file__)
    >>> names(), load("KRLS").__name__
    (['Cost', 'KRLS'], 'KRLS')
    """
    module: Any = sys.modules[package]
    stub = module.__spec__.loader.get_data(file + "i").decode()
    homes = {line.split()[-1]: line.split()[1] for line in stub.splitlines() if line.startswith("from ")}
    public = sorted(homes)

    def load(name: str) -> Any:
        if name not in homes:
            from crosslevel.errors import nearest

            raise AttributeError(f"module {package!r} has no attribute {name!r}.{nearest(name, public)}")
        home = homes[name]
        found = None if home == package else getattr(importlib.import_module(home), name, None)
        value = importlib.import_module(f"{home}.{name}") if found is None else found
        setattr(module, name, value)
        return value

    return load, lambda: sorted(public), public
