"""A kernel cache that is damaged, another version's, unreadable, or filled by two at once: programs run as
without it."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = """
import sys
from tiny_core import Tensor
from tiny_core.engine.cache import kernel_cache
from tiny_core.engine.compile import stats
first, last = map(int, sys.argv[1:])
for i in range(first, last):
    x = Tensor([float(k) for k in range(i + 2)])
    assert (x * i + x.sum()).tolist() == [k * i + (i + 1) * (i + 2) / 2 for k in range(i + 2)], i
print(stats.here + stats.workers, kernel_cache.corrupt)
"""


def _start(folder: Path, first: int = 0, last: int = 2) -> subprocess.Popen[str]:
    env = {**os.environ, "DEV": "CPU:C", "TINY_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", SCRIPT, str(first), str(last)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _run(folder: Path, count: int = 2) -> tuple[tuple[int, int], str]:
    """Run `count` kernels; returns how many were compiled, how many entries found damaged, and what was said
    on standard error."""
    process = _start(folder, 0, count)
    out, err = process.communicate()
    assert process.returncode == 0, err
    compiled, corrupt = map(int, out.split())
    return (compiled, corrupt), err


def _entries(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / "kernels").glob("*/*") if p.is_file())


HEAD = struct.Struct("<8sQ32s")


def _resealed(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """An entry with another body, whose length and hash are right."""

    def changed(data: bytes) -> bytes:
        body = change(data[HEAD.size :])
        return HEAD.pack(data[:8], len(body), hashlib.sha256(body).digest()) + body

    return changed


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": lambda d: d[:200] + bytes([d[200] ^ 4]) + d[201:],
    "truncated": lambda d: d[: len(d) // 2],
    "only a head": lambda d: d[: HEAD.size],
    "empty": lambda d: b"",
    "wrong hash": lambda d: d[:16] + bytes(32) + d[48:],
    "wrong length": lambda d: d[:8] + (1 << 60).to_bytes(8, "little") + d[16:],
    "another version's magic": lambda d: b"tinykc9\n" + d[8:],
    "another version's fields": _resealed(lambda b: b.replace(b'"signature"', b'"autograph"')),
    "another version's frame": _resealed(lambda b: b"\xff" * 64),
    "no JSON": _resealed(lambda b: b[:8] + b"!" * (len(b) - 8)),
    "somebody's picture": lambda d: b"\x89PNG\r\n\x1a\n" + bytes(1000),
}


def test_damaged_entries_are_compiled_again(tmp_path: Path) -> None:
    """Each entry in its own way."""
    count = len(DAMAGE)
    (compiled, corrupt), _ = _run(tmp_path, count)
    entries = _entries(tmp_path)
    assert compiled == count and not corrupt and len(entries) == count + 1, "the pool of threads is one more"
    for entry, damage in zip(entries[1:], DAMAGE.values(), strict=True):
        entry.write_bytes(damage(entry.read_bytes()))
    (compiled, corrupt), said = _run(tmp_path, count)
    assert corrupt == count and count - 1 <= compiled <= count and not said
    assert _run(tmp_path, count) == ((0, 0), ""), "and kept"


def test_code_of_an_entry_that_is_no_program_is_told_apart(tmp_path: Path) -> None:
    """A body that checks out holds what was stored; if that is no object, loading says so."""
    _run(tmp_path)
    for entry in _entries(tmp_path):
        entry.write_bytes(_resealed(lambda b: b.replace(b"\x7fELF", b"\x7fFLE"))(entry.read_bytes()))
    process = _start(tmp_path)
    _, err = process.communicate()
    assert process.returncode == 1 and "LaunchError: not an ELF object" in err


@pytest.mark.parametrize("what", ["a file", "a file above", "a folder of others", "a link to nowhere"])
def test_a_folder_that_cannot_be_used_is_left_alone(tmp_path: Path, what: str) -> None:
    place = tmp_path / "cache"
    if what == "a file":
        place.mkdir()
        (place / "kernels").write_text("")
    elif what == "a file above":
        place.write_text("")
    elif what == "a folder of others":
        (place / "kernels").mkdir(parents=True)
        (place / "kernels").chmod(0o777)
    else:
        place.symlink_to(tmp_path / "nowhere" / "deeper")
    for _ in range(2):
        (compiled, corrupt), said = _run(place)
        assert compiled and not corrupt
        assert said.count("RuntimeWarning: the kernel cache") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    _run(tmp_path)
    (tmp_path / "kernels").chmod(0)
    try:
        (compiled, _), _ = _run(tmp_path)
        assert compiled
    finally:
        (tmp_path / "kernels").chmod(0o700)


def test_entries_that_are_no_files(tmp_path: Path) -> None:
    (compiled, _), _ = _run(tmp_path)
    for entry in _entries(tmp_path):
        entry.unlink()
        entry.mkdir()
    assert _run(tmp_path)[0] == (compiled, 0)


def test_two_processes_fill_one_cache(tmp_path: Path) -> None:
    both = [_start(tmp_path, 0, 12), _start(tmp_path, 0, 12)]
    for process in both:
        _, err = process.communicate()
        assert process.returncode == 0 and not err
    names = [p.name for p in _entries(tmp_path)]
    assert all(len(n) == 64 for n in names), "nothing written aside is left"
    last = _start(tmp_path, 0, 12)
    assert last.communicate()[0].split() == ["0", "0"]
