"""Train a convolutional network on Fashion-MNIST for one epoch, on the device that DEV= names, and show how
well it does.

In: the 60,000 training and 10,000 test images. Out: the test accuracy, a picture (loss, confusion matrix,
sixteen test images with predictions) and the weights, which are loaded into a new network and tested again.
Exit codes: 0; 1, something went wrong; 2, there is no such device, no data or no matplotlib; 130, stopped
by ctrl-C. Files appear whole or not at all.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.console import Console

    from tiny_core import Tensor

    Classes = npt.NDArray[np.int64]

PEAK_RATE = 4e-3
TEST_BATCH = 1000


def main(argv: list[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    args = arguments(argv)
    from rich.console import Console

    from tiny_core.errors import TinyError

    console = Console(highlight=False, soft_wrap=True)
    try:
        device, data = prepare(args, console)
    except TinyError as error:
        return report(error, 2)
    except KeyboardInterrupt:
        return stopped()
    try:
        return run(args, device, data, console)
    except TinyError as error:
        return report(error, 1)
    except KeyboardInterrupt:
        return stopped()


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="demo", description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=0, help="of weights and order (default 0)")
    parser.add_argument(
        "--data", type=Path, help="folder of the data set; else the usual places, or a download"
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of the results (out/demo)")
    parser.add_argument("--batch", type=positive, default=512, help="images a step (default 512)")
    parser.add_argument("--limit", type=positive, help=argparse.SUPPRESS)  # of images, for tests
    return parser.parse_args(argv)


def positive(text: str) -> int:
    """A positive number; argparse makes a message of the ValueError."""
    if (value := int(text)) < 1:
        raise ValueError
    return value


def report(error: Exception, code: int) -> int:
    """Print an error and its hint; returns the exit code."""
    print(f"demo: {error}", file=sys.stderr)
    return code


def stopped() -> int:
    """What ctrl-C does; returns its exit code."""
    print("demo: stopped; nothing half-written is left", file=sys.stderr)
    return 130


# ---- device and data ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Data:
    """Images, uint8 of shape (n, 1, 28, 28), and their classes, uint8 of shape (n,), on the device."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def prepare(args: argparse.Namespace, console: Console) -> tuple[str, Data]:
    """Open the device and find the data; raises DeviceError, TargetError, PluginError or DataError."""
    import importlib.util

    from tiny_core import Device
    from tiny_core.errors import DataError, DeviceError
    from tiny_core.nn.datasets import fashion_mnist

    if importlib.util.find_spec("matplotlib") is None:
        raise DataError("the demo draws with matplotlib, which is not installed", "pip install matplotlib")
    device = Device[Device.DEFAULT]
    renderer = device.renderer
    if not device.runtime.capabilities.stores:
        raise DeviceError(
            f"{device.name} keeps no data, so nothing can be trained on it", "DEV=CPU, for example"
        )
    with downloading(console) as progress:
        found = fashion_mnist(args.data, download=args.data is None, progress=progress)
    data = Data(*(tensor[: args.limit] for tensor in found) if args.limit else found)
    where = " ".join(part for part in (renderer.name, renderer.arch.name) if part)
    console.print(f"Fashion-MNIST, {len(data.images)} images, on {device.name} by {where}, seed {args.seed}")
    return device.name, data


class downloading:  # noqa: N801 - reads as a statement
    """A block in which downloads show their progress; gives the function to call."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
        self.progress = Progress(*columns, console=console)
        self.tasks: dict[str, int] = {}

    def __enter__(self) -> Callable[[str, int, int], None]:
        return self.show

    def show(self, name: str, done: int, total: int) -> None:
        """Show that `done` of `total` bytes of a file have come."""
        from rich.progress import TaskID

        self.progress.start()
        task = self.tasks.setdefault(name, -1)
        if task < 0:
            task = self.tasks[name] = self.progress.add_task(name)
        self.progress.update(TaskID(task), completed=done, total=total or None)

    def __exit__(self, *_: object) -> None:
        if self.tasks:
            self.progress.stop()


# ---- training ----------------------------------------------------------------------------------------------


class Net:
    """The network: two blocks of two convolutions, and a linear layer. (N, 1, 28, 28) to (N, 10) logits."""

    def __init__(self) -> None:
        from tiny_core import Tensor, nn

        self.layers = [
            nn.Conv2d(1, 32, 5), Tensor.relu, nn.Conv2d(32, 32, 5, bias=False), Tensor.relu,
            nn.BatchNorm2d(32), Tensor.max_pool2d,
            nn.Conv2d(32, 64, 3), Tensor.relu, nn.Conv2d(64, 64, 3, bias=False), Tensor.relu,
            nn.BatchNorm2d(64), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(576, 10),
        ]  # fmt: skip

    def __call__(self, images: Tensor) -> Tensor:
        return (images.float() / 255).sequential(self.layers)


def train(net: Net, data: Data, batch: int, console: Console) -> list[float]:
    """Train for one epoch; returns the losses of its steps."""
    from tiny_core import Tensor, jit, nn

    count = len(data.images)
    steps = -(-count // batch)
    optimizer = nn.optim.Adam(nn.state.get_parameters(net))
    schedule = nn.optim.OneCycleLR(optimizer, PEAK_RATE, total_steps=steps, pct_start=0.3)

    @jit
    def step(chosen: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(data.images[chosen]).cross_entropy(data.labels[chosen])
        loss.backward()
        return loss.realize(*optimizer.schedule_step(), *schedule.schedule_step())

    order = Tensor.randperm(count)
    losses: list[float] = []
    with Tensor.train(), training(console) as progress:
        task = progress.add_task("training", total=count, loss="")
        for start in range(0, count, batch):
            chosen = order[start : start + batch]
            losses.append(float(step(chosen).item()))
            progress.update(task, advance=len(chosen), loss=f"loss {losses[-1]:.3f}")
    return losses


def training(console: Console) -> Progress:
    """The progress bar of training: loss, images a second, time left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} images/s")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        Speed(),
        TimeRemainingColumn(),
        console=console,
    )


