"""CPU features by name: what implies what, what the host has, and the feature string for LLVM.

Names are LLVM's; the kernel's (`avx512_vnni`, `sse4_1`) are accepted as well. Features come from feature
bits, never from a CPU's name. On Linux /proc/cpuinfo lists the CPUID bits whose register state the kernel has
enabled in XCR0 (it clears the others at boot, arch/x86/kernel/fpu/xstate.c); AMX also needs a kernel that
gives processes its tile data on request, which `tiles_supported` asks. On other systems the baseline of the
architecture is taken.
"""

from __future__ import annotations

import difflib
import platform
import sys
from collections.abc import Iterable

from tiny_core.api import TargetError

# feature: what it needs. LLVM turns the needs on with it, and it off with any of them.
X86: dict[str, tuple[str, ...]] = {
    "sse2": (), "sse3": ("sse2",), "ssse3": ("sse3",), "sse4.1": ("ssse3",), "sse4.2": ("sse4.1",),
    "popcnt": (), "bmi": (), "bmi2": (), "lzcnt": (), "movbe": (), "gfni": ("sse2",),
    "avx": ("sse4.2",), "avx2": ("avx",), "f16c": ("avx",), "fma": ("avx",), "avxvnni": ("avx2",),
    "avx512f": ("avx2", "f16c", "fma"), "avx512cd": ("avx512f",), "avx512dq": ("avx512f",),
    "avx512bw": ("avx512f",), "avx512vl": ("avx512f",), "avx512ifma": ("avx512f",),
    "avx512vpopcntdq": ("avx512f",), "avx512vnni": ("avx512f",), "avx512vbmi": ("avx512bw",),
    "avx512vbmi2": ("avx512bw",), "avx512bitalg": ("avx512bw",), "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
    "amx-tile": (), "amx-int8": ("amx-tile",), "amx-bf16": ("amx-tile",),
}  # fmt: skip
ARM: dict[str, tuple[str, ...]] = {
    "neon": (), "fullfp16": ("neon",), "dotprod": ("neon",), "bf16": ("neon",), "i8mm": ("neon",),
}  # fmt: skip

# names in /proc/cpuinfo that differ from LLVM's by more than punctuation
_KERNEL_NAMES = {
    "pni": "sse3", "bmi1": "bmi", "abm": "lzcnt", "asimd": "neon", "asimddp": "dotprod",
    "asimdhp": "fullfp16",
}  # fmt: skip

