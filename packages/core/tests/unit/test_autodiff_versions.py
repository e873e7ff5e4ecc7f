"""Gradients of values that were realized, and of storage that was assigned to: right, or an error that names
lines."""

# mypy: disable-error-code="arg-type"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import weakref

import numpy as np
import pytest

from tiny_core.errors import GradientError, VersionError
from tiny_core.tensor.tensor import Tensor

from ..oracle import Engine

pytestmark = pytest.mark.usefixtures("oracle")


def line_of(t: Tensor, offset: int = 0) -> str:
    assert t._line is not None
    return f"test_autodiff_versions.py:{t._line[1] + offset}"


@pytest.mark.parametrize("param", [False, True])
def test_overwritten_and_realized(param: bool) -> None:
    w = Tensor([3.0], requires_grad=param)
    loss = (w * w).sum()
    w.assign(w + 1).realize()
    with pytest.raises(VersionError) as raised:
        loss.gradient(w)
    assert line_of(loss) in str(raised.value)
    assert line_of(loss, 1) in str(raised.value)


def test_overwritten_scalar() -> None:
    w = Tensor(3.0)
    loss = (w * w).sum()
    w.assign(w + 1).realize()
    with pytest.raises(VersionError):
        loss.gradient(w)


def test_overwritten_lazily_is_right() -> None:
    w = Tensor([3.0])
    loss = (w * w).sum()
    w.assign(w + 1)
    (grad,) = loss.gradient(w)
    assert grad.item() == 6.0
    assert w.item() == 4.0
    assert loss.item() == 9.0


def test_overwritten_is_right_where_the_value_is_not_needed() -> None:
    w = Tensor([3.0])
    loss = (w * 2).sum()
    w.assign(w + 1).realize()
    assert loss.gradient(w)[0].item() == 2.0


def test_gradient_taken_before_the_assignment_is_kept() -> None:
    w = Tensor([3.0])
    (grad,) = (w * w).sum().gradient(w)
    w.assign(w + 1).realize()
    assert grad.item() == 6.0


def test_value_read_before_its_gradient() -> None:
    x = Tensor([1.0, 2.0])
    h = x * x
    assert h.tolist() == [1.0, 4.0]
    loss = (h * h).sum()
    assert loss.item() == 17.0
    assert loss.gradient(x)[0].tolist() == [4.0, 32.0]
    assert loss.gradient(h)[0].tolist() == [2.0, 8.0]


def test_realized_in_between_is_not_computed_again(oracle: Engine) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    h = (w * w).exp().realize()
    loss = (h * h).sum()
    grad = loss.gradient(h)[0]
    grad.realize()
    assert len(grad.uop.toposort()) < 4
    batch = oracle.batches[-1]
    assert "exp2" not in {n.op.value for root in batch for n in root.toposort()}
    np.testing.assert_allclose(
        loss.gradient(w)[0].numpy(), 4 * np.exp(2 * np.array([1, 4.0])) * [1, 2], rtol=1e-5
    )


def test_intermediate_that_died_is_remembered_for_parameters(oracle: Engine) -> None:
    w = Tensor([2.0], requires_grad=True)

    def f() -> Tensor:
        h = (w * 3).realize()
        return (h * h).sum().realize()

    loss = f()
    oracle.batches.clear()
    assert loss.gradient(w)[0].item() == 36.0


def test_intermediate_that_died_is_an_error_otherwise(oracle: Engine) -> None:
    x = Tensor([2.0])

    def f() -> Tensor:
        h = (x * 3).realize()
        return (h + x).sum().realize()

    loss = f()
    oracle.batches.clear()
    with pytest.raises(VersionError, match="requires_grad"):
        loss.gradient(x)


def test_value_that_died_is_named(oracle: Engine) -> None:
    x = Tensor([2.0])
    loss = (x * Tensor([3.0])).sum()
    assert loss.item() == 6.0
    oracle.batches.clear()
    with pytest.raises(VersionError, match="no more"):
        loss.gradient(x)


