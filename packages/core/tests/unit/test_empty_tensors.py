"""Tensors of no elements, and of no axes, through every kind of operation. References are numpy's and
PyTorch's."""

# mypy: disable-error-code="arg-type,index,union-attr"
from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_core import Device, Tensor, jit
from tiny_core.errors import IndexOutOfRange, ShapeError

SHAPES = [(0,), (2, 0, 3), (0, 0), ()]
Op = Callable[[Any], Any]


def _array(shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, 2.5, np.float32)


def _same(got: Tensor, expected: Any) -> None:
    array = got.numpy()
    assert array.shape == np.shape(expected)
    np.testing.assert_allclose(array, expected, rtol=1e-6)
    assert np.shape(got.tolist()) == np.shape(np.asarray(expected).tolist())


ELEMENTWISE: list[tuple[str, Op, Op]] = [
    ("neg", lambda x: -x, lambda x: -x),
    ("add itself", lambda x: x + x, lambda x: x + x),
    ("add a number", lambda x: x + 1, lambda x: x + np.float32(1)),
    ("add a vector", lambda x: x + Tensor([1.0]), lambda x: x + np.ones(1, np.float32)),
    ("exp", lambda x: x.exp(), np.exp),
    ("sqrt", lambda x: x.sqrt(), np.sqrt),
    ("sin", lambda x: x.sin(), np.sin),
    ("relu", lambda x: x.relu(), lambda x: np.maximum(x, 0)),
    ("compare", lambda x: x > 1, lambda x: x > 1),
    ("where", lambda x: (x > 1).where(x, 0.0), lambda x: np.where(x > 1, x, 0)),
    ("masked_fill", lambda x: x.masked_fill(x > 1, 9.0), lambda x: np.where(x > 1, np.float32(9), x)),
    ("cast", lambda x: x.cast("int8"), lambda x: x.astype(np.int8)),
    ("bitcast", lambda x: x.bitcast("int32"), lambda x: x.view(np.int32)),
    ("contiguous", lambda x: x.contiguous(), lambda x: x),
    ("clone", lambda x: x.clone(), lambda x: x),
    ("detach", lambda x: x.detach(), lambda x: x),
    ("clamp", lambda x: x.clamp(0, 1), lambda x: np.clip(x, 0, 1)),
    ("flatten", lambda x: x.flatten(), np.ravel),
    ("squeeze", lambda x: x.squeeze(), np.squeeze),
    ("unsqueeze", lambda x: x.unsqueeze(0), lambda x: x[None]),
    ("expand", lambda x: x.expand(4, *x.shape), lambda x: np.broadcast_to(x, (4, *x.shape))),
    ("reversed axes", lambda x: x.permute(*range(x.ndim)[::-1]) if x.ndim else x, np.transpose),
    ("stack", lambda x: x.stack(x), lambda x: np.stack([x, x])),
    ("another device", lambda x: x.to("PYTHON"), lambda x: x),
    ("a copy", copy.deepcopy, lambda x: x),
    ("a pickle", lambda x: pickle.loads(pickle.dumps(x)), lambda x: x),
]
REDUCTIONS: list[tuple[str, Op, Op]] = [
    ("sum", lambda x: x.sum(), lambda x: x.sum()),
    ("prod", lambda x: x.prod(), lambda x: x.prod()),
    ("any", lambda x: x.any(), lambda x: x.any()),
    ("all", lambda x: x.all(), lambda x: x.all()),
    ("sum of a sum", lambda x: (x.sum() + x.sum()) * 2, lambda x: x.sum() * 4),
    ("sum, axes kept", lambda x: x.sum(keepdim=True), lambda x: x.sum(keepdims=True)),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_operations(shape: tuple[int, ...]) -> None:
    x = _array(shape)
    results = [(name, op(Tensor(x)), reference(x)) for name, op, reference in ELEMENTWISE + REDUCTIONS]
    Tensor.realize(*(r for _, r, _ in results))
    for _name, result, expected in results:
        _same(result, expected)


WITH_AXES: list[tuple[str, Op, Op]] = [
    ("sum of the first", lambda x: x.sum(0), lambda x: x.sum(0)),
    ("sum of the last", lambda x: x.sum(-1), lambda x: x.sum(-1)),
    ("cat", lambda x: x.cat(x), lambda x: np.concatenate([x, x])),
    ("flip", lambda x: x.flip(0), lambda x: np.flip(x, 0)),
    ("pad", lambda x: x.pad(((1, 1),) * x.ndim), lambda x: np.pad(x, 1)),
    ("slice", lambda x: x[:0], lambda x: x[:0]),
    ("reversed", lambda x: x[::-1], lambda x: x[::-1]),
    ("repeat", lambda x: x.repeat(*(2,) * x.ndim), lambda x: np.tile(x, (2,) * x.ndim)),
    ("softmax", lambda x: x.softmax(-1), lambda x: x),
    ("parts", lambda x: x.split(1)[0], lambda x: x[:1]),
]


@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
def test_operations_along_axes(shape: tuple[int, ...]) -> None:
    x = _array(shape)
    for name, op, reference in WITH_AXES:
        if name == "softmax" and shape[-1] == 0:
            with pytest.raises(ShapeError, match="over no elements"):  # there is no greatest
                op(Tensor(x))
            continue
        _same(op(Tensor(x)), reference(x))


def test_products_of_nothing() -> None:
    for left, right in (
        ((2, 0), (0, 3)),
        ((0, 2), (2, 3)),
        ((4, 0, 2), (2, 3)),
        ((0,), (0,)),
        ((0, 0), (0, 0)),
    ):
        a, b = np.ones(left, np.float32), np.ones(right, np.float32)
        _same(Tensor(a) @ Tensor(b), a @ b)


def test_networks_of_empty_batches() -> None:
    images = Tensor.ones(0, 1, 4, 4)
    out = images.conv2d(Tensor.ones(2, 1, 3, 3), Tensor.ones(2)).relu().max_pool2d()
    assert out.shape == (0, 2, 1, 1) and out.tolist() == []
    assert Tensor.ones(1, 0, 4, 4).conv2d(Tensor.ones(2, 0, 3, 3)).tolist() == [[[[0.0] * 2] * 2] * 2]
    loss = Tensor.ones(0, 3).cross_entropy(Tensor([], dtype="int32"), reduction="sum")
    assert loss.item() == 0
    assert np.isnan(Tensor.ones(0, 3).cross_entropy(Tensor([], dtype="int32")).item())  # as PyTorch's mean


def test_statistics_of_nothing() -> None:
    x = Tensor.ones(0, 3)
    assert np.isnan(x.mean().item()) and np.isnan(x.mean(0).numpy()).all() and x.mean(1).shape == (0,)
    for call in (Tensor.max, Tensor.min, Tensor.argmax, Tensor.argmin):
        with pytest.raises(ShapeError, match="over no elements"):
            call(x)
        with pytest.raises(ShapeError, match="over no elements"):
            call(x, 0)
        assert call(x, 1).tolist() == []


def test_indexing() -> None:
    x, none = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([], dtype="int32")
    assert x[none].shape == (0, 2) and x[:, none].tolist() == [[], []] and x[none, none].tolist() == []
    assert x[0:0].shape == (0, 2) and x[0:0, 1:1].tolist() == []
    assert Tensor.empty(0, 2)[Tensor([0])].tolist() == [[0.0, 0.0]], "out of range reads 0"
    with pytest.raises(IndexOutOfRange):
        Tensor.empty(0)[0]
    with pytest.raises(IndexOutOfRange):
        Tensor(1.0)[0]
    assert Tensor(1.0)[...].item() == 1 and Tensor(1.0)[None].tolist() == [1.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_assignment(shape: tuple[int, ...]) -> None:
    x = Tensor(_array(shape))
    x += 1
    _same(x, _array(shape) + 1)
    x.assign(x * 2).realize()
    _same(x, _array(shape) * 2 + 2)
    x[...] = 5
    _same(x, np.full(shape, 5, np.float32))
    y = Tensor([1.0, 2.0])
    y[2:] = 9
    y[1:1] = Tensor([], dtype="float32")
    assert y.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients(shape: tuple[int, ...]) -> None:
    x = Tensor(_array(shape), requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    _same(x.grad, _array(shape) * 2)
    w = Tensor(_array((3, 0)), requires_grad=True)
    (w @ Tensor(np.ones((0, 2), np.float32))).sum().backward()
    assert w.grad is not None and w.grad.shape == (3, 0)


def test_creation() -> None:
    for made, shape in (
        (Tensor([]), (0,)), (Tensor([[], []]), (2, 0)), (Tensor(None), (0,)), (Tensor(b""), (0,)),
        (Tensor.arange(0), (0,)), (Tensor.eye(0), (0, 0)), (Tensor.linspace(0, 1, 0), (0,)),
        (Tensor.rand(0, 3), (0, 3)), (Tensor.randn(2, 0), (2, 0)), (Tensor.randint(0, high=3), (0,)),
        (Tensor.randperm(0), (0,)), (Tensor.zeros(0), (0,)), (Tensor.full((), 3), ()), (Tensor.rand(()), ()),
    ):  # fmt: skip
        assert made.shape == shape and made.numpy().shape == shape and repr(made.realize())


@pytest.mark.parametrize("shape", SHAPES)
def test_captured(shape: tuple[int, ...]) -> None:
    f = jit(lambda x: (x * 2, x.sum()))
    for k in (1.0, 2.0, 3.0):
        double, total = f(Tensor(_array(shape) * np.float32(k)))
        _same(double, _array(shape) * 2 * k)
        _same(total, (_array(shape) * k).sum())


def test_on_other_devices(tmp_path: Path) -> None:
    for name in ("NULL", "PYTHON", "CPU:1", f"DISK:{tmp_path / 'file'}"):
        moved = Tensor.empty(0, 4).to(name).realize()
        assert moved.shape == (0, 4) and moved.device == Device.canonicalize(name)
    assert Tensor(_array((2, 0))).to("PYTHON").to("CPU").tolist() == [[], []]


def test_gradients_of_what_nothing_was_taken_from() -> None:
    """As PyTorch: sums of no elements of a parameter depend on it, and their gradient is 0."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w[0:0].sum() + w[0:0].prod() * 3).backward()
    assert w.grad is not None and w.grad.tolist() == [0.0, 0.0]
