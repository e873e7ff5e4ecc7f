"""Layers against PyTorch's: values, gradients, running statistics, beginnings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tiny_core import Tensor, dtypes, nn
from tiny_core.errors import ShapeError

from ..oracle import Engine
from .tensor_checks import close, rng

pytestmark = pytest.mark.usefixtures("oracle")
Layer = Callable[[Tensor], Tensor]


def with_weights_of(layer: Layer, reference: torch.nn.Module) -> Layer:
    """Give a layer the weights of PyTorch's, in float64, by the names that PyTorch has for them."""
    for name, tensor in nn.state.get_state_dict(layer).items():
        value = reference.state_dict()[name].numpy()
        if tensor.is_param:
            *path, last = name.split(".")
            assert not path
            setattr(layer, last, Tensor(value, requires_grad=True))
        else:
            assert tensor.shape == value.shape
    assert list(nn.state.get_state_dict(layer)) == list(reference.state_dict())
    return layer


def agrees(layer: Layer, reference: torch.nn.Module, x: np.ndarray) -> None:
    """Assert equal outputs, and equal gradients of the input and of every weight."""
    with_weights_of(layer, reference)
    mine, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    out, want = layer(mine), reference(theirs)
    close(out, want)
    cotangent = rng(3).standard_normal(want.shape)
    (out * Tensor(cotangent)).sum().backward()
    want.backward(torch.tensor(cotangent))
    assert mine.grad is not None and theirs.grad is not None
    close(mine.grad, theirs.grad)
    for name, weight in reference.named_parameters():
        grad = getattr(layer, name).grad
        assert weight.grad is not None
        close(grad, weight.grad)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (7,)])
def test_linear(bias: bool, shape: tuple[int, ...]) -> None:
    x = rng().standard_normal(shape)
    agrees(nn.Linear(7, 4, bias=bias), torch.nn.Linear(7, 4, bias=bias).double(), x)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"bias": False},
        {"stride": 2, "padding": 1},
        {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
        {"groups": 2},
        {"padding": "same", "dilation": (2, 1)},
        {"padding": "valid"},
    ],
)
def test_conv2d(how: dict[str, Any]) -> None:
    x = rng().standard_normal((2, 4, 9, 8))
    ours = nn.Conv2d(4, 6, (3, 2), **how)
    agrees(ours, torch.nn.Conv2d(4, 6, (3, 2), **how).double(), x)


@pytest.mark.parametrize("padding", [0, 2, "same"])
def test_conv1d(padding: int) -> None:
    x = rng().standard_normal((2, 3, 10))
    agrees(nn.Conv1d(3, 5, 4, padding=padding), torch.nn.Conv1d(3, 5, 4, padding=padding).double(), x)


def test_layer_norm() -> None:
    x = rng().standard_normal((2, 3, 4, 5))
    reference = torch.nn.LayerNorm((4, 5), eps=1e-3).double()
    with torch.no_grad():
        reference.weight.copy_(torch.tensor(rng(1).standard_normal((4, 5))))
        reference.bias.copy_(torch.tensor(rng(2).standard_normal((4, 5))))
    agrees(nn.LayerNorm((4, 5), eps=1e-3), reference, x)
    plain = torch.nn.LayerNorm(5, elementwise_affine=False).double()
    agrees(nn.LayerNorm(5, elementwise_affine=False), plain, x)


# ---- batch norm --------------------------------------------------------------------------------------------


Reference = torch.nn.BatchNorm1d | torch.nn.BatchNorm2d | torch.nn.BatchNorm3d


def batch_norms(kind: type[Reference], **how: Any) -> tuple[nn.BatchNorm, Reference]:
    reference = kind(3, **how).double()
    if reference.affine:
        with torch.no_grad():
            reference.weight.copy_(torch.tensor(rng(1).standard_normal(3)))
            reference.bias.copy_(torch.tensor(rng(2).standard_normal(3)))
    return nn.BatchNorm(3, **how), reference


BATCH_NORMS: list[tuple[type[Reference], tuple[int, ...]]] = [
    (torch.nn.BatchNorm1d, (6, 3)),
    (torch.nn.BatchNorm2d, (4, 3, 2, 5)),
    (torch.nn.BatchNorm3d, (2, 3, 2, 2, 2)),
]


@pytest.mark.parametrize(("kind", "shape"), BATCH_NORMS)
@pytest.mark.parametrize("how", [{}, {"affine": False}, {"track_running_stats": False, "eps": 1e-2}])
def test_batch_norm_in_training(kind: type[Reference], shape: tuple[int, ...], how: dict[str, Any]) -> None:
    ours, reference = batch_norms(kind, **how)
    with Tensor.train():
        agrees(ours, reference, rng().standard_normal(shape) * 3 + 1)


