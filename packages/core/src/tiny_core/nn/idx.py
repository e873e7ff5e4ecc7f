"""IDX files, the format of the MNIST family: an array of numbers after a big-endian header.

In: the bytes of a file, raw or gzipped. Out: its shape and its elements. Guaranteed: the file is exactly as
long as its header says; anything else is a DataError that names the file. The header is two zero bytes, a
type code, the number of axes, and the length of each as a 32-bit number (http://yann.lecun.com/exdb/mnist,
"The IDX file format").
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from dataclasses import dataclass

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.errors import DataError

_TYPES = {
    0x08: dtypes.uint8,
    0x09: dtypes.int8,
    0x0B: dtypes.int16,
    0x0C: dtypes.int32,
    0x0D: dtypes.float32,
    0x0E: dtypes.float64,
}
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Idx:
    """An array read from an IDX file.

    Args:
        shape: lengths of its axes.
        dtype: of its elements.
        data: the elements in row-major order, in this machine's byte order.
    """

    shape: tuple[int, ...]
    dtype: DType
    data: memoryview


def read_idx(path: str | os.PathLike[str]) -> Idx:
    """Read an IDX file, gzipped or not (told by its first bytes).

    Raises:
        DataError: the file cannot be read, is no IDX file, or is not as long as its header says.
    """
    name = os.fspath(path)
    return parse_idx(unpacked(name), name)


def parse_idx(content: bytes, name: str = "data") -> Idx:
    """Take the bytes of an uncompressed IDX file apart; `name` is what errors call it.

    >>> parse_idx(b"\\0\\0\\x08\\x01\\0\\0\\0\\x02ab").shape
    (2,)
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise DataError(
            f"{name} is no IDX file: it begins with {content[:4].hex(' ') or 'nothing'}",
            "IDX begins with 00 00, a type code (08 for bytes) and the number of axes",
        )
    dtype, axes = _TYPES[content[2]], content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise DataError(f"{name} ends within its header, after {len(content)} bytes", "get the file again")
    shape = struct.unpack_from(f">{axes}I", content, 4)
    size = dtype.itemsize
    for n in shape:
        size *= n
    if len(content) - start != size:
        what = "truncated" if len(content) - start < size else "longer than its header says"
        raise DataError(
            f"{name} is {what}: shape {shape} of {dtype.name} takes {size} bytes, and {len(content) - start} "
            "follow",
            "get the file again",
        )
    return Idx(shape, dtype, _swapped(memoryview(content)[start:], dtype.itemsize))


def unpacked(path: str, limit: int | None = None) -> bytes:
    """Return a file's bytes, uncompressed if it is gzipped.

    Args:
        path: of the file.
        limit: stop after this many bytes: for files that may not be what they should be.

    Raises:
        DataError: it cannot be read, or is damaged gzip data.
    """
    try:
        with open(path, "rb") as file:
            zipped = file.read(2) == _GZIP
            file.seek(0)
            if not zipped:
                return file.read(-1 if limit is None else limit)
            with gzip.GzipFile(fileobj=file) as stream:
                return stream.read(-1 if limit is None else limit)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged: {error}", "get the file again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _swapped(data: memoryview, itemsize: int) -> memoryview:
    """Bytes of big-endian elements in little-endian order, which is that of every machine we run on."""
    if itemsize == 1:
        return data
    swapped = bytearray(data.nbytes)
    for i in range(itemsize):
        swapped[i::itemsize] = data[itemsize - 1 - i :: itemsize]
    return memoryview(swapped).toreadonly()