def test_running_average_does_not_keep_its_past(oracle: Engine) -> None:
    average, x = Tensor([0.0]), Tensor([1.0])
    first = weakref.ref(x.uop)
    for value in (1.0, 2.0, 3.0, 4.0):
        x = Tensor([value])
        average = (average * 0.5 + x).realize()
    oracle.batches.clear()
    assert first() is None
    assert len([n for n in oracle.memory if n.shape == (1,)]) == 2
    assert average.item() == 6.125


def test_no_grad_forgets() -> None:
    w = Tensor([2.0], requires_grad=True)
    with Tensor.no_grad():
        h = (w * 3).realize()
    with pytest.raises(GradientError):
        h.sum().gradient(w)


# ---- assignment as a step of a computation ----------------------------------------------------------------


@pytest.mark.parametrize("realize", [False, True])
def test_store_into_a_view_has_a_gradient(realize: bool) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    out = Tensor.zeros(4).clone()
    out[1:3] = w * w
    if realize:
        out.realize()
    loss = (out * Tensor([1.0, 10.0, 100.0, 1000.0])).sum()
    assert loss.gradient(w)[0].tolist() == [20.0, 400.0]


@pytest.mark.parametrize("realize", [False, True])
def test_overwritten_part_has_no_gradient(realize: bool) -> None:
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = w * 2
    if realize:
        h.realize()
    h[::2] = 0
    if realize:
        h.realize()
    assert h.sum().gradient(w)[0].tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("realize", [False, True])
def test_assigning_to_a_result_is_a_step(realize: bool) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    h = w * 2
    if realize:
        h.realize()
    h += 1
    if realize:
        h.realize()
    assert (h * h).sum().gradient(w)[0].tolist() == [12.0, 20.0]


@pytest.mark.parametrize("realize", [False, True])
def test_assigning_to_a_leaf_detaches(realize: bool) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    mean = Tensor.zeros(2)
    mean.assign(mean * 0.9 + w * 0.1)
    if realize:
        mean.realize()
    with pytest.raises(GradientError):
        mean.sum().gradient(w)
    assert (mean.sum() + w.sum()).gradient(w)[0].tolist() == [1.0, 1.0]


def test_parameter_after_a_step_is_a_leaf_again() -> None:
    w = Tensor([3.0], requires_grad=True)
    for _ in range(3):
        loss = (w * w).sum()
        loss.backward()
        assert w.grad is not None
        w.assign(w - w.grad * 0.5)
        w.grad = None
    assert w.item() == 0.0
    assert len(w.uop.toposort()) == 1


def test_the_version_read_last_is_the_target() -> None:
    w = Tensor([3.0])
    old = w * 1
    w.assign(w + 1)
    assert (old * w).sum().gradient(w)[0].item() == 3.0


# ---- backward ---------------------------------------------------------------------------------------------


def test_backward_adds_to_grad() -> None:
    w, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    x = Tensor([5.0, 6.0])
    (w * x).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [5.0, 6.0]
    assert b.grad is None
    assert x.grad is None
    (w * x + b).sum().backward()
    assert w.grad.tolist() == [10.0, 12.0]
    assert b.grad is not None
    assert b.grad.tolist() == [2.0]
    w.grad = None
    assert w.grad is None


def test_backward_after_reading_the_loss() -> None:
    w = Tensor([2.0], requires_grad=True)
    loss = (w * w * w).sum()
    assert loss.item() == 8.0
    loss.backward()
    assert w.grad is not None
    assert w.grad.item() == 12.0


def test_equal_constants_as_parameters_are_told_apart() -> None:
    a, b = Tensor.ones(2, requires_grad=True), Tensor.ones(2, requires_grad=True)
    (a * 2 + b * 3).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [3.0, 3.0])


def test_backward_of_no_scalar_takes_a_cotangent() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).backward(Tensor([1.0, 10.0]))
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 40.0]


def test_parameter_made_from_a_view_is_whole() -> None:
    w = Tensor([[1.0, 2.0], [3.0, 4.0]]).T.requires_grad_()
    (w * Tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_gradients_flow_through_copies_that_nobody_holds() -> None:
    a = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = (((a * 2).contiguous() + 1).clone() * a).realize()
    assert y.sum().gradient(a)[0].tolist() == [[5.0, 9.0], [13.0, 17.0]]
