"""The training step of the demo's network against float64 PyTorch: first gradients, losses of more steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_core import Context, Tensor, nn

torch = pytest.importorskip("torch", reason="PyTorch is the reference")

BATCH = 16
rng = np.random.default_rng(3)
IMAGES = rng.standard_normal((BATCH, 1, 28, 28)).astype(np.float32)
LABELS = rng.integers(0, 10, BATCH)


def reference(dtype: torch.dtype, steps: int) -> tuple[list[np.ndarray], list[np.ndarray], list[float]]:
    """Initial parameters, gradients of the first step, and the losses of `steps` steps of Adam."""
    torch.manual_seed(0)
    n = torch.nn
    net = n.Sequential(
        n.Conv2d(1, 32, 5), n.ReLU(), n.Conv2d(32, 32, 5, bias=False), n.ReLU(), n.BatchNorm2d(32),
        n.MaxPool2d(2), n.Conv2d(32, 64, 3), n.ReLU(), n.Conv2d(64, 64, 3, bias=False), n.ReLU(),
        n.BatchNorm2d(64), n.MaxPool2d(2), n.Flatten(), n.Linear(576, 10),
    )  # fmt: skip
    first = [p.detach().numpy().copy() for p in net.parameters()]
    net = net.to(dtype)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    images, labels = torch.tensor(IMAGES, dtype=dtype), torch.tensor(LABELS)
    losses: list[float] = []
    gradients: list[np.ndarray] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        gradients = gradients or [p.grad.double().numpy().copy() for p in net.parameters()]
        optimizer.step()
        losses.append(loss.item())
    return first, gradients, losses


class Step:
    """The same network and optimizer in ours, from the same parameters."""

    def __init__(self, parameters: list[np.ndarray]) -> None:
        self.layers: list[Callable[[Tensor], Tensor]] = [
            nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5, bias=False), Tensor.relu,
            nn.BatchNorm(32), Tensor.max_pool2d, nn.Conv2d(32, 64, 3), Tensor.relu,
            nn.Conv2d(64, 64, 3, bias=False), Tensor.relu,
            nn.BatchNorm(64), Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(576, 10),
        ]  # fmt: skip
        self.parameters = nn.state.get_parameters(self.layers)
        for ours, theirs in zip(self.parameters, parameters, strict=True):
            assert ours.shape == theirs.shape
            ours.assign(Tensor(theirs)).realize()
        self.optimizer = nn.optim.Adam(self.parameters, lr=1e-3)
        self.images, self.labels = Tensor(IMAGES).realize(), Tensor(LABELS.astype(np.int32)).realize()

    def loss(self) -> Tensor:
        return self.images.sequential(self.layers).sparse_categorical_crossentropy(self.labels)

    def gradients(self) -> list[np.ndarray]:
        with Tensor.train():
            found = self.loss().gradient(*self.parameters)
        found[0].realize(*found[1:])
        return [g.numpy() for g in found]

    def train(self) -> float:
        with Tensor.train():
            self.optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            self.optimizer.step()
            return float(loss.item())


@pytest.mark.parametrize("target", ["CPU:LLVM", "CPU:C", "PYTHON"])
def test_gradients_of_the_first_step(target: str) -> None:
    first, wanted, _ = reference(torch.float64, 1)
    with Context(DEV=target):
        found = Step(first).gradients()
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max()


@pytest.mark.parametrize(("target", "steps"), [("CPU:LLVM", 10), ("CPU:C", 10), ("PYTHON", 3)])
def test_losses_stay_as_close_as_those_of_pytorch_in_float32(target: str, steps: int) -> None:
    first, _, exact = reference(torch.float64, steps)
    _, _, single = reference(torch.float32, steps)
    with Context(DEV=target):
        step = Step(first)
        ours = [step.train() for _ in range(steps)]
    own = max(abs(a - b) for a, b in zip(single, exact, strict=True))
    # two float32 programs that are equally good may both be luckier than usual: no less than float32 resolves
    allowed = 10 * max(own, 1e-6)
    assert max(abs(a - b) for a, b in zip(ours, exact, strict=True)) <= allowed, (ours, exact, single)
