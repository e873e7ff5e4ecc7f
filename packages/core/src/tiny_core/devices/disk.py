"""The DISK device: files as memory. `DISK:/path/to/file` is one file, mapped, never read as a whole.

A mapped file is host memory at an address, so tensors on it are read without a copy, page by page as they are
touched. Files are opened at the first access. What is wrong with one is a DataError before memory is touched:
a missing or truncated file, or one that has changed its size since it was opened (reading beyond its new end
would kill the process).
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Mapping
from typing import Literal, final

from tiny_core.api import (
    Compiled,
    DataError,
    DeviceError,
    Handle,
    OutOfMemory,
    ProgramHandle,
    Runtime,
    RuntimeCapabilities,
    RuntimeSpec,
    TargetError,
)

Mode = Literal["r", "rw", "create"]


def open_file(path: str | os.PathLike[str], nbytes: int | None = None, mode: Mode = "r") -> DiskFile:
    """Open a file for mapping.

    Args:
        path: of the file.
        nbytes: bytes that it must have at least; for "create", exactly those it gets.
        mode: "r" to read; "rw" to read and write in place; "create" for a new file of zeros, or instead of an
            old one.

    Raises:
        DataError: the file is missing, no regular file, not accessible or too short.
        OutOfMemory: there is no room for a new one.
    """
    return DiskFile(os.fspath(path), nbytes, mode)


@final
class DiskFile:
    """An open file; see `open_file`.

    Attributes:
        path: of the file.
        nbytes: its size.
        writable: whether it can be written.
    """

    def __init__(self, path: str, nbytes: int | None, mode: Mode) -> None:
        if mode not in ("r", "rw", "create"):
            raise DataError(f"{mode!r} is no way to open a file", "r, rw or create")
        if mode == "create" and nbytes is None:
            raise DataError(f"a size is needed to create {path}")
        self.path, self.writable = path, mode != "r"
        self._map: mmap.mmap | None = None
        self._address = 0
        self._lock = threading.Lock()
        self._fd = -1
        self._fd = self._open(mode)
        try:
            if mode == "create":
                self._reserve(nbytes or 0)
            self.nbytes = self._size()
            if nbytes is not None and self.nbytes < nbytes:
                raise DataError(
                    f"{path} has {self.nbytes} bytes, and {nbytes} are needed",
                    "the file is truncated; get it again",
                )
        except BaseException:
            self.close()
            raise

    def _open(self, mode: Mode) -> int:
        flags = {"r": os.O_RDONLY, "rw": os.O_RDWR, "create": os.O_RDWR | os.O_CREAT | os.O_TRUNC}[mode]
        flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        try:
            if mode != "create" and not os.path.isfile(self.path):
                what = "is no regular file" if os.path.exists(self.path) else "does not exist"
                raise DataError(f"{self.path} {what}")
            return os.open(self.path, flags, 0o666)
        except OSError as error:
            raise DataError(f"cannot open {self.path}: {error.strerror}") from error

    def _reserve(self, nbytes: int) -> None:
        """Give a new file its size, and its room, without which a later write to the mapping would be
        fatal."""
        try:
            os.ftruncate(self._fd, nbytes)
            if nbytes and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, 0, nbytes)
        except OSError as error:
            raise OutOfMemory(f"no room for {nbytes} bytes in {self.path}: {error.strerror}") from error

    def _size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def address(self) -> int:
        """Address of its first byte in this process's memory, at a page's start; 0 for an empty file."""
        with self._lock:
            if self._map is None and self.nbytes:
                self.check()
                access = mmap.ACCESS_WRITE if self.writable else mmap.ACCESS_READ
                try:
                    self._map = mmap.mmap(self._fd, self.nbytes, access=access)
                except OSError as error:
                    raise DataError(f"cannot map {self.path}: {error.strerror}") from error
                import numpy as np

                self._address = int(np.frombuffer(self._map, np.uint8).ctypes.data)
            return self._address

    def check(self) -> None:
        """Raise DataError if the file is closed or has another size than when it was opened."""
        if self._fd < 0:
            raise DataError(f"{self.path} is closed")
        size = self._size()
        if size != self.nbytes:
            raise DataError(
                f"{self.path} had {self.nbytes} bytes when it was opened and has {size} now",
                "something else writes to it; open it again when that is done",
            )

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Return a part of the mapped file, writable if the file is; release it before `close`.

        Raises:
            DataError: the part reaches beyond the file, or `check` fails.
        """
        self.check()
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise DataError(f"bytes {offset} to {offset + nbytes} of {self.path}, which has {self.nbytes}")
        if not nbytes:
            return memoryview(b"")
        assert self.address and self._map is not None
        with memoryview(self._map) as whole:
            return whole[offset : offset + nbytes]

    def flush(self) -> None:
        """Wait until what was written is on the disk."""
        if self._map is not None and self.writable:
            self._map.flush()

    def close(self) -> None:
        """Unmap and close. Addresses within the mapping are invalid afterwards; views must have been
        released."""
        with self._lock:
            if self._map is not None:
                self._map.close()
                self._map, self._address = None, 0
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


