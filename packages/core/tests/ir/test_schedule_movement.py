"""Movements as index functions, against numpy: an element that exists is the one that numpy moves there."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.ir import payload as p
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.uop import UOp
from tiny_core.schedule.fuse import axes
from tiny_core.schedule.movement import ZERO, both, flat_index, known, source_index
from tiny_core.schedule.scheduler import view
from tiny_core.tensor import graph as g

from ..oracle import evaluate
from ..random_graphs import Maker


def chain(seed: int) -> UOp:
    """A random chain of movements over storage."""
    maker = Maker(random.Random(seed))
    maker.buffer(dtypes.int32, maker.shape(200))
    node = maker.pool[0]
    maker.pool = [node]
    for _ in range(maker.rng.randint(1, 5)):
        moved = maker.movement()
        if moved is not None and 0 < moved.size <= 400 and node in moved.toposort():
            maker.pool = [moved]
    return maker.pool[0]


def element(node: UOp, at: tuple[int, ...]) -> tuple[int, bool]:
    """The place in storage that the element of `node` at `at` comes from, and whether there is one."""
    index = tuple(UOp.const(i) for i in at)
    gate: UOp | None = None
    while node.op in MOVEMENT:
        index, exists = source_index(node, index)
        gate, node = both(gate, exists), node.src[0]
    place = flat_index(index, node.shape)
    assert place.is_const and (gate is None or gate.is_const)
    return int(place.value), gate is None or bool(gate.value)


@pytest.mark.parametrize("seed", range(60))
def test_a_chain_of_movements_finds_what_numpy_moves(seed: int) -> None:
    node = chain(seed)
    (buffer,) = [n for n in node.toposort() if n.op is Ops.BUFFER]
    wanted = evaluate(node, {buffer: np.arange(1, buffer.size + 1, dtype=np.int32)})
    for at in product(*map(range, node.shape)):
        place, exists = element(node, at)
        assert (place + 1 if exists else 0) == wanted[at], (node.op, at)


@pytest.mark.parametrize("seed", range(60))
def test_a_view_is_contiguous_and_begins_at_its_offset(seed: int) -> None:
    node = chain(seed)
    (buffer,) = [n for n in node.toposort() if n.op is Ops.BUFFER]
    values = evaluate(node, {buffer: np.arange(buffer.size, dtype=np.int32)}).reshape(-1)
    arg = view(node)
    if arg is not None:
        assert arg.buffer is buffer
        assert values.tolist() == list(range(arg.offset, arg.offset + node.size))
    elif all(n.op in (Ops.RESHAPE, Ops.SHRINK, Ops.BUFFER) for n in node.toposort()):
        assert values.tolist() != list(range(values[0], values[0] + values.size))


def test_axes_of_length_one_have_index_zero() -> None:
    index = axes((3, 1, 4))
    assert index[1] is ZERO
    assert [i.payload(p.Range).axis for i in index if i is not ZERO] == ["i0", "i1"]


def test_a_condition_that_always_holds_is_none() -> None:
    assert known(UOp.const(True, dtypes.bool_)) is None
    never = UOp.const(False, dtypes.bool_)
    assert known(never) is never
    assert both(None, never) is never
    assert both(never, never) is never


def test_a_window_reaches_the_end_of_its_source() -> None:
    x = g.reshape(UOp.buffer(dtypes.float32, 9 * 2, "CPU"), (9, 2))
    node = g.shear(x, 0, 1, 4, 4, 2)
    index, gate = source_index(node, (UOp.const(1), UOp.const(1)))
    assert gate is None
    assert index[0].value == 8
