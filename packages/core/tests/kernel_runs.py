"""Runs tensor-stage graphs by the real scheduler, code generator and devices, to compare with `oracle.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tiny_core.engine import realize
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp, toposort
from tiny_core.schedule import cache
from tiny_core.schedule.item import Schedule
from tiny_core.schedule.scheduler import schedule
from tiny_core.settings import Context

from .oracle import Array, evaluate, numpy_dtype


def on(device: str, roots: Sequence[UOp], data: Mapping[UOp, Array]) -> tuple[list[UOp], dict[UOp, UOp]]:
    """Return `roots` with every BUFFER replaced by a new one on `device` that holds what `data` says; and
    which BUFFER stands for which."""
    mapping: dict[UOp, UOp] = {}
    for node in toposort(roots):
        if node.op is Ops.BUFFER:
            array = np.ascontiguousarray(data[node], numpy_dtype(node.dtype))
            size = node.payload(p.Storage).size
            mapping[node] = realize.allocate_from_host(array.tobytes(), node.dtype, size, device)
    return list(UOp.sink(*roots).substitute(mapping).src), mapping


def read(node: UOp) -> Array:
    """Return what a node shows that a schedule gave as a result."""
    memory = {}
    for buffer in node.toposort():
        if buffer.op is Ops.BUFFER:
            raw = bytes(realize.read_host(buffer))
            memory[buffer] = np.frombuffer(raw, numpy_dtype(buffer.dtype))
    return evaluate(node, memory)


def run(
    dev: str, roots: Sequence[UOp], data: Mapping[UOp, Array]
) -> tuple[list[Array], dict[UOp, Array], Schedule]:
    """Schedule, compile and run `roots` on the target `dev`.

    Returns:
        the value of each root, what each BUFFER of `data` holds afterwards, and the schedule.
    """
    device = dev.partition(":")[0]
    with Context(DEV=dev, WORKERS=0, CACHE=0):
        moved, mapping = on(device, roots, data)
        cache.clear()
        plan = schedule(moved, device)
        realize.run_schedule(plan)
        return [read(r) for r in plan.results], {old: read(new) for old, new in mapping.items()}, plan
