"""The persistent kernel cache: compiled kernels in files, shared by processes, safe to lose.

An entry is a magic number, the length and sha256 of a body, and the body: one frame of `codec` (a JSON
object, the source and the binary). It is written aside and renamed, so readers see all of it or nothing and
two processes may fill one cache. What does not check out is removed, counted, and compiled again. The folder
must be ours and closed to others: entries hold machine code. Least recently used entries go when the cache
outgrows its limit.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, final

from tiny_core.engine.codec import compiled_from_parts, compiled_to_parts, read_frame, write_frame
from tiny_core.render.renderer import Compiled
from tiny_core.settings import CACHE, CACHE_DIR, CACHE_MB

_MAGIC: Final = b"tinykc1\n"
_HEAD: Final = struct.Struct("<8sQ32s")
_TOUCH_SECONDS: Final = 3600
"""A hit renews an entry's time stamp if it is older than this; more often would be a write per read."""
_CHECK_EVERY: Final = 256
"""Writes of a process between two looks at the size of the cache."""


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """State of the cache: entries and bytes on disk, its limit in bytes (0: not in use), and counts of this
    process."""

    folder: str
    entries: int
    nbytes: int
    limit: int
    hits: int
    misses: int
    corrupt: int


@final
class KernelCache:
    """A cache in `folder`, or in the folder that the settings name."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._numbers = count()
        self._writes = self._total = 0
        self._turn = os.getpid() % _CHECK_EVERY  # so that short processes, too, look now and then
        self._checked: dict[str, bool] = {}
        self.hits = self.misses = self.corrupt = 0

    @property
    def folder(self) -> str:
        """Where the entries are."""
        return self._folder or os.path.join(CACHE_DIR.value or user_cache_folder(), "kernels")

    def get(self, key: str) -> Compiled | None:
        """Return the kernel stored under `key` (hexadecimal), or None."""
        if not CACHE.value:
            return None
        found = self._read(key)
        with self._lock:
            self.hits += found is not None
            self.misses += found is None
        return found

    def put(self, key: str, compiled: Compiled) -> None:
        """Store a kernel; a cache that cannot be written warns once and is left alone."""
        if not CACHE.value or not self._usable(create=True):
            return
        body = io.BytesIO()
        write_frame(body, *compiled_to_parts(compiled))
        data = body.getvalue()
        head = _HEAD.pack(_MAGIC, len(data), hashlib.sha256(data).digest())
        path = self._path(key)
        aside = os.path.join(os.path.dirname(path), f".{key[:16]}.{os.getpid()}.{next(self._numbers)}")
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            try:
                with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(head + data)
                os.replace(aside, path)
            except BaseException:
                _remove(aside)
                raise
        except OSError as error:
            self._refuse(f"cannot be written: {error}")
            return
        self._account(len(head) + len(data))

    def _account(self, written: int) -> None:
        """Note bytes written, and shrink the cache when it has outgrown its limit."""
        limit = CACHE_MB.value << 20
        with self._lock:
            self._writes += 1
            self._total += written
            look = self._writes % _CHECK_EVERY == self._turn  # other processes write too
            due = look or self._total > limit
        if due:
            if look:
                self._total = self.info().nbytes
            if self._total > limit:
                self.shrink(limit)

    def shrink(self, limit: int) -> int:
        """Remove the least recently used entries if the cache is over `limit` bytes, down to 4/5 of it; how
        many."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        if total <= limit:
            return 0
        removed = 0
        for _, size, path in entries:
            if total <= limit * 4 // 5:
                break
            _remove(path)
            total -= size
            removed += 1
        self._total = total
        return removed

    def clear(self) -> int:
        """Remove all entries and return how many there were."""
        entries = list(self._entries())
        for _, _, path in entries:
            _remove(path)
        return len(entries)

    def info(self) -> CacheInfo:
        """Return sizes and counts."""
        entries = list(self._entries())
        limit = CACHE_MB.value << 20 if CACHE.value else 0
        nbytes = sum(size for _, size, _ in entries)
        return CacheInfo(self.folder, len(entries), nbytes, limit, self.hits, self.misses, self.corrupt)

    def after_fork(self) -> None:
        """Go on in a forked child, where no thread can be holding the lock."""
        self._lock = threading.Lock()

    def _read(self, key: str) -> Compiled | None:
        path = self._path(key)
        try:
            # O_NOFOLLOW: an entry is a file of ours, never a link to somebody else's
            opened = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            return None
        try:
            if not self._usable(create=False):
                return None
            state = os.fstat(opened)
            if not stat.S_ISREG(state.st_mode):
                return None
            with open(opened, "rb", closefd=False) as file:
                data = file.read()
        except OSError as error:
            self._refuse(f"cannot be read: {error}")
            return None
        finally:
            os.close(opened)
        age = time.time() - state.st_mtime
        found = _unpack(data)
        if found is None:
            with self._lock:
                self.corrupt += 1
            _remove(path)
        elif age > _TOUCH_SECONDS:
            _touch(path)
        return found

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key[:2], key)

    def _usable(self, create: bool) -> bool:
        """Whether the folder is there, ours, and closed to others; says once why not."""
        folder = self.folder
        known = self._checked.get(folder)
        if known is not None:
            return known
        try:
            if create:
                os.makedirs(os.path.dirname(folder), exist_ok=True)
                os.makedirs(folder, mode=0o700, exist_ok=True)
            state = os.lstat(folder)
        except OSError as error:
            if create:
                self._refuse(f"cannot be made: {error}")
            return False
        if not stat.S_ISDIR(state.st_mode):
            self._refuse("is not a folder")
        elif hasattr(os, "geteuid") and state.st_uid != os.geteuid():
            self._refuse("belongs to another user")
        elif os.name == "posix" and state.st_mode & 0o022:
            self._refuse("can be written by other users")
        else:
            self._checked[folder] = True
        return self._checked[folder]

    def _refuse(self, why: str) -> None:
        folder = self.folder
        if self._checked.get(folder) is not False:
            warnings.warn(f"the kernel cache {folder} is not used: it {why}", RuntimeWarning, stacklevel=3)
        self._checked[folder] = False

    def _entries(self) -> Iterator[tuple[float, int, str]]:
        """(time of last use, bytes, path) of every file, leftovers of killed writers included."""
        try:
            shelves = [entry.path for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for shelf in shelves:
            try:
                for entry in os.scandir(shelf):
                    state = entry.stat(follow_symlinks=False)
                    yield state.st_mtime, state.st_size, entry.path
            except FileNotFoundError:
                continue  # another process is clearing it


def user_cache_folder() -> str:
    """Return the folder for this user's caches of tiny, as the platform has it."""
    home = os.path.expanduser("~")
    if os.name == "nt":
        return os.path.join(os.environ.get("LOCALAPPDATA", home), "tiny", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "tiny")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "tiny")


def _unpack(data: bytes) -> Compiled | None:
    """The kernel in an entry, or None if the entry is not exactly what was written."""
    if len(data) < _HEAD.size:
        return None
    magic, length, digest = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if magic != _MAGIC or length != len(body) or hashlib.sha256(body).digest() != digest:
        return None
    try:
        frame = read_frame(io.BytesIO(body))
        return None if frame is None else compiled_from_parts(*frame)
    except (KeyError, TypeError, ValueError, struct.error):
        return None  # another version's


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another process was faster
    except OSError as error:
        warnings.warn(f"cannot remove {path}: {error}", RuntimeWarning, stacklevel=2)


def _touch(path: str) -> None:
    try:
        os.utime(path)
    except OSError:
        return  # evicted meanwhile, or a read-only cache: its age is then not ours to keep


def readable(data: bytes) -> bool:
    """Return whether the bytes of a file in the cache are an entry of this version, as it was written."""
    return _unpack(data) is not None


kernel_cache: Final = KernelCache()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=kernel_cache.after_fork)


def info() -> CacheInfo:
    """Return the state of the persistent cache."""
    return kernel_cache.info()


def clear() -> int:
    """Empty the persistent cache; returns how many entries there were."""
    return kernel_cache.clear()
