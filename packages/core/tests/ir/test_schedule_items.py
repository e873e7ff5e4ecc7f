"""What the scheduler gives: borders, groups, order, arguments, versions, copies. Nothing runs."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.errors import DeviceError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.spec import check
from tiny_core.ir.uop import UOp
from tiny_core.schedule.item import CopyItem, KernelItem, Schedule
from tiny_core.schedule.scheduler import borders, schedule
from tiny_core.tensor import graph as g


def storage(*shape: int, dtype: dtypes.DType = dtypes.float32, device: str = "CPU") -> UOp:
    return g.reshape(UOp.buffer(dtype, int(np.prod(shape, dtype=int)), device), shape)


def base(view: UOp) -> UOp:
    """The BUFFER below movements."""
    while view.op is not Ops.BUFFER:
        view = view.src[0]
    return view


def plus_one(x: UOp) -> UOp:
    return g.scalar_op(Ops.ADD, x, 1)


def contiguous(x: UOp) -> UOp:
    return UOp(Ops.CONTIGUOUS, x.dtype, (x,))


def matmul(a: UOp, b: UOp) -> UOp:
    (i, k), (_, j) = a.shape, b.shape
    wide = g.expand(g.reshape(a, (i, 1, k)), (i, j, k))
    tall = g.expand(g.reshape(g.permute(b, (1, 0)), (1, j, k)), (i, j, k))
    return g.reduce(Ops.ADD, g.alu(Ops.MUL, wide, tall), [2])


def assign(view: UOp, value: UOp) -> UOp:
    root = view
    while root.op not in (Ops.BUFFER, Ops.AFTER):
        root = root.src[0]
    return root.after(UOp(Ops.STORE, dtypes.void, (view, value)))


def kernels(plan: Schedule) -> list[KernelItem]:
    found = [i for i in plan.items if isinstance(i, KernelItem)]
    for item in found:
        check(item.kernel, "kernel")
        assert len(item.args) == sum(n.op is Ops.PARAM for n in item.kernel.toposort())
    return found


def written(item: KernelItem) -> set[UOp]:
    stores = [n.src[0].payload(p.Param).slot for n in item.kernel.src]
    return {item.args[slot].buffer for slot in stores}


# ---- what needs no kernel


def test_storage_and_contiguous_views_of_it_need_no_work() -> None:
    x = storage(6, 4)
    plan = schedule([x, g.shrink(x, ((2, 4), (0, 4))), contiguous(x), g.detach(x)])
    assert plan.items == ()
    assert [r.shape for r in plan.results] == [(6, 4), (2, 4), (6, 4), (6, 4)]
    assert all(n.op is not Ops.CONTIGUOUS for r in plan.results for n in r.toposort())


def test_a_transpose_shows_the_storage_it_is_of_until_it_is_wanted_contiguous() -> None:
    turned = g.permute(storage(6, 4), (1, 0))
    (item,) = kernels(schedule([contiguous(turned)]))
    assert len(item.args) == 2


# ---- arguments


def test_equal_kernels_are_one_node_whatever_they_run_on() -> None:
    first, second = (kernels(schedule([plus_one(storage(6, 4))]))[0] for _ in range(2))
    assert first.kernel is second.kernel
    assert first.args[1].buffer is not second.args[1].buffer


@pytest.mark.parametrize("begin", [1, 3, 16])
def test_the_beginning_of_a_view_is_the_offset_of_an_argument(begin: int) -> None:
    view = g.shrink(UOp.buffer(dtypes.float32, 64, "CPU"), ((begin, begin + 40),))
    (item,) = kernels(schedule([plus_one(view)]))
    assert item.args[1].offset == begin
    (param,) = [n for n in item.kernel.toposort() if n.op is Ops.PARAM and n.payload(p.Param).slot == 1]
    assert param.payload(p.Param).align == min(64, 4 * (begin & -begin))


def test_views_equally_far_into_storage_share_a_kernel() -> None:
    x = UOp.buffer(dtypes.float32, 64, "CPU")
    made = [kernels(schedule([plus_one(g.shrink(x, ((a, 64 - 32 + a),)))]))[0].kernel for a in (1, 3)]
    params = [[n.payload(p.Param).size for n in k.toposort() if n.op is Ops.PARAM] for k in made]
    assert params == [[32, 63], [32, 61]]


def test_a_flipped_view_does_not_begin_at_its_last_element() -> None:
    (item,) = kernels(schedule([plus_one(g.flip(storage(9), (0,)))]))
    assert item.args[1].offset == 0


def test_written_arguments_come_first() -> None:
    a, b = storage(5), storage(5)
    (item,) = kernels(schedule([g.alu(Ops.ADD, a, b), g.alu(Ops.MUL, a, b)]))
    access = {n.payload(p.Param).slot: n.payload(p.Param).access for n in item.kernel.toposort()
              if n.op is Ops.PARAM}  # fmt: skip
    assert [access[k] for k in range(4)] == ["w", "w", "r", "r"]


# ---- borders and groups


def test_a_matmul_ends_a_kernel_and_takes_its_epilogue_with_it() -> None:
    a, b = storage(64, 64), storage(64, 64)
    product = matmul(a, b)
    plan = schedule([g.reduce(Ops.ADD, plus_one(product), [0])])
    assert len(kernels(plan)) == 2
    (border,) = borders([g.reduce(Ops.ADD, plus_one(product), [0])])
    assert border.node.op is Ops.ADD
    assert border.why.startswith("contraction")


def test_results_that_read_the_same_share_a_kernel() -> None:
    x = storage(64, 32)
    plan = schedule([plus_one(x), g.scalar_op(Ops.MUL, x, 3)])
    assert len(plan.items) == 1


def test_a_result_and_the_sums_of_its_rows_share_a_kernel() -> None:
    x = storage(64, 32)
    low = g.scalar_op(Ops.MUL, x, 3)
    plan = schedule([plus_one(low), g.reduce(Ops.ADD, low, [1])])
    assert len(plan.items) == 1
    plan = schedule([plus_one(low), g.reduce(Ops.ADD, low, [0])])
    assert len(plan.items) == 2, "columns are no rows"


def test_rows_too_few_to_share_out_do_not_share_a_kernel_with_their_sums() -> None:
    x = storage(2, 4096)
    assert len(schedule([plus_one(x), g.reduce(Ops.ADD, x, [1])]).items) == 2


def test_results_on_two_devices_do_not() -> None:
    x, y = storage(8), storage(8, device="CPU:1")
    plan = schedule([plus_one(x), plus_one(y)])
    assert [i.device for i in kernels(plan)] == ["CPU", "CPU:1"]


def test_values_on_two_devices_do_not_mix() -> None:
    with pytest.raises(DeviceError, match="CPU and CPU:1"):
        schedule([g.alu(Ops.ADD, storage(8), storage(8, device="CPU:1"))])


def test_a_long_sum_is_made_of_sums_of_parts_and_a_row_is_not() -> None:
    assert len(schedule([g.reduce(Ops.ADD, storage(1 << 20), [0])]).items) == 2
    assert len(schedule([g.reduce(Ops.ADD, storage(16, 1 << 15), [1])]).items) == 1


def test_a_gathered_value_is_not_taken_from_the_kernel_that_stores_it() -> None:
    x = g.reduce(Ops.ADD, storage(8), [0])
    picked = g.gather(g.reshape(x, (1,)), [storage(dtype=dtypes.int32)])
    plan = schedule([x, picked])
    for item in kernels(plan):
        read = {item.args[n.src[0].payload(p.Param).slot].buffer for n in item.kernel.toposort()
                if n.op is Ops.LOAD}  # fmt: skip
        assert read.isdisjoint(written(item))


# ---- order and versions


def test_items_run_after_what_they_read() -> None:
    a, b, c = storage(64, 64), storage(64, 64), storage(64, 64)
    plan = schedule([matmul(matmul(a, b), c)])
    first, second = kernels(plan)
    assert written(first) <= {arg.buffer for arg in second.args}
    assert set(plan.temporaries) == written(first)


def test_a_reader_runs_before_the_store_that_ends_its_version() -> None:
    x = storage(64)
    reader = g.reduce(Ops.ADD, x, [0])
    for roots in ([reader, assign(x, storage(64))], [assign(x, storage(64)), reader]):
        plan = schedule(roots)
        target = base(x)
        order = [("store" if target in written(i) else "read") for i in kernels(plan)]
        assert order == ["read", "store"]


@pytest.mark.parametrize("first", [0, 1])
def test_within_a_kernel_loads_of_what_is_overwritten_precede_the_store(first: int) -> None:
    x, other = storage(100), storage(100)
    reader = g.alu(Ops.ADD, g.scalar_op(Ops.MUL, x, 2), other)
    roots = [reader, assign(x, other)]
    (item,) = kernels(schedule(roots[::-1] if first else roots))
    assert item.args[item.kernel.src[-1].src[0].payload(p.Param).slot].buffer is base(x)


def test_what_is_wanted_after_it_is_overwritten_is_copied_first() -> None:
    x, y = storage(16), storage(16)
    swapped = [assign(x, y), assign(y, x)]  # each reads what the other overwrites
    plan = schedule(swapped)
    made = kernels(plan)
    assert len(made) <= 3
    assert written(made[0]) <= set(plan.temporaries)


def test_a_store_that_reads_elsewhere_reads_a_copy() -> None:
    x = UOp.buffer(dtypes.float32, 10, "CPU")
    plan = schedule([assign(g.shrink(x, ((1, 10),)), g.shrink(x, ((0, 9),)))])
    assert len(plan.items) == 2
    plan = schedule([assign(g.shrink(x, ((1, 10),)), plus_one(g.shrink(x, ((1, 10),))))])
    assert len(plan.items) == 1


def test_a_root_that_shows_an_ended_version_keeps_it() -> None:
    x = storage(4)
    plan = schedule([x, assign(x, storage(4))])
    kept, stored = plan.results
    assert kept.base is not stored.base
    assert stored.base is base(x)


# ---- copies


def test_a_copy_between_devices_is_a_copy_item() -> None:
    x = storage(8)
    moved = UOp(Ops.COPY, x.dtype, (plus_one(x),), p.Copy("CPU:1"))
    plan = schedule([plus_one(moved)])
    kinds = [type(i) for i in plan.items]
    assert kinds == [KernelItem, CopyItem, KernelItem]
    copy = plan.items[1]
    assert isinstance(copy, CopyItem)
    assert copy.size == 8
    assert copy.dest.buffer.payload(p.Storage).device == "CPU:1"
