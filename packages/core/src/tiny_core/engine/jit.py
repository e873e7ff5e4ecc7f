"""`jit`: a function of tensors runs once as usual while what it does is recorded, and is replayed from then
on.

A recording serves calls of equal *key*: the structure of the arguments, shape, dtype, device, alignment class
and aliasing of their tensors, type and value of everything else in them; numbers, strings, bools and tuples
that the function names (cells, defaults, globals); the settings that generated code depends on, and the state
of the tensor layer. Tensors that the function reaches otherwise are inputs too: what stands at the path that
led to them (`model.weight`), or in the cell they were, is read anew at each replay; assignments to them are
performed at each replay. Results are fresh at each call.

Not guarded: plain values inside objects, passed or closed over (an object may as well count its calls, and
each count would be a recording of its own), and what is neither argument nor named; TINY_JIT_CHECK finds it.
Not replayed: whatever else Python does in the function; only tensors that it leaves in objects are renewed.
"""

from __future__ import annotations

import functools
import os
import threading
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast, final, overload

from tiny_core.engine import realize as engine
from tiny_core.engine.capture import Capture, put_together, take_apart
from tiny_core.engine.explain import Call, Reached, StandIn, explain
from tiny_core.engine.inputs import Input, read_inputs, stand_in_value
from tiny_core.engine.layer import Cell, Layer, layer
from tiny_core.engine.reach import Found, find, plain_values
from tiny_core.engine.recording import Mismatch, Recording, give_away
from tiny_core.engine.tree import Structure, flatten, unflatten
from tiny_core.errors import JitError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.runtime.device import Device
from tiny_core.settings import CHECK, DEV, JIT_CHECK, declared, overrides

P = ParamSpec("P")
R = TypeVar("R")
_MOST_KEYS: Final = 32
_MOST_PER_KEY: Final = 4
_MOST_ATTEMPTS: Final = 2
_CHECKS: Final = (CHECK, JIT_CHECK)
_jits: weakref.WeakSet[Jit[Any, Any]] = weakref.WeakSet()
_INNER: Final = ("grad",)
"""Attributes of tensors that hold tensors."""


@dataclass(slots=True)
class _Known:
    """What is known of calls with one key.

    Attributes:
        recordings: what can be replayed.
        attempts: how often recording has been tried since the last one.
        harmless: whether parts of storage that is reached in two ways have been seen not to be written.
        overwrites: storage that the last attempt has overwritten.
    """

    recordings: list[Recording] = field(default_factory=list)
    attempts: int = 0
    harmless: bool = False
    overwrites: list[weakref.ref[UOp]] = field(default_factory=list)


