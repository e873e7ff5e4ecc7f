"""Loops: one iteration after the other, or, where a nest only accumulates into registers, many at once.

A *nest* is a loop whose body is loads, pure nodes and accumulations `slot = slot op x` with x independent of
the slots (or such a loop inside it and nothing else with an effect). All x of many iterations are computed as
arrays with a leading axis of iterations; then the slots take them in the order of the iterations, so that
rounding is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiny_core.api import DType, LaunchError, Ops, UOp
from tiny_core.devices.python.blocks import Block, in_register, register_slot
from tiny_core.devices.python.ops import function
from tiny_core.devices.python.rounding import Array
from tiny_core.devices.python.steps import UNSET, Run, Step

BATCH = 1 << 16  # elements of an array that a step works on: they should stay in a core's caches
_FEW = 64  # accumulators below which numpy's accumulate along iterations beats a call per iteration
_ACCUMULATE = {Ops.ADD: np.add, Ops.MUL: np.multiply}
_SUMMING = (Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.MULACC, Ops.AND, Ops.OR, Ops.XOR)


@dataclass(frozen=True, slots=True)
class Accumulation:
    """`slot = (…(slot op term0) op term1…)`, by a STORE; a term has two operands for MULACC, else one."""

    store: UOp
    op: Ops
    terms: list[tuple[UOp, ...]]
    members: list[UOp]


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest that may be batched: its loops from the outside in, what it accumulates, all nodes of
    accumulations (and ends of inner loops), and the most lanes of its values."""

    blocks: list[Block]
    sums: list[Accumulation]
    members: set[UOp]
    lanes: int


@dataclass(frozen=True, slots=True)
class Sum:
    """An Accumulation by slots: register slot, number of its STORE, op, dtype, operands, and 1 if it has
    lanes."""

    register: int
    number: int
    op: Ops
    dtype: DType
    terms: list[tuple[int, ...]]
    rank: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The batched form of a nest: (slot, slot of the size, dtype) of its loops, the steps that compute the
    terms, and the sums."""

    axes: list[tuple[int, int, np.dtype[np.generic]]]
    pure: list[Step]
    sums: list[Sum]
    lanes: int


def find_nest(block: Block, users: dict[UOp, int]) -> Nest | None:
    """Return `block` as a nest, or None; `users` counts the uses of each node."""
    blocks, inner = [block], block
    while len(only := inner.effects()) == 1 and isinstance(only[0], Block):
        inner = only[0]
        blocks.append(inner)
    stores = inner.effects()
    nodes = list(block.nodes())
    sums = []
    for store in stores:
        if isinstance(store, Block) or store.op is not Ops.STORE or not in_register(store):
            return None
        found = _accumulation(store, users)
        if found is None:
            return None
        sums.append(found)
    slots = {register_slot(s.store) for s in sums}
    if not sums or len(slots) < len(sums):
        return None
    members = {n for s in sums for n in s.members}
    listed = {e for e in inner.entries if isinstance(e, UOp)}
    if not members <= listed:
        return None
    # Nothing else may read a slot that changes, directly or not.
    for node in nodes:
        if node in members:
            continue
        if node.op is Ops.LOAD and in_register(node) and register_slot(node) in slots:
            return None
        if node.op is not Ops.AFTER and any(s in members and s.op is not Ops.STORE for s in node.src):
            return None
    if any(x in members for s in sums for term in s.terms for x in term):
        return None
    lanes = max(
        (n.shape[0] for n in nodes if n.shape and n.op not in (Ops.PARAM, Ops.BUFFER, Ops.AFTER)), default=1
    )
    return Nest(blocks, sums, members, lanes)


def _accumulation(store: UOp, users: dict[UOp, int]) -> Accumulation | None:
    """Return the accumulation that a STORE to a register completes, or None."""
    if len(store.src) > 3:
        return None
    slot, value = register_slot(store), store.src[2]
    op, members = value.op, [store]
    terms: list[tuple[UOp, ...]] = []
    if op not in _SUMMING:
        return None

    def is_slot(node: UOp) -> bool:
        return node.op is Ops.LOAD and in_register(node) and register_slot(node) == slot

    while value.op is op and users[value] == 1:
        members.append(value)
        if op is Ops.MULACC:
            terms.append((value.src[0], value.src[1]))
            value = value.src[2]
        else:
            left, right = value.src
            # The operand that holds the slot goes on; these ops commute.
            value, other = (
                (right, left)
                if is_slot(right) or (left.op is not op and not is_slot(left))
                else (left, right)
            )
            terms.append((other,))
        if is_slot(value):
            return Accumulation(store, op, terms[::-1], [*members, value]) if users[value] == 1 else None
    return None


# ---- steps -----------------------------------------------------------------------------------------------


def loop(
    slot: int, size: int, dtype: np.dtype[np.generic], body: list[Step], batch: Batch | None = None
) -> Step:
    """Return the step that runs `body` for each value of a RANGE, all items together; items whose trip count
    is lower than others' sit out the rest."""

    def step(v: list[Array], run: Run) -> None:
        stop = v[size]
        if len(stop) > 1 and (stop != stop[0]).any():
            uneven(v, run, stop)
            return
        if batch is not None and run.active is None and _run_batch(batch, v, run):
            return
        count = int(stop[0])
        for first in range(0, count, BATCH):  # the counters are views of one array
            counters = np.arange(first, min(first + BATCH, count), dtype=dtype)
            for i in range(len(counters)):
                v[slot] = counters[i : i + 1]
                for s in body:
                    s(v, run)

    def uneven(v: list[Array], run: Run, stop: Array) -> None:
        outer = run.active
        try:
            for i in range(int(stop.max())):
                on = stop > i
                run.active = on if outer is None else on & outer
                v[slot] = np.array([i], dtype)
                for s in body:
                    s(v, run)
        finally:
            run.active = outer

    return step


