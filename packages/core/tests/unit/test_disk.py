"""The DISK device: mapped files, and what can be wrong with them."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from tiny_core.devices import disk
from tiny_core.devices.disk import DiskRuntime, open_file
from tiny_core.errors import DataError, DeviceError, TargetError
from tiny_core.render.renderer import Compiled
from tiny_core.render.signature import Signature

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "weights.bin"
    file.write_bytes(CONTENT)
    return file


def runtime(path: Path, **options: str) -> DiskRuntime:
    return DiskRuntime(options={"path": str(path), **options})


def test_a_file_is_memory_of_the_host(path: Path) -> None:
    with open(path, "r+b") as other:
        file = open_file(path)
        assert ctypes.string_at(file.address + 300, 50) == CONTENT[300:350]
        assert file.address % mmap.PAGESIZE == 0 and file.nbytes == len(CONTENT)
        other.write(b"new")
        other.flush()
        assert ctypes.string_at(file.address, 3) == b"new"  # mapped, not copied
    file.close()


def test_reading_through_the_runtime(path: Path) -> None:
    device = runtime(path)
    handle = device.allocate(len(CONTENT))
    out = bytearray(100)
    device.copy_out(memoryview(out), device.view(handle, 1000))
    assert bytes(out) == CONTENT[1000:1100]
    device.close()


def test_a_missing_file_is_reported_at_the_first_use(tmp_path: Path) -> None:
    device = runtime(tmp_path / "absent")
    with pytest.raises(DataError, match="absent does not exist"):
        _ = device.file
    with pytest.raises(DataError, match="is no regular file"):
        open_file(tmp_path)


def test_a_truncated_file(path: Path) -> None:
    with pytest.raises(DataError, match=f"has {len(CONTENT)} bytes, and 20000 are needed") as caught:
        open_file(path, 20000)
    assert "truncated" in caught.value.hint
    with pytest.raises(DataError, match="20000 are needed"):
        runtime(path).allocate(20000)


def test_reading_past_the_end(path: Path) -> None:
    device = runtime(path)
    handle = device.allocate(16)
    for offset in (-1, len(CONTENT) - 8):
        with pytest.raises(DataError, match="which has 10240"):
            device.copy_out(memoryview(bytearray(16)), handle + offset)


@pytest.mark.parametrize("size", [100, 20000])
def test_a_file_that_changes_its_size(path: Path, size: int) -> None:
    device = runtime(path)
    handle = device.allocate(len(CONTENT))
    os.truncate(path, size)
    for use in (device.synchronize, lambda: device.copy_out(memoryview(bytearray(4)), handle)):
        with pytest.raises(DataError, match=f"had 10240 bytes when it was opened and has {size} now"):
            use()


def test_a_file_is_not_written_unless_asked(path: Path) -> None:
    device = runtime(path)
    handle = device.allocate(16)
    with pytest.raises(DataError, match="reading only") as caught:
        device.copy_in(handle, memoryview(b"abc"))
    assert "mode=rw" in caught.value.hint
    device.close()
    assert path.read_bytes() == CONTENT


def test_writing_in_place(path: Path) -> None:
    device = runtime(path, mode="rw")
    handle = device.allocate(16)
    device.copy_in(handle + 2, memoryview(b"abc"))
    device.close()
    assert path.read_bytes() == CONTENT[:2] + b"abc" + CONTENT[5:]


def test_a_new_file_gets_the_size_of_the_allocation(tmp_path: Path) -> None:
    device = runtime(tmp_path / "new")
    handle = device.allocate(1000)
    device.copy_in(handle + 990, memoryview(b"0123456789"))
    device.close()
    assert (tmp_path / "new").read_bytes() == bytes(990) + b"0123456789"


def test_creating_replaces_an_old_file(path: Path) -> None:
    file = open_file(path, 5, "create")
    with file.view(0, 5) as part:
        part[:] = b"hello"
    file.flush()
    file.close()
    assert path.read_bytes() == b"hello"
    with pytest.raises(DataError, match="a size is needed"):
        open_file(path, None, "create")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    device = runtime(tmp_path / "empty")
    handle = device.allocate(0)
    device.copy_out(memoryview(b""), handle)
    with pytest.raises(DataError, match="which has 0"):
        device.copy_out(memoryview(bytearray(1)), handle)


def test_a_closed_file_stays_closed(path: Path) -> None:
    file = open_file(path)
    assert file.address
    file.close()
    file.close()
    with pytest.raises(DataError, match="is closed"):
        file.view(0, 1)


def test_files_leave_no_descriptor_behind(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(DataError):
            open_file(path, 1 << 20)
        file = open_file(path)
        assert file.address
        file.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_stores_and_runs_nothing(path: Path) -> None:
    device = runtime(path)
    with pytest.raises(DeviceError, match="runs no kernels"):
        device.load(Compiled(Signature("k", ()), b""))
    with pytest.raises(DeviceError, match="runs no kernels"):
        device.launch(None, (), (), (1,))
    assert not device.capabilities.executes and device.capabilities.host_visible


def test_options_are_checked(path: Path) -> None:
    with pytest.raises(DeviceError, match="needs a path"):
        DiskRuntime()
    with pytest.raises(TargetError, match="mode=w of DISK"):
        runtime(path, mode="w")
    (spec,) = disk.tiny_runtimes()
    assert spec.device == "DISK" and spec.profile == "storage" and not spec.renderers
