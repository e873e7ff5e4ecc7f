"""Payloads: the typed `arg` of each op family. Frozen and compared by value, so nodes that hold them can be
interned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tiny_core import dtypes
from tiny_core.dtypes import DType, Number
from tiny_core.ir.matrix import MatrixUnit
from tiny_core.ir.ops import Ops

Device = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Const:
    """A number: its dtype and bit pattern (for `index`, the integer itself)."""

    dtype: DType
    bits: int

    @property
    def value(self) -> Number:
        return dtypes.from_bits(self.bits, self.dtype)


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory.

    Args:
        id: identity. Unique in the process for device storage; for near memory and registers, unique in the
            kernel.
        size: number of elements (slots, for registers).
        space: name of an address space: `global` for device storage, `local`, `register`, or a target's own.
        device: the device, or an ordered tuple of devices that each hold a part; None within a kernel.
        lanes: lanes of a register slot; 0 for scalars and for memory.
    """

    id: int
    size: int
    space: str = "global"
    device: Device | None = None
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class Param:
    """A buffer handed to a kernel.

    Args:
        slot: position among the arguments.
        size: elements that may be touched.
        access: "r", "w" or "rw".
        align: bytes to which the address is known to be aligned; a power of two.
        space: address space.
        device: tensor stage only, where a PARAM stands for a buffer in the body of a CALL.
    """

    slot: int
    size: int
    access: Literal["r", "w", "rw"] = "r"
    align: int = 1
    space: str = "global"
    device: Device | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """An integer known at launch, lo <= value <= hi."""

    name: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Iota:
    """The numbers 0 … size-1."""

    size: int


AxisKind = Literal["loop", "reduce", "vector", "unroll", "thread", "group", "item", "device", "matrix"]
"""How an axis runs. `loop` and `reduce` one after the other; `vector` as lanes; `unroll` as copies of the
code; `thread` over the threads of a host; `group` and `item` over work-groups and the items of a group;
`device` over devices; `matrix` within a matrix unit."""


@dataclass(frozen=True, slots=True)
class Range:
    """A loop axis.

    Args:
        axis: stable hierarchical name: splitting `i` gives `i.0` (outer) and `i.1` (inner).
        kind: how it runs.
        instance: tells loops over one axis apart (softmax runs over `j` three times).
    """

    axis: str
    kind: AxisKind = "loop"
    instance: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """Index of the work-group (`group`) or work-item (`item`) along dimension `dim` (0 runs fastest)."""

    level: Literal["group", "item"]
    dim: int


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of a value."""

    lane: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Lanes of the result, as positions in the concatenation of the sources."""

    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape: ints, or integer nodes where it is symbolic."""

    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axes:
    """Axis numbers: a permutation (PERMUTE), or a set (FLIP)."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A pair per axis: (before, after) of PAD, (begin, end) of SHRINK."""

    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Shear:
    """The index map of SHEAR and UNSHEAR along `axis`.

    Args:
        axis: the axis whose index changes.
        by: the axis j that shears it, or None for a plain stride.
        stride: factor of the new index, > 0.
        dilation: factor of j, >= 0 (0 where `by` is None).
        size: length of `axis` in the result.
    """

    axis: int
    by: int | None
    stride: int
    dilation: int
    size: int


@dataclass(frozen=True, slots=True)
class Reduce:
    """A reduction by ADD, MUL, MAX or MIN; over `axes` at the tensor stage, over the range sources in a
    kernel."""

    op: Ops
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """How a LOAD or STORE touches memory.

    Args:
        lanes: consecutive elements from the index on; 0 for one element as a scalar.
        align: bytes to which the address of the first element is known to be aligned.
    """

    lanes: int = 0
    align: int = 1


@dataclass(frozen=True, slots=True)
class Copy:
    """The device to copy to."""

    device: Device


Effect = Literal["pure", "read", "write", "async", "barrier", "convergent"]


@dataclass(frozen=True)
class TargetOp:
    """An operation that a plugin adds: the descriptor is the plugin's, the node is `TARGET(descriptor,
    src…)`.

    Args:
        name: `owner.operation`, as printed in the text form.
        result: from the dtypes and shapes of the sources to the dtype and shape of the result; raises
            SpecError.
        effect: what it does besides its result.
        cost: operations it counts for in estimates.
        python: its semantics on the PYTHON device, numpy arrays in (lanes last), array out; None where it has
            none.
    """

    name: str
    result: Callable[[tuple[tuple[DType, tuple[int, ...]], ...]], tuple[DType, tuple[int, ...]]] = field(
        compare=False
    )
    effect: Effect = "pure"
    cost: int = 1
    python: Callable[..., Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Option:
    """One optimisation of a kernel, applied in order.

    Args:
        kind: "tile" splits `axis` into axis.0 (outer) and axis.1 of `n` iterations; "map" makes `axis` run as
            `how`;
            "order" puts the axes in `axes` in this nesting order, outermost first; "group" splits a reduce
            axis over `n` items that combine through near memory; "pad" rounds the axis up to a multiple of
            `n`; "matrix" gives the axes in `axes` (the one that is m, the one that is n, the one that is k;
            what is longer is tiled) to the matrix unit called `unit`; "stage" brings what operand `slot` (its
            `access`-th distinct load) touches inside loop `axis` into `space` first, laid out with `axes`
            from outer to inner.
        axis: a stable axis name.
        n: a size; for "stage", elements left free after each row of the innermost dimension.
        how: an AxisKind.
        axes: axis names.
        slot: PARAM slot of the operand.
        access: which of the operand's loads.
        space: address space of the staging buffer.
        copies: buffers in flight; 1 is synchronous.
        unit: name of a matrix unit of the target.
    """

    kind: Literal["tile", "map", "order", "group", "pad", "stage", "matrix"]
    axis: str = ""
    n: int = 0
    how: AxisKind | None = None
    axes: tuple[str, ...] = ()
    slot: int = 0
    access: int = 0
    space: str = "local"
    copies: int = 1
    unit: str = ""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """Of a kernel: the name it is printed under, and the options applied (or, before code generation, asked
    for)."""

    name: str = "kernel"
    options: tuple[Option, ...] | None = None


Payload = (
    Const | Storage | Param | Variable | Iota | Range | Special | Lane | Shuffle | Shape | Axes | Bounds
    | Shear | Reduce | Access | Copy | TargetOp | KernelInfo | MatrixUnit
)  # fmt: skip
