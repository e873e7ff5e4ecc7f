"""Memory: what is allocated is apart, keeps what it is given, has views, and can be given back."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tiny_conformance.bare import Bare, raw
from tiny_conformance.compare import Array
from tiny_conformance.target import Target
from tiny_core.api import Handle, OutOfMemory

SIZES = (1, 3, 16, 63, 64, 65, 1000, 4096, 4097, 100_000)


def filled(count: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)


@pytest.mark.needs("stores")
def test_blocks_are_apart(bare: Bare) -> None:
    blocks = [(bare.put(filled(n, n)), n) for n in (*SIZES, *SIZES)]
    assert len({handle for handle, _ in blocks}) == len(blocks)
    for handle, n in blocks:
        np.testing.assert_array_equal(bare.get(handle, "uint8", n), filled(n, n))


@pytest.mark.needs("stores")
def test_a_block_that_is_freed_leaves_the_others_alone(bare: Bare) -> None:
    blocks = [(bare.put(filled(n, n)), n) for n in SIZES]
    for handle, _ in blocks[::2]:
        bare.free(handle)
    again = [(bare.put(filled(n, n + 1)), n) for n in SIZES]
    for handle, n in blocks[1::2]:
        np.testing.assert_array_equal(bare.get(handle, "uint8", n), filled(n, n))
    for handle, n in again:
        np.testing.assert_array_equal(bare.get(handle, "uint8", n), filled(n, n + 1))


def test_an_empty_block_is_a_block(bare: Bare) -> None:
    handle = bare.allocate(0)
    other = bare.allocate(64)
    assert handle != other
    bare.runtime.copy_in(handle, memoryview(b""))
    bare.free(handle)


@pytest.mark.needs("host_visible")
def test_addresses_are_aligned(bare: Bare) -> None:
    align = bare.runtime.capabilities.align
    assert align & (align - 1) == 0
    assert all(bare.allocate(n) % align == 0 for n in SIZES)


@pytest.mark.needs("stores", "views")
@pytest.mark.parametrize("offset", [0, 1, 4, 12, 64, 100, 2000])
def test_a_view_is_the_memory_and_no_copy(offset: int, bare: Bare) -> None:
    want = filled(4096, 1)
    base = bare.put(want)
    view = bare.runtime.view(base, offset)
    np.testing.assert_array_equal(bare.get(view, "uint8", 100), want[offset : offset + 100])
    new = filled(50, 2)
    bare.runtime.copy_in(view, raw(new))
    want[offset : offset + 50] = new
    np.testing.assert_array_equal(bare.get(base, "uint8", 4096), want)
    later = filled(4096, 3)
    bare.runtime.copy_in(base, raw(later))
    np.testing.assert_array_equal(bare.get(view, "uint8", 100), later[offset : offset + 100])


@pytest.mark.needs("stores", "views")
def test_a_view_of_a_view_adds_offsets(bare: Bare) -> None:
    want = filled(4096, 1)
    inner = bare.runtime.view(bare.runtime.view(bare.put(want), 100), 24)
    np.testing.assert_array_equal(bare.get(inner, "uint8", 64), want[124:188])


@pytest.mark.needs("stores", "host_visible")
def test_the_host_sees_and_writes_the_memory(bare: Bare) -> None:
    want = filled(1000, 1)
    handle = bare.put(want)
    bare.runtime.synchronize()
    seen = (ctypes.c_uint8 * 1000).from_address(handle)
    np.testing.assert_array_equal(np.array(seen[:], np.uint8), want)
    seen[7] = want[7] ^ 255
    want[7] ^= 255
    np.testing.assert_array_equal(bare.get(handle, "uint8", 1000), want)


def test_too_much_is_a_typed_error_and_the_device_goes_on(bare: Bare, target: Target) -> None:
    with pytest.raises(OutOfMemory):
        bare.allocate(1 << 60)
    handle = bare.put(filled(100, 1))
    if target.stores:
        np.testing.assert_array_equal(bare.get(handle, "uint8", 100), filled(100, 1))


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


@pytest.mark.needs("stores")
def test_what_is_freed_can_be_had_again(bare: Bare) -> None:
    # 64 rounds of 4 MB each: more than a small device has, and seen in the process of a host
    data, handles = filled(4 << 20, 1), set[Handle]()
    before = _resident()
    for _ in range(64):
        handle = bare.put(data)
        handles.add(handle)
        bare.free(handle)
    bare.runtime.synchronize()
    assert _resident() - before < 128 << 20, "freed memory is not given back"
    assert bare.get(bare.put(data[:100]), "uint8", 100).tolist() == data[:100].tolist()
