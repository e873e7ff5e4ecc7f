"""Einstein summation, and products that are made of it or near to it."""

from __future__ import annotations

from collections import Counter
from typing import Self

from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import DTypeLike, Handle, as_dtype, as_tensor, promote
from tiny_core.tensor.losses import Losses

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Einsum(Losses):
    """Products named by indices."""

    __slots__ = ()

    @classmethod
    def einsum(cls, formula: str, *operands: Handle, dtype: DTypeLike | None = None) -> Self:
        """The sum of products that a formula names: letters for axes; equal letters multiply, and letters
        that the result has not are summed. `...` stands for axes that broadcast; without "->" the result has
        the letters that occur once, in alphabetical order.

        Several operands are multiplied pair by pair, the pair with the smallest product first.

        Args:
            formula: e.g. "ij,jk->ik".
            operands: as many tensors as the formula has parts; also one list of them.
            dtype: of accumulation and result; without one, as `dot`.

        Raises:
            ShapeError: the formula does not parse, or does not fit the operands.
            DTypeError: an operand is no tensor.
            DeviceError: they are on different devices.

        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> Tensor.einsum("ij,kj->ik", x, x).tolist(), Tensor.einsum("ii", x).item()
        ([[5.0, 11.0], [11.0, 25.0]], 5.0)
        """
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = tuple(operands[0])
        tensors = [as_tensor("einsum", t) for t in operands]
        inputs, output = _parse(formula, [t.ndim for t in tensors])
        device = tensors[0]._common_device("einsum", *tensors[1:])
        result = promote(*(t.dtype for t in tensors)) if dtype is None else as_dtype(dtype)
        sizes = _sizes(formula, inputs, [t.shape for t in tensors])
        inner = g.accumulator(result)
        terms = [_distinct(g.cast(t.uop, inner), names) for t, names in zip(tensors, inputs, strict=True)]
        while len(terms) > 1:
            i, j = _best_pair(terms, output, sizes)
            b, a = terms.pop(j), terms.pop(i)
            rest = set(output).union(*(names for _, names in terms))
            terms.append(_multiply(a, b, rest, sizes))
        node, names = terms[0]
        gone = [k for k, name in enumerate(names) if name not in output]
        node, kept = g.reduce(Ops.ADD, node, gone), [n for n in names if n in output]
        node = g.permute(node, tuple(kept.index(n) for n in output))
        node = g.expand(node, tuple(sizes[n] for n in output))
        integer = dtype is None and not result.is_float
        return cls._from_node(node if integer else g.cast(node, result), device)

    def outer(self, other: Handle) -> Self:
        """All products of an element of this vector and one of the other.

        Raises:
            ShapeError: one is no vector.

        >>> Tensor([1, 2]).outer(Tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        as_tensor("outer", other)
        if self.ndim != 1 or other.ndim != 1:
            raise ShapeError(f"outer of shapes {self.shape} and {other.shape}", "both have one axis")
        return self.unsqueeze(1).mul(other)

    def kron(self, other: Handle) -> Self:
        """The Kronecker product: every element of this times the whole other.

        >>> Tensor([1, 2]).kron(Tensor([[1, 10]])).tolist()
        [[1, 10, 2, 20]]
        """
        as_tensor("kron", other)
        rank = max(self.ndim, other.ndim)
        mine = (*(1,) * (rank - self.ndim), *self.shape)
        its = (*(1,) * (rank - other.ndim), *other.shape)
        a = self.reshape(tuple(s for n in mine for s in (n, 1)))
        b = self._from_node(g.reshape(other.uop, tuple(s for n in its for s in (1, n))), other._cell.device)
        return a.mul(b).reshape(tuple(n * m for n, m in zip(mine, its, strict=True)))

    def cross(self, other: Handle, dim: int = -1) -> Self:
        """The cross product of vectors of three elements along `dim`; other axes broadcast.

        Raises:
            ShapeError: the axis is not of length 3.

        >>> Tensor([1, 0, 0]).cross(Tensor([0, 1, 0])).tolist()
        [0, 0, 1]
        """
        as_tensor("cross", other)
        shape = g.broadcast_shape("cross", self.shape, other.shape)
        axis = self._axis("cross", dim, len(shape))
        if shape[axis] != 3:
            raise ShapeError(f"cross along axis {dim} of {shape}", "it takes vectors of 3 elements")
        a = self.expand(shape)
        b = self._from_node(g.expand(other.uop, shape), other._cell.device)
        return a.roll(-1, axis) * b.roll(-2, axis) - a.roll(-2, axis) * b.roll(-1, axis)


Term = tuple[UOp, list[str]]


def _parse(formula: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """The names of the axes of each operand and of the result; those that `...` stands for are .0, .1, …
    counted from the last."""
    if not isinstance(formula, str):
        raise DTypeError(f"einsum: {formula!r} is no formula", 'write e.g. "ij,jk->ik"')
    text = formula.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise ShapeError(
            f"einsum: {formula!r} has {len(parts)} parts for {len(ranks)} operands", "commas part operands"
        )
    inputs = [_names(formula, part, rank) for part, rank in zip(parts, ranks, strict=True)]
    dots = sorted({n for names in inputs for n in names if n[0] == "."}, key=lambda n: -int(n[1:]))
    if not arrow:
        times = Counter(n for names in inputs for n in names)
        return inputs, [*dots, *sorted(n for n, k in times.items() if k == 1 and n[0] != ".")]
    output = _names(formula, right, len(right.replace("...", "")) + ("..." in right) * len(dots))
    unknown = [n for n in output if all(n not in names for names in inputs)]
    if unknown or len(set(output)) != len(output):
        raise ShapeError(f"einsum: the result of {formula!r}", "it names axes of operands, each once")
    return inputs, output


def _names(formula: str, part: str, rank: int) -> list[str]:
    before, dots, after = part.partition("...")
    named = len(before) + len(after)
    if any(c not in _LETTERS for c in before + after):
        raise ShapeError(f"einsum: {part!r} in {formula!r}", "axes are letters, '...' stands for others")
    if named > rank or (named < rank and not dots):
        raise ShapeError(
            f"einsum: {part!r} in {formula!r} for an operand of {rank} axes", "a letter for each axis"
        )
    return [*before, *(f".{k}" for k in reversed(range(rank - named))), *after]


def _sizes(formula: str, inputs: list[list[str]], shapes: list[tuple[int, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for names, shape in zip(inputs, shapes, strict=True):
        for name, n in zip(names, shape, strict=True):
            have = sizes.get(name, 1)
            if have not in (n, 1) and n != 1:
                raise ShapeError(
                    f"einsum: {name!r} of {formula!r} is {have} and {n}", "lengths must be equal"
                )
            sizes[name] = n if have == 1 else have
    return sizes


def _distinct(node: UOp, names: list[str]) -> Term:
    """An operand with each name once: the diagonal of axes that share one."""
    names = list(names)
    while len(set(names)) < len(names):
        second = next(k for k, n in enumerate(names) if n in names[:k])
        first = names.index(names[second])
        node = diagonal(node, first, second, 0)  # the new axis is the last
        name = names.pop(second)
        del names[first]
        names.append(name)
    return node, names


def _best_pair(terms: list[Term], output: list[str], sizes: dict[str, int]) -> tuple[int, int]:
    """The pair whose product, summed over what nobody else wants, is smallest."""

    def size(i: int, j: int) -> int:
        rest = set(output).union(*(names for k, (_, names) in enumerate(terms) if k not in (i, j)))
        total = 1
        for name in {*terms[i][1], *terms[j][1]} & rest:
            total *= sizes[name]
        return total

    pairs = [(i, j) for j in range(len(terms)) for i in range(j)]
    return min(pairs, key=lambda pair: size(*pair))


def _multiply(a: Term, b: Term, wanted: set[str], sizes: dict[str, int]) -> Term:
    """Multiply two operands, and sum what is not wanted."""
    names = list(dict.fromkeys([*a[1], *b[1]]))
    names.sort(key=lambda n: n not in wanted)  # summed axes last
    shape = tuple(sizes[n] for n in names)
    sides = []
    for node, own in (a, b):
        order = sorted(range(len(own)), key=lambda k, own=own: names.index(own[k]))  # type: ignore[misc]
        line = dict(zip((own[k] for k in order), g.permute(node, tuple(order)).shape, strict=True))
        whole = g.reshape(g.permute(node, tuple(order)), tuple(line.get(n, 1) for n in names))
        sides.append(g.expand(whole, shape))
    product = g.alu(Ops.MUL, *sides)
    gone = [k for k, n in enumerate(names) if n not in wanted]
    return g.reduce(Ops.ADD, product, gone), [n for n in names if n in wanted]


def diagonal(x: UOp, axis0: int, axis1: int, offset: int) -> UOp:
    """The elements of two axes at i, i + offset; they become the last axis."""
    others = [a for a in range(len(x.shape)) if a not in (axis0, axis1)]
    moved = g.permute(x, (*others, axis0, axis1))
    *lead, rows, columns = moved.shape
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = max(offset, 0) - min(offset, 0) * columns
    flat = g.reshape(moved, (*lead, rows * columns))
    whole = tuple((0, n) for n in lead)
    if not count:
        return g.shrink(flat, (*whole, (0, 0)))
    flat = g.shrink(flat, (*whole, (start, start + (count - 1) * (columns + 1) + 1)))
    return flat if count == 1 else g.shear(flat, len(lead), None, columns + 1, 0, count)
