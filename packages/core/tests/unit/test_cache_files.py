"""The persistent cache: what is stored comes back, anything else is a miss, and it stays within its
bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiny_core import dtypes
from tiny_core.engine.cache import KernelCache
from tiny_core.engine.codec import signature_from_json, signature_to_json
from tiny_core.render.renderer import Compiled
from tiny_core.render.signature import ParamSpec, ScalarSpec, Signature
from tiny_core.settings import Context

KEY = "ab" + "0" * 62


def _compiled(size: int = 100) -> Compiled:
    signature = Signature(
        "k",
        (ParamSpec(dtypes.float16, 8, "rw", 64, "global", True), ParamSpec(dtypes.bool_, 1)),
        (ScalarSpec("n"), ScalarSpec("x", "float64")),
        grid=(4, ("n", 15, "+", 16, "//"), 1),
        block=(32, 1, 1),
        parallel=("n",),
        local_bytes=256,
        device_index=True,
    )
    return Compiled(signature, os.urandom(size), "sourcé", 12, 34, "tile(i, n=8)")


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(str(tmp_path / "kernels"))


def _file(cache: KernelCache, key: str = KEY) -> Path:
    return Path(cache.folder) / key[:2] / key


def test_a_kernel_comes_back_as_it_was(cache: KernelCache) -> None:
    stored = _compiled()
    cache.put(KEY, stored)
    found = KernelCache(cache.folder).get(KEY)
    assert found == stored and found.detail == stored.detail
    assert signature_from_json(signature_to_json(stored.signature)) == stored.signature


def test_an_absent_key_is_a_miss(cache: KernelCache) -> None:
    assert cache.get(KEY) is None
    assert (cache.hits, cache.misses, cache.corrupt) == (0, 1, 0)


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "extend", "magic"])
def test_a_damaged_entry_is_a_miss_and_is_removed(cache: KernelCache, damage: str) -> None:
    cache.put(KEY, _compiled())
    path = _file(cache)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "magic":
        data[0] ^= 1
    changes = {"truncate": bytes(data[:-1]), "empty": b"", "extend": bytes(data) + b"x"}
    path.write_bytes(changes.get(damage, bytes(data)))
    assert cache.get(KEY) is None
    assert cache.corrupt == 1 and not path.exists()


def test_an_entry_that_is_a_link_is_not_followed(cache: KernelCache, tmp_path: Path) -> None:
    cache.put(KEY, _compiled())
    _file(cache).rename(tmp_path / "elsewhere")
    _file(cache).symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None


def test_files_are_private(cache: KernelCache) -> None:
    cache.put(KEY, _compiled())
    assert Path(cache.folder).stat().st_mode & 0o777 == 0o700
    assert _file(cache).stat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    cache = KernelCache(str(folder))
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        cache.put(KEY, _compiled())
    assert cache.info().entries == 0
    cache.put(KEY, _compiled())  # and says so only once: a second warning would be an error here


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = KernelCache(str(tmp_path / "kernels"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        cache.put(KEY, _compiled())
    assert cache.info().entries == 0


def test_a_cache_that_cannot_be_written_warns(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(str(tmp_path / "file" / "kernels"))
    with pytest.warns(RuntimeWarning, match="not used"):
        cache.put(KEY, _compiled())
    assert cache.get(KEY) is None


def test_the_least_recently_used_entries_go_first(cache: KernelCache) -> None:
    keys = [f"{i:02x}" + "0" * 62 for i in range(10)]
    for i, key in enumerate(keys):
        cache.put(key, _compiled(10_000))
        os.utime(_file(cache, key), (i, i))
    assert cache.get(keys[0]), "and this makes it the most recent"
    removed = cache.shrink(60_000)
    left = [key for key in keys if _file(cache, key).exists()]
    assert removed == 10 - len(left) and left == [keys[0], *keys[-len(left) + 1 :]]
    assert cache.info().nbytes <= 48_000
    assert cache.shrink(60_000) == 0


def test_writing_keeps_the_cache_under_its_limit(cache: KernelCache) -> None:
    with Context(CACHE_MB=1):
        for i in range(300):
            cache.put(f"{i:04x}" + "0" * 60, _compiled(8_000))
        assert cache.info().nbytes <= 1 << 20


def test_it_can_be_turned_off_and_emptied(cache: KernelCache) -> None:
    with Context(CACHE=0):
        cache.put(KEY, _compiled())
        assert cache.get(KEY) is None and cache.info().limit == 0
    cache.put(KEY, _compiled())
    assert cache.info().entries == 1
    assert cache.clear() == 1 and cache.info().entries == 0


_FILL = """
import sys, os
from tiny_core.engine.cache import KernelCache
from tiny_core.render.renderer import Compiled
from tiny_core.render.signature import Signature
cache = KernelCache(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for turn in range(3):
    for i in range(60):
        key = f"{i:02x}" * 32
        body = bytes([i]) * 5000
        cache.put(key, Compiled(Signature("k", ()), body))
        found = cache.get(key)
        assert found is not None and found.binary == body, key
assert cache.corrupt == 0
"""


def test_two_processes_fill_one_cache(cache: KernelCache) -> None:
    command = [sys.executable, "-c", _FILL, cache.folder]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in both:
        process.communicate("go\n")
        assert process.returncode == 0
    info = cache.info()
    assert info.entries == 60, "and nothing written aside is left"
    assert all(cache.get(f"{i:02x}" * 32) for i in range(60))


def test_an_old_entry_that_is_used_gets_a_new_time(cache: KernelCache) -> None:
    cache.put(KEY, _compiled())
    os.utime(_file(cache), (1000, 1000))
    assert cache.get(KEY)
    assert _file(cache).stat().st_mtime > time.time() - 3600
