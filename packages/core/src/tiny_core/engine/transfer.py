"""Bytes between host and devices: host views, copies between any two devices.

A host view of memory that the host can see is that memory. It counts as an export of its Buffer while it, or
anything made from it, lives: `writable` gives memory with exports a new place before it is overwritten, so a
view never changes.
"""

from __future__ import annotations

import weakref
from typing import Final

from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import Buffer, memory_of, set_memory
from tiny_core.runtime.device import OpenDevice
from tiny_core.runtime.runtime import Runtime

_STAGING_BYTES: Final = 16 << 20


def _settle(buffer: Buffer) -> None:
    """Wait for what the Buffer's device has been given. Memory of a runtime of its own (a mapped file) is
    asked too whether it is still there: to touch what a file has lost would kill the process."""
    buffer.device.synchronize()
    owner = buffer.root.owner
    if isinstance(owner, Runtime):
        owner.synchronize()


def host_bytes(buffer: Buffer, offset: int, nbytes: int) -> memoryview:
    """Return memory of a host-visible device as writable bytes; the caller keeps `buffer` alive."""
    import ctypes

    return memoryview((ctypes.c_char * nbytes).from_address(buffer.handle + offset)).cast("B")


def export(buffer: Buffer, offset: int, nbytes: int) -> memoryview:
    """Return the content of a Buffer as read-only bytes: the memory itself where the host sees it, else a
    copy."""
    device = buffer.device
    _settle(buffer)
    if nbytes == 0:
        return memoryview(b"")
    if not device.runtime.capabilities.host_visible:
        data = memoryview(bytearray(nbytes))
        device.runtime.copy_out(data, device.runtime.view(buffer.handle, offset))
        return data.toreadonly()
    import ctypes

    window = (ctypes.c_char * nbytes).from_address(buffer.handle + offset)
    root = buffer.root
    root.exports += 1
    weakref.finalize(window, _unexport, root, buffer).atexit = False
    return memoryview(window).cast("B").toreadonly()


def _unexport(root: Buffer, buffer: Buffer) -> None:
    root.exports -= 1


def writable(node: UOp) -> Buffer:
    """Return the memory of a BUFFER node that is about to be written; it moves if host views of it exist."""
    buffer = memory_of(node)
    if not buffer.root.exports or buffer.parent is not None:
        return buffer
    moved = Buffer(buffer.device, buffer.nbytes, buffer.label)
    copy(moved, 0, buffer, 0, buffer.nbytes)
    return set_memory(node, moved)


def fill(buffer: Buffer, data: memoryview) -> None:
    """Copy host bytes to the start of a Buffer."""
    if data.nbytes:
        _settle(buffer)
        buffer.device.runtime.copy_in(buffer.handle, data)


def copy(dest: Buffer, dest_offset: int, source: Buffer, source_offset: int, nbytes: int) -> None:
    """Copy between two Buffers of any devices; waits for what both devices have been given before, and for
    the copy."""
    to, from_ = dest.device, source.device
    _settle(source)
    _settle(dest)
    if not nbytes:
        return
    target, origin = (
        to.runtime.view(dest.handle, dest_offset),
        from_.runtime.view(source.handle, source_offset),
    )
    stored = from_.runtime.capabilities.host_visible and not from_.runtime.capabilities.executes
    if not stored and (to is from_ or _peers(to, from_)):
        to.runtime.copy_peer(target, origin, nbytes)
        to.runtime.synchronize()
    elif from_.runtime.capabilities.host_visible:
        to.runtime.copy_in(target, host_bytes(source, source_offset, nbytes))
    elif to.runtime.capabilities.host_visible:
        from_.runtime.copy_out(host_bytes(dest, dest_offset, nbytes), origin)
    else:
        staging = memoryview(bytearray(min(nbytes, _STAGING_BYTES)))
        for at in range(0, nbytes, _STAGING_BYTES):
            piece = staging[: min(_STAGING_BYTES, nbytes - at)]
            from_.runtime.copy_out(piece, from_.runtime.view(origin, at))
            to.runtime.copy_in(to.runtime.view(target, at), piece)


def _peers(a: OpenDevice, b: OpenDevice) -> bool:
    return type(a.runtime) is type(b.runtime) and a.runtime.capabilities.peers
