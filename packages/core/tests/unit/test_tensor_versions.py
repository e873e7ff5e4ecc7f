"""Assignment, views and versions: what PyTorch has eagerly, whenever things are realized."""

# mypy: disable-error-code="arg-type, assignment"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from tiny_core import dtypes
from tiny_core.ir.ops import Ops
from tiny_core.tensor import graph as g
from tiny_core.tensor.tensor import Tensor

from ..oracle import Engine

pytestmark = pytest.mark.usefixtures("oracle")


@pytest.mark.parametrize("realized_before", [False, True])
@pytest.mark.parametrize("realize_first", ["x", "y", "both", "neither"])
def test_a_result_keeps_the_value_it_was_computed_from(realized_before: bool, realize_first: str) -> None:
    x = Tensor([1.0, 2.0])
    y = x * 2
    if realized_before:
        y.realize()
    x.assign(x + 10)
    match realize_first:
        case "x":
            x.realize()
        case "y":
            y.realize()
        case "both":
            x.realize(y)
    assert y.tolist() == [2.0, 4.0]
    assert x.tolist() == [11.0, 12.0]
    assert y.tolist() == [2.0, 4.0]


def test_pending_readers_run_in_the_batch_of_the_store(oracle: Engine) -> None:
    x = Tensor([1.0, 2.0])
    y, other = x * 2, Tensor([5.0]) + 1
    x.assign(x + 10).realize()
    assert len(oracle.batches) == 1
    assert y.is_realized
    assert not other.is_realized


def test_readers_that_died_are_not_run(oracle: Engine) -> None:
    x = Tensor([1.0, 2.0])
    _ = (x * 2).shape  # it is dropped at once
    x.assign(x + 10).realize()
    assert len(oracle.batches[0]) == 1


def test_assignments_pile_up_in_order() -> None:
    x = Tensor([1.0])
    readers = []
    for _ in range(4):
        readers.append(x + 0.5)
        x.assign(x * 2)
    assert x.tolist() == [16.0]
    assert [r.tolist() for r in readers] == [[1.5], [2.5], [4.5], [8.5]]


def test_reader_of_two_versions() -> None:
    x = Tensor([1.0])
    before = x * 1
    x.assign(x + 1)
    both = before + x * 10
    x.assign(x + 100)
    assert both.tolist() == [21.0]
    assert x.tolist() == [102.0]


def test_assignment_stays_lazy(oracle: Engine) -> None:
    x = Tensor([1.0])
    x.assign(x + 1)
    x += 1
    assert not x.is_realized
    assert not oracle.batches
    assert x.tolist() == [3.0]
    assert len(oracle.batches) == 1


def test_realized_storage_stays_where_it_is() -> None:
    x = Tensor([1.0, 2.0])
    storage = x.uop
    x.assign(x + 1).realize()
    x[0] = 7
    x.realize()
    assert x.uop is storage


def test_views_alias_in_both_directions() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    row, column, flat, wide = x[1], x.T[0], x.reshape(4), x.unsqueeze(0).expand(3, 2, 2)
    row += 10
    assert x.tolist() == [[1.0, 2.0], [13.0, 14.0]]
    assert (column.tolist(), flat.tolist(), wide[2].tolist()) == (
        [1.0, 13.0],
        [1.0, 2.0, 13.0, 14.0],
        x.tolist(),
    )
    x.assign(Tensor.zeros(2, 2))
    assert row.tolist() == [0.0, 0.0]
    flat[::2] = 5
    assert x.tolist() == [[5.0, 0.0], [5.0, 0.0]]


def test_views_alias_before_anything_is_computed() -> None:
    y = Tensor([1.0, 2.0, 3.0]) * 2
    view = y[1:]
    view.assign(0.0)
    assert y.tolist() == [2.0, 0.0, 0.0]
    z = Tensor.zeros(3)
    part = z[:2]
    z += 1
    assert part.tolist() == [1.0, 1.0]


def test_results_of_operations_do_not_alias() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    others = [
        x.flip(0),
        x.pad((1, 1)),
        x.clone(),
        x.contiguous().clone(),
        x.cat(x),
        x + 0,
        Tensor(x),
        x.T.reshape(4),
    ]
    before = [t.numpy().tolist() if i % 2 else None for i, t in enumerate(others)]
    assert before[1] is not None
    x.assign(-x).realize()
    assert [t.tolist() for t in others] == [
        [[3.0, 4.0], [1.0, 2.0]],
        [[0.0, 1.0, 2.0, 0.0], [0.0, 3.0, 4.0, 0.0]],
        [[1.0, 2.0], [3.0, 4.0]],
        [[1.0, 2.0], [3.0, 4.0]],
        [[1.0, 2.0], [3.0, 4.0]] * 2,
        [[1.0, 2.0], [3.0, 4.0]],
        [[1.0, 2.0], [3.0, 4.0]],
        [1.0, 3.0, 2.0, 4.0],
    ]


