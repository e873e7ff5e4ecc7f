"""`schedule`: from tensor graphs to a linear list of kernels and copies.

In: root nodes of the tensor stage. Out: a `Schedule`. Guaranteed: an item runs after what it reads is written
and before what it reads is overwritten; a value read at version n is the value of version n.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiny_core.errors import DeviceError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import MOVEMENT, Ops
from tiny_core.ir.spec import check
from tiny_core.ir.uop import UOp, toposort
from tiny_core.schedule import reductions
from tiny_core.schedule.cache import cached, explained
from tiny_core.schedule.fuse import Border, Fusion, axes, fuse, is_storage, stored_value
from tiny_core.schedule.group import Group, group
from tiny_core.schedule.item import Arg, CopyItem, Item, KernelItem, Schedule
from tiny_core.schedule.limits import cuts
from tiny_core.schedule.lower import Lowering
from tiny_core.schedule.movement import flat_index, source_index
from tiny_core.schedule.schedule_spec import check_schedule
from tiny_core.schedule.served import Served, Trail, made_for, products_for, served
from tiny_core.settings import SPEC


def schedule(roots: Sequence[UOp], device: p.Device = "CPU") -> Schedule:
    """Return the items that compute `roots`.

    Args:
        roots: tensor-stage nodes: values, or assignments (AFTER over STORE).
        device: where values that read no storage are computed.
    """
    return cached(roots, device, _schedule)


def serving(roots: Sequence[UOp], device: p.Device = "CPU") -> tuple[Served, ...]:
    """Return what each item of the schedule of `roots` is for, in terms of their graph; for people."""
    return explained(roots, device, _explain)


def _schedule(roots: Sequence[UOp], device: p.Device) -> Schedule:
    if SPEC.value:
        check(UOp.sink(*roots), "tensor")
    made = _planned(roots, device).finish()
    if SPEC.value:
        check_schedule(made)
        if SPEC.value > 1:
            for kernel in dict.fromkeys(item.kernel for item in made.items if isinstance(item, KernelItem)):
                check(kernel, "kernel", after="schedule")
    return made


def _explain(roots: Sequence[UOp], device: p.Device) -> tuple[list[Served], Trail, list[UOp]]:
    trail: Trail = {}
    attempt = _planned(roots, device, trail)
    return attempt.served(), trail, attempt.wanted


def _planned(roots: Sequence[UOp], device: p.Device, trail: Trail | None = None) -> _Attempt:
    wanted = _kept(prepare(roots, trail), trail)
    after = "prepare"
    while True:
        if SPEC.value > 1:
            check(UOp.sink(*wanted), "tensor", after=after)
        attempt = _Attempt(wanted, device)
        copied = attempt.plan()
        if not copied:
            return attempt
        # some value is still needed after its storage is overwritten: read it from a copy made before
        wanted, after = _with_copies(wanted, copied, trail), "copies of overwritten versions"


def borders(roots: Sequence[UOp], device: p.Device = "CPU") -> tuple[Border, ...]:
    """Return why each intermediate value of a graph is stored, in running order, with the bytes that this
    moves and the operations that it saves. For people to read: `schedule` does not need it."""
    attempt = _Attempt(list(prepare(tuple(roots))), device)
    attempt.plan()
    return tuple(attempt.fusion.borders)


def _kept(roots: Sequence[UOp], trail: Trail | None = None) -> list[UOp]:
    """Let roots that show storage that is overwritten here have storage of their own."""
    ended = {n.src[0] for n in toposort(roots) if n.op is Ops.AFTER}
    out = []
    for root in roots:
        base = root
        while base.op in MOVEMENT:
            base = base.src[0]
        shows = base in ended and view(root) is not None
        kept = UOp(Ops.CONTIGUOUS, root.dtype, (root,)) if shows else root
        made_for(trail, root, kept)
        out.append(kept)
    return out


def prepare(roots: Sequence[UOp], trail: Trail | None = None) -> tuple[UOp, ...]:
    """Rewrite what the rest need not know of: DETACH, CONTIGUOUS of storage, reductions too long for one
    kernel."""
    done: dict[UOp, UOp] = {}
    placed: set[UOp] = set()  # what has a device
    for node in toposort(roots):
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        if new.op is Ops.DETACH or (
            new.op is Ops.CONTIGUOUS and (new.src[0].op is Ops.CONTIGUOUS or view(new.src[0]))
        ):
            new = new.src[0]
        elif new.op is Ops.REDUCE:
            whole, new = new, reductions.split(new)
            if new is not whole and trail is not None:
                products_for(trail, whole.src[0], new.src[0].src[0].src[0])
        elif new.op is Ops.UNSHEAR:
            whole, new = new, reductions.hoist_factor(new)
            if new is not whole:
                made_for(trail, whole.src[0], new)
        elif new.op is Ops.COPY and new.src[0] not in placed:
            # there is nothing to copy: it is computed where it is wanted
            new = UOp(Ops.CONTIGUOUS, new.dtype, new.src, new.payload(p.Copy))
        if (
            new.op in (Ops.BUFFER, Ops.PARAM)
            or isinstance(new.arg, p.Copy)
            or any(s in placed for s in new.src)
        ):
            placed.add(new)
        made_for(trail, node, new)
        done[node] = new
    return tuple(done[r] for r in roots)


def view(node: UOp) -> Arg | None:
    """Return which contiguous part of storage a chain of movements shows, or None if it is no such view."""
    base = node
    while base.op in MOVEMENT:
        base = base.src[0]
    if not is_storage(base) or base.op is Ops.COPY:
        return None
    if base is node:
        return Arg(base.base)
    if node.size == 0:
        return Arg(base.base)
    index = axes(node.shape)
    want = flat_index(index, node.shape)
    step = node
    while step is not base:
        index, gate = source_index(step, index)
        if gate is not None:
            return None
        step = step.src[0]
    from tiny_core.ir.algebra.index import from_linear, linear_form

    terms, offset = linear_form(flat_index(index, base.shape))
    if offset < 0 or from_linear(terms, 0) is not want:
        return None
    return Arg(base.base, offset)


class _Attempt:
    """One attempt at a schedule of `wanted`."""

    def __init__(self, wanted: list[UOp], device: p.Device) -> None:
        self.wanted = wanted
        self.order = toposort(wanted)
        self.default = device
        self.devices: dict[UOp, p.Device | None] = {}
        for node in self.order:
            self.devices[node] = self._device(node)

    def _device(self, node: UOp) -> p.Device | None:
        if node.op in (Ops.BUFFER, Ops.PARAM):
            arg = node.arg
            assert isinstance(arg, p.Storage | p.Param)
            return arg.device
        if isinstance(node.arg, p.Copy):
            return node.arg.device
        found = {d for s in node.src if (d := self.devices[s]) is not None}
        if len(found) > 1:
            names = " and ".join(sorted(map(str, found)))
            raise DeviceError(f"{node.op.value} of values on {names}", "move one of them with .to()")
        return next(iter(found), None)

    def plan(self) -> set[UOp]:
        """Decide borders, groups and order. Returns versions of storage that must be copied to make an order
        possible; none if there is one."""
        forced = self._forced()
        limited = frozenset(cuts(self.order, forced))
        self.limited = limited
        self.fusion: Fusion = fuse(self.order, forced, limited)
        self.groups, conflicts = group(self.order, self.fusion, self._device_of)
        return conflicts

    def _device_of(self, node: UOp) -> p.Device:
        return self.devices[node] or self.default

    def _forced(self) -> set[UOp]:
        forced: set[UOp] = set()
        for node in self.order:
            if node.op in (Ops.AFTER, Ops.CONTIGUOUS):
                forced.add(node)
            elif node.op is Ops.COPY and self.devices[node.src[0]] is not None and view(node.src[0]) is None:
                forced.add(_below_views(node.src[0]))
        for node in self.wanted:
            if view(node) is None:
                forced.add(_below_views(node))
        return {n for n in forced if not (is_storage(n) and n.op is not Ops.AFTER)}

    def finish(self) -> Schedule:
        """Give every stored node its memory and lower the groups."""
        places: dict[UOp, UOp] = {}
        for node in self.fusion.stored:
            if node.op is not Ops.AFTER:
                places[node] = UOp.buffer(node.dtype, max(1, node.size), self._device_of(node))
        for node in self.order:
            if node.op is Ops.COPY:
                places[node] = UOp.buffer(node.dtype, max(1, node.size), node.payload(p.Copy).device)
        items: list[Item] = [self._item(g, places) for g in self._running()]
        results = tuple(self._result(n, places) for n in self.wanted)
        kept = {b for r in results for b in r.toposort() if b.op is Ops.BUFFER}
        return Schedule(tuple(items), results, tuple(b for b in places.values() if b not in kept))

    def _running(self) -> list[Group]:
        """The groups that do something: nothing to store means nothing to run."""
        return [g for g in self.groups if g.copy is not None or stored_value(g.members[0]).size]

    def served(self) -> list[Served]:
        """What each item is for."""
        why = {n: "an assignment" for n in self.order if n.op is Ops.AFTER}
        why |= {
            n: "contiguous(), the first part of a long reduction, or a copy made before an assignment"
            for n in self.order
            if n.op is Ops.CONTIGUOUS
        }
        why |= dict.fromkeys(self.limited, "the kernel would be too large otherwise")
        return [
            Served() if g.copy is not None else served(g.members, self.fusion, why) for g in self._running()
        ]

    def _item(self, g: Group, places: dict[UOp, UOp]) -> Item:
        if g.copy is not None:
            source = self._locate(g.copy.src[0], places)
            return CopyItem(Arg(places[g.copy]), source, g.copy.size)
        kernel, args = Lowering(places, g.members).kernel()
        return KernelItem(kernel, args, self._device_of(g.members[0]), serves=g.members)

    def _locate(self, node: UOp, places: dict[UOp, UOp]) -> Arg:
        """Where the value of a copied node lies."""
        arg = view(node)
        if arg is not None:
            return arg
        return Arg(places[_below_views(node)])

    def _result(self, node: UOp, places: dict[UOp, UOp]) -> UOp:
        """Return the movements of a root over the BUFFER that now holds what is below them."""
        chain = []
        while node not in places and node.op in MOVEMENT:
            chain.append(node)
            node = node.src[0]
        if node in places:
            held = places[node]
            result = (
                held
                if node.shape == held.shape
                else UOp(Ops.RESHAPE, node.dtype, (held,), p.Shape(node.shape))
            )
        else:
            result = node.base
        for step in reversed(chain):
            result = step.replace((result,))
        return result


def _below_views(node: UOp) -> UOp:
    """Return the node to store for `node`: below views that only reorder what is stored contiguously
    anyway."""
    below = node
    while below.op is Ops.RESHAPE:
        below = below.src[0]
    return node if below.op in MOVEMENT or is_storage(below) else below


def _with_copies(wanted: list[UOp], versions: set[UOp], trail: Trail | None = None) -> list[UOp]:
    """Let every reader of `versions` read a copy, except the assignments that follow them."""
    done: dict[UOp, UOp] = {}
    raw: dict[UOp, UOp] = {}
    for node in toposort(wanted):
        if node.op is Ops.AFTER:
            root, store = node.src
            target, value = store.src
            stored = UOp(Ops.STORE, store.dtype, (raw[target], done[value]), store.arg)
            new = node.replace((raw[root], stored))
        else:
            new = node.replace(tuple(done[s] for s in node.src)) if node.src else node
        raw[node] = node.replace(tuple(raw[s] for s in node.src)) if node.op in MOVEMENT else new
        done[node] = UOp(Ops.CONTIGUOUS, node.dtype, (new,)) if node in versions else new
        for made in (new, raw[node], done[node]):
            made_for(trail, node, made)
    return [raw[n] if n in versions else done[n] for n in wanted]