def predict(net: Net, images: Tensor) -> Classes:
    """The class of each image, in evaluation mode."""
    import numpy as np

    from tiny_core import jit

    @jit
    def best(some: Tensor) -> Tensor:
        return net(some).argmax(1)

    batches = range(0, len(images), TEST_BATCH)
    return np.concatenate([classes(best(images[i : i + TEST_BATCH])) for i in batches])


def classes(numbers: Tensor) -> Classes:
    """Class numbers on the host."""
    import numpy as np

    return numbers.numpy().astype(np.int64)


# ---- the whole ---------------------------------------------------------------------------------------------


def run(args: argparse.Namespace, device: str, data: Data, console: Console) -> int:
    """Train, test, draw, save, load and test again; returns the exit code."""
    from tiny_core import Tensor, nn

    Tensor.manual_seed(args.seed)
    net = Net()
    start = time.perf_counter()
    losses = train(net, data, args.batch, console)
    took = time.perf_counter() - start
    speed = f"{len(data.images) / took:,.0f} images/s"
    console.print(f"epoch {took:.1f} s with compilation, {speed}, last loss {losses[-1]:.3f}")

    labels = classes(data.test_labels)
    predicted = predict(net, data.test_images)
    accuracy = float((predicted == labels).mean())
    console.print(f"test accuracy {accuracy:.4f} ({int((predicted == labels).sum())} of {len(labels)})")

    weights, picture = args.out / "fashion.safetensors", args.out / "fashion.png"
    about = {"data": "Fashion-MNIST", "device": device, "seed": str(args.seed), "accuracy": f"{accuracy:.4f}"}
    nn.state.safe_save(nn.state.get_state_dict(net), weights, about)
    draw(picture, losses, data, predicted, accuracy)

    fresh = Net()
    nn.state.load_state_dict(fresh, nn.state.safe_load(weights))
    again = float((predict(fresh, data.test_images) == labels).mean())
    console.print(f"weights {weights}, reloaded into a new network: test accuracy {again:.4f}")
    console.print(f"picture {picture}")
    if again != accuracy:
        return report(RuntimeError(f"the reloaded network's accuracy is {again}, not {accuracy}"), 1)
    return 0


def draw(path: Path, losses: list[float], data: Data, predicted: Classes, accuracy: float) -> None:
    """Draw the loss, the confusion matrix, and the first sixteen test images with their predictions, to a
    PNG file."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from tiny_core.nn.aside import write_aside
    from tiny_core.nn.datasets import FASHION_MNIST_LABELS

    names, labels = FASHION_MNIST_LABELS, classes(data.test_labels)
    confusion = np.zeros((len(names), len(names)), int)
    np.add.at(confusion, (labels, predicted), 1)
    figure = plt.figure(figsize=(17, 6), layout="constrained")
    parts = figure.subfigures(1, 3, width_ratios=(5, 6, 6))
    assert isinstance(parts, np.ndarray), "three make an array"
    left, middle, right = parts

    axes = left.subplots()
    axes.plot(range(1, len(losses) + 1), losses)
    axes.set(xlabel="step", ylabel="loss", title="training loss", ylim=(0, None))

    axes = middle.subplots()
    axes.imshow(confusion, cmap="Blues")
    ticks = range(len(names))
    axes.set_xticks(ticks, names, rotation=60, ha="right")
    axes.set_yticks(ticks, names)
    axes.set(xlabel="predicted", ylabel="is", title=f"test accuracy {accuracy:.1%}")
    for (row, column), n in np.ndenumerate(confusion):
        if n:
            dark = n > confusion.max() / 2
            axes.text(
                column, row, str(n), ha="center", va="center", size=7, color="white" if dark else "black"
            )

    images = data.test_images[:16].numpy()
    cells = right.subplots(4, 4)
    for axes in cells.flat:
        axes.axis("off")
    for axes, image, guess, label in zip(cells.flat, images, predicted, labels, strict=False):
        axes.imshow(image[0], cmap="gray_r")
        title = names[guess] if guess == label else f"{names[guess]}\n({names[label]})"
        axes.set_title(title, size=8, color="green" if guess == label else "red")

    with write_aside(str(path)) as aside:
        figure.savefig(aside, format="png", dpi=100)
    plt.close(figure)


if TYPE_CHECKING:
    from rich.progress import Progress

if __name__ == "__main__":
    sys.exit(main())
