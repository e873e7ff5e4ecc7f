"""Views and rearrangements: the same elements at other places, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.check import Check
from tiny_conformance.compare import Array
from tiny_conformance.table import ALL, dtypes_of
from tiny_core import Tensor

Move = tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]
# of an array of shape (4, 5, 6)
MOVES: dict[str, Move] = {
    "reshape": (lambda t: t.reshape(2, 10, 6), lambda x: x.reshape(2, 10, 6)),
    "reshape -1": (lambda t: t.reshape(-1, 3), lambda x: x.reshape(-1, 3)),
    "flatten": (lambda t: t.flatten(1), lambda x: x.reshape(4, 30)),
    "unflatten": (lambda t: t.unflatten(2, (2, 3)), lambda x: x.reshape(4, 5, 2, 3)),
    "squeeze": (lambda t: t[:1].squeeze(0), lambda x: x[0]),
    "unsqueeze": (lambda t: t.unsqueeze(1), lambda x: x[:, None]),
    "expand": (
        lambda t: t.unsqueeze(1).expand(4, 3, 5, 6),
        lambda x: np.broadcast_to(x[:, None], (4, 3, 5, 6)),
    ),
    "expand front": (lambda t: t.expand(2, 4, 5, 6), lambda x: np.broadcast_to(x, (2, 4, 5, 6))),
    "permute": (lambda t: t.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "transpose": (lambda t: t.transpose(0, 2), lambda x: x.transpose(2, 1, 0)),
    "flip": (lambda t: t.flip((0, 2)), lambda x: x[::-1, :, ::-1]),
    "shrink": (lambda t: t.shrink(((1, 3), None, (2, 6))), lambda x: x[1:3, :, 2:6]),
    "pad": (lambda t: t.pad(((1, 2), (0, 0), (3, 1))), lambda x: np.pad(x, ((1, 2), (0, 0), (3, 1)))),
    "pad flat": (lambda t: t.pad((1, 2, 0, 1)), lambda x: np.pad(x, ((0, 0), (0, 1), (1, 2)))),
    "repeat": (lambda t: t.repeat(2, 1, 3), lambda x: np.tile(x, (2, 1, 3))),
    "repeat_interleave": (lambda t: t.repeat_interleave(3, 1), lambda x: np.repeat(x, 3, 1)),
    "roll": (lambda t: t.roll(2, 1), lambda x: np.roll(x, 2, 1)),
    "tril": (lambda t: t.tril(1), lambda x: np.tril(x, 1)),
    "triu": (lambda t: t.triu(-1), lambda x: np.triu(x, -1)),
    "split": (lambda t: t.split(2, 1)[2], lambda x: x[:, 4:]),
    "chunk": (lambda t: t.chunk(3, 2)[1], lambda x: x[:, :, 2:4]),
    "unfold": (
        lambda t: t.unfold(2, 3, 2),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2],
    ),
    "cat": (lambda t: t.cat(t[:2], dim=0), lambda x: np.concatenate([x, x[:2]])),
    "cat last": (lambda t: t.cat(t, t[:, :, :1], dim=2), lambda x: np.concatenate([x, x, x[:, :, :1]], 2)),
    "stack": (lambda t: t.stack(t.flip(0), dim=1), lambda x: np.stack([x, x[::-1]], 1)),
    "transpose of a pad": (
        lambda t: t.pad(((1, 1), (0, 0), (0, 0))).permute(2, 1, 0),
        lambda x: np.pad(x, ((1, 1), (0, 0), (0, 0))).transpose(2, 1, 0),
    ),
    "reshape of a transpose": (
        lambda t: t.permute(1, 0, 2).reshape(20, 6),
        lambda x: x.transpose(1, 0, 2).reshape(20, 6),
    ),
    "shrink of a reshape of a pad": (
        lambda t: t.pad(((0, 0), (1, 1), (0, 0))).reshape(28, 6)[3:20, 1:],
        lambda x: np.pad(x, ((0, 0), (1, 1), (0, 0))).reshape(28, 6)[3:20, 1:],
    ),
    "flip of an expand of a slice": (
        lambda t: t[:, 2:3].expand(4, 3, 6).flip(2),
        lambda x: np.broadcast_to(x[:, 2:3], (4, 3, 6))[:, :, ::-1],
    ),
    "slice of a cat": (
        lambda t: t.cat(t, dim=1)[1:3, 3:8, ::2],
        lambda x: np.concatenate([x, x], 1)[1:3, 3:8, ::2],
    ),
    "nothing": (lambda t: t, lambda x: x),
}


@pytest.mark.parametrize("name", list(MOVES))
@dtypes_of(("float32",))
def test_move(dtype: str, name: str, rng: np.random.Generator, check: Check) -> None:
    ours, numpys = MOVES[name]
    x = sample.numbers(dtype, 120, rng).reshape(4, 5, 6)
    check(ours(Tensor(x)), np.ascontiguousarray(numpys(x)))


@pytest.mark.parametrize("name", list(MOVES))
@dtypes_of(("int32",))
def test_move_then_compute(dtype: str, name: str, rng: np.random.Generator, check: Check) -> None:
    ours, numpys = MOVES[name]
    x = sample.uniform(dtype, (4, 5, 6), rng, -99, 99)
    check(ours(Tensor(x) * 3) + 1, np.asarray(numpys(x * 3) + 1, x.dtype))


@pytest.mark.parametrize("name", ["permute", "pad", "flip", "cat", "repeat", "roll"])
@dtypes_of(ALL)
def test_move_each_dtype(dtype: str, name: str, rng: np.random.Generator, check: Check) -> None:
    ours, numpys = MOVES[name]
    x = np.resize(sample.whole_range(dtype, rng), 120).reshape(4, 5, 6)
    check(ours(Tensor(x)).contiguous(), np.ascontiguousarray(numpys(x)))


# of an array of shape (0, 3)
OF_NOTHING: dict[str, Move] = {
    "reshape": (lambda t: t.reshape(3, 0, 2), lambda x: x.reshape(3, 0, 2)),
    "permute": (lambda t: t.permute(1, 0), lambda x: x.T),
    "pad": (lambda t: t.pad(((1, 1), (0, 0))), lambda x: np.pad(x, ((1, 1), (0, 0)))),
    "flip": (lambda t: t.flip(0), lambda x: x),
    "expand": (lambda t: t.expand(2, 0, 3), lambda x: np.broadcast_to(x, (2, 0, 3))),
    "cat": (lambda t: t.cat(t.ones(2, 3)), lambda x: np.ones((2, 3), np.float32)),
    "unsqueeze": (lambda t: t.unsqueeze(0), lambda x: x[None]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OF_NOTHING))
def test_nothing_to_move(name: str, check: Check) -> None:
    ours, numpys = OF_NOTHING[name]
    x = np.zeros((0, 3), np.float32)
    check(ours(Tensor(x)), np.ascontiguousarray(numpys(x)))


def test_scalar(check: Check) -> None:
    x = np.array(3.5, np.float32)
    check(Tensor(x), x)
    check(Tensor(x).reshape(1, 1).expand(2, 3) + 1, np.full((2, 3), 4.5, np.float32))
    check(Tensor(x).flatten(), x.reshape(1))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1000])
def test_every_tail(size: int, rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("float32", (size,), rng, -3, 3)
    check(Tensor(x) + 1, x + np.float32(1))
    check(Tensor(x).flip(0) * 2, x[::-1] * np.float32(2))


@pytest.mark.parametrize("offset", range(8))
def test_view_at_each_offset_through_one_kernel(offset: int, rng: np.random.Generator, check: Check) -> None:
    # the kernel is that of the first offset; its wide accesses may rely on no more than each of them has
    x = sample.uniform("float32", (80,), rng, -3, 3)
    base = Tensor(x).realize()
    check(base[offset : offset + 64] + 1, x[offset : offset + 64] + np.float32(1))
    check(base[offset : offset + 64].contiguous() + 1, x[offset : offset + 64] + np.float32(1))


def test_transpose_of_a_large_matrix(rng: np.random.Generator, check: Check) -> None:
    x = sample.uniform("int32", (67, 130), rng, -9, 9)
    check(Tensor(x).T.contiguous(), np.ascontiguousarray(x.T))
    check(Tensor(x).T + Tensor(x.T.copy()), x.T + x.T)
