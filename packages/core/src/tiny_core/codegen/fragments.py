"""Fragments: reductions that a matrix unit does, in terms of its lanes and their elements.

In: a kernel after staging whose plan gives three pieces to a matrix unit, m, n and k. Out: the same, where
the REDUCE over k has become one of MATRIX(a, b, e): the products of a fragment of A and one of B, as values
along the vector RANGE `e` of the elements of C. A and B are what they were, with m, n and k computed from
the number of the lane (an `item` RANGE) and of the element (a vector RANGE of their own) as the unit's table
says; everything that uses the sum has m and n so computed from the lane and `e`.

Sums over k may be taken in any order, so A and B may hold other elements of k than the table says, as long as
they agree: lanes get neighbouring ones.
"""

from __future__ import annotations

from dataclasses import replace

from tiny_core.codegen.axes import Matrix, Plan
from tiny_core.codegen.opaque import simplify_around
from tiny_core.dtypes import DType
from tiny_core.errors import OptionError
from tiny_core.ir import payload as p
from tiny_core.ir.matrix import Digit, Fragment, MatrixUnit
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp


def prepare(kernel: UOp, plan: Plan) -> UOp:
    """Return the kernel with its matrix unit's operands in the dtypes that the unit takes, before conversions
    to the dtype of the sum, and without masks of padding: staging then sees what to stage.

    Raises:
        OptionError: what is reduced over k is not a sum of products of values that the unit takes, one
            without n, the other without m; or what is stored does not go along m and n.
    """
    matrix = plan.matrix
    if matrix is None:
        return kernel
    unit, found = matrix.unit, _pieces(kernel, matrix)
    m, n = (found[name][0] for name in matrix.axes[:2])
    pieces = {q.name for q in plan.owner(matrix.axes[2]).pieces}
    done: dict[UOp, UOp] = {}
    for node in kernel.toposort():
        src = tuple(done[s] for s in node.src)
        if node.op is Ops.REDUCE and any(r in found[matrix.axes[2]] for r in node.src[1:]):
            if node.payload(p.Reduce).op is not Ops.ADD or node.dtype is not unit.c.dtype:
                how = node.payload(p.Reduce).op.value
                raise OptionError(f"{unit.name} sums up {unit.c.dtype.name}, not {node.dtype.name} by {how}")
            padding = frozenset(r for r in node.src[1:] if r.payload(p.Range).axis in pieces)
            left, right = operands(src[0], unit, m, n, padding)
            body = left.cast(node.dtype) * right.cast(node.dtype)
            done[node] = body.reduce(Ops.ADD, *src[1:])
        else:
            done[node] = node if src == node.src else node.replace(src)
    for s in kernel.src:
        if s.op is Ops.STORE and not s.ranges.isdisjoint((m, n)) and not s.src[1].ranges.issuperset((m, n)):
            raise OptionError("a store of the kernel does not go along both m and n of the matrix unit")
    return done[kernel]


def lower(kernel: UOp, plan: Plan) -> UOp:
    """Return the kernel with its matrix pieces mapped to lanes and elements."""
    matrix = plan.matrix
    return kernel if matrix is None else _Lowering(matrix, _pieces(kernel, matrix)).run(kernel)


def _pieces(kernel: UOp, matrix: Matrix) -> dict[str, list[UOp]]:
    """Return the RANGEs that are m, n and k (a copy for each loop), by their names."""
    pieces = [n for n in kernel.toposort() if n.op is Ops.RANGE and n.payload(p.Range).kind == "matrix"]
    found = {name: [r for r in pieces if r.payload(p.Range).axis == name] for name in matrix.axes}
    if any(len(found[name]) != 1 for name in matrix.axes[:2]) or not found[matrix.axes[2]]:
        raise OptionError(f"nothing in the kernel runs along all of {', '.join(matrix.axes)}")
    return found


def position(fragment: Fragment, axis: str, lane: UOp, element: UOp) -> UOp:
    """Return where along an axis an element of a lane is."""
    total = UOp.const(0)
    for digits, number in ((fragment.lanes, lane), (fragment.elements, element)):
        below = 1
        for k, d in enumerate(digits):
            if d.axis == axis:
                digit = number // below if below > 1 else number
                digit = digit % d.size if k + 1 < len(digits) else digit
                total = total + digit * d.stride
            below *= d.size
    return total


def contiguous(unit: MatrixUnit) -> tuple[Fragment, Fragment]:
    """Return the layouts of A and B with k renumbered alike in both, so that a lane's elements are
    neighbours; as they are where the two differ along k, or groups of k have factors."""
    a, b = unit.a, unit.b
    if unit.scale or _along_k(a) != _along_k(b):
        return a, b
    strides: dict[tuple[bool, int], int] = {}
    below = 1
    for inner in (True, False):
        for k, d in enumerate(a.elements if inner else a.lanes):
            if d.axis == "k":
                strides[inner, k] = below
                below *= d.size
    return _renumbered(a, strides), _renumbered(b, strides)


def _along_k(fragment: Fragment) -> list[tuple[int, Digit]]:
    """The digits along k, with their places."""
    both = enumerate((*fragment.lanes, *fragment.elements))
    return [(at, d) for at, d in both if d.axis == "k"]


def _renumbered(fragment: Fragment, strides: dict[tuple[bool, int], int]) -> Fragment:
    def digits(of: tuple[Digit, ...], inner: bool) -> tuple[Digit, ...]:
        return tuple(replace(d, stride=strides[inner, k]) if d.axis == "k" else d for k, d in enumerate(of))

    return replace(fragment, lanes=digits(fragment.lanes, False), elements=digits(fragment.elements, True))


