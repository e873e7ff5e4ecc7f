"""`tiny_core.api` has what a renderer's own rules are written with."""

from __future__ import annotations

import tiny_core.api
from tiny_core import api
from tiny_core.api import Ops, Pattern, Rules, UOp, const, dtypes, like, op, rewrite, rule, scalar, var


def test_every_name_is_there() -> None:
    for name in dir(api):
        assert getattr(tiny_core.api, name) is not None, name


def test_rules_of_a_renderer() -> None:
    """Patterns over operators, over ops by name, over any of several ops, and over constants."""

    def half(n: UOp, x: UOp, c: UOp) -> UOp | None:
        k = scalar(c)
        return x * like(c, 0.5) if k is not None and k.value == 2.0 else None

    x, c = var("x"), const("c")
    extreme: Pattern = op((Ops.MAX, Ops.MIN), x, x)
    rules = Rules(
        "mine",
        (
            rule((x / c).named("n"), half),
            rule(extreme, lambda x: x),
            rule(op(Ops.TRUNC, op(Ops.TRUNC, x)), lambda x: x),
        ),
        domain="ieee",
    )
    v = UOp.param(0, dtypes.float32, 4).load(UOp.const(0, dtypes.int32))
    assert rewrite(v / 2.0, rules) is v * 0.5
    assert rewrite(v / 3.0, rules) is v / 3.0
    assert rewrite(v.alu(Ops.MAX, v), rules) is v
    assert rewrite(v.alu(Ops.TRUNC).alu(Ops.TRUNC), rules) is v
