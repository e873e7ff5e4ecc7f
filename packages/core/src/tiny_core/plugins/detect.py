"""Declarative detection: whether what a plugin needs is on this machine, without importing the plugin.

In: the `detect` table of a manifest. Out: "" where all of its keys hold, else what is missing. A key holds if
any of its items does. Looks at files, PATH and the environment only; loads no library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

_LIBRARY_FOLDERS = (
    "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/opt/homebrew/lib",
    *(f"/usr/lib/{m}-linux-gnu" for m in ("x86_64", "aarch64", "riscv64")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Detect:
    """What must be there.

    Args:
        platform: values of `sys.platform`.
        any_path: paths; `*` is a wildcard.
        any_library: file names of shared libraries, e.g. `libcuda.so.1`.
        any_env: environment variables that are set and not empty.
        any_program: programs on PATH; `$NAME` stands for the program that an environment variable names.
        pci_vendor: PCI vendor ids, read from Linux sysfs.
    """

    platform: tuple[str, ...] = ()
    any_path: tuple[str, ...] = ()
    any_library: tuple[str, ...] = ()
    any_env: tuple[str, ...] = ()
    any_program: tuple[str, ...] = ()
    pci_vendor: tuple[int, ...] = ()

    def missing(self) -> str:
        """Return "" if everything is there, else the first thing that is not, in words."""
        for field in fields(self):
            items = getattr(self, field.name)
            if items and not any(_HOLDS[field.name](item) for item in items):
                names = " or ".join(f"{i:#06x}" if isinstance(i, int) else i for i in items)
                return (
                    f"no {_SAY[field.name]} {names}" if field.name != "platform" else f"runs on {names} only"
                )
        return ""


def _path(pattern: str) -> bool:
    if "*" not in pattern:
        return os.path.exists(pattern)
    import glob

    return bool(glob.glob(pattern))


def _library(name: str) -> bool:
    """Whether the dynamic linker would find `name`; the cache of glibc is a table of NUL-terminated names."""
    variable = "PATH" if sys.platform == "win32" else "LD_LIBRARY_PATH"
    own = [f for f in os.environ.get(variable, "").split(os.pathsep) if f]
    if any(os.path.exists(os.path.join(f, name)) for f in (*own, *_LIBRARY_FOLDERS)):
        return True
    try:
        with open("/etc/ld.so.cache", "rb") as cache:
            return b"\0" + name.encode() + b"\0" in cache.read()
    except OSError:  # no such cache on this system
        return False


def _program(name: str) -> bool:
    import shutil

    words = os.environ.get(name[1:], "").split() if name.startswith("$") else [name]
    return bool(words) and shutil.which(words[0]) is not None


def _pci(vendor: int) -> bool:
    folder = "/sys/bus/pci/devices"
    try:
        devices = os.listdir(folder)
    except OSError:  # not Linux, or no PCI
        return False
    for device in devices:
        try:
            with open(f"{folder}/{device}/vendor") as file:
                if int(file.read(), 16) == vendor:
                    return True
        except (OSError, ValueError):  # a device that was just removed
            continue
    return False


# Any: str or int, as the field of that name holds.
_HOLDS: dict[str, Callable[[Any], bool]] = {
    "platform": sys.platform.startswith,
    "any_path": _path,
    "any_library": _library,
    "any_env": lambda name: bool(os.environ.get(name)),
    "any_program": _program,
    "pci_vendor": _pci,
}
_SAY = {
    "any_path": "path",
    "any_library": "library",
    "any_env": "environment variable",
    "any_program": "program",
    "pci_vendor": "PCI device of vendor",
}
