"""Which nodes were made for what: facts about some nodes of a graph, handed on to those that were made along
the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tiny_core.ir.uop import UOp

_Of = TypeVar("_Of")


def inherited(order: Sequence[UOp], known: Mapping[UOp, Mapping[_Of, None]]) -> dict[UOp, dict[_Of, None]]:
    """Give nodes that are not in `known` what their users have: they were made for those.

    Args:
        order: sources before users.
        known: what some nodes have, in order.
    """
    found: dict[UOp, dict[_Of, None]] = {}
    for node in reversed(order):
        have = found[node] = dict(known[node]) if node in known else found.get(node, {})
        for source in node.src:
            if source not in known:
                found.setdefault(source, {}).update(have)
    return found
