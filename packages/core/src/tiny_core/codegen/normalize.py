"""Normal form of a kernel's axes, before options are chosen.

`split` cuts an axis wherever an index divides it by a constant, so that indices become linear. `merge` joins
output axes, or reduce axes, that every access walks as one; `unmask` drops masks of what is masked already.
In and out: a kernel. Afterwards axes are renamed i0, i1, …, r0, r1, …
"""

from __future__ import annotations

from itertools import pairwise

from tiny_core.codegen.axes import kernel_axes
from tiny_core.codegen.opaque import simplify_around
from tiny_core.ir import payload as p
from tiny_core.ir.algebra import simplify
from tiny_core.ir.algebra.compare import parts_of
from tiny_core.ir.algebra.index import linear_form
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp


def normalize(kernel: UOp) -> UOp:
    """Return the kernel with split, merged and renamed axes, and without masks that say nothing."""
    return rename(merge(split(unmask(kernel))))


def unmask(kernel: UOp) -> UOp:
    """Drop WHEREs that put zeros where a LOAD has zeros already: what is padded after a conversion."""
    found: dict[UOp, UOp] = {}
    for node in kernel.toposort():
        if node.op is not Ops.WHERE or not (node.src[2].is_const and _is_zero(node.src[2])):
            continue
        inner = node.src[1]
        while inner.op is Ops.CAST:
            inner = inner.src[0]
        if inner.op is Ops.LOAD and len(inner.src) == 4 and inner.src[3].is_const and _is_zero(inner.src[3]):
            gates = set(parts_of(Ops.AND, inner.src[2]))
            if gates.issuperset(parts_of(Ops.AND, node.src[0])):
                found[node] = node.src[1]
    return kernel.substitute(found) if found else kernel


def _is_zero(node: UOp) -> bool:
    """Whether a CONST is a zero, and not a negative one."""
    return node.payload(p.Const).bits == 0


def split(kernel: UOp) -> UOp:
    """Cut axes at the divisors by which indices divide them."""
    cuts: dict[UOp, set[int]] = {}
    for node in kernel.toposort():
        if node.op not in (Ops.FLOORDIV, Ops.FLOORMOD) or not node.src[1].is_const:
            continue
        divisor = int(node.src[1].value)
        terms, constant = linear_form(node.src[0])
        if divisor < 2 or constant:
            continue
        for r, c in terms.items():
            if r.op is not Ops.RANGE or not r.src[0].is_const:
                continue
            size = int(r.src[0].value)
            if divisor % c == 0 and 1 < divisor // c < size and size % (divisor // c) == 0:
                cuts.setdefault(r, set()).add(divisor // c)
    pieces: dict[UOp, list[UOp]] = {}
    index: dict[UOp, UOp] = {}
    for r, divisors in cuts.items():
        size, arg = int(r.src[0].value), r.payload(p.Range)
        chain = [1]
        for d in sorted(divisors):
            if d % chain[-1] == 0:
                chain.append(d)
        if len(chain) == 1:
            continue
        chain.append(size)
        total = UOp.const(0)
        pieces[r] = []
        for k in range(len(chain) - 2, -1, -1):
            piece = UOp.range(chain[k + 1] // chain[k], f"{arg.axis}{'abcdefgh'[len(pieces[r])]}", arg.kind)
            total = total + piece * chain[k]
            pieces[r].append(piece)
        index[r] = simplify(total)
    return _with_axes(kernel, index, pieces) if index else kernel


def merge(kernel: UOp) -> UOp:
    """Join neighbouring axes of one kind where every index that has one has both, as a single number."""
    changed = True
    while changed:
        changed = False
        axes = kernel_axes(kernel)
        for outer, inner in pairwise(axes):
            if outer.payload(p.Range).kind != inner.payload(p.Range).kind:
                continue
            if not (outer.src[0].is_const and inner.src[0].is_const):
                continue
            n, m = int(outer.src[0].value), int(inner.src[0].value)
            if not _walked_as_one(kernel, outer, inner, m):
                continue
            arg = outer.payload(p.Range)
            both = UOp.range(n * m, arg.axis, arg.kind)
            forms = {outer: both // m, inner: both % m}
            kernel = _with_axes(kernel, forms, {outer: [both], inner: []})
            changed = True
            break
    return kernel


def _walked_as_one(kernel: UOp, outer: UOp, inner: UOp, m: int) -> bool:
    """Whether outer and inner occur only in indices, as multiples of `outer * m + inner`, and are closed
    together."""
    indices: set[UOp] = set()
    for node in kernel.toposort():
        if node.op in (Ops.LOAD, Ops.STORE):
            terms, _ = linear_form(node.src[1])
            if terms.get(outer, 0) != terms.get(inner, 0) * m:
                return False
            if any(
                outer in a.ranges or inner in a.ranges for a in terms if a is not outer and a is not inner
            ):
                return False
            indices.add(node.src[1])
        if node.op is Ops.STORE and (outer in node.ranges) != (inner in node.ranges):
            return False
        if node.op is Ops.REDUCE and (outer in node.src[1:]) != (inner in node.src[1:]):
            return False
    # elsewhere than in indices: in values or masks
    stack, seen = list(kernel.src), set(kernel.src)
    while stack:
        node = stack.pop()
        if node is outer or node is inner:
            return False
        src = node.src[:1] if node.op is Ops.REDUCE else node.src
        for k, s in enumerate(src):
            if s in seen or (k == 1 and node.op in (Ops.LOAD, Ops.STORE)):
                continue
            seen.add(s)
            stack.append(s)
    return True


def rename(kernel: UOp) -> UOp:
    """Number the axes of each kind from 0."""
    count = {"i": 0, "r": 0}
    names: dict[UOp, UOp] = {}
    for r in kernel_axes(kernel):
        arg = r.payload(p.Range)
        letter = "r" if arg.kind == "reduce" else "i"
        names[r] = UOp(Ops.RANGE, r.dtype, r.src, p.Range(f"{letter}{count[letter]}", arg.kind))
        count[letter] += 1
    # all at once: names may be permuted
    return kernel.substitute(names)


def _with_axes(kernel: UOp, index: dict[UOp, UOp], pieces: dict[UOp, list[UOp]]) -> UOp:
    """Replace RANGEs by expressions; REDUCEs close the RANGEs in `pieces` instead."""
    done: dict[UOp, UOp] = dict(index)
    for node in kernel.toposort(lambda n: n not in index):
        if node in done:
            continue
        if node.op is Ops.REDUCE:
            ranges = tuple(q for r in node.src[1:] for q in pieces.get(r, [r]))
            done[node] = done[node.src[0]].reduce(node.payload(p.Reduce).op, *ranges)
            continue
        src = tuple(done[s] for s in node.src)
        new = node if src == node.src else node.replace(src)
        if new is not node and new.op in (Ops.LOAD, Ops.STORE):
            fixed = list(new.src)
            fixed[1] = simplify_around(fixed[1])
            if new.op is Ops.LOAD and len(fixed) == 4:
                fixed[2] = simplify_around(fixed[2])
            new = new.replace(tuple(fixed))
        done[node] = new
    return done[kernel]
