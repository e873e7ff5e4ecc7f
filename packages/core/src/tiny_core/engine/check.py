"""TINY_JIT_CHECK: run a call both ways and compare.

In: a recording bound to a call, and the function. Out: the function's result. The storage that the call
overwrites is put back between the two runs, so that both start from one state and the program goes on from
the function's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.engine import transfer
from tiny_core.engine.capture import duplicate
from tiny_core.engine.layer import Layer
from tiny_core.engine.recording import Bound
from tiny_core.engine.tree import flatten
from tiny_core.errors import JitError
from tiny_core.ir.uop import UOp
from tiny_core.runtime.buffer import memory_of

_TOLERANCE: Final = 1e-4
"""Of the largest value: replayed and uncaptured runs may fuse differently, and so round differently."""


def compare(layer: Layer, bound: Bound, function: Callable[[], object]) -> object:
    """Replay, then run the function from the same state, and return what the function returned.

    Raises:
        JitError: results, or storage that both overwrite, differ.
    """
    written = bound.written()
    saved = [duplicate(memory_of(node)) for node in written]
    replayed: list[object] = []
    structure = flatten(bound.run(), replayed)
    states = [_bytes(node) for node in written]
    results = [layer.read(leaf) if layer.is_tensor(leaf) else leaf for leaf in replayed]
    for node, old in zip(written, saved, strict=True):
        transfer.copy(transfer.writable(node), 0, old, 0, old.nbytes)
    result = function()
    expected: list[object] = []
    if flatten(result, expected) != structure:
        raise JitError("a replayed call returned another structure than the function", _HINT)
    for i, (leaf, got) in enumerate(zip(expected, results, strict=True)):
        if not layer.is_tensor(leaf):
            if leaf is not got and leaf != got:
                raise JitError(f"result {i} is {got!r} when replayed, and {leaf!r} from the function", _HINT)
            continue
        assert isinstance(got, bytes)
        _same(f"result {i}", got, layer.read(leaf), layer.node(leaf).dtype)
    for node, state in zip(written, states, strict=True):
        layer.realize(c for c in [layer.owner(node)] if c is not None)
        _same(f"assigned storage of {node.size} {node.dtype.name}", state, _bytes(node), node.dtype)
    return result


_HINT: Final = (
    "it depends on something that is not guarded, or that changes at each call; see the help of jit"
)


def _bytes(node: UOp) -> bytes:
    buffer = memory_of(node)
    return bytes(transfer.export(buffer, 0, buffer.nbytes))


def _same(what: str, got: bytes, expected: bytes, dtype: DType) -> None:
    if got == expected:
        return
    if len(got) != len(expected) or not dtype.is_float:
        raise JitError(f"{what} differs between replay and function", _HINT)
    pairs = list(zip(_floats(got, dtype), _floats(expected, dtype), strict=True))
    most = max((abs(y) for _, y in pairs if math.isfinite(y)), default=0.0)
    worst = max((_distance(x, y) for x, y in pairs), default=0.0)
    if worst > _TOLERANCE * most:
        raise JitError(f"{what} differs by {worst:g} between replay and function (largest {most:g})", _HINT)


def _distance(x: float, y: float) -> float:
    if x == y or (math.isnan(x) and math.isnan(y)):
        return 0.0
    return abs(x - y) if math.isfinite(x) and math.isfinite(y) else math.inf


def _floats(data: bytes, dtype: DType) -> list[float]:
    size = dtype.itemsize
    bits = (int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size))
    return [float(dtypes.from_bits(b, dtype)) for b in bits]
