"""Nested arguments and results: taken apart into leaves and a structure, and put together again.

Containers are tuples (named ones too), lists, dicts and instances of dataclasses; everything else is a leaf.
A structure is hashable, and two trees of one structure differ in their leaves only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Structure = Hashable
LEAF: Final = None


def flatten(tree: object, leaves: list[object]) -> Structure:
    """Append the leaves of `tree`, left to right, and return its structure."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return (kind, *[flatten(item, leaves) for item in cast("list[object]", tree)])
    if kind is dict:
        items = cast("dict[Hashable, object]", tree)
        return (dict, tuple(items), *[flatten(item, leaves) for item in items.values()])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return (kind, *[flatten(item, leaves) for item in tree])
    if is_dataclass(tree) and not isinstance(tree, type):
        return (kind, *[flatten(getattr(tree, f.name), leaves) for f in fields(tree)])
    leaves.append(tree)
    return LEAF


def unflatten(structure: Structure, leaves: Iterator[object]) -> object:
    """Put a tree together from its structure and its leaves."""
    if structure is LEAF:
        return next(leaves)
    kind, *rest = cast("tuple[type, ...]", structure)
    if kind is dict:
        keys, *items = rest
        return {
            k: unflatten(i, leaves) for k, i in zip(cast("tuple[Hashable, ...]", keys), items, strict=True)
        }
    values = [unflatten(item, leaves) for item in rest]
    if kind is tuple or kind is list:
        return kind(values)
    if issubclass(kind, tuple):
        return cast("Callable[..., object]", kind)(*values)  # a named tuple
    # not through __init__, which may want other arguments or do more than it should
    made = object.__new__(kind)
    for f, value in zip(fields(cast("type[DataclassInstance]", kind)), values, strict=True):
        object.__setattr__(made, f.name, value)
    return made
