"""The walk that applies the algebra: one visit to each node, sources first, results remembered.

In: any graph. Out: an equal graph in normal form. Guaranteed: bit-exact for fixed-width integers and floats,
exact over the unbounded integers for `index`; simplifying the result again gives the same node.

Index nodes are not rebuilt one by one: each has a `Form`, and a node is made of it only where something that
is not a sum needs one. `given` makes a Simplifier that also knows that some comparisons hold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from tiny_core import dtypes
from tiny_core.errors import RewriteError
from tiny_core.ir import payload as p
from tiny_core.ir.algebra.linear import Form, from_linear, linear_form, number
from tiny_core.ir.interval import Interval, bounds
from tiny_core.ir.ops import Ops
from tiny_core.ir.rewrite import record, tracing
from tiny_core.ir.uop import UOp

Fact = tuple[dict[UOp, int], int | None, int | None]
"""Factors of atoms, and the least and greatest value of their sum (None: unknown)."""

_LIMIT = 1 << 16
_MOST_STEPS = 64


class Simplifier:
    """Normal forms under a set of facts.

    Attributes:
        nodes: what a node became.
        forms: the linear form of an index node.
        spans: intervals of atoms.
        facts: sums whose interval is known beyond what their atoms say.
        true: bool nodes that hold.
    """

    __slots__ = ("_lock", "facts", "forms", "nodes", "spans", "true")

    def __init__(self) -> None:
        self.nodes: dict[UOp, UOp] = {}
        self.forms: dict[UOp, Form] = {}
        self.spans: dict[UOp, Interval] = {}
        self.facts: list[Fact] = []
        self.true: frozenset[UOp] = frozenset()
        self._lock = threading.RLock()

    def __call__(self, root: UOp) -> UOp:
        """Return the normal form of `root`."""
        known = self.nodes.get(root)
        if known is not None:
            return known
        with self._lock:
            return self._run(root)

    def _run(self, root: UOp) -> UOp:
        nodes, forms, index = self.nodes, self.forms, dtypes.index
        index_rules, simplify_scalar = _tables()
        if len(nodes) + len(forms) > _LIMIT:
            nodes.clear()
            forms.clear()
            self.spans.clear()
        marks = len(nodes), len(forms), len(self.spans)
        became: dict[UOp, UOp] = {}
        steps: dict[UOp, int] = {}
        on_device, traced = False, tracing()
        stack = [root]
        while stack:
            node = stack[-1]
            if node in forms or node in nodes:
                stack.pop()
                continue
            is_index = node.dtype is index and not node.shape
            waiting = False
            for s in node.src:
                if s not in forms and s not in nodes:
                    if s.op is Ops.CONST and s.dtype is index:
                        forms[s] = ({}, s.payload(p.Const).bits)
                    else:
                        stack.append(s)
                        waiting = True
            if waiting:
                continue
            if is_index:
                stack.pop()
                rule = index_rules.get(node.op)
                forms[node] = rule(self, node) if rule is not None else self.atom(self.rebuild(node))
                if traced and (after := self.value(node)) is not (before := self.rebuild(node)):
                    record(f"{node.op.value} of indices", "index.py", before, after)
                continue
            earlier = became.get(node)
            if earlier is None:
                earlier = became[node] = simplify_scalar(self, self.rebuild(node))
                on_device = on_device or (
                    node.op is Ops.BUFFER and node.payload(p.Storage).device is not None
                )
            if earlier is node or earlier in nodes:
                stack.pop()
                nodes[node] = nodes.get(earlier, earlier)
                continue
            count = steps[earlier] = steps.get(node, 0) + 1
            if count > _MOST_STEPS:
                raise RewriteError(f"simplification of {node!r} does not come to rest")
            stack.append(earlier)
        result = self.value(root)
        if on_device:  # the memo may not keep memory of a device alive: take back what this walk added
            tables: tuple[dict[UOp, Any], ...] = (nodes, forms, self.spans)
            for table, size in zip(tables, marks, strict=True):
                while len(table) > size:
                    table.popitem()
        return result

    # ---- nodes and forms -------------------------------------------------------------------------

    def value(self, node: UOp) -> UOp:
        """Return what a node that the walk has visited became."""
        known = self.nodes.get(node)
        if known is None:
            known = self.nodes[node] = self.build(self.forms[node])
        return known

    def rebuild(self, node: UOp) -> UOp:
        """Return `node` over what its sources became. Loops that are closed or waited for stay loops."""
        if not node.src:
            return node
        op = node.op
        if op is Ops.REDUCE or op is Ops.AFTER:
            src = (self.value(node.src[0]), *map(self._loop, node.src[1:]))
        elif op is Ops.END:
            src = (self._loop(node.src[0]), *map(self.value, node.src[1:]))
        elif op is Ops.RANGE:
            return self._loop(node)
        else:
            src = tuple([self.value(s) for s in node.src])
        return node if src == node.src else UOp(op, node.dtype, src, node.arg)

    def _loop(self, node: UOp) -> UOp:
        if node.op is not Ops.RANGE:
            return self.value(node)
        size = self.value(node.src[0])
        return node if size is node.src[0] else UOp(Ops.RANGE, size.dtype, (size,), node.arg)

    def form(self, node: UOp) -> Form:
        """Return the form of an index node that is in normal form."""
        known = self.forms.get(node)
        return linear_form(node) if known is None else known

    def build(self, form: Form) -> UOp:
        """Return the node of a form."""
        terms, const = form
        if not const and len(terms) == 1:
            for atom, factor in terms.items():
                if factor == 1:
                    return atom
        node = from_linear(terms, const)
        self.nodes.setdefault(node, node)
        self.forms.setdefault(node, form)
        return node

    def atom(self, node: UOp, span: Interval | None = None) -> Form:
        """Return the form of a node in normal form that is no sum; `span` is its interval, where known."""
        known = self.spans.get(node)
        if known is None:
            known = self.spans[node] = bounds(node) if span is None else span
        if known[0] == known[1]:
            return {}, known[0]
        form: Form = ({node: 1}, 0)
        self.nodes.setdefault(node, node)
        self.forms.setdefault(node, form)
        return form

    def settle(self, node: UOp) -> UOp:
        """Record that a node which is not an index is in normal form, and return it."""
        self.nodes.setdefault(node, node)
        return node

    # ---- intervals -------------------------------------------------------------------------------

    def span(self, form: Form) -> Interval:
        """Return the interval of a form."""
        terms, lo = form
        hi, spans = lo, self.spans
        for atom, k in terms.items():
            known = spans.get(atom)
            if known is None:
                known = spans[atom] = bounds(atom)
            if k > 0:
                lo += k * known[0]
                hi += k * known[1]
            else:
                lo += k * known[1]
                hi += k * known[0]
        return self._narrow(form, lo, hi) if self.facts else (lo, hi)

    def _narrow(self, form: Form, lo: int, hi: int) -> Interval:
        terms, const = form
        for fact, least, most in self.facts:
            first, factor = next(iter(fact.items()))
            have = terms.get(first, 0)
            if not have or have % factor:
                continue
            k = have // factor
            if any(terms.get(a) != k * c for a, c in fact.items()):
                continue
            low = high = const
            for atom, c in terms.items():
                if atom not in fact:
                    a, b = self.spans[atom]
                    low, high = (low + c * a, high + c * b) if c > 0 else (low + c * b, high + c * a)
            if k < 0:
                least, most = most, least
            if least is not None:
                lo = max(lo, low + k * least)
            if most is not None:
                hi = min(hi, high + k * most)
        return lo, hi

    def truth(self, value: bool) -> UOp:
        """Return a bool constant."""
        return self.settle(number(int(value), dtypes.bool_))


IndexRule = Callable[[Simplifier, UOp], Form]
"""From an index node whose sources have been visited to its form."""


@cache
def _tables() -> tuple[dict[Ops, IndexRule], Callable[[Simplifier, UOp], UOp]]:
    # the tables import this module, so they are fetched on first use
    from tiny_core.ir.algebra.index import INDEX
    from tiny_core.ir.algebra.scalar import simplify_scalar

    return INDEX, simplify_scalar
