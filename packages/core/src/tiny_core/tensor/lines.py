"""Where the user wrote it: the first line outside this package, kept as a code object and a number.

Tensors and cells always know their line. Which line made a *node* is noted only while a trace is on
(`notes`), as nodes are many: then every value that becomes a tensor's is noted, and what was built inside an
operation counts as made for that. A gradient is noted with the line of the operation that it is the gradient
of.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Final, final

from tiny_core.dtypes import DType
from tiny_core.ir.attribution import inherited
from tiny_core.ir.uop import UOp, toposort

Line = tuple[CodeType, int]
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line() -> Line | None:
    """Return the line of the innermost caller that is not part of tiny_core."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_HERE):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


@final
class MemoryLabel:
    """What memory is for, put into words only when a message needs them."""

    __slots__ = ("dtype", "line", "shape")

    def __init__(self, dtype: DType, shape: tuple[int, ...], line: Line | None) -> None:
        self.dtype, self.shape, self.line = dtype, shape, line

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)} made at {show(self.line)}"


def show(line: Line | None) -> str:
    """`file.py:12`, the file relative to the working directory where it lies below it."""
    if line is None:
        return "an unknown line"
    name = line[0].co_filename
    here = os.getcwd() + os.sep
    return f"{name.removeprefix(here)}:{line[1]}"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of a file, as Python names it."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file.removeprefix(os.getcwd() + os.sep)}:{self.number}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an operation comes from.

    Args:
        place: the line that made it, or the operation that it is the gradient of.
        gradient: the line that asked for the gradient; None for what no differentiation has made.
    """

    place: Place
    gradient: Place | None = None


def place(line: Line) -> Place:
    return Place(line[0].co_filename, line[1])


@final
class Notes:
    """Which lines made which nodes.

    Attributes:
        on: whether anybody wants to know; what makes nodes asks before it notes.
    """

    __slots__ = ("_by_node", "on")

    def __init__(self) -> None:
        self.on = False
        self._by_node: weakref.WeakKeyDictionary[UOp, dict[Origin, None]] = weakref.WeakKeyDictionary()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Note lines within the block, in all threads, and forget them at its end."""
        self.on = True
        try:
            yield
        finally:
            self.on = False
            self._by_node = weakref.WeakKeyDictionary()

    def add(self, node: UOp, line: Line | None) -> None:
        """Note that `line` made `node`; a gradient that is noted as one stays that."""
        if line is None:
            return
        here = place(line)
        known = self._by_node.setdefault(node, {})
        if not any(origin.gradient == here for origin in known):
            known[Origin(here)] = None

    def add_gradient(self, node: UOp, of: Iterable[Origin], line: Line | None) -> None:
        """Note that `node`, if nobody has made it yet, is the gradient of what `of` made, asked for at
        `line`."""
        if line is not None and node not in self._by_node:
            here = place(line)
            self._by_node[node] = {Origin(origin.place, here): None for origin in of}

    def follow(self, old: UOp, new: UOp) -> None:
        """Note for `new`, which is `old` with some nodes below it replaced, what is noted for `old`."""
        pairs, seen = [(old, new)], set[UOp]()
        while pairs:
            was, now = pairs.pop()
            if was is now or was.op is not now.op or len(was.src) != len(now.src) or now in seen:
                continue
            seen.add(now)
            known = self._by_node.get(was)
            if known:
                self._by_node.setdefault(now, {}).update(known)
            pairs += zip(was.src, now.src, strict=True)

    def of(self, nodes: Sequence[UOp]) -> dict[UOp, tuple[Origin, ...]]:
        """Return where each of `nodes` comes from, which are a graph in order, sources first."""
        known: Mapping[UOp, dict[Origin, None]] = {
            node: origins for node in nodes if (origins := self._by_node.get(node))
        }
        return {node: tuple(origins) for node, origins in inherited(nodes, known).items()}


notes: Final = Notes()


def origins(roots: Iterable[UOp]) -> dict[UOp, tuple[Origin, ...]]:
    """Return where each node of a graph comes from, as far as `notes` knows."""
    return notes.of(toposort(roots))