@final
class Jit(Generic[P, R]):
    """A captured function; `jit` makes one, and the module says what is guarded.

    Args:
        function: what to capture.
        donate: names or positions of parameters whose tensors are given away: their memory may hold
            results, and they cannot be used afterwards.

    Raises:
        JitError: `donate` names a parameter that is not there.
    """

    def __init__(self, function: Callable[P, R], donate: Sequence[str | int] = ()) -> None:
        self.function = function
        self._name = getattr(function, "__qualname__", repr(function))
        self._donate = _positions(function, donate)
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._whole: set[int] = set()
        self._lock = threading.RLock()
        self._calls = 0
        self._settings = (DEV, *(s for s in declared() if s.codegen))
        self._checks = (CHECK.value, JIT_CHECK.value)  # where no Context says otherwise
        functools.update_wrapper(self, function)
        _jits.add(self)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        """A captured method: the instance is the first argument."""
        return self if instance is None else cast("Callable[..., R]", types.MethodType(self, instance))

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """What has been recorded, a recording for each way in which the function has been called."""
        return tuple(r for known in self._known.values() for r in known.recordings)

    def reset(self) -> None:
        """Forget all recordings, and the memory of their temporaries."""
        with self._lock:
            self._known.clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, or replay it. Within another captured function it is part of that; under
        TINY_CHECK=1 it is called as it is.

        Raises:
            JitError: it reads data while it is recorded; an argument cannot be compared; or, under
                TINY_JIT_CHECK, a replay gives something else than the function.
        """
        asked, compared = overrides(_CHECKS)
        if engine.recorder.get() is not None or (self._checks[0] if asked is None else asked):
            # part of what is being recorded; or indices have to be looked at in each call
            return self.function(*args, **kwargs)
        with self._lock:
            every = self._checks[1] if compared is None else cast(int, compared)
            return cast(R, self._call(layer(), every, args, kwargs))

    def _call(
        self, tensors: Layer, every: int, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        leaves: list[object] = []
        donated: list[int] = []
        shapes: list[Structure] = []
        for name, arg in (*enumerate(args), *kwargs.items()):
            start = len(leaves)
            shapes.append(flatten(arg, leaves))
            if name in self._donate:
                donated += range(start, len(leaves))
        structure = _Arguments(tuple(shapes), len(args), tuple(kwargs))
        with tensors.lock:
            inputs, key = read_inputs(tensors, leaves, self._whole)
            names = plain_values(self.function)
            key = (structure, key, names, overrides(self._settings), Device.assigned, tensors.state())
            known = self._known.get(key)
            if known is None:
                known = self._remember(key)
            for recording in known.recordings:
                try:
                    bound = recording.bind(self.function, leaves, inputs)
                except Mismatch:
                    continue
                self._known.move_to_end(key)
                self._calls += 1
                if every and self._calls % every == 0:
                    from tiny_core.engine.check import compare

                    return compare(tensors, bound, lambda: self.function(*args, **kwargs))  # type: ignore[arg-type]
                return bound.run()
        return self._record(tensors, known, structure, leaves, inputs, donated)

    def _remember(self, key: Hashable) -> _Known:
        known = self._known[key] = _Known()
        if len(self._known) > _MOST_KEYS:
            self._known.popitem(last=False)
            warnings.warn(
                f"jit: {self._name} has been called in more than {_MOST_KEYS} different ways; "
                "pass what changes at each call as a tensor",
                RuntimeWarning,
                stacklevel=4,
            )
        return known

    def _record(
        self,
        tensors: Layer,
        known: _Known,
        structure: _Arguments,
        leaves: list[object],
        inputs: list[Input | None],
        donated: list[int],
    ) -> object:
        """Run the function, and keep what it did if that can stand for the next call."""
        before, reached = _reach(tensors, self.function, leaves, known)
        shared = set() if known.harmless else _shared(inputs, reached)
        if shared:
            # These parts lie in storage that the function reaches in another way too. Run as it is to see
            # whether anything is written there: if so, other storage cannot stand in for them.
            capture, call, _ = self._capture(tensors, structure, leaves, inputs, donated, [], before, reached)
            written = {stored.id for stored in capture.stored.values() if stored.written}
            exact = {i for i in shared if _storage_id(inputs[i]) in written}
            self._whole |= exact
            known.harmless = not exact
            return unflatten(call.structure, iter(call.outputs))
        known.attempts += 1
        stand_ins = _stand_ins(tensors, inputs)
        capture, call, disturbed = self._capture(
            tensors, structure, leaves, inputs, donated, stand_ins, before, reached
        )
        recording = explain(tensors, capture, call)
        result = recording.restore(leaves, call.outputs)
        # who still holds a stand-in, holds something that no later call can stand in for
        watch = [(s.leaf, weakref.ref(s.cell)) for s in stand_ins]
        del call, stand_ins, before, reached
        exact = {leaf for leaf, ref in watch if ref() is not None}
        for leaf in donated:
            give_away(inputs[leaf])
        if exact:
            self._whole |= exact
            known.attempts = 0
        elif (disturbed or recording.escapes or recording.rebindings) and known.attempts < _MOST_ATTEMPTS:
            # Something outlives this call that was not there before it: state that is made at the first use
            # (moments of an optimizer, a random counter), or what each call leaves behind. The next call
            # tells them apart.
            known.overwrites = recording.overwrites()
        else:
            known.attempts = 0
            known.recordings = [recording, *known.recordings[: _MOST_PER_KEY - 1]]
        return result

    def _capture(
        self,
        tensors: Layer,
        structure: _Arguments,
        leaves: list[object],
        inputs: list[Input | None],
        donated: list[int],
        stand_ins: list[StandIn],
        before: Found,
        reached: list[Reached],
    ) -> tuple[Capture, Call, bool]:
        """Run the function and record it; also says whether it has computed what was pending before."""
        pending = {id(cell): (weakref.ref(cell), cell.value) for cell in tensors.pending()}
        capture = Capture(tensors.owner)
        token = engine.recorder.set(capture)
        try:
            args, kwargs = structure.arguments(leaves, stand_ins)
            result: object = self.function(*args, **kwargs)  # type: ignore[arg-type]  # as they were given
            del args, kwargs
            outputs: list[object] = []
            shape = flatten(result, outputs)
            tensors.realize([tensors.cell(leaf) for leaf in outputs if tensors.is_tensor(leaf)])
            tensors.realize(_left_pending(tensors, pending))
        finally:
            engine.recorder.reset(token)
        disturbed = any((c := ref()) is not None and c.value is not value for ref, value in pending.values())
        after = find([self.function, leaves], tensors.is_tensor, _INNER)
        call = Call(leaves, inputs, donated, stand_ins, reached, pending, outputs, shape, before, after)
        return capture, call, disturbed


def _after_fork() -> None:
    for function in list(_jits):
        function._lock = threading.RLock()  # a thread that is not in this process may have held the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The structure of a call's arguments: of each, how many are positional, and the names of the others."""

    shapes: tuple[Structure, ...]
    positional: int
    names: tuple[str, ...]

    def arguments(
        self, leaves: Sequence[object], stand_ins: Sequence[StandIn]
    ) -> tuple[list[object], dict[str, object]]:
        """The arguments, with stand-ins where there are any."""
        values = list(leaves)
        for stand_in in stand_ins:
            for i, leaf in enumerate(leaves):
                if leaf is leaves[stand_in.leaf]:
                    values[i] = stand_in.tensor
        rest = iter(values)
        found = [unflatten(shape, rest) for shape in self.shapes]
        return found[: self.positional], dict(zip(self.names, found[self.positional :], strict=True))


