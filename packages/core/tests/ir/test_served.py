"""What the items of a schedule are for, in terms of the graph that was given."""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir.attribution import inherited
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp
from tiny_core.schedule.scheduler import schedule, serving
from tiny_core.tensor import graph as g
from tiny_core.tensor.cell import version


def _stored(*shape: int) -> UOp:
    size = 1
    for n in shape:
        size *= n
    return g.reshape(UOp.buffer(dtypes.float32, size, "CPU"), shape)


def _work(root: UOp) -> set[UOp]:
    return {n for n in root.toposort() if n.op in ELEMENTWISE or n.op in (Ops.REDUCE, Ops.CONTIGUOUS)}


def _all(root: UOp) -> list[set[UOp]]:
    """What each item serves; there must be as many as the schedule has."""
    items = serving([root])
    assert len(items) == len(schedule([root]).items)
    return [set(item.nodes) for item in items]


def test_everything_that_is_computed_belongs_to_the_kernel_that_computes_it() -> None:
    x, y = _stored(64, 64), _stored(64, 64)
    product = g.reduce(Ops.ADD, g.alu(Ops.MUL, _rows(x), _columns(y)), [1])
    first = g.alu(Ops.MAX, product, g.const_like(0, product))
    second = g.reduce(Ops.ADD, g.alu(Ops.MUL, _rows(first), _columns(y)), [1])
    one, two = _all(second)
    assert {first, product} <= one and second in two
    assert one | two >= _work(second) and not one & two & _work(second)


def test_a_reduction_that_is_cut_in_two_is_served_by_both_parts() -> None:
    x = _stored(1 << 19)
    doubled = g.scalar_op(Ops.MUL, x, 2)
    total = g.reduce(Ops.ADD, doubled, [0])
    parts, whole = _all(total)
    assert {doubled, total} <= parts and total in whole


def test_what_stands_above_a_node_that_is_rewritten_is_itself() -> None:
    """DETACH goes before anything is decided, so all nodes above it are other nodes then."""
    x = _stored(8)
    inner = g.scalar_op(Ops.MUL, x, 2)
    outer = g.scalar_op(Ops.ADD, g.detach(inner), 1)
    (nodes,) = _all(outer)
    assert {inner, outer} <= nodes


def test_other_storage_gives_the_nodes_of_the_graph_at_hand() -> None:
    graphs = [g.scalar_op(Ops.MUL, _stored(5, 7), 3) for _ in range(2)]
    for graph in graphs:
        assert graph in _all(graph)[0]
    assert graphs[0] is not graphs[1]


def test_a_value_that_is_read_after_it_is_overwritten_is_served_by_the_copy_too() -> None:
    buffer = UOp.buffer(dtypes.float32, 16, "CPU")
    flipped = g.flip(g.reshape(buffer, (16,)), (0,))
    value = g.alu(Ops.ADD, flipped, g.reshape(buffer, (16,)))
    assigned = version(buffer, g.reshape(buffer, (16,)), value)
    items = serving([assigned])
    assert len(items) == len(schedule([assigned]).items) == 2
    assert value in items[-1].nodes and assigned in items[-1].nodes
    assert "an assignment" in items[-1].stores[0]


def test_reasons_name_the_border_or_who_asked() -> None:
    x = _stored(64, 64)
    product = g.reduce(Ops.ADD, g.alu(Ops.MUL, _rows(x), _columns(x)), [1])
    again = g.reduce(Ops.ADD, g.alu(Ops.MUL, _rows(product), _columns(x)), [1])
    first, last = serving([again])
    assert first.stores[0].startswith("border reduce [64, 64]: contraction")
    assert last.stores == ("stores reduce [64, 64]: it was asked for",)


def test_nodes_without_facts_take_those_of_their_users() -> None:
    x = _stored(4)
    a = g.scalar_op(Ops.MUL, x, 2)
    b = g.scalar_op(Ops.ADD, a, 1)
    c = g.scalar_op(Ops.ADD, b, 3)
    d = g.scalar_op(Ops.MUL, b, 5)
    order = [*c.toposort(), d]
    found = inherited(order, {c: {"c": None}, d: {"d": None}})
    assert list(found[b]) == list(found[a]) == ["d", "c"]
    assert list(inherited(order, {c: {"c": None}, b: {"b": None}})[a]) == ["b"]


def _rows(x: UOp) -> UOp:
    return g.expand(g.reshape(x, (64, 64, 1)), (64, 64, 64))


def _columns(x: UOp) -> UOp:
    return g.expand(g.reshape(x, (1, 64, 64)), (64, 64, 64))
