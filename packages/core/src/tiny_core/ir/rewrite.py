"""Rewriting of graphs by rule tables: to a fixed point, without recursion, traced, and never for ever.

In: a node and a table. Out: the node that is left when no rule applies (orders `bottom_up` and `top_down`),
or after one visit to each node (`walk`). Guaranteed: a chain of replacements that returns to where it was,
contains itself, or is longer than any sensible one raises RewriteError with the names of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from tiny_core.errors import RewriteError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.pattern import Rule, Rules
from tiny_core.ir.uop import UOp

Order = Literal["bottom_up", "top_down", "walk"]

_LONGEST_CHAIN = 500  # replacements in a row of one node; real tables need a few dozen
_MEMO_LIMIT = 1 << 15


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a rule.

    Args:
        rule: its name.
        location: its file and line.
        before: the node it matched.
        after: what it gave.
    """

    rule: str
    location: str
    before: UOp
    after: UOp


_TRACES: list[list[Step]] = []


@contextmanager
def trace() -> Iterator[list[Step]]:
    """Within the block, collect every application of a rule (remembered results included in none) in a
    list."""
    steps: list[Step] = []
    _TRACES.append(steps)
    try:
        yield steps
    finally:
        _TRACES.remove(steps)


def tracing() -> bool:
    """Return whether somebody collects steps."""
    return bool(_TRACES)


def record(rule: str, location: str, before: UOp, after: UOp) -> None:
    """Add a step to every open trace."""
    step = Step(rule, location, before, after)
    for steps in _TRACES:
        steps.append(step)


def rewrite(node: UOp, rules: Rules, ctx: object = None, *, order: Order = "bottom_up") -> UOp:
    """Return `node` rewritten by `rules`.

    Args:
        node: the root of a graph.
        rules: the table.
        ctx: handed to functions that take it.
        order: "bottom_up": sources first, and results again, until nothing applies; "top_down": the same, but
            a node is tried before its sources too; "walk": each node once, over its rewritten sources,
            results not again.

    Raises:
        RewriteError: the rules do not come to rest.
    """
    if order == "walk":
        return _walk(node, rules, ctx)
    remember = rules.context_free and order == "bottom_up" and not _TRACES
    if remember and (known := rules.memo.get(node)) is not None:
        return known
    return _Rewriter(rules, ctx, order == "top_down", remember).run(node)


def _walk(root: UOp, rules: Rules, ctx: object) -> UOp:
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        src = tuple([done[s] for s in node.src])
        here = node if src == node.src else UOp(node.op, node.dtype, src, node.arg)
        matcher = rules.matcher(here.op)
        found = matcher(here, ctx) if matcher is not None else None
        if found is None:
            done[node] = here
            continue
        if _TRACES:
            record(found[1].name, found[1].location, here, found[0])
        done[node] = found[0]
    return done[root]


class _Rewriter:
    """State of one rewriting.

    Attributes:
        done: final results.
        became: replacement of a node that is being worked on, and the rule that gave it (None: sources
            changed).
    """

    def __init__(self, rules: Rules, ctx: object, top_down: bool, remember: bool) -> None:
        self.rules = rules
        self.ctx = ctx
        self.top_down = top_down
        self.remember = remember
        self.done: dict[UOp, UOp] = {}
        self.became: dict[UOp, tuple[UOp, Rule | None]] = {}
        self.length: dict[UOp, int] = {}

    def run(self, root: UOp) -> UOp:
        done, became, memo = self.done, self.became, self.rules.memo
        tried = set[UOp]()
        on_device = False
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            if self.remember and (known := memo.get(node)) is not None:
                done[node] = known
                stack.pop()
                continue
            earlier = became.get(node)
            if earlier is not None:  # its replacement is final by now
                done[node] = done[earlier[0]]
                stack.pop()
                continue
            if self.top_down and node not in tried:
                tried.add(node)
                if self._replace(node, stack):
                    continue
            waiting = [s for s in node.src if s not in done]
            if waiting:
                for s in waiting:
                    if s in became:
                        raise self._error(s, node)
                stack += reversed(waiting)
                continue
            src = tuple([done[s] for s in node.src])
            if src != node.src:
                self._chain(node, UOp(node.op, node.dtype, src, node.arg), None, stack)
                continue
            on_device = on_device or (node.op is Ops.BUFFER and node.payload(p.Storage).device is not None)
            if self._replace(node, stack):
                continue
            done[node] = node
            stack.pop()
        if self.remember and not on_device:
            if len(memo) > _MEMO_LIMIT:
                memo.clear()
            memo.update(done)
        return done[root]

    def _replace(self, node: UOp, stack: list[UOp]) -> bool:
        matcher = self.rules.matcher(node.op)
        found = matcher(node, self.ctx) if matcher is not None else None
        if found is None:
            return False
        if _TRACES:
            record(found[1].name, found[1].location, node, found[0])
        self._chain(node, found[0], found[1], stack)
        return True

    def _chain(self, node: UOp, after: UOp, rule: Rule | None, stack: list[UOp]) -> None:
        """Make `node` wait for its replacement."""
        self.became[node] = after, rule
        if after in self.done:
            return
        length = self.length[after] = self.length.get(node, 0) + 1
        if after in self.became or length > _LONGEST_CHAIN:
            raise self._error(after, node)
        stack.append(after)

    def _error(self, start: UOp, last: UOp) -> RewriteError:
        """The chain from `start` on, or the last steps of one that grows."""
        names = list[str]()
        node: UOp | None = start
        seen = set[UOp]()
        while node is not None and node in self.became and node not in seen:
            seen.add(node)
            node, rule = self.became[node]
            if rule is not None and rule.name not in names:
                names.append(f"{rule.name} ({rule.location})")
        if not names:
            recent = [r for _, r in self.became.values() if r is not None][-8:]
            names = list(dict.fromkeys(f"{r.name} ({r.location})" for r in recent))
        which = " and ".join(dict.fromkeys(names)) or "no rule"
        return RewriteError(
            f"rewriting by {self.rules.name} does not come to rest: {which} undo each other at {last!r}",
            "one of the rules must decline where the other has just applied",
        )