class DiskRuntime(Runtime):
    """A file. Every allocation is the file from its first byte on: there is nothing else to allocate.

    Args:
        options: `path` names the file. `mode=rw` lets an existing file be written; without it, one is only
            read. A file that does not exist is created by the first allocation, with that size, and may be
            written.

    Raises:
        DeviceError: no path was given.
        TargetError: the mode is unknown.
    """

    capabilities = RuntimeCapabilities(executes=False, align=mmap.ALLOCATIONGRANULARITY, host_visible=True)

    def __init__(self, index: int = 0, iface: str = "", options: Mapping[str, str] | None = None) -> None:
        super().__init__(index, iface, options)
        self.path = self.options.get("path", "")
        mode = self.options.get("mode", "r")
        if not self.path:
            raise DeviceError("DISK needs a path", "write DISK:/path/to/file")
        if mode not in ("r", "rw"):
            raise TargetError(f"mode={mode} of DISK is neither r nor rw")
        self._mode: Mode = "rw" if mode == "rw" else "r"
        self._file: DiskFile | None = None
        self._lock = threading.Lock()

    @property
    def file(self) -> DiskFile:
        """The file, opened at the first use; raises DataError where it is missing."""
        return self._opened(None)

    def _opened(self, create: int | None) -> DiskFile:
        with self._lock:
            if self._file is None:
                if create is None or os.path.exists(self.path):
                    self._file = open_file(self.path, None, self._mode)
                else:
                    self._file = open_file(self.path, create, "create")
            return self._file

    def allocate(self, nbytes: int) -> Handle:
        file = self._opened(nbytes)
        if nbytes > file.nbytes:
            raise DataError(
                f"{self.path} has {file.nbytes} bytes, and {nbytes} are needed",
                "the file is truncated; get it again",
            )
        return file.address

    def free(self, handle: Handle, nbytes: int) -> None:
        pass  # the file stays

    def copy_in(self, dest: Handle, source: memoryview) -> None:
        file = self.file
        if not file.writable:
            raise DataError(
                f"{self.path} is open for reading only", "DISK:…,mode=rw lets an existing file be written"
            )
        with file.view(dest - file.address, source.nbytes) as part:
            if part.nbytes:
                part[:] = source.cast("B")

    def copy_out(self, dest: memoryview, source: Handle) -> None:
        file = self.file
        with file.view(source - file.address, dest.nbytes) as part:
            if part.nbytes:
                dest.cast("B")[:] = part

    def load(self, compiled: Compiled) -> ProgramHandle:
        raise DeviceError(
            f"DISK:{self.path} stores data and runs no kernels",
            "move the tensor to another device with .to(…)",
        )

    def launch(
        self,
        program: ProgramHandle,
        buffers: tuple[Handle, ...],
        scalars: tuple[int, ...],
        grid: tuple[int, ...],
    ) -> None:
        raise DeviceError(
            f"DISK:{self.path} stores data and runs no kernels",
            "move the tensor to another device with .to(…)",
        )

    def synchronize(self) -> None:
        """Check that the mapping still has a file behind all of it; the engine calls this before it reads
        memory."""
        if self._file is not None:
            self._file.check()

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def tiny_runtimes() -> tuple[RuntimeSpec, ...]:
    return (
        RuntimeSpec(
            "DISK",
            open="tiny_core.devices.disk:DiskRuntime",
            options=(
                ("path", "the file; written as DISK:/path/to/file"),
                ("mode", "rw: an existing file may be written"),
            ),
            profile="storage",
        ),
    )