# The levels of the x86-64 psABI: what a machine of unknown make may be asked for.
_V2 = ("sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
_V3 = (*_V2, "avx", "avx2", "f16c", "fma", "bmi", "bmi2", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
BASELINES: dict[str, tuple[str, ...]] = {
    "x86_64": ("sse2",), "x86_64_v2": _V2, "x86_64_v3": _V3, "x86_64_v4": _V4, "aarch64": ("neon",),
}  # fmt: skip

# What the calling conventions of these architectures pass floats in.
ALWAYS = frozenset({"sse2", "neon"})

# Detected, and never switched on: nothing generates code for them yet, and a process must be given permission
# (ARCH_REQ_XCOMP_PERM) before it uses tiles.
UNUSED = frozenset({"amx-tile", "amx-int8", "amx-bf16"})

_SYS_ARCH_PRCTL = 158
_ARCH_GET_XCOMP_SUPP = 0x1021
_TILES = 1 << 17 | 1 << 18  # XFEATURE_XTILECFG, XFEATURE_XTILEDATA


def host_arch() -> str:
    """Return the host's architecture by our names.

    Raises:
        TargetError: neither x86-64 nor AArch64.
    """
    machine = platform.machine().lower()
    known = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(machine)
    if known is None:
        raise TargetError(
            f"LLVM: no renderer for a {machine} host", "name an architecture, or use another renderer"
        )
    return known


def known_features(arch: str) -> dict[str, tuple[str, ...]]:
    """Return the table of features of a CPU architecture."""
    return X86 if arch.startswith("x86_64") else ARM


def canonical(name: str, table: dict[str, tuple[str, ...]]) -> str | None:
    """Return LLVM's name of a feature given by LLVM's or the kernel's name; None if it is not in the
    table."""
    if name in table:
        return name
    plain = _KERNEL_NAMES.get(name, name)
    if plain in table:
        return plain
    squeezed = plain.replace("_", "").replace(".", "").replace("-", "")
    return next((f for f in table if f.replace(".", "").replace("-", "") == squeezed), None)


def from_cpuinfo(text: str, table: dict[str, tuple[str, ...]]) -> frozenset[str]:
    """Return the features that the text of /proc/cpuinfo lists for the first processor."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(f for name in value.split() if (f := canonical(name, table)) is not None)
    return frozenset()


def host_features(arch: str, cpuinfo: str = "/proc/cpuinfo") -> frozenset[str]:
    """Return the features of this machine, which is of architecture `arch`; `cpuinfo` is where Linux lists
    them."""
    found = frozenset(BASELINES[arch])
    if sys.platform == "linux":
        with open(cpuinfo, encoding="ascii", errors="replace") as file:
            found |= from_cpuinfo(file.read(), known_features(arch))
    tiles = {f for f in found if f.startswith("amx-")}
    return found - tiles if tiles and not tiles_supported() else found


def tiles_supported() -> bool:
    """Return whether a process may ask Linux for AMX tile data.

    arch_prctl(ARCH_GET_XCOMP_SUPP), Documentation/arch/x86/xstate.rst: which components of the register state
    the kernel knows to manage. The question changes nothing, whereas permission itself enlarges the signal
    frame of every thread and is left to whoever uses tiles. Kernels that do not know the question have no
    tiles to give.
    """
    return components() & _TILES == _TILES


def components() -> int:
    """Return the components of the register state that the kernel manages, as bits of XCR0; 0 where it
    cannot say."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return 0
    import ctypes

    mask = ctypes.c_uint64()
    call = ctypes.CDLL(None, use_errno=True).syscall
    arguments = (ctypes.c_long(_SYS_ARCH_PRCTL), ctypes.c_long(_ARCH_GET_XCOMP_SUPP), ctypes.byref(mask))
    return mask.value if int(call(*arguments)) == 0 else 0


def complete(
    arch: str, start: Iterable[str], wishes: Iterable[tuple[str, bool]]
) -> tuple[tuple[str, bool], ...]:
    """Return every known feature of `arch` with whether generated code may use it.

    Args:
        arch: a CPU architecture.
        start: features to begin with; those whose needs are not among them are dropped.
        wishes: features that the user adds (with what they need) or forbids (with what needs them), in order.

    Raises:
        TargetError: an unknown feature, with the closest known names; or one that cannot be forbidden.
    """
    table = known_features(arch)
    have = set(start) - UNUSED
    have = {f for f in have if _needs(f, table) <= have}
    for name, wanted in wishes:
        feature = canonical(name, table)
        if feature is None:
            close = difflib.get_close_matches(name, table, n=3) or sorted(table)
            raise TargetError(f"LLVM: {arch} has no feature {name!r}", f"known are {', '.join(close)}")
        if not wanted and feature in ALWAYS:
            raise TargetError(f"LLVM: code for {arch} cannot do without {feature}", "leave it out")
        if wanted:
            have |= _needs(feature, table)
        else:
            have = {f for f in have if feature not in _needs(f, table)}
    return tuple((f, f in have) for f in sorted(table))


def _needs(feature: str, table: dict[str, tuple[str, ...]]) -> set[str]:
    needs = {feature}
    for other in table[feature]:
        needs |= _needs(other, table)
    return needs


def feature_string(features: Iterable[tuple[str, bool]]) -> str:
    """Return the text of LLVM's `target-features`."""
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in features)
