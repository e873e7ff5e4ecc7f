"""What `tiny doctor` looks at in core itself: the persistent cache, and the environment's settings.

A built-in plugin that offers no device: its hook is called as any plugin's is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from tiny_core.plugins.specs import Check, CheckSpec, Fix

_MOST_BYTES: Final = 64 << 20  # of entries that are read through; a cache may be a gigabyte
_CLEAR: Final = ("cache", "clear")


def tiny_doctor_checks() -> tuple[CheckSpec, ...]:
    """The checks."""
    return (
        CheckSpec("core.cache", "", "the persistent cache can be used", "tiny_core.engine.health:cache"),
        CheckSpec("core.settings", "", "variables TINY_… are settings", "tiny_core.engine.health:variables"),
    )


def cache(target: str) -> Iterator[Check]:
    """Whether the cache folder is ours alone and writable, and its entries are whole."""
    from tiny_core.engine.cache import kernel_cache, user_cache_folder
    from tiny_core.settings import CACHE

    if not CACHE.value:
        yield Check("OK", "not in use (TINY_CACHE=0)")
        return
    folder = kernel_cache.folder
    above = folder
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.access(above, os.W_OK):
        hint = f"make {above} writable, or set TINY_CACHE_DIR"
        yield Check("WARN", f"{folder} cannot be written: kernels are compiled anew in each process", hint)
        return
    if above == folder and hasattr(os, "getuid"):
        facts = os.stat(folder)
        if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            where = "" if folder.startswith(user_cache_folder()) else " (TINY_CACHE_DIR)"
            hint = f"chmod 700 {folder}, or set TINY_CACHE_DIR to a folder of your own"
            yield Check("WARN", f"{folder}{where} can be written by others: it is not used", hint)
            return
    yield _entries(folder)


def variables(target: str) -> Iterator[Check]:
    """Whether every variable TINY_… is the name of a setting and its value parses."""
    from tiny_core.errors import SettingError
    from tiny_core.plugins.target import did_you_mean
    from tiny_core.settings import declared

    known = {f"TINY_{setting.name}": setting for setting in declared()}
    good = True
    for name in sorted(n for n in os.environ if n.startswith("TINY_")):
        if name not in known:
            good = False
            hint = did_you_mean(name, known, "tiny settings")
            yield Check("WARN", f"{name} is no setting and does nothing", hint)
            continue
        try:
            known[name].parse(os.environ[name])
        except SettingError as error:
            good = False
            yield Check("FAIL", error.message, f"unset {name}")
    if good:
        yield Check("OK", "all variables TINY_… are settings")


def _entries(folder: str) -> Check:
    """Whether the entries of a cache folder are what was written, as far as they are read."""
    from tiny_core.engine.cache import readable

    count = broken = nbytes = 0
    for path, _, names in os.walk(folder):
        for name in names:
            if nbytes < _MOST_BYTES and not name.startswith("."):
                try:
                    with open(os.path.join(path, name), "rb") as file:
                        data = file.read()
                except OSError:  # evicted while we look
                    continue
                count, nbytes = count + 1, nbytes + len(data)
                broken += not readable(data)
    if broken:
        fix = Fix(_CLEAR, f"removes all kernels in {folder}; they are compiled again when they are needed")
        return Check("WARN", f"{broken} of {count} entries in {folder} are damaged", "tiny cache clear", fix)
    return Check("OK", f"{count} entries read, {nbytes / 1e6:.1f} MB")
