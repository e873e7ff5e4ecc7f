"""Writing a file so that nobody ever sees half of it, whatever happens in between."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tiny_core.errors import DataError


@contextmanager
def write_aside(path: str) -> Iterator[str]:
    """A block that writes a file under a temporary name; at its end the file gets the name `path`.

    The temporary file lies beside it, so that renaming is one step. If the block raises (ctrl-C too), it is
    removed, and what was at `path` stays. Its content is on the disk before the name is: a crash leaves the
    old file or the new one.

    Raises:
        DataError: the folder cannot be made or written to.
    """
    folder, name = os.path.split(os.path.abspath(path))
    aside = os.path.join(folder, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        os.makedirs(folder, exist_ok=True)
        os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror}") from error
    try:
        yield aside
        with open(aside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        with suppress(FileNotFoundError):  # it has its name
            os.unlink(aside)
