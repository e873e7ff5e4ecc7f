"""Decomposition of a whole kernel.

In: a graph of the loops stage (any value or effect). Out: an equal graph that has only the dtypes and (op,
dtype) pairs that the target declares. Guaranteed: or RenderError, naming the op and dtype. Memory is touched
as before: a gated-off lane of a load stays gated off.

The order: floats that the target cannot hold are carried in float32 (`narrow.carry`), which changes the
dtypes of buffers; then exp and cos are made of what spells them (`idioms.py`), every op that the target lacks
is replaced by the first rule that applies, and what that gave is looked at again; last, 64-bit integers
become pairs (`wide.split`), whose 32-bit ops go through the rules once more.
"""

from __future__ import annotations

from collections.abc import Callable

from tiny_core.codegen.decompose import (
    convert,
    idioms,
    integer,
    narrow,
    power,
    threefry,
    transcendental,
    wide,
)
from tiny_core.dtypes import DType
from tiny_core.errors import RenderError
from tiny_core.ir.ops import ELEMENTWISE, Ops
from tiny_core.ir.rewrite import record, tracing
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities

Rule = Callable[[UOp, Capabilities], UOp | None]


def _table() -> dict[Ops, tuple[Rule, ...]]:
    # An op's own rule comes before doing the op in a wider type; casts of narrow floats before casts by bits.
    parts = (
        transcendental.RULES, power.RULES, threefry.RULES, integer.RULES, narrow.RULES, convert.RULES,
    )  # fmt: skip
    table: dict[Ops, tuple[Rule, ...]] = {}
    for rules in parts:
        for op, functions in rules.items():
            table[op] = (*table.get(op, ()), *functions)
    return table


_RULES = _table()


def decompose(node: UOp, capabilities: Capabilities) -> UOp:
    """Return a graph equal to `node` that has only what `capabilities` declares.

    Raises:
        RenderError: an op or dtype is not declared and nothing declared replaces it.
    """
    nodes = node.toposort()
    absent = {n.dtype for n in nodes if not _has_dtype(n, capabilities)}
    if not absent and all(_declared(n, capabilities, False) and n.op not in idioms.IDIOMS for n in nodes):
        return node
    if absent & narrow.NARROW:
        nodes = narrow.carry(node, capabilities).toposort()
    lacks_long = not capabilities.dtypes >= wide.LONG
    node = _rewrite(nodes, capabilities, lacks_long)
    nodes = node.toposort()
    if lacks_long and any(n.dtype in wide.LONG for n in nodes):
        node = _rewrite(wide.split(node, capabilities).toposort(), capabilities, False)
        nodes = node.toposort()
    for n in nodes:
        if not _has_dtype(n, capabilities):
            raise RenderError(f"{n.op.value} of {n.dtype.name}: the target has no {n.dtype.name}")
    return node


def operand_dtype(node: UOp) -> DType:
    """The dtype by which `Capabilities.ops` knows an element-wise node."""
    return node.src[1 if node.op is Ops.WHERE else 0].dtype


def _has_dtype(node: UOp, target: Capabilities) -> bool:
    dtype = node.dtype
    return dtype in target.dtypes or dtype.kind in ("void", "bool") or dtype.is_weak


def _declared(node: UOp, target: Capabilities, split: bool) -> bool:
    """Whether the target has the op; with `split`, also what `wide.py` makes of 64-bit integers."""
    op = node.op
    if op not in ELEMENTWISE:
        return True
    dtype = operand_dtype(node)
    if dtype.is_weak:
        return True
    if split and (dtype in wide.LONG or (op is Ops.CAST and node.dtype in wide.LONG)) and op in wide.OPS:
        return True
    if (op, dtype) not in target.ops:
        return False
    # Capabilities names only what is cast from: a target that casts nothing from a narrow float casts
    # nothing to it.
    return op is not Ops.CAST or node.dtype not in narrow.NARROW or (op, node.dtype) in target.ops


def _rewrite(nodes: list[UOp], target: Capabilities, split: bool) -> UOp:
    """Replace undeclared ops of a graph (its nodes, sources first) and look at replacements in the same
    way."""
    done: dict[UOp, UOp] = {}
    for root in nodes:
        _settle(root, done, target, split)
    return done[nodes[-1]]


def _settle(root: UOp, done: dict[UOp, UOp], target: Capabilities, split: bool) -> None:
    """Find what becomes of `root`; `done` maps nodes to what became of them."""
    stack: list[tuple[UOp, UOp | None]] = [
        (root, None)
    ]  # with what replaced the node, once that is being looked at
    while stack:
        node, replacement = stack.pop()
        if node in done:
            continue
        if replacement is not None:
            done[node] = done[replacement]
            continue
        waiting = [(s, None) for s in node.src if s not in done]
        if waiting:
            stack.append((node, None))
            stack.extend(reversed(waiting))
            continue
        src = tuple([done[s] for s in node.src])
        new = node if src == node.src else node.replace(src)
        if new in done:
            done[node] = done[new]
            continue
        expansion = _idiom(new, target, split) if new.op in idioms.IDIOMS else None
        if expansion is None and _declared(new, target, split):
            done[node] = done[new] = new
        else:
            expansion = expansion or _expand(new, target)
            stack += [(node, expansion), (expansion, None)]


def _idiom(node: UOp, target: Capabilities, split: bool) -> UOp | None:
    """What a node stands for as the spelling of another function; None if it is none, or if the target has
    its op but not what the replacement is made of."""
    rule = idioms.IDIOMS[node.op]
    native = _declared(node, target, split)
    result = rule(node, target, native)
    if result is None:
        return None
    if native:
        known = set(node.toposort())
        if not all(
            n in known or (_has_dtype(n, target) and _declared(n, target, split)) for n in result.toposort()
        ):
            return None
    _note(rule, node, result)
    return result


def _note(rule: Callable[..., UOp | None], node: UOp, result: UOp) -> None:
    if tracing():
        code = rule.__code__
        where = f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"
        record(f"decompose {node.op.value}", where, node, result)


def _expand(node: UOp, target: Capabilities) -> UOp:
    for rule in _RULES.get(node.op, ()):
        result = rule(node, target)
        if result is not None and result is not node:
            _note(rule, node, result)
            return result
    dtype = operand_dtype(node)
    to = f" to {node.dtype.name}" if node.op is Ops.CAST else ""
    raise RenderError(
        f"{node.op.value} on {dtype.name}{to}: the target has no such op, and nothing it has replaces it",
        "declare it in Capabilities.ops, or what it decomposes into (codegen/decompose)",
    )
