"""Copies: every byte, no byte more, whatever the size, the offset and the kind of host memory."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.bare import Bare, raw
from tiny_conformance.compare import Array
from tiny_core import Tensor

SIZES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 63, 64, 65, 127, 255, 1000, 4095, 4096, 4097, 65_537, (1 << 20) + 3)
GUARD = 64
pytestmark = pytest.mark.needs("stores")


def filled(count: int, seed: int) -> Array:
    # no zeros: a byte that did not arrive shows, whatever was there before
    return np.random.default_rng(seed).integers(1, 256, count).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_there_and_back(size: int, bare: Bare) -> None:
    handle = bare.put(np.zeros(size + GUARD, np.uint8))
    data = filled(size, size)
    bare.runtime.copy_in(handle, raw(data))
    got = bare.get(handle, "uint8", size + GUARD)
    np.testing.assert_array_equal(got[:size], data)
    assert not got[size:].any(), "the copy goes beyond its end"


@pytest.mark.parametrize("size", SIZES)
def test_to_the_host_touches_only_its_place(size: int, bare: Bare) -> None:
    data = filled(size + GUARD, size)
    handle = bare.put(data)
    bare.runtime.synchronize()
    out = np.zeros(size + 2 * GUARD, np.uint8)
    bare.runtime.copy_out(raw(out)[GUARD : GUARD + size], handle)
    np.testing.assert_array_equal(out[GUARD : GUARD + size], data[:size])
    assert not out[:GUARD].any() and not out[GUARD + size :].any()


@pytest.mark.parametrize("size", SIZES)
def test_within_the_device(size: int, bare: Bare) -> None:
    data = filled(size, size)
    source, dest = bare.put(data), bare.put(np.zeros(size + GUARD, np.uint8))
    bare.runtime.copy_peer(dest, source, size)
    got = bare.get(dest, "uint8", size + GUARD)
    np.testing.assert_array_equal(got[:size], data)
    assert not got[size:].any(), "the copy goes beyond its end"


@pytest.mark.needs("views")
@pytest.mark.parametrize("offset", [1, 3, 4, 8, 60, 64, 129])
def test_into_and_out_of_the_middle(offset: int, bare: Bare) -> None:
    want = filled(512, 1)
    handle = bare.put(want)
    view = bare.runtime.view(handle, offset)
    bare.runtime.copy_in(view, raw(filled(37, 2)))
    want[offset : offset + 37] = filled(37, 2)
    other = bare.put(filled(99, 3))
    bare.runtime.copy_peer(bare.runtime.view(handle, offset + 200), other, 99)
    want[offset + 200 : offset + 299] = filled(99, 3)
    np.testing.assert_array_equal(bare.get(handle, "uint8", 512), want)
    np.testing.assert_array_equal(bare.get(view, "uint8", 64), want[offset : offset + 64])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "int8"])
def test_host_memory_of_any_format(dtype: str, bare: Bare) -> None:
    data = np.arange(33).astype(dtype)
    handle = bare.allocate(data.nbytes)
    bare.runtime.copy_in(handle, data.data)
    bare.runtime.synchronize()
    out = np.zeros_like(data)
    bare.runtime.copy_out(out.data, handle)
    np.testing.assert_array_equal(out, data)


def test_read_only_host_memory(bare: Bare) -> None:
    handle = bare.allocate(5)
    bare.runtime.copy_in(handle, memoryview(b"abcde"))
    assert bytes(bare.get(handle, "uint8", 5)) == b"abcde"


def test_the_source_may_change_at_once(bare: Bare) -> None:
    data = filled(1 << 20, 1)
    want = data.copy()
    handle = bare.allocate(data.nbytes)
    bare.runtime.copy_in(handle, raw(data))
    data[:] = 0
    np.testing.assert_array_equal(bare.get(handle, "uint8", data.size), want)


def test_a_later_copy_wins(bare: Bare) -> None:
    handle = bare.put(filled(1000, 1))
    for seed in range(2, 8):
        bare.runtime.copy_in(handle, raw(filled(1000, seed)))
    np.testing.assert_array_equal(bare.get(handle, "uint8", 1000), filled(1000, 7))


@pytest.mark.needs("executes")
def test_a_tensor_arrives_whole() -> None:
    data = filled(1001, 1)
    np.testing.assert_array_equal(Tensor(data).realize().numpy(), data)
