"""Sizes of the host's caches, from sysfs (Documentation/ABI/testing/sysfs-devices-system-cpu)."""

from __future__ import annotations

from pathlib import Path

UNKNOWN = (32 << 10, 512 << 10)
"""Assumed where nothing is known: what x86 and ARM cores of the last ten years have at least."""


def private_caches(root: Path = Path("/sys/devices/system/cpu/cpu0")) -> tuple[int, ...]:
    """Return the bytes of the data caches that a core has to itself, nearest first; `UNKNOWN` where the
    system does not say. What only the hardware threads of one core share counts as private."""
    try:
        threads = _processors((root / "topology" / "thread_siblings_list").read_text())
        found = _data_caches(root)
    except (OSError, ValueError):
        return UNKNOWN
    return tuple(size for size, shared in found if shared <= threads) or UNKNOWN


def last_cache(root: Path = Path("/sys/devices/system/cpu/cpu0")) -> int:
    """Return the bytes of the outermost cache, which cores may share; 0 where the system does not say."""
    try:
        found = _data_caches(root)
    except (OSError, ValueError):
        return 0
    return found[-1][0] if found else 0


def _data_caches(root: Path) -> list[tuple[int, frozenset[int]]]:
    """Return size and processors of the caches that hold data, nearest first."""
    found: dict[int, tuple[int, frozenset[int]]] = {}
    for index in (root / "cache").glob("index*"):
        level, kind, size, shared = (
            (index / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list")
        )
        if kind in ("Data", "Unified"):
            nbytes = int(size.rstrip("KM")) << {"K": 10, "M": 20}.get(size[-1], 0)
            found[int(level)] = nbytes, _processors(shared)
    return [found[level] for level in sorted(found)]


def _processors(text: str) -> frozenset[int]:
    """Return the processors that a list like `0-1,4` names."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
