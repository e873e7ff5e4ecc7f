"""Writing a file so that nobody ever sees half of it, whatever happens in between."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tiny_core.errors import DataError


@contextmanager
def write_aside(path: str) -> Iterator[str]:
    """A block that writes a file under a temporary name; at its end the file gets the name `path`.

    The temporary file lies beside it, so that renaming is one step. If the block raises (ctrl-C too), it is removed, and
    what was at `path` stays. Its content is on the disk before the name is: a crash leaves the old file or the new one.

    Raises:
        DataError: the folder cannot be made or written to.
    """
    folder, name = os.path.split(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror}") from error
    os.close(descriptor)
    try:
        yield aside
        with open(aside, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def _umask() -> int:
    """The permissions that new files of this process do not get; mkstemp gives fewer than those."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
