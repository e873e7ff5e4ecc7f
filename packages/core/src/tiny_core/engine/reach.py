"""What a function reaches besides its arguments: the plain values that guard a capture, and paths to tensors.

Guarded by value are numbers, strings, bools, None and tuples of them in the function's own cells, defaults
and named globals. Tensors are found through any chain of attributes, items, closures and named globals that
starts at the function or at an argument, and each is remembered by the path to it, so that replay sees what
is there then.
"""

from __future__ import annotations

import keyword
import math
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast, final

from tiny_core.errors import JitError

Step = tuple[Literal["attribute", "item"], Hashable]
Path = tuple[Step, ...]
_PLAIN: Final = (int, float, str, bool, bytes, complex, type(None))
_MOST_OBJECTS: Final = 50_000
_LONGEST: Final = 4096


def plain_values(function: Callable[..., object]) -> tuple[Hashable, ...]:
    """Return the plain values that `function` names, with their types (1, True and 1.0 are three things)."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ()
    function = cast(types.FunctionType, function)
    found: list[Hashable] = [plain(cell) for cell in _cells(function)]
    found += [plain(value) for value in function.__defaults__ or ()]
    found += [plain(value) for value in (function.__kwdefaults__ or {}).values()]
    table = function.__globals__
    found += [plain(table[name]) for name in global_names(code) if name in table]
    return tuple(found)


def plain(value: object) -> Hashable:
    """Return a plain value with its type, or None for anything else."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"  # equal to itself, as a guard
    if isinstance(value, Hashable) and type(value) in _PLAIN:
        return (type(value), value)
    if type(value) is tuple:
        return tuple(plain(item) for item in value)
    return None


