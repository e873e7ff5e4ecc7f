"""Simplification of indices and masks that leaves alone what is loaded or reduced in them.

In: an index or mask of any stage of code generation. Out: an equal one in normal form. A gather's index
depends on data, and the loops that those come out of are made once: simplified as part of an index, they
would become loops of their own, over registers and near memory that others use.
"""

from __future__ import annotations

from collections.abc import Callable

from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.interval import bounds
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp

_DATA = frozenset({Ops.LOAD, Ops.REDUCE})


def data_in(index: UOp) -> list[UOp]:
    """Return the loaded and reduced values that an index or mask depends on, the outermost only."""
    return [n for n in index.toposort(lambda n: n.op not in _DATA) if n.op in _DATA]


def simplify_around(index: UOp) -> UOp:
    """Return an index or mask in normal form, with the data in it as they are."""
    data = data_in(index)
    return simplify_with(index, data, {}, lambda n: n) if data else simplify(index)


def simplify_with(index: UOp, data: list[UOp], known: dict[UOp, UOp], become: Callable[[UOp], UOp]) -> UOp:
    """Return an index or mask in normal form, with the nodes in `known` replaced, and afterwards its data by
    what they become."""
    forth, back = dict(known), dict[UOp, UOp]()
    for k, n in enumerate(data):
        low, high = bounds(n)
        stand_in = UOp(Ops.VARIABLE, n.dtype, (), p.Variable(f"data{k}", low, high))
        forth[n], back[stand_in] = stand_in, become(n)
    return simplify(index.substitute(forth)).substitute(back)
