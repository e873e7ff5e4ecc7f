"""The arguments of a captured function: what identifies them, and where their memory is.

In: the leaves of an argument tree. Out: for each tensor an `Input`, and a key that two calls share if one
capture may serve both. A tensor that shows a contiguous part of larger storage (a batch of a data set) is
known by shape, dtype, device and alignment only, so that one capture serves all batches; anything else is
known by its movements over its storage.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from tiny_core.engine.capture import Chain, put_together, take_apart
from tiny_core.engine.layer import Layer
from tiny_core.engine.reach import plain
from tiny_core.errors import JitError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import memory_of, set_memory

_ALIGN: Final = 128


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor argument.

    Args:
        tensor: it.
        buffer: the BUFFER that it shows.
        chain: its movements over that.
        part: whether it may be any contiguous part of any storage, `offset` bytes in.
        lead: bytes by which its address is off the alignment class: 0, or the largest power of two that
            divides `offset`.
    """

    tensor: object
    buffer: UOp
    chain: Chain
    part: bool = False
    offset: int = 0
    lead: int = 0


def read_inputs(
    layer: Layer, leaves: Sequence[object], whole: Collection[int]
) -> tuple[list[Input | None], Hashable]:
    """Return an Input for each leaf that is a tensor, and the key of all leaves.

    Args:
        layer: what knows tensors.
        leaves: arguments. Tensors get storage if they have none.
        whole: positions of tensors for which no other part of storage may stand in.

    Raises:
        JitError: a leaf cannot be compared with that of another call.
    """
    layer.realize([layer.cell(leaf) for leaf in leaves if layer.is_tensor(leaf)])
    inputs: list[Input | None] = []
    keys: list[Hashable] = []
    first: dict[tuple[int, int, int], int] = {}
    for i, leaf in enumerate(leaves):
        if not layer.is_tensor(leaf):
            inputs.append(None)
            keys.append(_leaf_key(leaf))
            continue
        node = layer.node(leaf)
        read = _read(layer, leaf, node, i not in whole and not layer.wants_gradient(leaf))
        inputs.append(read)
        storage = read.buffer.payload(p.Storage)
        same = first.setdefault((storage.id, read.offset, node.size if read.part else -1), i)
        if read.part:
            keys.append((same, node.shape, node.dtype, storage.device, read.lead))
        else:
            keys.append((same, layer.chain(leaf), read.chain, node.dtype, storage.size, storage.device))
    return inputs, tuple(keys)


def _read(layer: Layer, tensor: object, node: UOp, may_be_part: bool) -> Input:
    chain, base = take_apart(node)
    buffer = base.base
    assert base.op is Ops.BUFFER, f"{base} after realizing"
    ops = {op for op, _ in chain}
    if not may_be_part or ops <= {Ops.RESHAPE} or Ops.DETACH in ops or not node.size:
        return Input(tensor, buffer, chain)
    begin = _begin(chain, buffer)
    if begin is None:
        return Input(tensor, buffer, chain)
    offset = begin * node.dtype.itemsize
    return Input(tensor, buffer, chain, True, offset, 0 if offset % _ALIGN == 0 else offset & -offset)


def _begin(chain: Chain, buffer: UOp) -> int | None:
    """The element of `buffer` where what `chain` shows begins, or None if that is no contiguous part of
    it."""
    begin = _begin_of_slices(chain, buffer)
    if begin is not None:
        return begin
    from tiny_core.schedule.scheduler import view

    arg = view(put_together(chain, buffer))
    return None if arg is None else arg.offset


def _begin_of_slices(chain: Chain, buffer: UOp) -> int | None:
    """As `_begin`, or None if it is not easily seen. Slices of batches come here at each call: 1 µs, not
    100."""
    shape, begin = buffer.shape, 0
    for op, arg in reversed(chain):
        if op is Ops.RESHAPE and isinstance(arg, p.Shape):
            shape = arg.dims
            continue
        if op is not Ops.SHRINK or not isinstance(arg, p.Bounds):
            return None
        # contiguous: single indices, then one range, then whole axes
        stride, whole = 1, True
        for n, (first, last) in zip(reversed(shape), reversed(arg.pairs), strict=True):
            if not whole and last - first != 1:
                return None
            whole = whole and last - first == n
            begin += first * stride
            stride *= n
        shape = tuple(last - first for first, last in arg.pairs)
    return begin


def _leaf_key(leaf: object) -> Hashable:
    known = plain(leaf)
    if known is not None:
        return known
    try:
        hash(leaf)
    except TypeError:
        raise JitError(
            f"a captured function was called with a {type(leaf).__name__}, which cannot be compared",
            "pass tensors, numbers, strings, or containers and dataclasses of them",
        ) from None
    return (type(leaf), leaf)


def stand_in_value(given: Input) -> UOp:
    """Return a new value that shows the memory of a partial input, as the start of storage of its own.

    The storage begins `lead` bytes before the data, so that what is known of the data's alignment is what is
    true of every input of its class.
    """
    shape = put_together(given.chain, given.buffer).shape
    itemsize, storage = given.buffer.dtype.itemsize, given.buffer.payload(p.Storage)
    size = 1
    for n in shape:
        size *= n
    before = given.lead // itemsize
    assert isinstance(storage.device, str)
    buffer = UOp.buffer(given.buffer.dtype, size + before, storage.device)
    whole = memory_of(given.buffer)
    set_memory(buffer, whole.part(given.offset - given.lead, size * itemsize + given.lead))
    node = buffer
    if before:
        node = UOp(Ops.SHRINK, node.dtype, (node,), p.Bounds(((before, before + size),)))
    return node if node.shape == shape else UOp(Ops.RESHAPE, node.dtype, (node,), p.Shape(shape))
