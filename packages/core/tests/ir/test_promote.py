"""Register slots as values: an interpreter that only knows phi's computes what one with registers does."""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.codegen.promote import Carried, Phi, Promotion, Value, promote
from tiny_core.dtypes import Number
from tiny_core.ir import payload as p
from tiny_core.ir.arith import evaluate
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.uop import UOp, toposort


def i32(value: int) -> UOp:
    return UOp.const(value, dtypes.int32)


def linear(*roots: UOp) -> UOp:
    return UOp(Ops.LINEAR, dtypes.void, tuple(toposort(roots)), p.KernelInfo("k"))


class Machine:
    """Runs a linear list of scalars; with a promotion, register loads and stores are never executed."""

    def __init__(self, program: UOp, memory: dict[int, list[Number]], promotion: Promotion | None) -> None:
        self.nodes, self.memory, self.promotion = program.src, memory, promotion
        self.value: dict[UOp, Number] = {}
        self.phi: dict[Phi, Number] = {}
        self.slots: dict[tuple[UOp, int], Number] = {}
        ends = {n.src[0]: k for k, n in enumerate(self.nodes) if n.op is Ops.END}
        self.block(0, len(self.nodes), ends)

    def of(self, value: Value) -> Number:
        if isinstance(value, Phi):
            return self.phi[value]
        return 0 if value is None else self.value[value]

    def block(self, begin: int, end: int, ends: dict[UOp, int]) -> None:
        k = begin
        while k < end:
            node = self.nodes[k]
            if node.op is Ops.RANGE:
                carried = self.promotion.loops.get(node, ()) if self.promotion else ()
                self.phi.update({c.phi: self.of(c.initial) for c in carried})
                for i in range(int(self.value[node.src[0]])):
                    self.value[node] = i
                    self.block(k + 1, ends[node], ends)
                    self.phi.update({c.phi: self.of(c.final) for c in carried})
                k = ends[node]
            else:
                self.step(node)
            k += 1

    def step(self, node: UOp) -> None:
        if node.op is Ops.CONST:
            self.value[node] = node.value
        elif node.op in ELEMENTWISE:
            operands = tuple(self.value[s] for s in node.src)
            self.value[node] = evaluate(node.op, node.dtype, operands, node.src[0].dtype)
        elif node.op in (Ops.LOAD, Ops.STORE):
            base, at = node.src[0].base, int(self.value[node.src[1]])
            if base.op is Ops.PARAM:
                array = self.memory[base.payload(p.Param).slot]
                if node.op is Ops.LOAD:
                    self.value[node] = array[at]
                else:
                    array[at] = self.value[node.src[2]]
            elif self.promotion:
                if node.op is Ops.LOAD:
                    self.value[node] = self.of(self.promotion.loads[node])
            elif node.op is Ops.LOAD:
                self.value[node] = self.slots.get((base, at), 0)
            else:
                self.slots[base, at] = self.value[node.src[2]]


def same_both_ways(program: UOp, data: list[Number], outputs: int) -> list[Number]:
    plain: dict[int, list[Number]] = {0: list(data), 1: [0] * outputs}
    promoted: dict[int, list[Number]] = {0: list(data), 1: [0] * outputs}
    Machine(program, plain, None)
    Machine(program, promoted, promote(program))
    assert plain == promoted
    return plain[1]


X, OUT = UOp.param(0, dtypes.int32, 64), UOp.param(1, dtypes.int32, 64, "w")


def accumulator(id: int, *order: UOp, size: int = 1) -> UOp:
    return UOp.near(dtypes.int32, size, id, "register").after(*order)


def test_a_sum() -> None:
    r = UOp.range(i32(10), "r", "reduce")
    slot = accumulator(0)
    start = slot.after(slot.store(i32(0), 0))
    total = start.load(i32(0)) + X.load(r)
    loop = start.store(i32(0), total).end(r)
    last = start.after(loop).load(i32(0))
    program = linear(OUT.store(i32(0), last))
    phi = Phi(r, slot.base, 0)
    assert promote(program) == Promotion(
        {r: (Carried(phi, i32(0), total),)}, {start.load(i32(0)): phi, last: phi}
    )
    assert same_both_ways(program, list(range(64)), 1) == [45]


def test_loops_within_loops_carry_through_both() -> None:
    i, r = UOp.range(i32(4), "i"), UOp.range(i32(3), "r", "reduce")
    slot = accumulator(0)
    start = slot.after(slot.store(i32(0), 5))
    inner = start.after(i).store(i32(0), start.after(i).load(i32(0)) * 3 + X.load(i * 3 + r)).end(r)
    loop = inner.end(i)
    program = linear(OUT.store(i32(0), start.after(loop).load(i32(0))))
    found = promote(program)
    outer, within = Phi(i, slot.base, 0), Phi(r, slot.base, 0)
    assert found.loops[i] == (Carried(outer, i32(5), within),)
    assert found.loops[r][0].initial == outer
    want = 5
    for value in range(12):
        want = want * 3 + value
    assert same_both_ways(program, list(range(64)), 1) == [want]


def test_an_accumulator_that_starts_anew_is_not_carried_by_the_outer_loop() -> None:
    i, r = UOp.range(i32(4), "i"), UOp.range(i32(3), "r", "reduce")
    slot = accumulator(0, i)
    start = slot.after(slot.store(i32(0), 0))
    loop = start.store(i32(0), start.load(i32(0)) + X.load(i * 3 + r)).end(r)
    program = linear(OUT.store(i, start.after(loop).load(i32(0))).end(i))
    assert set(promote(program).loops) == {r}
    assert same_both_ways(program, list(range(64)), 4) == [3, 12, 21, 30]


def test_a_loop_that_does_not_run_leaves_the_initial_value() -> None:
    r = UOp.range(i32(0), "r", "reduce")
    slot = accumulator(0)
    start = slot.after(slot.store(i32(0), 7))
    loop = start.store(i32(0), start.load(i32(0)) + 1).end(r)
    assert same_both_ways(linear(OUT.store(i32(0), start.after(loop).load(i32(0)))), [0], 1) == [7]


def test_slots_that_swap_are_carried_at_once() -> None:
    r = UOp.range(i32(7), "r")
    slot = accumulator(0, size=2)
    start = slot.after(slot.store(i32(0), 0), slot.store(i32(1), 1))
    a, b = start.after(r).load(i32(0)), start.after(r).load(i32(1))
    total = a + b
    loop = UOp(Ops.END, dtypes.void, (r, start.store(i32(1), total), start.store(i32(0), b)))
    program = linear(OUT.store(i32(0), start.after(loop).load(i32(0))))
    assert same_both_ways(program, [0], 1) == [13]  # the 7th Fibonacci number


def test_what_nothing_reads_needs_no_phi() -> None:
    r = UOp.range(i32(10), "r")
    slot = accumulator(0)
    program = linear(slot.store(i32(0), X.load(r)).end(r))
    assert promote(program) == Promotion({}, {})
