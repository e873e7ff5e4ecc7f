"""Downloads: a file over HTTP that is whole and checked, or not there at all.

In: an address and a destination. Out: the file, under its name only after a check has accepted it: bytes
are written aside and renamed. Failures that may pass (a lost connection, a short or damaged body, a
server's error) are tried again; one that will not (404) is a DataError at once.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Final

from tiny_core.errors import DataError
from tiny_core.nn.aside import write_aside

Progress = Callable[[str, int, int], None]
"""Called with the name of a file, its bytes so far, and those of all of it (0 while the server has not
said)."""
_CHUNK: Final = 1 << 16
_TIMEOUT_SECONDS: Final = 30.0


def download(
    url: str,
    path: str,
    check: Callable[[str], None],
    *,
    progress: Progress | None = None,
    attempts: int = 3,
    pause: float = 1.0,
) -> None:
    """Get `url` and put it at `path`, whose folder is made if need be.

    Args:
        url: an http or https address.
        path: where the file goes.
        check: looks at the file before it gets its name; raises DataError if it is not what was wanted.
        progress: is told what has come so far.
        attempts: how often to try.
        pause: seconds before the second attempt; twice as many before each later one.

    Raises:
        DataError: it cannot be had; the last reason is given.
    """
    if not url.startswith(("http://", "https://")):
        raise DataError(f"{url} is no address that can be downloaded", "http:// or https://")
    with write_aside(path) as aside:
        for attempt in range(1, attempts + 1):
            try:
                _fetch(url, aside, progress)
                check(aside)
                return
            except _Permanent as error:
                raise DataError(f"{url}: {error}", "see whether the address is right") from error
            except (OSError, http.client.HTTPException, DataError) as error:
                if attempt == attempts:
                    raise DataError(
                        f"{url} could not be downloaded in {attempts} attempts: {_reason(error)}",
                        "see whether the network and the server are up, and try again later",
                    ) from error
            if pause:
                time.sleep(pause * 2 ** (attempt - 1))


class _Permanent(Exception):
    """A failure that would be the same at the next attempt."""


def _fetch(url: str, path: str, progress: Progress | None) -> None:
    name = os.path.basename(url)
    try:
        response = urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            if 400 <= error.code < 500 and error.code not in (408, 429):
                raise _Permanent(f"{error.code} {error.reason}") from error
            raise
    with response, open(path, "wb") as file:
        total, done = response.length or 0, 0
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(name, done, total)
    if total and done != total:
        raise OSError(f"the connection ended after {done} of {total} bytes")


def _reason(error: Exception) -> str:
    """What an error says, without the class that urllib wraps it in."""
    if isinstance(error, DataError):
        return error.message
    return str(getattr(error, "reason", "") or error) or type(error).__name__
