"""What makes a cached binary stale besides its kernel: the sources of the compiler, as a digest of their
contents.

Contents are hashed in each process that compiles (5 ms for all of core), because any shortcut by time stamps
can miss an edit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from typing import Final

import tiny_core

# What turns a kernel into a binary, and what reads and writes cache entries.
_COMPILER: Final = (
    "ir",
    "codegen",
    "render",
    "dtypes.py",
    "engine/build.py",
    "engine/cache.py",
    "engine/codec.py",
)


@cache
def core_digest() -> str:
    """Return the digest of core's compiler sources."""
    here = os.path.dirname(os.path.abspath(tiny_core.__file__))
    return _digest([os.path.join(here, *part.split("/")) for part in _COMPILER])


@cache
def package_digest(module: str) -> str:
    """Return the digest of the package that an imported module belongs to (of `tiny_core.devices`, for
    those)."""
    top = "tiny_core.devices" if module.startswith("tiny_core.devices.") else module.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None:
        file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return "no source"  # made in an interactive session; its class cannot be named by a worker either
    return _digest([os.path.dirname(file) if os.path.basename(file).startswith("__init__.") else file])


def _digest(places: list[str]) -> str:
    total = hashlib.sha256()
    for place in places:
        for path in sorted(_sources(place)):
            with open(path, "rb") as file:
                total.update(f"{os.path.relpath(path, place)}\0".encode())
                total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()


def _sources(place: str) -> list[str]:
    if not os.path.isdir(place):
        return [place]
    return [
        os.path.join(folder, name)
        for folder, _, names in os.walk(place)
        for name in names
        if name.endswith((".py", ".c", ".h", ".so", ".pyd", ".ll"))
    ]
