"""Every element-wise op of the IR on every dtype, in a kernel of its own; and again from as few as it takes.

`test_op` asks for an op as the target declares it. `test_op_taken_apart` hides everything from core that it
has a decomposition for, so that every decomposition runs on the target, whatever that declares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiny_conformance import sample
from tiny_conformance.bare import Bare, dtype_of, each
from tiny_conformance.check import Check
from tiny_conformance.compare import Array, Tolerance, is_float
from tiny_conformance.reduced import PRIMITIVE, Reduced
from tiny_conformance.suite.ops.test_binary import greater, lesser, toward_zero
from tiny_conformance.table import ALL, FLOATS, INTS, NUMBERS, Op, cases, integers, narrowed
from tiny_conformance.target import Target
from tiny_core.api import ALU, Ops, RenderError, UOp, dtypes, generate

BITS = ("bool", *INTS)
STATED = Tolerance(ulps=2)


def node(op: Ops) -> Callable[..., UOp]:
    """The function of nodes that makes an op."""
    return lambda x, *others: x.alu(op, *others)


def row(
    op: Ops,
    numpy: Callable[..., Array],
    names: tuple[str, ...],
    tolerance: Tolerance | None = None,
    domain: tuple[float, float] | None = None,
    result: str = "",
) -> Op:
    """A row of the table, named after the op."""
    return Op(op.value, node(op), numpy, names, tolerance or Tolerance(), domain, result)


_ROUNDS = ((13, 15, 26, 6), (17, 29, 16, 24))
_WORD = 0xFFFFFFFF


def threefry(counter: int, key: int) -> int:
    """Threefry-2x32-20 (Salmon, Moraes, Dror and Shaw, SC 2011), low words first."""
    keys = (key & _WORD, key >> 32, (key & _WORD) ^ (key >> 32) ^ 0x1BD11BDA)
    a, b = (counter + keys[0]) & _WORD, ((counter >> 32) + keys[1]) & _WORD
    for block in range(5):
        for turn in _ROUNDS[block % 2]:
            a = (a + b) & _WORD
            b = ((b << turn | b >> (32 - turn)) & _WORD) ^ a
        a = (a + keys[(block + 1) % 3]) & _WORD
        b = (b + keys[(block + 2) % 3] + block + 1) & _WORD
    return b << 32 | a


def shifted(left: bool) -> Callable[..., Array]:
    """A shift by any number: by the width and more, everything is shifted out."""

    def apply(x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        by = [int(v) if 0 <= int(v) < bits else bits for v in y]
        mask = (1 << bits) - 1
        words = [(int(v) << n if left else int(v) >> n) & mask for v, n in zip(x, by, strict=True)]
        return np.array(words, np.uint64).astype(f"uint{bits}").view(x.dtype)

    return apply


def chosen(condition: Array, x: Array, y: Array) -> Array:
    return np.asarray(np.where(condition, x, y))


ROWS = (
    row(Ops.NEG, np.negative, FLOATS),
    row(Ops.NEG, integers(lambda x: -x), INTS),
    row(Ops.RECIP, lambda x: (x.dtype.type(1) / x).astype(x.dtype), FLOATS),
    row(Ops.SQRT, np.sqrt, FLOATS),
    row(Ops.EXP2, np.exp2, FLOATS, STATED),
    row(Ops.LOG2, np.log2, FLOATS, STATED),
    row(Ops.SIN, np.sin, FLOATS, STATED, domain=(-200, 200)),
    row(Ops.TRUNC, np.trunc, FLOATS),
    row(Ops.NOT, np.invert, BITS),
    row(Ops.ADD, np.add, FLOATS),
    row(Ops.ADD, integers(lambda x, y: x + y), INTS),
    row(Ops.ADD, np.logical_or, ("bool",)),
    row(Ops.SUB, np.subtract, FLOATS),
    row(Ops.SUB, integers(lambda x, y: x - y), INTS),
    row(Ops.MUL, np.multiply, FLOATS),
    row(Ops.MUL, integers(lambda x, y: x * y), INTS),
    row(Ops.MUL, np.logical_and, ("bool",)),
    row(Ops.DIV, np.divide, FLOATS),
    row(Ops.IDIV, integers(toward_zero), INTS),
    row(Ops.IMOD, integers(lambda x, y: x - y * toward_zero(x, y)), INTS),
    row(Ops.FLOORDIV, integers(lambda x, y: x // y if y else 0), INTS),
    row(Ops.FLOORMOD, integers(lambda x, y: x % y if y else x), INTS),
    row(Ops.POW, lambda x, y: x**y, FLOATS, STATED, domain=(0.1, 4)),
    row(Ops.MAX, greater, FLOATS),
    row(Ops.MAX, np.maximum, BITS),
    row(Ops.MIN, lesser, FLOATS),
    row(Ops.MIN, np.minimum, BITS),
    row(Ops.AND, np.bitwise_and, BITS),
    row(Ops.OR, np.bitwise_or, BITS),
    row(Ops.XOR, np.bitwise_xor, BITS),
    row(Ops.SHL, shifted(left=True), INTS),
    row(Ops.SHR, shifted(left=False), INTS),
    row(Ops.CMPLT, np.less, ALL, result="bool"),
    row(Ops.CMPLE, np.less_equal, ALL, result="bool"),
    row(Ops.CMPEQ, np.equal, ALL, result="bool"),
    row(Ops.CMPNE, np.not_equal, ALL, result="bool"),
    row(Ops.THREEFRY, integers(threefry), ("uint64",)),
    row(Ops.WHERE, chosen, ALL),
)
BY_REDUCTIONS = (Ops.MULACC,)  # made for accumulators only: test_matmul and test_reduce meet it


def test_every_op_has_a_row() -> None:
    assert {r.name for r in ROWS} == {op.value for op in ALU} - {op.value for op in BY_REDUCTIONS}


def operands(op: Op, dtype: str, rng: np.random.Generator) -> list[Array]:
    """Inputs: special values and all magnitudes, or numbers of the op's domain."""
    name = op.name
    if name == "pow":
        return [sample.uniform(dtype, (83,), rng, *op.domain or (0, 1)) for _ in range(2)]
    if name == "sin":
        return [
            np.concatenate([sample.specials(dtype), sample.uniform(dtype, (60,), rng, *op.domain or (0, 1))])
        ]
    if name in _UNARY:
        return [sample.whole_range(dtype, rng)]
    x, y = sample.pairs(dtype, rng)
    if name in ("shl", "shr"):
        y = sample.uniform(dtype, x.shape, rng, 0, 8 * x.dtype.itemsize + 3)
    if name == "where":
        return [rng.integers(0, 2, x.shape).astype(bool), x, y]
    return [x, y]


