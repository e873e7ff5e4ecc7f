"""The few functions of the C library that the CPU device calls or hands to native code, through ctypes.

Numbers are Linux's: <sys/mman.h>, <linux/futex.h>, and the system call tables of x86-64 and AArch64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache

from tiny_core.api import DeviceError, LaunchError, OutOfMemory

PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_PRIVATE, MAP_ANONYMOUS = 0x02, 0x20
MADV_HUGEPAGE = 14
FUTEX_CALL = {"x86_64": 202, "aarch64": 98}  # system call number of futex(2)
PAGE = 4096  # mappings are laid out for it; larger pages are multiples of it


@cache
def library() -> ctypes.CDLL:
    """Return the C library, with prototypes set; raises DeviceError where it is not Linux's."""
    if not sys.platform.startswith("linux"):
        raise DeviceError(
            f"the CPU device needs Linux, not {sys.platform}", "DEV=PYTHON runs everywhere, slowly"
        )
    lib = ctypes.CDLL(None, use_errno=True)
    lib.mmap.restype = ctypes.c_void_p
    lib.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    ]  # fmt: skip
    lib.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    lib.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    lib.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    lib.pthread_create.argtypes = [ctypes.c_void_p] * 4
    lib.pthread_join.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    return lib


def page_size() -> int:
    return max(PAGE, os.sysconf("SC_PAGESIZE"))


def address_of(function: str) -> int:
    """Return the address of a function of the C library."""
    return ctypes.cast(getattr(library(), function), ctypes.c_void_p).value or 0


def map_memory(nbytes: int) -> int:
    """Map `nbytes` of zeroed, readable and writable memory and return its address; raises OutOfMemory."""
    address = library().mmap(None, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OutOfMemory(
            f"cannot map {nbytes:,} bytes: {os.strerror(code)}",
            "free tensors, or use smaller ones" if code == errno.ENOMEM else "",
        )
    return int(address)


def unmap_memory(address: int, nbytes: int) -> None:
    """Give back what `map_memory` returned."""
    library().munmap(address, nbytes)


def protect(address: int, nbytes: int, protection: int) -> None:
    """Change the protection of whole pages; raises LaunchError where the system forbids it."""
    if library().mprotect(address, nbytes, protection) != 0:
        raise LaunchError(
            f"cannot make memory executable: {os.strerror(ctypes.get_errno())}",
            "a security policy of this system forbids run-time compiled code",
        )


def view(address: int, nbytes: int) -> memoryview:
    """Return `nbytes` of memory at `address` as a writable view of bytes; the caller keeps the memory
    alive."""
    result = _from_memory()(address, nbytes, 0x200)  # PyBUF_WRITE
    assert isinstance(result, memoryview)
    return result


@cache
def _from_memory() -> ctypes._NamedFuncPointer:
    function = ctypes.pythonapi.PyMemoryView_FromMemory
    function.restype = ctypes.py_object
    function.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
    return function
