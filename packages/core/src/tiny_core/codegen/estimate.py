"""How much work one launch of a kernel is.

In: a linear list. Out: floating-point and data operations, and bytes of global memory, at the upper bounds of
variables. Nothing is measured and no cache is modelled: the bytes are those that a perfect cache would move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiny_core.ir import payload as p
from tiny_core.ir.interval import bounds
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import ALU, COMPARE, Ops
from tiny_core.ir.uop import UOp

# Selecting, comparing and moving are not arithmetic.
_FREE = COMPARE | {Ops.WHERE}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Work of one launch.

    Args:
        flops: operations on data, each lane counted, MULACC as two; not arithmetic of indices and masks.
        bytes: bytes of global memory that are read plus those that are written, each element once for each.
        issued: bytes of global memory that loads and stores ask for, each time they run.
    """

    flops: int
    bytes: int
    issued: int


def estimate(linear: UOp) -> tuple[int, int]:
    """Return (flops, bytes) of one launch; see `Estimate`."""
    result = measure(linear)
    return result.flops, result.bytes


def measure(linear: UOp) -> Estimate:
    """Return the work of one launch of a LINEAR."""
    flops = issued = 0
    items = math.prod(_trips(n) for n in linear.src if n.op is Ops.SPECIAL)
    runs, opened = items, list[int]()
    data = _data(linear)
    touched: dict[tuple[UOp, bool], int] = {}
    places: dict[frozenset[UOp], int] = {}
    specials = any(n.op is Ops.SPECIAL for n in linear.src)
    for node in linear.src:
        op = node.op
        if op is Ops.RANGE:
            opened.append(runs)
            runs *= _trips(node)
        elif op is Ops.END:
            runs = opened.pop()
        elif op in (Ops.LOAD, Ops.STORE):
            base = node.src[0].base
            if base.op is not Ops.PARAM or base.payload(p.Param).space != "global":
                continue
            lanes = max(node.payload(p.Access).lanes, 1)
            issued += runs * lanes * base.dtype.itemsize
            key = (base, op is Ops.STORE)
            touched[key] = touched.get(key, 0) + lanes * _places(node.src[1], specials, places)
        elif op in ALU and op not in _FREE:
            if node.dtype.is_float or node in data:
                flops += runs * max(node.size, 1) * (2 if op is Ops.MULACC else 1)
        elif op is Ops.MATRIX:
            unit = node.payload(MatrixUnit)
            flops += runs * 2 * unit.m * unit.n * unit.k // unit.lanes
        elif op is Ops.TARGET:
            flops += runs * node.payload(p.TargetOp).cost
    total = sum(min(n, b.payload(p.Param).size) * b.dtype.itemsize for (b, _), n in touched.items())
    return Estimate(flops, total, issued)


def _trips(node: UOp) -> int:
    """Most iterations of a RANGE or SPECIAL."""
    return max(bounds(node.src[0])[1], 0)


def _places(index: UOp, specials: bool, known: dict[frozenset[UOp], int]) -> int:
    """How many values an index takes at most, to judge by the loops and items it depends on."""
    axes = index.ranges
    if specials:
        axes |= {n for n in index.toposort() if n.op is Ops.SPECIAL}
    if axes not in known:
        known[axes] = math.prod(_trips(n) for n in axes)
    return known[axes]


def _data(linear: UOp) -> set[UOp]:
    """Nodes from which stored values are computed, not going into indices, gates and comparisons."""
    found: set[UOp] = set()
    stack = [n.src[2] for n in linear.src if n.op is Ops.STORE]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if node.op is Ops.LOAD:
            stack.extend(node.src[3:4])
        elif node.op is Ops.WHERE:
            stack.extend(node.src[1:])
        elif node.op not in COMPARE and node.op not in (Ops.AFTER, Ops.RANGE, Ops.SPECIAL):
            stack.extend(node.src)
    return found