def test_a_copy_is_made_only_when_it_must_be(oracle: Engine) -> None:
    x = Tensor([1.0, 2.0])
    mirrored = x.flip(0)
    mirrored.realize()
    assert not oracle.batches
    x[0] = 5
    x.realize()
    assert mirrored.tolist() == [2.0, 1.0]


def test_numpy_view_does_not_change() -> None:
    x = Tensor([1.0, 2.0])
    seen = x.numpy()
    x.assign(x + 1).realize()
    assert seen.tolist() == [1.0, 2.0]
    assert not seen.flags.writeable


def test_detach_shares_storage() -> None:
    x = Tensor([1.0, 2.0])
    y = x.detach()
    y += 1
    assert x.tolist() == [2.0, 3.0]


def test_realizing_replaces_nodes_in_what_was_built_on_them(oracle: Engine) -> None:
    h = Tensor([1.0, 2.0]) * 3
    y = h + 1
    h.realize()
    assert Ops.MUL not in {n.op for n in y.uop.toposort()}
    assert y.tolist() == [4.0, 7.0]


def test_in_place_operators() -> None:
    x = Tensor([8, 9, 10])
    view = x[1:]
    x += 1
    x -= 2
    x *= 3
    x //= 2
    x %= 7
    assert x.tolist() == [3, 5, 6]
    x **= 2
    x <<= 1
    x >>= 1
    x &= 12
    x |= 1
    x ^= 3
    want = [(((v * v) << 1 >> 1) & 12 | 1) ^ 3 for v in (3, 5, 6)]
    assert x.tolist() == want
    assert view.tolist() == want[1:]
    y = Tensor([3.0])
    y /= 2
    assert y.tolist() == [1.5]
    m = Tensor([[1.0, 1.0], [0.0, 1.0]])
    m @= m
    assert m.tolist() == [[1.0, 2.0], [0.0, 1.0]]


def test_replace_lets_other_views_be() -> None:
    x = Tensor([1.0, 2.0])
    view = x[:1]
    x.replace(Tensor([5.0, 6.0]))
    assert x.tolist() == [5.0, 6.0]
    assert view.tolist() == [1.0]


def test_empty_tensors() -> None:
    x = Tensor.zeros(0, 2)
    x.assign(x + 1).realize()
    assert x.tolist() == []
    assert Tensor([]).numpy().shape == (0,)


def test_storage_goes_with_the_last_handle_without_the_collector(oracle: Engine) -> None:
    x = Tensor([1.0, 2.0])
    node = weakref.ref(g.movements(x.uop)[1])
    y = (x * 2).realize()
    average = y * 0.5 + x
    average.realize()
    gc.disable()
    try:
        del x
        oracle.batches.clear()
        assert node() is None
    finally:
        gc.enable()
    assert average.tolist() == [2.0, 4.0]


# ---- random programs, eagerly in PyTorch and lazily here --------------------------------------------------


def _view(r: random.Random, t: Any) -> Any:
    n = len(t.shape)
    match r.randrange(5):
        case 0:
            return t.reshape(-1)
        case 1 if n == 2:
            return t.permute(1, 0)
        case 2:
            return t[r.randrange(t.shape[0])] if n == 2 else t[: max(1, t.shape[0] // 2)]
        case 3:
            return t[1:] if t.shape[0] > 1 else t
        case _:
            return t[::2]


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    theirs: list[torch.Tensor] = [torch.arange(6.0).reshape(2, 3), torch.arange(4.0) * 3]
    ours: list[Tensor] = [Tensor(t.numpy()) for t in theirs]
    for step in range(25):
        r, s = random.Random(seed * 1000 + step), random.Random(seed * 1000 + step)
        for pool, rng in ((ours, r), (theirs, s)):
            i = rng.randrange(len(pool))
            t: Any = pool[i]
            mine = pool is ours
            match rng.randrange(8):
                case 0 | 1:
                    pool.append(_view(rng, t))
                case 2:
                    pool.append(t * 2 + pool[rng.randrange(len(pool))].sum())
                case 3:
                    value = t.flip(0) + 1
                    t.assign(value) if mine else t.copy_(value)
                case 4:
                    j = rng.randrange(t.shape[0])
                    t[j:] = t[j:] * 0.5 + rng.randrange(5)
                case 5:
                    pool[i] += 1
                case 6:
                    if mine:
                        t.realize()
                case 7:
                    if mine:
                        t.realize(*pool[::2])
            if len(pool) > 8:
                del pool[rng.randrange(len(pool))]
    order = list(range(len(ours)))
    random.Random(seed).shuffle(order)
    for i in order:
        np.testing.assert_allclose(
            ours[i].numpy(), theirs[i].numpy(), rtol=1e-5, err_msg=f"seed {seed}, tensor {i}"
        )


def test_assignment_casts_up_only() -> None:
    x = Tensor([1.0], dtype=dtypes.float32)
    x.assign(Tensor([3]))
    assert x.dtype is dtypes.float32
    assert x.tolist() == [3.0]
