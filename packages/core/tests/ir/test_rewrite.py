"""The rewriting engine: patterns, orders, traces, and rules that never come to rest."""

from __future__ import annotations

import pytest

from tiny_core import dtypes
from tiny_core.errors import RewriteError
from tiny_core.ir.ops import Ops
from tiny_core.ir.pattern import Rules, const, op, rule, scalar, var
from tiny_core.ir.rewrite import rewrite, trace
from tiny_core.ir.uop import UOp

x, y = var("x"), var("y")
i32 = dtypes.int32


def leaf(slot: int) -> UOp:
    return UOp.param(slot, i32, 1).load(0)


A, B = leaf(0), leaf(1)


def test_either_order_of_a_commutative_op() -> None:
    rules = Rules("zero", (rule(x + 0, lambda x: x),))
    zero = UOp.const(0, i32)
    assert rewrite(A + zero, rules) is A
    assert rewrite(zero + A, rules) is A


def test_only_one_order_of_the_others() -> None:
    rules = Rules("zero", (rule(x - 0, lambda x: x),))
    zero = UOp.const(0, i32)
    assert rewrite(A - zero, rules) is A
    assert rewrite(zero - A, rules) is zero - A


def test_a_name_twice_is_the_same_node_twice() -> None:
    rules = Rules("same", (rule(x ^ x, lambda x: x),))
    assert rewrite(A ^ A, rules) is A
    assert rewrite(A ^ B, rules) is A ^ B


def test_nested_patterns_try_all_orders() -> None:
    rules = Rules("join", (rule(x * 2 + x, lambda x: x * 3),))
    two = UOp.const(2, i32)
    for node in (A * two + A, A + A * two, two * A + A, A + two * A):
        assert rewrite(node, rules) is A * 3
    assert rewrite(A * two + B, rules) is A * two + B


def test_numbers_match_bits() -> None:
    f = UOp.param(0, dtypes.float32, 1).load(0)
    rules = Rules("minus zero", (rule(x + -0.0, lambda x: x),))
    assert rewrite(f + -0.0, rules) is f
    assert rewrite(f + 0.0, rules) is f + 0.0


def test_numbers_match_constants_over_lanes() -> None:
    v = UOp.param(0, i32, 8).load(0, lanes=4)
    rules = Rules("zero", (rule(x + 0, lambda x: x),))
    assert rewrite(v + UOp.const(0, i32, 4), rules) is v
    mixed = UOp(Ops.STACK, i32, (UOp.const(0, i32), UOp.const(1, i32), UOp.const(0, i32), UOp.const(0, i32)))
    assert rewrite(v + mixed, rules) is v + mixed
    assert scalar(mixed) is None


def test_a_domain_keeps_rules_from_other_dtypes() -> None:
    rules = Rules("wrap", (rule(x * 0, lambda x: x),), domain="wrap")
    f = UOp.param(0, dtypes.float32, 1).load(0)
    assert rewrite(A * 0, rules) is A
    assert rewrite(f * 0.0, rules) is f * 0.0


def test_tables_add_up_in_order() -> None:
    first = Rules("first", (rule(x + y, lambda x, y: x * y),))
    second = Rules("second", (rule(x + y, lambda x, y: x - y), rule(x * y, lambda x, y: x ^ y)))
    assert rewrite(A + B, first + second) is A ^ B
    assert rewrite(A + B, second + first) is A - B


def test_declining_goes_to_the_next_rule() -> None:
    rules = Rules(
        "decline",
        (
            rule(op(Ops.ADD, x, const("c")), lambda c: None if c.value < 5 else c),
            rule(x + y, lambda x: x),
        ),
    )
    assert rewrite(A + 3, rules) is A
    assert rewrite(A + 7, rules) is UOp.const(7, i32)


def test_wrong_parameter_names_are_found_when_the_rule_is_made() -> None:
    with pytest.raises(RewriteError, match="wants 'z'") as error:
        rule(x + y, lambda z: z)
    assert "x, y" in error.value.hint


