"""The cases of every room, one module each."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.contract.case import Case, FunctionCase

_ROOMS = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__")
_MODULES = [importlib.import_module(f"tests.contract.cases.{room}") for room in _ROOMS]

CASES: list[Case] = [case for module in _MODULES for case in getattr(module, "CASES", [])]
FUNCTIONS: list[FunctionCase] = [case for module in _MODULES for case in getattr(module, "FUNCTIONS", [])]
