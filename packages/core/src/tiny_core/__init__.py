"""tiny: a small tensor compiler whose every edge is a plugin. Public names are imported when they are first
used."""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers take it for true; importing typing would take most of the time
if TYPE_CHECKING:
    from tiny_core import dtypes as dtypes
    from tiny_core import nn as nn
    from tiny_core.engine.report import GlobalCounters as GlobalCounters
    from tiny_core.runtime.device import Device as Device
    from tiny_core.settings import Context as Context
    from tiny_core.settings import getenv as getenv
    from tiny_core.tensor.capture import TinyJit as TinyJit
    from tiny_core.tensor.capture import jit as jit
    from tiny_core.tensor.tensor import Tensor as Tensor
    from tiny_core.tensor.variable import Variable as Variable

_MODULES = {"dtypes": "tiny_core.dtypes", "nn": "tiny_core.nn"}
_NAMES = {
    "Tensor": "tiny_core.tensor.tensor",
    "Device": "tiny_core.runtime.device",
    "Context": "tiny_core.settings",
    "GlobalCounters": "tiny_core.engine.report",
    "jit": "tiny_core.tensor.capture",
    "TinyJit": "tiny_core.tensor.capture",
    "Variable": "tiny_core.tensor.variable",
    "getenv": "tiny_core.settings",
}


def __getattr__(name: str) -> object:
    import importlib

    if name in _MODULES:
        value: object = importlib.import_module(_MODULES[name])
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_NAMES})
