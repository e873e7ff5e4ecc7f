"""The calling convention of a compiled kernel, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tiny_core.dtypes import DType

Expr = tuple["str | int", ...]
"""An integer expression in postfix over scalar names: `("n", 16, "*")`; operators are + - * // % max min."""


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """A buffer argument.

    Args:
        dtype: element type.
        size: elements that may be touched.
        access: "r", "w" or "rw".
        align: bytes to which the address must be aligned.
        space: address space.
        may_alias: whether the memory may overlap another argument's.
    """

    dtype: DType
    size: int
    access: Literal["r", "w", "rw"] = "r"
    align: int = 1
    space: str = "global"
    may_alias: bool = False


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """An integer or float argument, passed as 8 bytes."""

    name: str
    kind: Literal["int64", "float64"] = "int64"


@dataclass(frozen=True, slots=True)
class Signature:
    """How a program is called.

    Args:
        name: entry symbol.
        params: buffers, in order of PARAM slots.
        scalars: VARIABLEs, in the order they are passed.
        grid: work-groups along each dimension (x, y, z); (1, 1, 1) where the target has no grid.
        block: work-items of a group along each dimension.
        parallel: iterations of the flattened thread axis of a host program; 1 where there is none.
        local_bytes: near memory used by a group.
        device_index: whether the last scalar is the position of the device in the tensor's device tuple.

    A host (CPU) program is `void name(void **buffers, const int64_t *scalars, int64_t begin, int64_t end)`
    and runs the iterations begin … end-1 of its thread axis. A grid program gets buffers, then scalars, as
    its target passes them.
    """

    name: str
    params: tuple[ParamSpec, ...]
    scalars: tuple[ScalarSpec, ...] = ()
    grid: tuple[int | Expr, ...] = (1, 1, 1)
    block: tuple[int, ...] = (1, 1, 1)
    parallel: int | Expr = 1
    local_bytes: int = 0
    device_index: bool = False

    def launch(self, kind: Literal["threads", "grid"], values: Mapping[str, int]) -> tuple[int, ...]:
        """Return the launch dimensions for values of the scalars: iterations of the thread axis, or
        work-groups, as the target declares it (`Capabilities.launch`)."""
        if kind == "threads":
            return (evaluate(self.parallel, values),)
        return tuple(evaluate(extent, values) for extent in self.grid)


_OPERATORS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0, "%": lambda a, b: a % b if b else a, "max": max, "min": min,
}  # fmt: skip


def evaluate(extent: int | Expr, values: Mapping[str, int]) -> int:
    """Return the value of a launch dimension.

    >>> evaluate(("n", 15, "+", 16, "//"), {"n": 20})
    2
    """
    if isinstance(extent, int):
        return extent
    stack: list[int] = []
    for item in extent:
        if isinstance(item, int):
            stack.append(item)
        elif item in _OPERATORS:
            right, left = stack.pop(), stack.pop()
            stack.append(_OPERATORS[item](left, right))
        else:
            stack.append(values[item])
    return stack[-1]
