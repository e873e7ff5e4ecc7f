"""Mistakes raise at the call, as our own exceptions that say what, with which shapes, and what to do."""

# mypy: disable-error-code="index"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.errors import DeviceError, DTypeError, GradientError, IndexOutOfRange, ShapeError, TinyError
from tiny_core.tensor.tensor import Tensor

from ..oracle import Engine

pytestmark = pytest.mark.usefixtures("oracle")

MISTAKES: list[tuple[Callable[[], object], type[TinyError], str]] = [
    (
        lambda: Tensor.empty(2, 3) + Tensor.empty(4, 5),
        ShapeError,
        r"add: shapes \(2, 3\) and \(4, 5\) do not broadcast",
    ),
    (lambda: Tensor.empty(2, 3).where(Tensor.empty(4), 1), ShapeError, r"where: shapes \(2, 3\) and \(4,\)"),
    (
        lambda: Tensor.empty(2, 3) @ Tensor.empty(4, 5),
        ShapeError,
        r"matmul of shapes \(2, 3\) and \(4, 5\): 3 against 4",
    ),
    (lambda: Tensor(1.0) @ Tensor([1.0]), ShapeError, "both need an axis"),
    (
        lambda: Tensor.empty(2, 3).reshape(4, 2),
        ShapeError,
        r"cannot turn \(2, 3\) \(6 elements\) into \(4, 2\)",
    ),
    (lambda: Tensor.empty(2, 3).reshape(-1, -1), ShapeError, "one of them may be -1"),
    (lambda: Tensor.empty(2, 3).reshape(4, -1), ShapeError, r"into \(4, -1\)"),
    (lambda: Tensor.empty(2, 3).expand(3, 3), ShapeError, r"\(2, 3\) does not expand to \(3, 3\)"),
    (lambda: Tensor.empty(2, 3).permute(0, 0), ShapeError, "named twice"),
    (lambda: Tensor.empty(2, 3).permute(1), ShapeError, "each of the 2 axes once"),
    (
        lambda: Tensor.empty(2, 3).sum(2),
        ShapeError,
        r"sum: axis 2 of a tensor of shape \(2, 3\)\n  hint: axes are -2 … 1",
    ),
    (lambda: Tensor.empty(3).T, ShapeError, "transpose: axis"),
    (lambda: Tensor.empty(2, 0).max(1), ShapeError, "max over no elements"),
    (lambda: Tensor.empty(0).argmin(), ShapeError, "argmin over no elements"),
    (lambda: Tensor.empty(2, 3).shrink(((0, 3), None)), ShapeError, "shrink"),
    (lambda: Tensor.empty(2, 3).split([1, 1], 1), ShapeError, "must add up to 3"),
    (
        lambda: Tensor.empty(2, 3).cat(Tensor.empty(2, 4)),
        ShapeError,
        r"cat along axis 0: shapes \(2, 3\), \(2, 4\)",
    ),
    (lambda: Tensor.empty(2, 3).stack(Tensor.empty(3, 2)), ShapeError, "stack: shapes"),
    (lambda: Tensor.empty(2, 3).pad((1, 2, 3)), ShapeError, "pad: padding"),
    (lambda: Tensor.empty(2, 3).pad((1, 2), mode="mirror"), DTypeError, "mode 'mirror'"),
    (lambda: Tensor.empty(2, 3).squeeze(5), ShapeError, "squeeze: axis 5"),
    (lambda: Tensor.empty(3).tril(), ShapeError, "at least two axes"),
    (lambda: Tensor.empty(2, 3)[2], IndexOutOfRange, r"index 2 for axis 0 of a tensor of shape \(2, 3\)"),
    (lambda: Tensor.empty(2, 3)[0, -4], IndexOutOfRange, "it takes -3 … 2"),
    (lambda: Tensor.empty(2, 3)[0, 0, 0], IndexOutOfRange, "3 indices for a tensor of shape"),
    (lambda: Tensor.empty(2, 3)[..., ...], IndexOutOfRange, "one Ellipsis"),
    (lambda: Tensor.empty(2, 3)[[0, 7]], IndexOutOfRange, "index 7"),
    (lambda: Tensor.empty(2, 3)[::0], ShapeError, "step 0"),
    (lambda: Tensor.empty(2, 3)["a"], DTypeError, "index 'a' of type str"),
    (lambda: Tensor.empty(2, 3)[True], DTypeError, "index True"),
    (lambda: Tensor.empty(2, 3)[Tensor([0.5])], DTypeError, "index tensor of float32"),
    (lambda: Tensor.empty(2, 3).gather(1, Tensor([[0.0]])), DTypeError, "gather: index of float32"),
    (lambda: Tensor.empty(2, 3).gather(1, Tensor([0])), ShapeError, "gather along axis 1"),
    (lambda: Tensor.empty(1, 3, 8, 8).conv2d(Tensor.empty(4, 2, 3, 3)), ShapeError, "3 channels"),
    (
        lambda: Tensor.empty(1, 3, 2, 2).conv2d(Tensor.empty(4, 3, 3, 3)),
        ShapeError,
        "larger than the padded input",
    ),
    (lambda: Tensor.empty(1, 3, 8).conv2d(Tensor.empty(4, 3, 3, 3)), ShapeError, "conv2d: input"),
    (lambda: Tensor.empty(1, 3, 8, 8).conv2d(Tensor.empty(4, 3, 3, 3), Tensor.empty(5)), ShapeError, "bias"),
    (
        lambda: Tensor.empty(1, 3, 8, 8).conv2d(Tensor.empty(4, 3, 3, 3), stride=(1, 2, 3)),
        ShapeError,
        "stride",
    ),
    (lambda: Tensor.empty(4, 5).cross_entropy(Tensor.empty(4)), ShapeError, "targets"),
    (
        lambda: Tensor.empty(4, 5).cross_entropy(Tensor([1, 2])),
        ShapeError,
        r"labels \(2,\) for logits \(4, 5\)",
    ),
    (lambda: Tensor.empty(4, 5).cross_entropy(Tensor([1, 2, 3, 4]), "max"), DTypeError, "reduction 'max'"),
    (lambda: Tensor.empty(2, 3) & Tensor.empty(2, 3), DTypeError, "bitwise_and of float32"),
    (lambda: Tensor([1.0]) << 1, DTypeError, "lshift of float32"),
    (lambda: ~Tensor([1.0]), DTypeError, "bitwise_not of float32"),
    (lambda: Tensor([True]) - Tensor([True]), DTypeError, "sub of bool"),
    (lambda: Tensor([2]) ** Tensor([2]), DTypeError, "pow of int32 by int32"),
    (lambda: Tensor([2]) ** -1, DTypeError, "pow of int32 by -1"),
    (lambda: Tensor([2]).div(1, rounding_mode="up"), DTypeError, "rounding_mode 'up'"),
    (lambda: Tensor([1.0]).cast("floot32"), DTypeError, "did you mean float32"),
    (lambda: Tensor([1.0]).bitcast(dtypes.int64), DTypeError, "widths differ"),
    (lambda: Tensor("abc"), DTypeError, "Tensor of str"),
    (lambda: Tensor([[1], [2, 3]]), ShapeError, "lengths must be equal"),
    (lambda: Tensor([[1], 2]), ShapeError, "lengths must be equal"),
    (lambda: Tensor([1, [2]]), ShapeError, "deeper"),
    (lambda: Tensor([1, "a"]), DTypeError, "list with a str"),
    (lambda: Tensor([1, 2], requires_grad=True), DTypeError, "only floats have gradients"),
    (lambda: Tensor.zeros(2, -3), ShapeError, r"zeros|full: shape \(2, -3\)"),
    (lambda: Tensor.arange(1, 2, 0), ShapeError, "step 0"),
    (lambda: Tensor.randint(3, low=5, high=5), ShapeError, "high must exceed low"),
    (lambda: Tensor.randint(3, high=300, dtype=dtypes.uint8), DTypeError, "it holds 0 … 255"),
    (lambda: Tensor.rand(3, dtype=dtypes.int32), DTypeError, "use randint"),
    (lambda: Tensor([1.0]).dropout(2), DTypeError, "a probability"),
    (lambda: bool(Tensor([1])), DTypeError, r"use \.item\(\)"),
    (lambda: 1 in Tensor([1]), DTypeError, "`in` on a tensor"),
    (lambda: len(Tensor(1)), ShapeError, "a scalar has no axes"),
    (lambda: list(Tensor(1)), ShapeError, "a scalar has no axes"),
    (lambda: Tensor([1, 2]).item(), ShapeError, "has not one element"),
    (lambda: Tensor([1.0, 2.0]).assign(Tensor([1.0, 2.0, 3.0])), ShapeError, "assign"),
    (lambda: Tensor([1.0]).assign(Tensor([[1.0], [2.0]])), ShapeError, r"assign: shape \(2, 1\) to \(1,\)"),
    (lambda: Tensor([1]).assign(Tensor([1.0])), DTypeError, "assign: float32 to a tensor of int32"),
    (lambda: Tensor([1]).assign(1.5), DTypeError, "assign: 1.5"),
    (lambda: Tensor([1.0]).expand(3).assign(0), ShapeError, "expanded view"),
    (lambda: Tensor([1.0]).replace(Tensor([1.0, 2.0])), ShapeError, "replace"),
    (lambda: Tensor([1.0, 2.0]).gradient(Tensor([1.0])), ShapeError, "reduce it to a scalar"),
    (lambda: Tensor([1.0]).gradient(Tensor([1])), DTypeError, "gradient of a tensor of int32"),
    (lambda: Tensor([1.0]).sum().gradient(Tensor([1.0])), GradientError, "does not depend on"),
    (lambda: (Tensor.ones(1) * 2).gradient(Tensor.ones(1)), GradientError, "constant"),
    (lambda: Tensor([1.0]).sum().backward(), GradientError, "no parameter"),
    (
        lambda: Tensor([1.0], device="CPU") + Tensor([1.0], device="CPU:1"),
        DeviceError,
        r"add: tensors on CPU and CPU:1",
    ),
    (lambda: Tensor([1.0])[Tensor([0], device="CPU:1")], DeviceError, "indexing: tensors on CPU and CPU:1"),
    (lambda: Tensor([1.0]).assign(Tensor([0.0], device="CPU:1")), DeviceError, "assign: tensors on"),
    (lambda: Tensor([1.0]).cat(Tensor([0.0], device="CPU:1")), DeviceError, r"e\.g\. with \.to\('CPU'\)"),
]