def _reach(
    tensors: Layer, function: Callable[..., object], leaves: Sequence[object], known: _Known
) -> tuple[Found, list[Reached]]:
    """Find what the function can reach, and compute what would otherwise be computed by the captured call for
    the first time, or be disturbed by it: then the capture holds what belongs to the function only."""
    found = find([function, leaves], tensors.is_tensor, _INNER)
    others = [(t, path) for t, path in found.objects.values() if path[0] != ("item", 1) or len(path) > 2]
    overwritten = {node for ref in known.overwrites if (node := ref()) is not None}
    wanted = [tensors.cell(tensor) for tensor, _ in others if _reads_storage(tensors.cell(tensor).value)]
    for cell in tensors.pending():
        below = cell.value.toposort()
        if any(node.op is Ops.AFTER or node in overwritten for node in below):
            wanted.append(cell)
    tensors.realize(wanted)
    return found, [Reached(t, path, cell := tensors.cell(t), cell.value) for t, path in others]


def _reads_storage(value: UOp) -> bool:
    return any(node.op is Ops.BUFFER for node in value.toposort())


def _stand_ins(tensors: Layer, inputs: Sequence[Input | None]) -> list[StandIn]:
    """What to give the function for partial inputs; equal parts get one."""
    made: dict[tuple[UOp, int, tuple[object, ...]], StandIn] = {}
    for i, given in enumerate(inputs):
        if given is None or not given.part:
            continue
        key = (given.buffer, given.offset, given.chain)
        if key not in made:
            value = stand_in_value(given)
            cell = tensors.new_cell(value, True)
            made[key] = StandIn(i, tensors.view(cell, ()), cell, take_apart(value)[1])
    return list(made.values())


