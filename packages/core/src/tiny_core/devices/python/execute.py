"""Running a kernel: items in batches, the race checker, and parallel loops with a way back.

In: a `Kernel`, buffers, scalars and a grid. Out: the buffers, changed. Guaranteed: as if items ran one after
the other, group by group, or an error: AccessError for a wrong address, RaceError where items of the launch
depend on each other's order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiny_core.api import LaunchError, Ops, RaceError, Signature, UOp, payload, text
from tiny_core.devices.python.batches import BATCH
from tiny_core.devices.python.memory import AccessError, Memory, Region, stored_dtype
from tiny_core.devices.python.plan import Kernel, Plan
from tiny_core.devices.python.races import Conflict, Ints, Shadow
from tiny_core.devices.python.rounding import Array, numpy_dtype
from tiny_core.devices.python.steps import Run

_ENOUGH = 1 << 13  # items from which making more of them does not make a kernel faster
_NEAR_ADDRESS = 128  # near memory is aligned as well as any target aligns it


def execute(
    linear: UOp,
    signature: Signature,
    buffers: Sequence[Array | Region],
    scalars: Sequence[int] = (),
    grid: Sequence[int] = (1,),
    check: bool = True,
) -> None:
    """Run a LINEAR node on numpy arrays (see `run_kernel`). The array that owns memory counts as 64-byte
    aligned; views of it lie where they are."""
    owners: dict[int, int] = {}  # real address of an owner to the address it is given
    regions, free = [], 64
    for buffer in buffers:
        if isinstance(buffer, Region):
            regions.append(buffer)
            continue
        owner = buffer
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start = owner.ctypes.data
        if start not in owners:
            owners[start] = free
            free += (owner.nbytes + 255) // 128 * 128
        regions.append(Region.of(buffer, owners[start] + buffer.ctypes.data - start))
    run_kernel(Kernel.of(linear), signature, regions, scalars, grid, check)


def run_kernel(
    kernel: Kernel,
    signature: Signature,
    regions: Sequence[Region],
    scalars: Sequence[int],
    grid: Sequence[int],
    check: bool = True,
) -> None:
    """Run a kernel.

    Args:
        kernel: what to run.
        signature: its calling convention; names the scalars and gives the shape of a group.
        regions: memory of PARAM 0, 1, …
        scalars: values of `signature.scalars`, in order.
        grid: groups along each dimension; for a host program (iterations of the thread axis,).
        check: whether to look for races.

    Raises:
        AccessError: an address is out of bounds or breaks a claim of alignment.
        RaceError: two items touch one location, one of them writing, with no barrier between them.
        LaunchError: buffers, scalars or grid do not fit; a barrier is not reached by all items of a group.
    """
    launch = _Launch(kernel, signature, regions, tuple(scalars), tuple(grid), check)
    with np.errstate(all="ignore"):
        launch.run()


@dataclass(slots=True)
class _Launch:
    kernel: Kernel
    signature: Signature
    regions: Sequence[Region]
    scalars: tuple[int, ...]
    grid: tuple[int, ...]
    check: bool

    def run(self) -> None:
        kernel = self.kernel
        least = kernel.depths[0]
        depth = least
        for depth in kernel.depths:
            if self._items(kernel.plan(depth)) >= _ENOUGH:
                break
        if depth > least:
            # Iterations of loops become items on trial: the race checker sees whether they were independent.
            before = [(r.data, r.data.copy()) for r in self._written()]
            try:
                self._run(depth, watch=True)
                return
            except Conflict:
                kernel.depths = [least]  # once is enough
                for data, copy in before:
                    data[:] = copy
        try:
            self._run(least, watch=self.check)
        except Conflict as conflict:
            raise self._race(conflict) from None

    # ---- set-up -------------------------------------------------------------------------------------------

    def _is_grid(self, plan: Plan) -> bool:
        return not plan.chain

    def _values(self, plan: Plan) -> list[Array]:
        """The slots with constants, variables and whatever depends on these alone."""
        names = {s.name: i for i, s in enumerate(self.signature.scalars)}
        v = list(plan.template)
        for slot, node in plan.variables:
            variable = node.payload(payload.Variable)
            at = names.get(variable.name, -1)
            if not 0 <= at < len(self.scalars):
                raise LaunchError(f"{self.signature.name} was not given {variable.name}")
            value = self.scalars[at]
            if not variable.lo <= value <= variable.hi:
                raise LaunchError(f"{variable.name} = {value} is not within {variable.lo} and {variable.hi}")
            v[slot] = np.array([value], numpy_dtype(node.dtype))
        run = Run(1, 1, self._describe, np.zeros(1, np.int64), np.zeros(1, np.int32), [])
        for step in plan.prologue:
            step(v, run)
        return v

    def _items(self, plan: Plan) -> int:
        if not plan.chain:
            return math.prod(self.grid) * math.prod(self.signature.block)
        return math.prod(self._sizes(plan, self._values(plan)))

    def _sizes(self, plan: Plan, v: list[Array]) -> list[int]:
        sizes = [int(v[size][0]) for _, _, size in plan.chain]
        if plan.chain[0][1].payload(payload.Range).kind == "thread":
            sizes[0] = math.prod(self.grid)
        return sizes

    def _written(self) -> list[Region]:
        params = (n.payload(payload.Param) for n in self.kernel.linear.src if n.op is Ops.PARAM)
        return [self.regions[p.slot] for p in params if "w" in p.access and p.slot < len(self.regions)]

    def _params(self, plan: Plan) -> list[Memory]:
        memories = []
        for node in plan.params:
            param = node.payload(payload.Param)
            name = f"buffer {param.slot}"
            if param.slot >= len(self.regions):
                raise LaunchError(
                    f"{self.signature.name} was given {len(self.regions)} buffers and needs {name}"
                )
            region, need = self.regions[param.slot], param.size * node.dtype.itemsize
            if len(region.data) < need:
                raise LaunchError(
                    f"{name} of {self.signature.name} has {len(region.data)} bytes and needs {need}"
                )
            if region.address % param.align:
                raise AccessError(
                    f"{name} of {self.signature.name} is at {region.address:#x}, "
                    f"not aligned to {param.align} bytes"
                )
            data = region.data[:need].view(stored_dtype(node.dtype))
            memories.append(Memory(data, param.size, region.address, param.access, name=name))
        return memories

    # ---- the race checker's memory ------------------------------------------------------------------------

    @staticmethod
    def _watch(memories: list[Memory], groups: bool, items: bool) -> None:
        """Give a shadow to every buffer that is written, shared by buffers that overlap."""
        clusters: list[list[Memory]] = []
        for memory in sorted(memories, key=lambda m: m.address):
            last = clusters[-1] if clusters else []
            if last and memory.address < max(m.address + m.data.nbytes for m in last):
                last.append(memory)
            else:
                clusters.append([memory])
        for cluster in clusters:
            if not any("w" in m.access for m in cluster):
                continue
            start = cluster[0].address
            unit = math.gcd(*(m.data.itemsize for m in cluster), *(m.address - start for m in cluster))
            end = max(m.address + m.data.nbytes for m in cluster)
            shadow = Shadow((end - start) // unit, groups, items)
            for m in cluster:
                m.shadow, m.shadow_origin = shadow, (m.address - start) // unit
                m.shadow_span = m.data.itemsize // unit

    # ---- batches ------------------------------------------------------------------------------------------

    def _run(self, depth: int, watch: bool) -> None:
        plan = self.kernel.plan(depth)
        v, memories = self._values(plan), self._params(plan)
        if plan.chain:
            sizes, block, groups = self._sizes(plan, v), 1, 1
            groups = math.prod(sizes)
        else:
            sizes, block, groups = [], math.prod(self.signature.block), math.prod(self.grid)
            self._check_grid(plan, v)
        if block * groups >= 1 << 31:
            raise LaunchError(f"{block * groups} work-items are more than PYTHON can tell apart")
        if watch and block * groups > 1:
            self._watch(memories, groups > 1, block > 1)
        at_once = max(1, BATCH // (block * plan.lanes))
        for first in range(0, groups, at_once):
            self._batch(plan, list(v), memories, sizes, block, first, min(at_once, groups - first), watch)

    def _batch(
        self,
        plan: Plan,
        v: list[Array],
        memories: list[Memory],
        sizes: list[int],
        block: int,
        first: int,
        groups: int,
        watch: bool,
    ) -> None:
        ids = np.arange(first * block, (first + groups) * block, dtype=np.int64)
        group = ids // block
        rest = ids
        for (slot, node, _), size in zip(reversed(plan.chain), reversed(sizes), strict=True):
            v[slot] = (rest % size).astype(numpy_dtype(node.dtype))
            rest = rest // size
        for slot, node, _ in plan.specials:
            special = node.payload(payload.Special)
            shape = self.grid if special.level == "group" else self.signature.block
            number = group if special.level == "group" else ids % block
            stride = math.prod(shape[: special.dim])
            v[slot] = (number // stride % shape[special.dim]).astype(numpy_dtype(node.dtype))
        near = [self._near(node, ids // block - first, groups, watch and block > 1) for node in plan.near]
        run = Run(len(ids), block, self._describe, ids, group.astype(np.int32), [*memories, *near])
        for step in plan.body:
            step(v, run)

    def _near(self, node: UOp, group: Ints, groups: int, watch: bool) -> Memory:
        storage = node.payload(payload.Storage)
        data = np.full(storage.size * groups * node.dtype.itemsize, 0xFF, np.uint8).view(
            stored_dtype(node.dtype)
        )
        shadow = Shadow(len(data), groups=False, items=True) if watch else None
        name = f"{storage.space} memory {storage.id}"
        return Memory(data, storage.size, _NEAR_ADDRESS, "rw", group * storage.size, shadow, name=name)

    def _check_grid(self, plan: Plan, v: list[Array]) -> None:
        for _, node, size in plan.specials:
            special = node.payload(payload.Special)
            shape = self.grid if special.level == "group" else self.signature.block
            if special.dim >= len(shape) or int(v[size][0]) != shape[special.dim]:
                raise LaunchError(
                    f"{self.signature.name} is launched on a {special.level} shape of {shape}, "
                    f"and its dimension {special.dim} is {int(v[size][0])} in the kernel"
                )

    # ---- messages -----------------------------------------------------------------------------------------

    def _describe(self, number: int) -> str:
        return f"node {number}: {text.describe(self.kernel.linear.src[number])}"

    def _race(self, conflict: Conflict) -> RaceError:
        block = math.prod(self.signature.block)
        before, now = conflict.items

        def who(item: int) -> str:
            if item < 0:
                return "another item" if conflict.group < 0 else f"an item of group {conflict.group}"
            return f"item {item % block} of group {item // block}"

        one = f"{who(now)} in `{self._describe(conflict.now)}`"
        other = f"{who(before)} in `{self._describe(conflict.before)}`"
        return RaceError(
            f"race in {self.signature.name} at {conflict.where}: {one}, and {other} with no barrier between",
            "order the two by AFTER over a BARRIER, or give each item a location of its own",
        )