@pytest.mark.parametrize(("mistake", "kind", "text"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_mistake(oracle: Engine, mistake: Callable[[], object], kind: type[TinyError], text: str) -> None:
    with pytest.raises(kind, match=text) as raised:
        mistake()
    assert raised.value.hint
    assert not oracle.batches or "item" in text


def test_message_names_the_lines_that_made_the_operands() -> None:
    a = Tensor.empty(2, 3)
    b = Tensor.empty(4)
    line = b._line
    assert line is not None
    with pytest.raises(ShapeError) as raised:
        a + b
    assert f"test_tensor_errors.py:{line[1] - 1}, " in str(raised.value)
    assert f"test_tensor_errors.py:{line[1]}" in str(raised.value)


def test_errors_are_pythons_own_kinds_too() -> None:
    with pytest.raises(ValueError):
        Tensor.empty(2).reshape(3)
    with pytest.raises(IndexError):
        Tensor.empty(2)[5]
    with pytest.raises(TypeError):
        bool(Tensor([1]))


def test_constants_without_a_device_follow_their_operands() -> None:
    x = Tensor([1.0], device="CPU:1")
    y = x + Tensor.ones(1) * 2
    assert y.device == "CPU:1"
    assert Tensor.ones(1).to("CPU:1").device == "CPU:1"
    assert np.asarray((x.to("CPU") + Tensor([1.0])).tolist()) == [2.0]
    with pytest.raises(DeviceError):
        x + Tensor.ones(1, device="CPU")


def _options() -> dict[str, Callable[[], object]]:
    v, x, w = Tensor.ones(4), Tensor.ones(1, 2, 4, 4), Tensor.ones(3, 2, 3, 3)
    rows, labels = Tensor.ones(2, 3), Tensor([0, 1])
    return {
        "gelu": lambda: v.gelu("anything"),
        "div": lambda: v.div(2, rounding_mode="up"),
        "pad": lambda: v.pad((1, 1), mode="around"),
        "conv2d": lambda: x.conv2d(w, padding="same"),  # type: ignore[arg-type]  # the mistake
        "max_pool2d": lambda: x.max_pool2d(2, padding="same"),  # type: ignore[arg-type]  # the mistake
        "binary_crossentropy": lambda: v.binary_crossentropy(v, reduction="avg"),
        "binary_crossentropy_logits": lambda: v.binary_crossentropy_logits(v, reduction="avg"),
        "cross_entropy": lambda: rows.cross_entropy(labels, reduction="avg"),
        "cross_entropy of probabilities": lambda: rows.cross_entropy(rows, reduction="avg"),
        "sparse": lambda: rows.sparse_categorical_crossentropy(labels, reduction="avg"),
        "nll_loss": lambda: rows.nll_loss(labels, reduction="avg"),
        "label_smoothing": lambda: rows.cross_entropy(
            labels,
            label_smoothing="a lot",  # type: ignore[arg-type]  # the mistake
        ),
    }


@pytest.mark.parametrize("name", _options())
def test_an_option_that_does_not_exist(name: str) -> None:
    with pytest.raises(DTypeError) as caught:
        _options()[name]()
    assert caught.value.hint
