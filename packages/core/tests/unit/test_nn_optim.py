"""Optimizers and the one-cycle schedule against PyTorch's; what a step costs; how they go with jit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tiny_core import Device, GlobalCounters, Tensor, dtypes, jit, nn
from tiny_core.errors import DeviceError, DTypeError, GradientError, SettingError
from tiny_core.nn.optim import SGD, Adam, AdamW, OneCycleLR, Optimizer

from ..oracle import Engine
from .tensor_checks import close, rng

SHAPES = ((3, 4), (5,), ())


def steps(
    ours: Callable[[list[Tensor]], Optimizer],
    theirs: Callable[[list[torch.Tensor]], torch.optim.Optimizer],
    count: int = 6,
) -> None:
    """Assert that parameters stay equal to PyTorch's over some steps with the same gradients."""
    begin = [rng(i).standard_normal(shape) for i, shape in enumerate(SHAPES)]
    mine = [Tensor(a, requires_grad=True) for a in begin]
    reference = [torch.tensor(a, requires_grad=True) for a in begin]
    optimizer, expected = ours(mine), theirs(reference)
    for step in range(count):
        for i, (p, q) in enumerate(zip(mine, reference, strict=True)):
            grad = np.asarray(rng(100 * step + i).standard_normal(p.shape) * 10.0 ** (i - 1))
            p.grad, q.grad = Tensor(grad), torch.tensor(grad)
        optimizer.step()
        expected.step()
        for p, q in zip(mine, reference, strict=True):
            # rates and bias corrections are float32 here
            close(p, q, 1e-6, 1e-7)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.5, "nesterov": True},
        {"weight_decay": 0.1},
        {"momentum": 0.9, "weight_decay": 0.01},
    ],
)
def test_sgd(oracle: Engine, how: dict[str, Any]) -> None:
    steps(lambda p: SGD(p, 0.1, **how), lambda p: torch.optim.SGD(p, 0.1, **how))


def test_classic_momentum_scales_gradients_before_they_are_accumulated(oracle: Engine) -> None:
    """v ← 0.5 v + lr g, w ← w - v (Polyak): a change of the rate does not scale what is in v."""
    w = Tensor([0.0], requires_grad=True)
    optimizer = SGD([w], lr=1.0, momentum=0.5, classic=True)
    for lr, grad, expected in ((1.0, 8.0, -8.0), (0.5, 4.0, -8 - 4 - 2), (0.0, 1.0, -14 - 3)):
        optimizer.lr.assign(lr)
        w.grad = Tensor([grad])
        optimizer.step()
        assert w.tolist() == [expected]


@pytest.mark.parametrize("how", [{}, {"eps": 1e-3}, {"weight_decay": 0.1}])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9), (0.0, 0.0)])
def test_adam(oracle: Engine, how: dict[str, Any], betas: tuple[float, float]) -> None:
    b1, b2 = betas
    steps(lambda p: Adam(p, 0.1, b1=b1, b2=b2, **how), lambda p: torch.optim.Adam(p, 0.1, betas=betas, **how))


@pytest.mark.parametrize("how", [{}, {"weight_decay": 0.3}, {"weight_decay": 0.0}])
def test_adamw(oracle: Engine, how: dict[str, Any]) -> None:
    steps(lambda p: AdamW(p, 0.1, **how), lambda p: torch.optim.AdamW(p, 0.1, **how))


def test_small_floats_keep_float32_moments(oracle: Engine) -> None:
    w = Tensor([1.0, 2.0], dtype=dtypes.float16, requires_grad=True)
    optimizer = Adam([w], 0.25)
    w.grad = Tensor([1e-4, -1e-4], dtype=dtypes.float16)  # its square is 0 in float16
    optimizer.step()
    assert w.dtype is dtypes.float16 and optimizer.v[0].dtype is dtypes.float32
    close(w, np.array([0.75, 2.25]), 1e-3)


def test_zero_grad(oracle: Engine) -> None:
    w = Tensor([3.0], requires_grad=True)
    optimizer = SGD([w], 1.0)
    for _ in range(2):
        optimizer.zero_grad()
        (w * w).sum().backward()
        assert w.grad is not None and w.grad.tolist() == [6.0]
    optimizer.zero_grad()
    assert w.grad is None


# ---- the schedule ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "how"),
    [
        (118, {}),
        (20, {"pct_start": 0.5, "div_factor": 10.0, "final_div_factor": 100.0}),
        (7, {"pct_start": 0.05}),
        (7, {"pct_start": 1.0}),
        (3, {}),
        (1, {}),
    ],
)
def test_one_cycle(oracle: Engine, total: int, how: dict[str, Any]) -> None:
    optimizer = SGD([Tensor([0.0], requires_grad=True)], 1.0)
    schedule = OneCycleLR(optimizer, 4e-3, total, **how)
    reference = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    expected = torch.optim.lr_scheduler.OneCycleLR(
        reference, 4e-3, total_steps=total, cycle_momentum=False, **how
    )
    for _ in range(total - 1):
        np.testing.assert_allclose(optimizer.lr.item(), reference.param_groups[0]["lr"], rtol=1e-5, atol=1e-9)
        reference.step()
        expected.step()
        schedule.step()
    np.testing.assert_allclose(optimizer.lr.item(), reference.param_groups[0]["lr"], rtol=1e-5, atol=1e-9)
    last = optimizer.lr.item()
    schedule.step()
    assert optimizer.lr.item() == last  # there it stays