def _shared(inputs: Sequence[Input | None], reached: Sequence[Reached]) -> set[int]:
    """The partial inputs whose memory another input or a reached tensor may show as well."""
    spans = [
        (_storage_id(given), *((given.offset, given.offset + _nbytes(given)) if given.part else (0, 1 << 62)))
        for given in inputs
        if given is not None
    ]
    spans += [
        (base.payload(p.Storage).id, 0, 1 << 62)
        for base in (take_apart(r.value)[1] for r in reached)
        if base.op is Ops.BUFFER
    ]
    found = set()
    for i, given in enumerate(inputs):
        if given is not None and given.part:
            begin, end = given.offset, given.offset + _nbytes(given)
            meets = sum(id == _storage_id(given) and b < end and begin < e for id, b, e in spans)
            if meets > 1:  # itself is one
                found.add(i)
    return found


def _storage_id(given: Input | None) -> int:
    assert given is not None
    return given.buffer.payload(p.Storage).id


def _nbytes(given: Input) -> int:
    return put_together(given.chain, given.buffer).size * given.buffer.dtype.itemsize


def _left_pending(tensors: Layer, before: dict[int, tuple[weakref.ref[Cell], UOp]]) -> list[Cell]:
    """The cells that the call has left with something to compute."""
    left = []
    for cell in tensors.pending():
        known = before.get(id(cell))
        changed = known is None or known[1] is not cell.value
        if changed and take_apart(cell.value)[1].op is not Ops.BUFFER and _reads_storage(cell.value):
            left.append(cell)
    return left


def _positions(function: Callable[..., object], donate: Sequence[str | int]) -> frozenset[str | int]:
    """Positions and names of the parameters that `donate` names."""
    code = getattr(function, "__code__", None)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    found: set[str | int] = set()
    for item in donate:
        if isinstance(item, int):
            found.add(item)
            found.update(names[item : item + 1])
        elif item in names or not names:
            found.add(item)
            found.update([names.index(item)] if item in names else [])
        else:
            raise JitError(f"donate={item!r}: no such parameter", f"its parameters are {', '.join(names)}")
    return frozenset(found)


@overload
def jit(function: Callable[P, R]) -> Jit[P, R]: ...
@overload
def jit(*, donate: Sequence[str | int] = ()) -> Callable[[Callable[P, R]], Jit[P, R]]: ...
def jit(
    function: Callable[P, R] | None = None, *, donate: Sequence[str | int] = ()
) -> Jit[P, R] | Callable[[Callable[P, R]], Jit[P, R]]:
    """Capture a function of tensors: its first calls run and are recorded, later ones replay the kernels,
    without running its Python. (A function that makes state at its first call, as a training step does, is
    recorded at the second.)

    >>> @jit
    ... def double(x):
    ...     return (x * 2).sum()
    >>> [double(Tensor([1.0, n])).item() for n in (1.0, 2.0, 3.0)]
    [4.0, 6.0, 8.0]

    A training step captures whole: what it assigns is assigned at each replay, and its results are fresh.

    >>> w = Tensor([1.0], requires_grad=True)
    >>> optimizer = nn.optim.SGD([w], lr=0.25)
    >>> @jit
    ... def step(x):
    ...     optimizer.zero_grad()
    ...     loss = (w * x).square().sum().backward()
    ...     optimizer.step()
    ...     return loss
    >>> [step(Tensor([1.0])).item() for _ in range(4)], w.item()
    ([1.0, 0.25, 0.0625, 0.015625], 0.0625)

    Calls that differ in shapes, dtypes, devices, or in values that are no tensors are recorded apart. Reading
    a tensor in the function (`item`, `tolist`, `numpy`) is an error, and so is a branch on one.

    A plain value that is an attribute of an object (`optimizer.rate`, `self.scale`) is not looked at again
    once a call is recorded, whether the object is an argument or closed over: objects hold counters too, and
    a recording for each count would be none. Make it a tensor if it changes, or pass it as an argument;
    TINY_JIT_CHECK=1 finds where it matters.

    Args:
        function: what to capture.
        donate: names or positions of parameters whose tensors are given away at each call: their memory
            may hold results, and they cannot be used afterwards.

    Raises:
        JitError: at a call: see `Jit.__call__`; here: `donate` names a parameter that is not there.
    """
    if function is None:
        return lambda f: Jit(f, donate)
    return Jit(function, donate)


TinyJit = jit