@pytest.mark.parametrize("momentum", [0.1, 0.3, None])
def test_running_statistics(momentum: float | None) -> None:
    ours, reference = batch_norms(torch.nn.BatchNorm2d, momentum=momentum)
    with_weights_of(ours, reference)
    for seed in range(3):
        x = rng(seed).standard_normal((4, 3, 5, 5)) * (seed + 1) + seed
        with Tensor.train():
            close(ours(Tensor(x)), reference(torch.tensor(x)))
    assert ours.running_mean is not None and ours.running_var is not None
    assert reference.running_mean is not None and reference.running_var is not None
    close(ours.running_mean, reference.running_mean, 1e-5, 1e-6)  # ours are float32
    close(ours.running_var, reference.running_var, 1e-5, 1e-6)
    assert ours.num_batches_tracked is not None and ours.num_batches_tracked.item() == 3
    reference.eval()
    x = rng(9).standard_normal((2, 3, 5, 5))
    close(ours(Tensor(x)), reference(torch.tensor(x)), 1e-5, 1e-6)
    assert ours.num_batches_tracked.item() == 3  # evaluation changes nothing
    close(ours.running_mean, reference.running_mean, 1e-5, 1e-6)


def test_without_running_statistics_the_batch_is_used_in_evaluation_too() -> None:
    ours, reference = batch_norms(torch.nn.BatchNorm2d, track_running_stats=False)
    reference.eval()
    agrees(ours, reference, rng().standard_normal((4, 3, 5, 5)))


def test_statistics_are_no_parameters() -> None:
    layer = nn.BatchNorm2d(3)
    assert nn.state.get_parameters(layer) == [layer.weight, layer.bias]
    assert list(nn.state.get_state_dict(layer)) == [
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked",
    ]  # fmt: skip
    assert layer.num_batches_tracked is not None and layer.num_batches_tracked.dtype is dtypes.int64


def test_a_loss_is_not_differentiated_through_statistics() -> None:
    """What a batch moved is of no consequence for the gradient of a later one."""
    layer, x = nn.BatchNorm(3), Tensor(rng().standard_normal((4, 3)).astype(np.float32), requires_grad=True)
    with Tensor.train():
        layer(x)
    layer(Tensor(np.ones((2, 3), np.float32))).sum().backward()
    assert x.grad is None


# ---- beginnings --------------------------------------------------------------------------------------------


def test_weights_begin_as_pytorch_s() -> None:
    """Uniform within 1 / sqrt(fan-in), which has a standard deviation of that over sqrt(3)."""
    Tensor.manual_seed(3)
    for layer, fan_in in ((nn.Linear(200, 150), 200), (nn.Conv2d(20, 100, (3, 5)), 300)):
        bound = 1 / math.sqrt(fan_in)
        assert layer.bias is not None
        for tensor, few in ((layer.weight, False), (layer.bias, True)):
            values = tensor.numpy()
            assert np.abs(values).max() <= bound
            assert np.abs(values).max() > bound * 0.95
            np.testing.assert_allclose(values.std(), bound / math.sqrt(3), rtol=0.15 if few else 0.02)
            assert abs(values.mean()) < bound * (0.2 if few else 0.02)
            assert tensor.is_param and tensor.dtype is dtypes.float32


def test_a_seed_gives_the_same_weights() -> None:
    def drawn(seed: int) -> np.ndarray:
        Tensor.manual_seed(seed)
        return nn.Linear(5, 4).weight.numpy()

    np.testing.assert_array_equal(drawn(1), drawn(1))
    assert (drawn(1) != drawn(2)).any()


def test_layers_read_one_after_the_other() -> None:
    net = [
        nn.Conv2d(1, 4, 3),
        Tensor.relu,
        nn.BatchNorm2d(4),
        Tensor.max_pool2d,
        lambda x: x.flatten(1),
        nn.Linear(36, 2),
    ]
    assert Tensor.ones(5, 1, 8, 8).sequential(net).shape == (5, 2)
    assert len(nn.state.get_parameters(net)) == 6


# ---- errors ------------------------------------------------------------------------------------------------


def test_shapes_that_do_not_fit(oracle: Engine) -> None:
    x = Tensor.ones(2, 4, 5, 5)
    with pytest.raises(ShapeError, match=r"matmul of shapes \(2, 4, 5, 5\) and \(7, 3\)"):
        nn.Linear(7, 3)(x)
    with pytest.raises(ShapeError, match="conv2d: input of 4 channels"):
        nn.Conv2d(3, 3, 1)(x)
    with pytest.raises(ShapeError, match=r"BatchNorm of 5 channels: input \(2, 4, 5, 5\)"):
        nn.BatchNorm(5)(x)
    with pytest.raises(ShapeError, match=r"LayerNorm over \(4,\)"):
        nn.LayerNorm(4)(x)
    with pytest.raises(ShapeError, match="one value a channel"), Tensor.train():
        nn.BatchNorm(4)(Tensor.ones(1, 4))
    with pytest.raises(ShapeError, match="4 to 6 channels in 3 groups"):
        nn.Conv2d(4, 6, 3, groups=3)
    with pytest.raises(ShapeError, match="padding 'same' with stride 2"):
        nn.Conv2d(4, 6, 3, padding="same", stride=2)
    with pytest.raises(ShapeError, match="kernel_size"):
        nn.Conv2d(4, 6, (3, 3, 3))
    with pytest.raises(ShapeError, match=r"Linear with a weight of shape \(3, 0\)"):
        nn.Linear(0, 3)