# ---- what a step costs, and jit: on the real engine
# ---------------------------------------------------------


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The CPU as the default device."""
    monkeypatch.setattr(Device, "_default", "CPU")
    yield


def test_a_parameter_and_its_moments_are_one_kernel(cpu: None) -> None:
    params = [Tensor(rng().standard_normal(s).astype(np.float32), requires_grad=True) for s in SHAPES[:2]]
    optimizer = Adam(params, 0.01)
    grads = [Tensor(np.ones(p.shape, np.float32)) for p in params]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    before = GlobalCounters.kernel_count
    optimizer.step()
    assert GlobalCounters.kernel_count - before <= len(params) + 2  # and the two bias corrections


def test_a_captured_training_step_replays_as_pytorch_trains(cpu: None) -> None:
    x = rng(1).standard_normal((64, 16)).astype(np.float32)
    y = rng(2).integers(0, 10, 64).astype(np.int32)
    reference = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    theirs = torch.optim.AdamW(reference.parameters(), weight_decay=0.1)
    expected = torch.optim.lr_scheduler.OneCycleLR(theirs, 0.05, total_steps=10, cycle_momentum=False)
    net: list[Callable[[Tensor], Tensor]] = [nn.Linear(16, 32), Tensor.tanh, nn.Linear(32, 10)]
    weights = {name: Tensor(value.numpy()) for name, value in reference.state_dict().items()}
    nn.state.load_state_dict(net, weights)
    optimizer = AdamW(nn.state.get_parameters(net), weight_decay=0.1)
    schedule = OneCycleLR(optimizer, 0.05, total_steps=10)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = x.sequential(net).cross_entropy(y)
        loss.backward()
        return loss.realize(*optimizer.schedule_step(), *schedule.schedule_step())

    for _ in range(8):
        loss = step(Tensor(x), Tensor(y)).item()
        theirs.zero_grad()
        want = torch.nn.functional.cross_entropy(reference(torch.tensor(x)), torch.tensor(y).long())
        want.backward()  # type: ignore[no-untyped-call]
        theirs.step()
        expected.step()
        np.testing.assert_allclose(loss, want.item(), rtol=1e-4)
    assert len(step.recordings) == 1
    np.testing.assert_allclose(
        net[0].weight.numpy(), reference[0].weight.detach().numpy(), rtol=1e-3, atol=1e-5
    )


# ---- errors ------------------------------------------------------------------------------------------------


def test_parameters_are_checked(oracle: Engine) -> None:
    w, n = Tensor([1.0], requires_grad=True), Tensor([1])
    with pytest.raises(GradientError, match="an optimizer of no parameters") as caught:
        SGD([])
    assert "get_parameters" in caught.value.hint
    with pytest.raises(GradientError, match="parameter 2 is parameter 0 again"):
        Adam([w, Tensor([2.0]), w])
    with pytest.raises(DTypeError, match="int32"):
        SGD([w, n])
    with pytest.raises(DTypeError, match="parameter 1 is a float"):
        SGD([w, 1.0])  # type: ignore[list-item]
    with pytest.raises(DeviceError, match="parameters on CPU and CPU:1"):
        SGD([w, Tensor([1.0], device="CPU:1")])


def test_a_parameter_without_gradient(oracle: Engine) -> None:
    optimizer = Adam([Tensor([1.0], requires_grad=True), Tensor([[2.0]], requires_grad=True)])
    optimizer.params[0].grad = Tensor([0.5])
    with pytest.raises(GradientError, match=r"parameter 1 of Adam, of shape \(1, 1\), has no gradient"):
        optimizer.step()
    assert optimizer.params[0].tolist() == [1.0] and optimizer.m[0].tolist() == [0.0]


def test_a_tensor_given_asks_for_gradients_from_then_on(oracle: Engine) -> None:
    w = Tensor([2.0])
    optimizer = SGD([w], lr=0.5)
    (w * w).sum().backward()
    optimizer.step()
    assert w.tolist() == [0.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda w: SGD([w], -0.1), "lr=-0.1"),
        (lambda w: SGD([w], float("nan")), "lr=nan"),
        (lambda w: SGD([w], momentum=1.0), "momentum=1.0"),
        (lambda w: SGD([w], nesterov=True), "momentum=0.0"),
        (lambda w: Adam([w], b1=1.0), "b1=1.0"),
        (lambda w: Adam([w], b2=-0.1), "b2=-0.1"),
        (lambda w: Adam([w], eps=-1.0), "eps=-1.0"),
        (lambda w: AdamW([w], weight_decay=-1.0), "weight_decay=-1.0"),
        (lambda w: OneCycleLR(SGD([w]), 0.1, 0), "total_steps=0"),
        (lambda w: OneCycleLR(SGD([w]), 0.1, 10, pct_start=1.5), "pct_start=1.5"),
    ],
)
def test_numbers_are_checked(oracle: Engine, make: Callable[[Tensor], object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make(Tensor([1.0], requires_grad=True))
