"""GPU-shaped kernels (work-groups, items, near memory, barriers): run by PYTHON, and compiled for the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tiny_core import Context, Tensor
from tiny_core.codegen import barriers
from tiny_core.errors import RaceError
from tiny_core.ir.payload import KernelInfo
from tiny_core.ir.uop import UOp

pytest.importorskip("tiny_renderer_llvm", reason="the GPU's tables are in the renderer's wheel")

rng = np.random.default_rng(7)


def array(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


PROGRAMS: dict[str, tuple[Callable[..., Tensor], tuple[np.ndarray, ...]]] = {
    "softmax": (lambda x: x.softmax(), (array(20, 300),)),
    "layer norm": (lambda x: x.layernorm(), (array(20, 300),)),
    "matmul": (lambda a, b: (a @ b).relu(), (array(96, 64), array(64, 80))),
    "matmul with tails": (lambda a, b: a @ b, (array(67, 31), array(31, 45))),
    "conv": (lambda x, w: x.conv2d(w), (array(2, 4, 20, 20), array(32, 4, 3, 3))),
    "padded conv": (lambda x, w: x.conv2d(w, padding=1), (array(2, 4, 20, 20), array(32, 4, 3, 3))),
    "sum": (lambda x: x.sum(), (array(300_000),)),
    "column sum": (lambda x: x.sum(0), (array(200, 70),)),
}


# what a matrix unit takes: f16 as it is, float32 where the unit has it (CDNA), converted operands in tiles
UNITS: dict[str, tuple[Callable[..., Tensor], tuple[np.ndarray, ...]]] = {
    "matmul": (
        lambda a, b, c: (a.half() @ b.half() + c.half()).relu(),
        (array(60, 70), array(70, 90), array(90)),
    ),
    "float32": (lambda a, b: a @ b, (array(64, 48), array(48, 64))),
    "both transposed": (lambda a, b: a.half().T @ b.half().T, (array(48, 40), array(64, 48))),
    "batched": (lambda a, b: a.half() @ b.half(), (array(3, 40, 32), array(3, 32, 48))),
    "conv": (
        lambda x, w: x.half().conv2d(w.half(), padding=1).relu(),
        (array(2, 16, 14, 14), array(32, 16, 3, 3)),
    ),
    "conv with steps": (
        lambda x, w: x.half().conv2d(w.half(), stride=2),
        (array(2, 16, 17, 17), array(32, 16, 3, 3)),
    ),
    "scores": (
        lambda q, k: (q.half() @ k.half().transpose(-1, -2) * 0.25).float(),
        (array(2, 2, 40, 16), array(2, 2, 40, 16)),
    ),
}


def compute(target: str, name: str) -> np.ndarray:
    program, inputs = PROGRAMS[name]
    with Context(DEV=target):
        return program(*(Tensor(x) for x in inputs)).numpy()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gpu_shaped_kernel_gives_what_the_host_gives(name: str) -> None:
    host, gpu = compute("CPU", name), compute("PYTHON:LLVM:gfx1100", name)
    assert np.abs(gpu - host).max() <= 2e-5 * np.abs(host).max()


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201", "gfx942", "gfx950"])
def test_matrix_units_give_what_the_host_gives(arch: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiny_core.codegen import pipeline
    from tiny_core.ir.ops import Ops

    used = []
    linearize = pipeline.linearize

    def watched(graph: UOp, info: KernelInfo) -> UOp:
        made = linearize(graph, info)
        used.extend(n for n in made.src if n.op is Ops.MATRIX)
        return made

    monkeypatch.setattr(pipeline, "linearize", watched)
    program, inputs = UNITS[name]
    results = []
    for target in ("CPU", f"PYTHON:LLVM:{arch}"):
        with Context(DEV=target, CACHE=0, WORKERS=0):
            results.append(program(*(Tensor(x) for x in inputs)).numpy().astype(np.float64))
    host, gpu = results
    assert used or (name == "float32" and arch.startswith("gfx1")), "a unit does it where there is one"
    # one unit in the last place of float16, where sums are rounded to it
    assert np.abs(gpu - host).max() <= (2e-5 if name == "float32" else 1e-3) * np.abs(host).max()


@pytest.fixture
def no_barriers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code generation that forgets all barriers, in this process and with no kernels from elsewhere."""
    monkeypatch.setattr(barriers, "insert", lambda graph: graph)
    with Context(CACHE=0, WORKERS=0):
        yield


@pytest.mark.parametrize("name", ["matmul with tails", "softmax"])
def test_a_missing_barrier_is_found(name: str, no_barriers: None) -> None:
    program, inputs = PROGRAMS[name]
    smaller = tuple(x[..., : x.shape[-1] - 1] if name == "softmax" else x for x in inputs)
    # the specification finds it before it runs: so what every pass makes is not checked here
    with Context(DEV="PYTHON:LLVM:gfx1100", SPEC=1), pytest.raises(RaceError, match="barrier"):
        (program(*(Tensor(x) for x in smaller)) + 3).numpy()


def test_all_kernels_of_a_training_step_compile_for_the_gpu() -> None:
    from tiny_core import GlobalCounters, nn

    with Context(DEV="NULL:LLVM:gfx1100"):
        layers: list[Callable[[Tensor], Tensor]] = [
            nn.Conv2d(1, 32, 5), Tensor.relu, nn.BatchNorm(32), Tensor.max_pool2d, nn.Conv2d(32, 64, 3),
            Tensor.relu, Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(1600, 10),
        ]  # fmt: skip
        optimizer = nn.optim.Adam(nn.state.get_parameters(layers))
        images, labels = Tensor.empty(16, 1, 28, 28), Tensor.empty(16).int()
        GlobalCounters.reset()
        with Tensor.train():
            loss = images.sequential(layers).sparse_categorical_crossentropy(labels)
            loss.backward()
            Tensor.realize(loss, *optimizer.schedule_step())
        assert GlobalCounters.kernel_count > 20
