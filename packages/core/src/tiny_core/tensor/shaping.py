"""Arrangements of elements that are named by a formula or made of several arrays: rearrange, meshgrid,
diagonals, cutting and padding to a shape."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Self

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.tensor import graph as g
from tiny_core.tensor.einsum import Einsum, diagonal
from tiny_core.tensor.elementwise import Operand
from tiny_core.tensor.handle import Handle, as_int, as_tensor
from tiny_core.tensor.movement import dims_of

_TOKEN = re.compile(r"\s*(\.\.\.|[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[()])")


class Shaping(Einsum):
    """Arrangements."""

    __slots__ = ()

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """Split, order and merge axes by name, as einops has it.

        Args:
            formula: names of the axes, "->", and how they are wanted; names in parentheses are one axis, 1
                or () is one of length 1, and ... stands for axes left as they are.
            sizes: lengths of names that shapes do not tell.

        Raises:
            ShapeError: the formula does not parse, or does not fit the shape.

        >>> Tensor.arange(6).rearrange("(a b) -> b a", a=2).tolist()
        [[0, 3], [1, 4], [2, 5]]
        """
        left, right = _sides(formula)
        rank = self.ndim - sum(1 for part in left if part != ["..."])
        if rank < 0 or (rank and ["..."] not in left):
            raise ShapeError(
                f"rearrange: {formula!r} for shape {self.shape}", "name every axis, or write ..."
            )
        dots = [f"...{k}" for k in range(rank)]
        left, right = ([p for part in side for p in ([[d] for d in dots] if part == ["..."] else [part])]
                       for side in (left, right))  # fmt: skip
        right = [[n for name in part for n in (dots if name == "(...)" else [name])] for part in right]
        known = {name: as_int("rearrange", n) for name, n in sizes.items()}
        order: list[str] = []
        for part, n in zip(left, self.shape, strict=True):
            free = [name for name in part if name not in known and not name.startswith("...")]
            if part and part[0].startswith("..."):
                known[part[0]] = n
            elif len(free) == 1:
                rest = math.prod(known[name] for name in part if name in known)
                known[free[0]] = n // rest if rest else 0
            if len(free) > 1 or math.prod(known[name] for name in part) != n:
                raise ShapeError(
                    f"rearrange: ({' '.join(part)}) of {formula!r} for an axis of {n}",
                    "give the lengths that do not follow, and see that they multiply to it",
                )
            order += part
        names = [name for part in right for name in part]
        if sorted(names) != sorted(order) or len(set(order)) != len(order) or set(sizes) - set(order):
            raise ShapeError(f"rearrange: {formula!r}", "both sides name the same axes, each once")
        split = self.reshape(tuple(known[name] for name in order))
        moved = split.permute(tuple(order.index(name) for name in names))
        return moved.reshape(tuple(math.prod(known[name] for name in part) for part in right))

    def meshgrid(self, *others: Handle, indexing: str = "ij") -> tuple[Self, ...]:
        """Coordinates of a grid: for each of these vectors an array that varies along its axis.

        Args:
            others: more vectors (or scalars).
            indexing: "ij", or "xy" to swap the first two axes.

        Raises:
            ShapeError: one has more than one axis.
            DTypeError: there is no such indexing.

        >>> [t.tolist() for t in Tensor([1, 2]).meshgrid(Tensor([3, 4, 5]))]
        [[[1, 1, 1], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]]]
        """
        if indexing not in ("ij", "xy"):
            raise DTypeError(f"meshgrid: indexing={indexing!r}", "it is 'ij' or 'xy'")
        lines: list[Handle] = [self, *(as_tensor("meshgrid", t) for t in others)]
        if any(t.ndim > 1 for t in lines):
            raise ShapeError(f"meshgrid of shapes {[t.shape for t in lines]}", "each has one axis")
        places = list(range(len(lines)))
        if indexing == "xy" and len(lines) > 1:
            places[:2] = 1, 0
        shape = [0] * len(lines)
        for place, t in zip(places, lines, strict=True):
            shape[place] = t.numel()
        grids = []
        for place, t in zip(places, lines, strict=True):
            line = g.reshape(t.uop, tuple(n if k == place else 1 for k, n in enumerate(shape)))
            grids.append(self._from_node(g.expand(line, tuple(shape)), t._cell.device))
        return tuple(grids)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """The elements of two axes at i, i + offset, along a new last axis; a new array.

        Raises:
            ShapeError: the axes are one, or not there.

        >>> Tensor([[1, 2, 3], [4, 5, 6]]).diagonal(1).tolist()
        [2, 6]
        """
        a, b = self._axes("diagonal", (dim1, dim2))
        return self._from_node(diagonal(self.uop, a, b, as_int("diagonal", offset)), self._cell.device)

    def diag(self, offset: int = 0) -> Self:
        """The diagonal of a matrix, or a matrix with this vector as its diagonal and zeros elsewhere.

        Raises:
            ShapeError: this is neither.

        >>> Tensor([1, 2]).diag().tolist()
        [[1, 0], [0, 2]]
        """
        if self.ndim == 2:
            return self.diagonal(offset)
        if self.ndim != 1:
            raise ShapeError(f"diag of shape {self.shape}", "it takes a vector or a matrix")
        n, away = self.numel(), abs(as_int("diag", offset))
        square = (n, n)
        line = g.expand(g.reshape(self.uop, (n, 1)), square)
        same = g.alu(Ops.CMPEQ, g.iota_along(square, 0), g.iota_along(square, 1))
        node = g.where(same, line, g.const_like(0, line))
        pairs = ((0, away), (away, 0)) if offset >= 0 else ((away, 0), (0, away))
        return self._from_node(g.pad(node, pairs), self._cell.device)

    def pad_to(self, *shape: int | Sequence[int]) -> Self:
        """Zeros after the elements along each axis, up to these lengths; None keeps one.

        Raises:
            ShapeError: an axis is longer already, or there is not a length for each.

        >>> Tensor([1, 2]).pad_to(4).tolist()
        [1, 2, 0, 0]
        """
        wanted = self._lengths("pad_to", shape, more=True)
        return self.pad([(0, w - n) for w, n in zip(wanted, self.shape, strict=True)])

    def shrink_to(self, *shape: int | Sequence[int]) -> Self:
        """The first elements along each axis, down to these lengths; None keeps one. A view.

        Raises:
            ShapeError: an axis is shorter, or there is not a length for each.

        >>> Tensor([1, 2, 3]).shrink_to(2).tolist()
        [1, 2]
        """
        return self.shrink([(0, w) for w in self._lengths("shrink_to", shape, more=False)])

    def _lengths(self, what: str, shape: tuple[int | Sequence[int], ...], more: bool) -> tuple[int, ...]:
        given = dims_of(shape)
        wanted = tuple(n if w is None else w for w, n in zip(given, self.shape, strict=False))
        if len(given) != self.ndim or any(
            w < n if more else not 0 <= w <= n for w, n in zip(wanted, self.shape, strict=True)
        ):
            raise ShapeError(
                f"{what}: {self.shape} to {given}",
                f"a length for each axis, none {'shorter' if more else 'longer'} than it is",
            )
        return wanted

    def usum(self, *others: Operand) -> Self:
        """The sum of this and several more tensors or numbers."""
        total = self
        for t in others:
            total = total.add(t)
        return total

    def uprod(self, *others: Operand) -> Self:
        """The product of this and several more tensors or numbers."""
        total = self
        for t in others:
            total = total.mul(t)
        return total

    def allclose(
        self, other: Handle, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> bool:
        """Whether all elements are `isclose`; realizes."""
        close = self.isclose(other, rtol, atol, equal_nan)
        return bool(close.all().cast(dtypes.int32)._first_number())


def _sides(formula: str) -> tuple[list[list[str]], list[list[str]]]:
    """Both sides of a formula as lists of axes, each a list of names."""
    if not isinstance(formula, str) or formula.count("->") != 1:
        raise ShapeError(f"rearrange: {formula!r}", 'write e.g. "b (h w) -> b h w"')
    left, right = (_axes_of(formula, side) for side in formula.split("->"))
    if any("(...)" in part for part in left):
        raise ShapeError(f"rearrange: {formula!r}", "... stands in no parentheses on the left")
    return left, right


def _axes_of(formula: str, side: str) -> list[list[str]]:
    axes: list[list[str]] = []
    inside: list[str] | None = None
    at = 0
    while side[at:].strip():
        match = _TOKEN.match(side, at)
        token = match[1] if match else ""
        at = match.end() if match else at
        misplaced = (token == "(" and inside is not None) or (token == ")" and inside is None)
        if match is None or misplaced or (token.isdigit() and token != "1"):
            raise ShapeError(f"rearrange: {formula!r} at {side[at:].strip()!r}", "names, 1, ... and (names)")
        if token == "(":
            inside = []
        elif token == ")":
            assert inside is not None
            axes.append(inside)
            inside = None
        elif inside is not None:
            inside += {"1": [], "...": ["(...)"]}.get(token, [token])
        else:
            axes.append([] if token == "1" else [token])
    if inside is not None or sum(n.strip("()") == "..." for part in axes for n in part) > 1:
        raise ShapeError(f"rearrange: {formula!r}", "close parentheses, and write ... once")
    return axes
