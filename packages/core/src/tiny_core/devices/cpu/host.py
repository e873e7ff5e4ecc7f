"""What the host has: architecture, instruction-set features, cache sizes. Read from the system, never from a
CPU name.

Feature names are those of compilers and of DEV (`avx512f`, `fma`). A feature implies others: switching one on
brings what it needs, switching one off takes along what needs it.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tiny_core.api import Arch, TargetError


@dataclass(frozen=True, slots=True)
class Feature:
    """An instruction-set feature.

    Args:
        flag: its name in /proc/cpuinfo.
        needs: features it implies.
        state: bits of XCR0 that the operating system must have set (Intel SDM vol. 1, section 13.3).
        option: compiler option that allows it; "" where our C code does not use it.
    """

    flag: str
    needs: tuple[str, ...] = ()
    state: int = 0
    option: str = ""


_YMM, _ZMM, _AMX = 0x6, 0xE6, 0x60000
X86_64: dict[str, Feature] = {
    "sse3": Feature("pni", (), 0, "-msse3"),
    "ssse3": Feature("ssse3", ("sse3",), 0, "-mssse3"),
    "sse4.1": Feature("sse4_1", ("ssse3",), 0, "-msse4.1"),
    "sse4.2": Feature("sse4_2", ("sse4.1",), 0, "-msse4.2"),
    "popcnt": Feature("popcnt", (), 0, "-mpopcnt"),
    "bmi": Feature("bmi1", (), 0, "-mbmi"),
    "bmi2": Feature("bmi2", (), 0, "-mbmi2"),
    "lzcnt": Feature("abm", (), 0, "-mlzcnt"),
    "avx": Feature("avx", ("sse4.2",), _YMM, "-mavx"),
    "f16c": Feature("f16c", ("avx",), _YMM, "-mf16c"),
    "fma": Feature("fma", ("avx",), _YMM, "-mfma"),
    "avx2": Feature("avx2", ("avx",), _YMM, "-mavx2"),
    "avxvnni": Feature("avx_vnni", ("avx2",), _YMM),
    "avx512f": Feature("avx512f", ("avx2", "fma", "f16c"), _ZMM, "-mavx512f"),
    "avx512cd": Feature("avx512cd", ("avx512f",), _ZMM, "-mavx512cd"),
    "avx512dq": Feature("avx512dq", ("avx512f",), _ZMM, "-mavx512dq"),
    "avx512bw": Feature("avx512bw", ("avx512f",), _ZMM, "-mavx512bw"),
    "avx512vl": Feature("avx512vl", ("avx512f",), _ZMM, "-mavx512vl"),
    "avx512vbmi": Feature("avx512vbmi", ("avx512bw",), _ZMM),
    "avx512vnni": Feature("avx512_vnni", ("avx512f",), _ZMM),
    "avx512bf16": Feature("avx512_bf16", ("avx512bw",), _ZMM),
    "avx512fp16": Feature("avx512_fp16", ("avx512bw", "avx512dq", "avx512vl"), _ZMM),
    "amx-tile": Feature("amx_tile", (), _AMX),
    "amx-int8": Feature("amx_int8", ("amx-tile",), _AMX),
    "amx-bf16": Feature("amx_bf16", ("amx-tile",), _AMX),
}
AARCH64: dict[str, Feature] = {
    "neon": Feature("asimd"),
    "fullfp16": Feature("asimdhp", ("neon",)),
    "dotprod": Feature("asimddp", ("neon",)),
    "bf16": Feature("bf16", ("neon",)),
    "i8mm": Feature("i8mm", ("neon",)),
    "sve": Feature("sve", ("fullfp16",)),
    "sve2": Feature("sve2", ("sve",)),
}
FEATURES: dict[str, dict[str, Feature]] = {"x86_64": X86_64, "aarch64": AARCH64}
_BASELINE = {"x86_64": frozenset[str](), "aarch64": frozenset({"neon"})}

# xor ecx, ecx; xgetbv; shl rdx, 32; or rax, rdx; ret
_READ_XCR0 = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")
FALLBACK_CACHES = (32 << 10, 512 << 10)  # where the system does not tell: small enough for any current core


def complete(arch: Arch) -> Arch:
    """Return `arch` with its name filled in and every known feature listed as present or not.

    A named architecture begins with its baseline, so that what is rendered for it is the same on any machine;
    an unnamed one is this host with what this host has.

    Raises:
        TargetError: the architecture or a feature is unknown.
    """
    name = arch.name or platform.machine()
    table = FEATURES.get(name)
    if table is None:
        raise TargetError(f"unknown CPU architecture {name!r}", f"known are {', '.join(FEATURES)}")
    for feature, _ in arch.features:
        if feature not in table:
            raise TargetError(f"{name} has no feature {feature!r}", f"known are {', '.join(sorted(table))}")
    present = set(_BASELINE[name] if arch.name else host_features(name))
    present |= set(_closure(table, (f for f, on in arch.features if on)))
    for feature, on in arch.features:
        if not on:
            present -= {f for f in present if feature in _closure(table, (f,))}
    return Arch(name, tuple((f, f in present) for f in sorted(table)))


def _closure(table: dict[str, Feature], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield name
        yield from _closure(table, table[name].needs)


@cache
def host_features(name: str) -> frozenset[str]:
    """Return the features of this machine, an architecture called `name`, that processor and system both
    support."""
    flags = _flags()
    state = _enabled_state() if "avx" in flags else 0
    table = FEATURES[name]
    own = {n for n, f in table.items() if f.flag in flags and f.state & ~state == 0}
    return frozenset(n for n in own if own.issuperset(_closure(table, (n,))))


def _flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(rest.split())
    return frozenset()


def _enabled_state() -> int:
    """Return XCR0: the register state that the operating system saves. Only where the kernel reports AVX,
    which proves that the instruction may be executed."""
    from tiny_core.devices.cpu import libc

    page = libc.page_size()
    address = libc.map_memory(page)
    try:
        libc.view(address, len(_READ_XCR0))[:] = _READ_XCR0
        libc.protect(address, page, libc.PROT_READ | libc.PROT_EXEC)
        return int(ctypes.CFUNCTYPE(ctypes.c_uint64)(address)())
    finally:
        libc.unmap_memory(address, page)


@cache
def caches(root: str = "/sys/devices/system/cpu/cpu0") -> tuple[int, ...]:
    """Return the bytes of the data caches that one core has for itself, nearest first."""
    found: dict[int, int] = {}
    try:
        siblings = _cpus(f"{root}/topology/thread_siblings_list")
        for folder in Path(root, "cache").glob("index*"):
            kind = (folder / "type").read_text().strip()
            if kind in ("Data", "Unified") and _cpus(f"{folder}/shared_cpu_list") <= siblings:
                size = (folder / "size").read_text().strip()
                units = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:])
                found[int((folder / "level").read_text())] = int(size[:-1]) * units if units else int(size)
    except (OSError, ValueError):
        return FALLBACK_CACHES
    return tuple(found[level] for level in sorted(found)) or FALLBACK_CACHES


def _cpus(path: str) -> frozenset[int]:
    """Read a list such as `0-3,8`."""
    result: set[int] = set()
    for part in Path(path).read_text().strip().split(","):
        first, _, last = part.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return frozenset(result)