class _Lowering:
    def __init__(self, matrix: Matrix, found: dict[str, list[UOp]]) -> None:
        self.unit = matrix.unit
        m, n, k = matrix.axes
        self.m, self.n, self.ks = found[m][0], found[n][0], found[k]
        self.a, self.b = contiguous(self.unit)
        self.elements = {
            what: UOp.range(f.count, f"{matrix.lane}.{what}", "vector") if f.count > 1 else UOp.const(0)
            for what, f in (("a", self.a), ("b", self.b), ("c", self.unit.c))
        }
        self.lane = matrix.range

    def run(self, kernel: UOp) -> UOp:
        done: dict[UOp, UOp] = {}
        for node in kernel.toposort():
            src = tuple(done[s] for s in node.src)
            if node.op is Ops.REDUCE and (k := [r for r in node.src[1:] if r in self.ks]):
                done[node] = self.reduce(node, src[0], k[0])
            else:
                done[node] = node if src == node.src else node.replace(src)
        e = self.elements["c"]
        where = {self.m: self.at(self.unit.c, "m", e), self.n: self.at(self.unit.c, "n", e)}
        return _moved(done[kernel], where)

    def at(self, fragment: Fragment, axis: str, element: UOp) -> UOp:
        return position(fragment, axis, self.lane, element)

    def reduce(self, node: UOp, body: UOp, k: UOp) -> UOp:
        """Return the REDUCE of what the unit makes of `body` along m, n and k, over all else."""
        unit = self.unit
        left, right = operands(body, unit, self.m, self.n, frozenset())
        for what, side, other in (("A", left, self.n), ("B", right, self.m)):
            if other in side.ranges:
                raise OptionError(f"{what} of {unit.name} depends on {other.payload(p.Range).axis!r}")
            if any(s.op is Ops.MATRIX for s in side.toposort()):
                raise OptionError(f"{what} of {unit.name} is made of sums that the unit makes")
        e, f = self.elements["a"], self.elements["b"]
        left = _moved(left, {self.m: self.at(self.a, "m", e), k: self.at(self.a, "k", e)})
        right = _moved(right, {self.n: self.at(self.b, "n", f), k: self.at(self.b, "k", f)})
        products = UOp(Ops.MATRIX, node.dtype, (left, right, self.elements["c"]), unit)
        return products.reduce(Ops.ADD, *(r for r in node.src[1:] if r is not k))


def operands(body: UOp, unit: MatrixUnit, m: UOp, n: UOp, padding: frozenset[UOp]) -> tuple[UOp, UOp]:
    """Return what A and B of a product are, in the unit's dtypes; raises OptionError.

    Args:
        body: what is summed up.
        m, n: the axes that only A has, and only B.
        padding: pieces of the axis of k; a mask over them alone is that of its padding.
    """
    if (
        body.op is Ops.WHERE
        and body.src[2].is_const
        and not body.src[2].value
        and body.src[0].ranges <= padding
    ):
        body = body.src[1]  # there, both operands are zeros, which `axes.apply` or a tile puts
    if body.op is not Ops.MUL:
        raise OptionError(f"{unit.name} multiplies: what is summed up along k is no product")
    x, y = body.src
    if n in x.ranges or m in y.ranges:
        x, y = y, x
    return _taken(x, unit.a, unit, "A"), _taken(y, unit.b, unit, "B")


def _taken(side: UOp, fragment: Fragment, unit: MatrixUnit, what: str) -> UOp:
    """Return an operand in the dtype that the unit takes."""
    found = taken(side, fragment.dtype)
    if found is None:
        raise OptionError(f"{unit.name} takes {fragment.dtype.name} as {what}, not {side.dtype.name}")
    return found


def taken(side: UOp, dtype: DType) -> UOp | None:
    """Return an operand as a value of `dtype`, if it is one or was one before a conversion; else None."""
    if side.dtype is dtype:
        return side
    if side.op is Ops.CAST and holds(dtype, side.src[0].dtype) and holds(side.dtype, dtype):
        return side.src[0].cast(dtype)
    return None


def holds(dtype: DType, narrow: DType) -> bool:
    """Whether every value of a dtype is one of another of its kind."""
    if dtype is narrow:
        return True
    if not (dtype.is_float and narrow.is_float):
        return dtype.kind == "int" and narrow.is_int and dtype.bits > narrow.bits
    if dtype.variant != "ieee" or dtype.mantissa < narrow.mantissa or dtype.largest < narrow.largest:
        return False
    return _least(dtype) <= _least(narrow)


def _least(dtype: DType) -> int:
    """The exponent of the least positive value of a float dtype."""
    bias = (1 << (dtype.exponent - 1)) - (0 if dtype.variant == "fnuz" else 1)
    return 1 - bias - dtype.mantissa


def _moved(root: UOp, where: dict[UOp, UOp]) -> UOp:
    """Replace RANGEs by expressions, and bring indices and masks that change back into normal form."""
    done: dict[UOp, UOp] = dict(where)
    keys = where.keys()
    for node in root.toposort(lambda n: n not in where and not keys.isdisjoint(n.ranges)):
        if node in done:
            continue
        if keys.isdisjoint(node.ranges):
            # a store that ends a range has none: so only what has no such range below it stays
            done[node] = node
            continue
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        if new is not node and new.op in (Ops.LOAD, Ops.STORE):
            fixed = list(new.src)
            fixed[1] = simplify_around(fixed[1])
            gate = 2 if new.op is Ops.LOAD else 3
            if len(fixed) == 4:
                fixed[gate] = simplify_around(fixed[gate])
            new = new.replace(tuple(fixed))
        done[node] = new
    return done[root]