def test_context_free_tables_have_no_context() -> None:
    with pytest.raises(RewriteError, match="takes ctx"):
        Rules("ctx", (rule(x + y, lambda ctx, x: x),))
    counted: list[UOp] = []

    def count(ctx: list[UOp], x: UOp) -> None:
        ctx.append(x)

    rules = Rules("ctx", (rule(x + y, count),), context_free=False)
    rewrite(A + B, rules, counted)
    assert counted == [A, B]  # both orders, as it declined


def test_bottom_up_sees_rewritten_sources_and_rewrites_results() -> None:
    rules = Rules("up", (rule(x * 0, lambda x: UOp.const(0, i32)), rule(x + 0, lambda x: x)))
    assert rewrite((A * 0) + B, rules) is B
    assert rewrite(((A * 0) + (B * 0)) + A, rules) is A


def test_top_down_tries_a_node_before_its_sources() -> None:
    rules = Rules(
        "down",
        (rule(-(x + y), lambda x, y: x - y), rule(x + y, lambda x, y: x * y)),
    )
    assert rewrite(-(A + B), rules) is -(A * B)
    assert rewrite(-(A + B), rules, order="top_down") is A - B


def test_walk_visits_once() -> None:
    rules = Rules("walk", (rule(x + y, lambda x, y: y + x),))  # never comes to rest otherwise
    assert rewrite((A + B) + A, rules, order="walk") is A + (B + A)


def test_ping_pong_names_both_rules() -> None:
    rules = Rules(
        "ping-pong",
        (
            rule(x + y, lambda x, y: x * y, "to product"),
            rule(x * y, lambda x, y: x + y, "to sum"),
        ),
    )
    for order in ("bottom_up", "top_down"):
        with pytest.raises(RewriteError) as error:
            rewrite(-(A + B), rules, order=order)
        assert "to product" in str(error.value) and "to sum" in str(error.value)
        assert "test_rewrite.py" in str(error.value)


def test_a_rule_that_wraps_its_own_node_is_found() -> None:
    rules = Rules("grow", (rule(op(Ops.NEG, x, name="n"), lambda n: n + 0, "wrap in a sum"),))
    with pytest.raises(RewriteError, match="wrap in a sum"):
        rewrite(-A, rules)


def test_a_rule_that_grows_for_ever_is_found() -> None:
    rules = Rules("count", (rule(op(Ops.ADD, x, const("c")), lambda x, c: x + (c.value + 1), "count up"),))
    with pytest.raises(RewriteError, match="count up"):
        rewrite(A + 1, rules)


def test_deep_graphs_need_no_recursion() -> None:
    node = A
    for k in range(4_000):
        node = (node ^ B) + (k % 7)
    rules = Rules("xor", (rule(x ^ y, lambda x, y: x - y),))
    result = rewrite(node, rules)
    assert all(n.op is not Ops.XOR for n in result.toposort())


def test_a_trace_has_each_step() -> None:
    rules = Rules("traced", (rule(x + 0, lambda x: x, "plus zero"), rule(x * 1, lambda x: x, "times one")))
    with trace() as steps:
        rewrite((A + 0) * 1, rules)
    assert [(s.rule, s.before, s.after) for s in steps] == [
        ("plus zero", A + 0, A),
        ("times one", A * 1, A),
    ]
    assert all(s.location.startswith("test_rewrite.py:") for s in steps)


def test_results_are_remembered() -> None:
    calls: list[UOp] = []

    def seen(x: UOp) -> UOp:
        calls.append(x)
        return x

    rules = Rules("once", (rule(x + 0, seen),))
    node = (A + 0) * B
    assert rewrite(node, rules) is A * B
    assert rewrite(node, rules) is A * B
    assert len(calls) == 1


def test_remembering_keeps_no_device_storage_alive() -> None:
    import weakref

    rules = Rules("once", (rule(-(-x), lambda x: x),))  # noqa: B002  (two negations)
    buffer = UOp.buffer(i32, 4, "NULL")
    alive = weakref.ref(buffer)
    rewrite(-(-buffer), rules)  # noqa: B002  (two negations)
    del buffer
    assert alive() is None
