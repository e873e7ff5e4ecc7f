"""Sizes of the host's private caches, from sysfs (Documentation/ABI/testing/sysfs-devices-system-cpu)."""

from __future__ import annotations

from pathlib import Path

UNKNOWN = (32 << 10, 512 << 10)
"""Assumed where nothing is known: what x86 and ARM cores of the last ten years have at least."""


def private_caches(root: Path = Path("/sys/devices/system/cpu/cpu0")) -> tuple[int, ...]:
    """Return the bytes of the data caches that a core has to itself, nearest first; `UNKNOWN` where the
    system does not say. What only the hardware threads of one core share counts as private."""
    sizes: dict[int, int] = {}
    try:
        threads = _processors((root / "topology" / "thread_siblings_list").read_text())
        for index in (root / "cache").glob("index*"):
            level, kind, size, shared = (
                (index / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list")
            )
            if kind in ("Data", "Unified") and _processors(shared) <= threads:
                sizes[int(level)] = int(size.rstrip("KM")) << {"K": 10, "M": 20}.get(size[-1], 0)
    except (OSError, ValueError):
        return UNKNOWN
    return tuple(sizes[level] for level in sorted(sizes)) or UNKNOWN


def _processors(text: str) -> frozenset[int]:
    """Return the processors that a list like `0-1,4` names."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
