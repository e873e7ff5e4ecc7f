"""Several devices of one kind: each with memory of its own, and copies between them."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.bare import raw
from tiny_conformance.check import Check
from tiny_conformance.target import Target
from tiny_core import Device, Tensor, jit
from tiny_core.api import queue
from tiny_core.errors import DeviceError, TinyError

X = np.arange(35, dtype=np.int32).reshape(5, 7)


@pytest.fixture
def second(target: Target) -> str:
    """The name of another device of the target's kind."""
    name = f"{target.device.partition(':')[0]}:{1 if ':' not in target.device else 0}"
    try:
        Device[name].runtime.synchronize()
    except DeviceError:
        pytest.skip("there is one device of this kind")
    return name


def test_a_tensor_lives_where_it_was_made(second: str, check: Check) -> None:
    x = Tensor(X, device=second)
    assert x.device == second
    y = x * 2 + 1
    assert y.device == second
    check(y, X * 2 + 1)


def test_there_and_back(second: str, target: Target, check: Check) -> None:
    x = Tensor(X).realize()
    y = (x.to(second) * 3).to(target.device) + x
    check(y, X * 4)


def test_the_original_is_apart_from_its_copy(second: str, check: Check) -> None:
    x = Tensor(X).realize()
    y = x.to(second).realize()
    x += 1
    check(y, X)
    y *= 2
    check(x, X + 1)
    check(y, X * 2)


def test_operands_have_to_meet(second: str) -> None:
    with pytest.raises(TinyError):
        (Tensor(X) + Tensor(X, device=second)).realize()


def test_the_same_computation_on_both(second: str, target: Target, check: Check) -> None:
    for device in (target.device, second, target.device):
        check((Tensor(X, device=device).sum(1) * 2).to(target.device), X.sum(1, dtype=np.int32) * 2)


def test_a_captured_call_on_the_second(second: str, check: Check) -> None:
    @jit
    def step(x: Tensor) -> Tensor:
        return (x * 2).realize()

    for n in range(5):
        check(step(Tensor(X + n, device=second).realize()), (X + n) * 2)


@pytest.mark.needs("stores", "peers")
def test_peers_copy_without_the_host(second: str, target: Target) -> None:
    here, there = Device[target.device].runtime, Device[second].runtime
    source, dest = here.allocate(X.nbytes), there.allocate(X.nbytes)
    here.copy_in(source, raw(X))
    there.copy_peer(dest, source, X.nbytes)
    line = here.queue()
    line.append(queue.Copy(queue.Slot(0), queue.Slot(1), X.nbytes))
    line.submit(queue.Submission([source, dest]))
    here.synchronize()
    out = np.zeros_like(X)
    there.copy_out(raw(out), dest)
    np.testing.assert_array_equal(out, X)
    here.free(source, X.nbytes)
    there.free(dest, X.nbytes)
