"""One text per rule of the linear stage (docs/decisions/0001-contracts.md), for two targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llvm_kernels import Body, closed, render, special, variable
from test_memory import mask
from test_targets import group_sum

from tiny_core.api import Arch, Ops, RenderError, UOp, dtypes, payload

F32, I32, I64, BOOL = dtypes.float32, dtypes.int32, dtypes.int64, dtypes.bool_
Golden = Callable[[str, str], None]
V4, RDNA = Arch("x86_64_v4"), Arch("gfx1100")


def both(golden: Golden, name: str, body: Body) -> None:
    golden(f"{name}.x86_64.ll", render(body, V4))
    golden(f"{name}.gfx1100.ll", render(body, RDNA, (64, 1, 1)))


def test_leaves(golden: Golden) -> None:
    # rule 1: parameters, launch scalars of both widths, constants
    body = Body()
    n, m = variable("n", 0, 1 << 40), variable("m", -8, 8, I32)
    body(UOp.param(1, I64, 4, "w").store(n, 7))
    body(UOp.param(0, I32, 4, "w").store(0, m))
    body(UOp.param(2, F32, 4, "w").store(1, -0.0))
    both(golden, "leaves", body)


def test_values(golden: Golden) -> None:
    # rule 2: element-wise ops on scalars and vectors; a splat is a STACK of one node
    body = Body()
    x = body(UOp.param(0, F32, 64, align=16).load(0, lanes=4, align=16))
    s = body(UOp.param(1, F32, 64).load(5))
    y = body(UOp(Ops.MULACC, F32, (x, s.splat(4), UOp.const(0.5, F32, 4))))
    z = body((x < y).where(y.maximum(x), x.maximum(0.0)))
    body(UOp.param(2, F32, 64, "w").store(0, z + s))
    body(UOp.param(3, I32, 64, "w").store(0, z.cast(I32).alu(Ops.IDIV, UOp.const(3, I32, 4)) << 2))
    both(golden, "values", body)


def test_access(golden: Golden) -> None:
    # rule 3: plain accesses with their alignment, and addresses that differ by constants
    body = Body()
    i = body(UOp.range(UOp.const(16, I32), "i"))
    x, out = UOp.param(0, F32, 256, align=64), UOp.param(1, F32, 256, "w")
    rows = [body(x.load(i * 4 + 64 * r, lanes=4, align=16)) for r in range(3)]
    body(closed(i, body(out.store(i * 4, body(body(rows[0] + rows[1]) + rows[2])))))
    both(golden, "access", body)


def test_masks(golden: Golden) -> None:
    # rule 3: a mask of lanes
    body = Body()
    gate = mask(variable("i", 0, 60), 4, variable("n", 0, 64))
    x = body(UOp.param(0, F32, 64).load(variable("i", 0, 60), gate, UOp.const(0, F32, 4), 4))
    body(UOp.param(1, F32, 64, "w").store(variable("i", 0, 60), x, gate))
    both(golden, "masks", body)


def test_gates(golden: Golden) -> None:
    # rule 3: one bool for all lanes, with a constant and with another alternative
    body = Body()
    i = variable("i", 0, 100)
    gate = body(i < 64)
    x = UOp.param(0, F32, 64)
    one = body(x.load(i, gate, 1.0))
    four = body(x.load(i, gate.splat(4), body(x.load(0, lanes=4)), 4))
    body(UOp.param(1, F32, 64, "w").store(i, four + one, gate.splat(4)))
    both(golden, "gates", body)


def test_bools_in_memory(golden: Golden) -> None:
    # rule 3: a byte in memory, a bit in a value
    body = Body()
    x = body(UOp.param(0, BOOL, 8).load(0, lanes=8))
    body(UOp.param(1, BOOL, 8, "w").store(0, ~x))
    both(golden, "bools", body)


def test_after(golden: Golden) -> None:
    # rule 4: AFTER prints nothing; two reads of one place at two times are two loads
    body = Body()
    x = UOp.param(0, F32, 4, "rw")
    first = body(x.load(0))
    put = body(x.store(0, first + 1.0))
    body(x.after(put).store(1, body(x.after(put).load(0)) + first))
    both(golden, "after", body)


def test_registers(golden: Golden) -> None:
    # rule 5: slots become phis, in a loop that runs and in one that may not
    body = Body()
    acc = UOp.near(F32, 2, 0, "register", 4)
    starts = [body(acc.store(s, UOp.const(0, F32, 4))) for s in (0, 1)]
    i = body(UOp.range(UOp.const(8, I64), "i", "reduce"))
    x = body(UOp.param(0, F32, 32).load(i * 4, lanes=4))
    held = acc.after(*starts, i)
    effects = [
        body(acc.store(0, body(held.load(0)) + x)),
        body(acc.store(1, body(held.load(1)) + body(x * x))),
    ]
    first = body(closed(i, *effects))
    j = body(UOp.range(variable("n", 0, 8), "j", "reduce"))
    y = body(UOp.param(0, F32, 32).load(j * 4, lanes=4))
    second = body(closed(j, body(acc.store(0, body(acc.after(first, j).load(0)) - y))))
    done = acc.after(first, second)
    body(UOp.param(1, F32, 4, "w").store(0, body(done.load(0)) + body(done.load(1))))
    both(golden, "registers", body)


def test_near_memory(golden: Golden) -> None:
    # rule 5: memory of the thread, or of the group
    body = Body()
    near = UOp.near(F32, 16, 3)
    put = body(near.store(2, body(UOp.param(0, F32, 4).load(0))))
    body(UOp.param(1, F32, 4, "w").store(0, body(near.after(put).load(2))))
    both(golden, "near", body)


def test_threads(golden: Golden) -> None:
    # rule 6: the thread axis runs from begin to end, a loop inside it from 0
    body = Body()
    t = body(UOp.range(UOp.const(10, I32), "t", "thread"))
    i = body(UOp.range(UOp.const(3, I32), "i"))
    store = body(UOp.param(0, I32, 30, "w").store(t * 3 + i, t * i))
    body(closed(t, body(closed(i, store))))
    golden("threads.x86_64.ll", render(body, V4))


def test_positions(golden: Golden) -> None:
    # rule 6: groups and items in three dimensions
    body = Body()
    sizes = {"group": (8, 4, 2), "item": (4, 4, 2)}
    where = [body(special(level, dim, sizes[level][dim])) for level in sizes for dim in range(3)]
    total = where[0]
    for w in where[1:]:
        total = body(total + w)
    body(UOp.param(0, I32, 64, "w").store(total, body(special("item", 0, 4, I64)).cast(I32)))
    golden("positions.gfx1100.ll", render(body, RDNA, (4, 4, 2)))


def test_barrier(golden: Golden) -> None:
    # rule 7: near memory shared by a group
    golden("barrier.gfx1100.ll", render(group_sum(), RDNA, (64, 1, 1)))
    golden("barrier.gfx942.ll", render(group_sum(), Arch("gfx942"), (64, 1, 1)))


def test_lanes(golden: Golden) -> None:
    # rule 7: STACK, INDEX and SHUFFLE with constant lanes
    body = Body()
    x = body(UOp.param(0, F32, 8).load(0, lanes=4))
    y = body(UOp.param(0, F32, 8).load(4, lanes=4))
    even = body(UOp(Ops.SHUFFLE, F32, (x, y), payload.Shuffle((0, 2, 4, 6))))
    mixed = body(UOp(Ops.STACK, F32, (x.lane(3), UOp.const(1.0, F32), y.lane(0), UOp.const(2.0, F32))))
    body(UOp.param(1, F32, 4, "w").store(0, even + mixed))
    both(golden, "lanes", body)


def test_operations_of_other_plugins_are_errors() -> None:
    # rule 8
    op = payload.TargetOp("nv.ldmatrix", lambda sources: sources[0])
    body = Body()
    x = body(UOp.param(0, F32, 4).load(0))
    body(UOp.param(1, F32, 4, "w").store(0, body(UOp(Ops.TARGET, F32, (x,), op))))
    with pytest.raises(RenderError, match=r"nv\.ldmatrix"):
        render(body, V4)