_UNARY = frozenset(("neg", "recip", "sqrt", "exp2", "log2", "sin", "trunc", "not"))


def verify(op: Op, dtype: str, xs: list[Array], got: Array | None, check: Check) -> None:
    """Compare what a kernel gave with the reference."""
    if got is None:
        return
    want = op.reference(dtype, *xs)
    if op.tolerance == Tolerance():
        want = want if op.result else narrowed(want, dtype)
    check.arrays(got, want, op.tolerance if is_float(dtype) else None)


@cases(ROWS)
def test_op(op: Op, dtype: str, rng: np.random.Generator, bare: Bare, check: Check) -> None:
    xs = operands(op, dtype, rng)
    result = dtype_of(op.result or dtype)
    kernel = each(op.ours, result, [dtype_of(x.dtype.name) for x in xs], xs[0].size)
    verify(op, dtype, xs, bare.run(kernel, result, xs[0].size, *xs), check)


@cases([r for r in ROWS if r.name not in PRIMITIVE])
def test_op_taken_apart(op: Op, dtype: str, rng: np.random.Generator, bare: Bare, check: Check) -> None:
    if not bare.renderer.capabilities.dtypes >= {dtype_of(dtype)}:
        pytest.skip("the target has only the op that is taken apart")
    xs = operands(op, dtype, rng)
    result = dtype_of(op.result or dtype)
    kernel = each(op.ours, result, [dtype_of(x.dtype.name) for x in xs], xs[0].size)
    reduced = Reduced(bare.renderer)
    used = {n.op.value for n in generate(kernel, reduced).linear.src}
    assert op.name not in used, "the op was not taken apart"
    verify(op, dtype, xs, bare.run(kernel, result, xs[0].size, *xs, renderer=reduced), check)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_each_lane_of_a_vector(dtype: str, rng: np.random.Generator, bare: Bare, check: Check) -> None:
    # sizes around every width that the target has; each with a tail, and without
    widths = bare.renderer.capabilities.widths(dtype_of(dtype))
    kind = dtype_of(dtype)
    for count in sorted({1, 2, *widths, *(w + 1 for w in widths), *(w - 1 for w in widths if w > 2)}):
        x, y = (sample.numbers(dtype, count, rng) for _ in range(2))
        got = bare.run(each(UOp.maximum, kind, [kind, kind], count), kind, count, x, y)
        if got is not None:
            check.arrays(got, np.maximum(x, y))


def test_undeclared_ops_are_refused_or_right(bare: Bare, target: Target) -> None:
    """A renderer raises RenderError for what it does not declare; nothing else may come out of it."""
    if target.interprets:
        pytest.skip("nothing is rendered")
    renderer = bare.renderer
    full = Reduced(renderer, frozenset((op, d) for op in ALU for d in renderer.capabilities.dtypes))
    for op in sorted(ALU, key=lambda o: o.value):
        if op in (Ops.THREEFRY, Ops.WHERE) or renderer.capabilities.supports(op, dtypes.float32):
            continue
        if op.value not in {r.name for r in ROWS if "float32" in r.dtypes}:
            continue
        sources = [dtypes.float32] * (1 if op.value in _UNARY else 2)
        result = dtypes.bool_ if op.value.startswith("cmp") else dtypes.float32
        made = generate(each(node(op), result, sources, 8), full)
        try:
            source = renderer.render(made.linear, made.signature)
        except RenderError:
            continue
        assert source, f"{op.value} of float32 is rendered as nothing"


def test_fewer_declared_dtypes_are_carried(bare: Bare, rng: np.random.Generator, check: Check) -> None:
    """A target without 16-bit floats has them emulated; the bits are those of one that has them."""
    renderer = bare.renderer
    few = frozenset(d for d in renderer.capabilities.dtypes if d.name not in ("float16", "bfloat16"))
    ops = frozenset((op, d) for op, d in renderer.capabilities.ops if d in few)
    narrow = Reduced(renderer, ops, few)
    for name in ("float16", "bfloat16"):
        if dtype_of(name) not in renderer.capabilities.dtypes:
            continue  # then test_op is this test
        x, y = sample.pairs(name, rng)
        kernel = each(lambda a, b: a * b + a, dtype_of(name), [dtype_of(name)] * 2, x.size)
        got = bare.run(kernel, dtype_of(name), x.size, x, y, renderer=narrow)
        if got is not None:
            with np.errstate(all="ignore"):
                check.arrays(got, x * y + x)