def _cells(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield None  # not yet assigned


_names: dict[types.CodeType, tuple[str, ...]] = {}


def global_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the names that `code`, and functions defined in it, may look up in the globals."""
    known = _names.get(code)
    if known is None:
        import dis

        # not co_names, which has attributes too: with `opt.step()` in it, a global loop counter `step` would
        # be a guard
        names = dict.fromkeys(
            str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        )
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                names.update(dict.fromkeys(global_names(const)))
        known = _names[code] = tuple(names)
    return known


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, and everything that was looked into; both by id, with the shortest path."""

    objects: dict[int, tuple[object, Path]]
    inside: dict[int, tuple[object, Path]]

    def knows(self, value: object) -> bool:
        """Whether `value` was found, or looked into."""
        return any(
            id(value) in known and known[id(value)][0] is value for known in (self.objects, self.inside)
        )


def find(root: object, wanted: Callable[[object], bool], attributes: tuple[str, ...] = ()) -> Found:
    """Return the objects below `root` for which `wanted` holds.

    Nothing is looked for in modules, classes, this package's functions, and lists of more than 4096 items.

    Args:
        root: where to begin.
        wanted: what is looked for.
        attributes: attributes of what is found that may hold more of it.
    """
    found = Found({}, {id(root): (root, ())})
    row: list[tuple[object, Path]] = [(root, ())]
    while row and len(found.inside) < _MOST_OBJECTS:
        below: list[tuple[object, Path]] = []
        for value, path in row:
            for step, child in _children(value):
                if isinstance(child, _PLAIN):
                    continue
                at = (*path, *step)
                if wanted(child):
                    _note(found, child, at, wanted, attributes)
                elif id(child) not in found.inside:
                    found.inside[id(child)] = (child, at)
                    below.append((child, at))
        row = below
    return found


def _note(
    found: Found, value: object, path: Path, wanted: Callable[[object], bool], attributes: tuple[str, ...]
) -> None:
    if id(value) in found.objects:
        return
    found.objects[id(value)] = (value, path)
    for name in attributes:
        inner = getattr(value, name, None)
        if inner is not None and wanted(inner):
            _note(found, inner, (*path, ("attribute", name)), wanted, attributes)


def assign(parent: object, step: Step, value: object) -> None:
    """Put `value` where `step` leads from `parent`."""
    kind, key = step
    if kind == "attribute":
        setattr(parent, cast(str, key), value)
    else:
        cast("dict[Hashable, object]", parent)[key] = value


def _children(value: object) -> Iterator[tuple[Path, object]]:
    if isinstance(value, list | tuple):
        if len(value) <= _LONGEST:
            yield from (((("item", i),), child) for i, child in enumerate(value))
    elif isinstance(value, dict):
        if len(value) <= _LONGEST:
            yield from (((("item", k),), child) for k, child in value.items())
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield (("attribute", "__self__"),), value.__self__
        yield (("attribute", "__func__"),), value.__func__
    elif not isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        module = type(value).__module__
        if not module.startswith("tiny_core.") or module.startswith("tiny_core.nn"):
            yield from _of_object(value)
        elif "__wrapped__" in getattr(value, "__dict__", {}):  # a captured function inside this one
            yield (("attribute", "__wrapped__"),), value.__dict__["__wrapped__"]


def _of_function(function: types.FunctionType) -> Iterator[tuple[Path, object]]:
    if function.__module__ is not None and function.__module__.split(".")[0] == "tiny_core":
        return
    for i, child in enumerate(_cells(function)):
        yield (("attribute", "__closure__"), ("item", i), ("attribute", "cell_contents")), child
    for i, child in enumerate(function.__defaults__ or ()):
        yield (("attribute", "__defaults__"), ("item", i)), child
    for name, child in (function.__kwdefaults__ or {}).items():
        yield (("attribute", "__kwdefaults__"), ("item", name)), child
    for name in global_names(function.__code__):
        if name in function.__globals__:
            yield (("attribute", "__globals__"), ("item", name)), function.__globals__[name]


def _of_object(value: object) -> Iterator[tuple[Path, object]]:
    for name, child in getattr(value, "__dict__", {}).items():
        yield (("attribute", name),), child
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if not name.startswith("__") and hasattr(value, name):
                yield (("attribute", name),), getattr(value, name)
    if type(value).__module__ == "functools" and type(value).__name__ == "partial":
        for name in ("func", "args", "keywords"):
            yield (("attribute", name),), getattr(value, name)


@final
class Paths:
    """Several paths from one root, as a function that walks them together: what they share is walked once.

    The function is generated, because it runs at every replay: for a model of 100 weights it takes 5 µs, and
    a loop over the steps 100.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.count = len(paths)
        writer = _Writer()
        ends = [writer.value(path) for path in paths]
        source = "\n    ".join(["def walk(v0):", *writer.lines, f"return [{', '.join(ends)}]"])
        names: dict[str, object] = {"K": tuple(writer.keys)}
        exec(source, names)
        self._walk = cast("Callable[[object], list[object]]", names["walk"])

    def walk(self, root: object) -> list[object]:
        """Return what each path leads to.

        Raises:
            JitError: a path is not there any more.
        """
        try:
            return self._walk(root)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise JitError(f"what a captured function reached is gone: {error}") from error


class _Writer:
    """Writes `v5 = v4.name` and `v5 = v4[K[2]]` for the steps of paths, each once; keys are data, never
    text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.keys: list[Hashable] = []
        self._names: dict[Path, str] = {(): "v0"}

    def value(self, path: Path) -> str:
        """Return the variable that holds what `path` leads to."""
        known = self._names.get(path)
        if known is None:
            before = self.value(path[:-1])
            known = self._names[path] = f"v{len(self._names)}"
            self.lines.append(f"{known} = {self._step(before, *path[-1])}")
        return known

    def _step(self, before: str, kind: str, key: Hashable) -> str:
        if kind == "attribute" and isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key):
            return f"{before}.{key}"
        if type(key) is int:
            return f"{before}[{key}]"
        self.keys.append(key)
        at = f"K[{len(self.keys) - 1}]"
        return f"{before}[{at}]" if kind == "item" else f"getattr({before}, {at})"