def _run_batch(batch: Batch, v: list[Array], run: Run) -> bool:
    """Run a nest in batches; False, and nothing done, if that does not pay or its trip counts differ among
    items."""
    sizes = []
    for _, size, _ in batch.axes:
        stop = v[size]
        if len(stop) > 1 and (stop != stop[0]).any():
            return False
        sizes.append(int(stop[0]))
    total = int(np.prod(sizes, dtype=np.int64)) if min(sizes) > 0 else 0
    rows = BATCH // (run.items * batch.lanes)
    if rows < 4:
        return False
    for first in range(0, total, rows):
        rest = np.arange(first, min(first + rows, total), dtype=np.int64)
        count = len(rest)
        for (slot, _, dtype), size in zip(reversed(batch.axes), reversed(sizes), strict=True):
            v[slot] = (rest % size).astype(dtype)[:, None]
            rest = rest // size
        for step in batch.pure:
            step(v, run)
        for one in batch.sums:
            _accumulate(one, v, count, run)
    return True


def _accumulate(one: Sum, v: list[Array], count: int, run: Run) -> None:
    value = v[one.register]
    if value is UNSET:
        raise LaunchError(f"a register is read before it is written: {run.describe(one.number)}")
    rank = 1 + one.rank
    operands = [[v[slot] for slot in term] for term in one.terms]
    fast = _ACCUMULATE.get(one.op) if one.dtype.bits >= 32 else None
    if fast is not None:
        shape = np.broadcast_shapes(value.shape, *(x.shape[-rank:] for term in operands for x in term))
        if int(np.prod(shape)) < _FEW:
            rows = np.empty((count * len(operands) + 1, *shape), value.dtype)
            rows[0] = value
            terms = rows[1:].reshape(count, len(operands), *shape)
            for i, (x,) in enumerate(operands):
                terms[:, i] = x
            v[one.register] = fast.accumulate(rows, axis=0, dtype=rows.dtype)[-1].copy()
            return
    f = function(one.op, one.dtype)
    for i in range(count):
        for term in operands:
            xs = [x[i] if x.ndim > rank else x for x in term]
            value = f(value, *xs) if one.op is not Ops.MULACC else f(*xs, value)
    v[one.register] = value
