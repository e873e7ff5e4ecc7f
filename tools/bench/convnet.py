"""The conv-net whose training step is measured, in ours and in PyTorch: two 5x5 and two 3x3 convolutions,
batch norm, pooling, a linear layer, cross-entropy, Adam; forward, backward and update, on random images of 28
by 28."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    from tiny_core import Tensor

BATCH: Final = 512
PIXELS: Final = 28
CLASSES: Final = 10


class OurNet:
    """The net."""

    def __init__(self) -> None:
        from tiny_core import Tensor, nn

        self.layers: Sequence[object] = [
            *(nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5, bias=False), Tensor.relu),
            *(nn.BatchNorm2d(32), Tensor.max_pool2d),
            *(nn.Conv2d(32, 64, 3), Tensor.relu, nn.Conv2d(64, 64, 3, bias=False), Tensor.relu),
            *(nn.BatchNorm2d(64), Tensor.max_pool2d),
            *(lambda x: x.flatten(1), nn.Linear(576, CLASSES)),
        ]

    def __call__(self, x: Tensor) -> Tensor:
        return x.sequential(self.layers)


def our_step(batch: int, seed: int) -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]:
    """Return a step from images and labels to the loss, not yet captured, and images and labels; all weights
    and state are realized, so that a step is all that remains to be compiled."""
    from tiny_core import Tensor, nn

    Tensor.manual_seed(seed)
    net = OurNet()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net))
    x = Tensor.randn(batch, 1, PIXELS, PIXELS)
    y = Tensor.randint(batch, high=CLASSES)
    x.realize(y, *nn.state.get_state_dict([net.layers, optimizer]).values())

    def step(images: Tensor, labels: Tensor) -> Tensor:
        with Tensor.train():
            optimizer.zero_grad()
            loss = net(images).cross_entropy(labels)
            loss.backward()
            loss.realize(*optimizer.schedule_step(), *nn.state.get_state_dict(net).values())
        return loss

    return step, x, y


def torch_step(batch: int) -> Callable[[], torch.Tensor]:
    """Return PyTorch's eager step, on images and labels of its own; returns the loss."""
    import torch

    n = torch.nn
    net = n.Sequential(
        *(
            n.Conv2d(1, 32, 5),
            n.ReLU(),
            n.Conv2d(32, 32, 5, bias=False),
            n.ReLU(),
            n.BatchNorm2d(32),
            n.MaxPool2d(2),
        ),
        *(
            n.Conv2d(32, 64, 3),
            n.ReLU(),
            n.Conv2d(64, 64, 3, bias=False),
            n.ReLU(),
            n.BatchNorm2d(64),
            n.MaxPool2d(2),
        ),
        *(n.Flatten(), n.Linear(576, CLASSES)),
    )
    optimizer = torch.optim.Adam(net.parameters())
    images, labels = torch.randn(batch, 1, PIXELS, PIXELS), torch.randint(0, CLASSES, (batch,))

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch does not say
        optimizer.step()
        return loss

    return step
