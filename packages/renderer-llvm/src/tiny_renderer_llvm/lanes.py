"""STACK, INDEX and SHUFFLE: values made of lanes."""

from __future__ import annotations

from tiny_core.api import Ops, UOp, payload
from tiny_renderer_llvm.function import Function
from tiny_renderer_llvm.types import element, lanes_of, same, value_type, vector


def render_stack(f: Function, node: UOp) -> str:
    """Write a STACK: a constant, a splat, lanes of one value, or insertions into its constant lanes."""
    src, of, lanes = node.src, element(node.dtype), len(node.src)
    first = src[0]
    if all(s is first for s in src):
        if first.op is Ops.CONST:
            return same(f.value(first), of, lanes)
        key = ("splat", first, lanes)  # one splat serves every STACK of this node
        return f.remember(key) or f.scopes[-1].setdefault(key, f.splat(f.value(first), of, lanes))
    if all(s.op is Ops.INDEX and s.src[0] is first.src[0] for s in src):
        return _pick(f, node, first.src, [s.payload(payload.Lane).lane for s in src])
    t = value_type(node)
    text = "poison"
    if any(s.op is Ops.CONST for s in src):
        parts = (f"{of} {f.value(s)}" if s.op is Ops.CONST else f"{of} poison" for s in src)
        text = f"<{', '.join(parts)}>"
    for i, s in enumerate(src):
        if s.op is not Ops.CONST:
            text = f.emit(f"insertelement {t} {text}, {of} {f.value(s)}, i64 {i}")
    return text


def render_index(f: Function, node: UOp) -> str:
    """Write an INDEX: one lane of a value."""
    x, lane = node.src[0], node.payload(payload.Lane).lane
    if x.op is Ops.STACK:
        return f.value(x.src[lane])
    return f.emit(f"extractelement {f.typed(x)}, i64 {lane}")


def render_shuffle(f: Function, node: UOp) -> str:
    """Write a SHUFFLE: lanes of the concatenation of its sources."""
    return _pick(f, node, node.src, list(node.payload(payload.Shuffle).lanes))


def _pick(f: Function, node: UOp, src: tuple[UOp, ...], lanes: list[int]) -> str:
    of = element(node.dtype)
    if len(src) == 1 and lanes == list(range(lanes_of(src[0]))):
        return f.value(src[0])
    if len(src) <= 2 and src[0].shape and src[0].shape == src[-1].shape:
        t = value_type(src[0])
        second = f.value(src[1]) if len(src) == 2 else "poison"
        return f.emit(f"shufflevector {t} {f.value(src[0])}, {t} {second}, {_mask(lanes)}")
    # more sources than the instruction takes, or of several widths: bring each one's lanes to their places,
    # then blend
    t, n, text, start, done = vector(of, len(lanes)), len(lanes), "", 0, set[int]()
    for s in src:
        width = max(lanes_of(s), 1)
        here = {i: lane - start for i, lane in enumerate(lanes) if start <= lane < start + width}
        start += width
        if not here:
            continue
        placed = f.value(s) if s.shape else f.splat(f.value(s), of, n)
        if s.shape:
            mask = _mask([here.get(i, -1) for i in range(n)])
            placed = f.emit(f"shufflevector {value_type(s)} {placed}, {value_type(s)} poison, {mask}")
        if text:
            blend = _mask([i if i in done else n + i if i in here else -1 for i in range(n)])
            placed = f.emit(f"shufflevector {t} {text}, {t} {placed}, {blend}")
        text = placed
        done |= here.keys()
    return text


def _mask(lanes: list[int]) -> str:
    parts = ", ".join(f"i32 {lane}" if lane >= 0 else "i32 poison" for lane in lanes)
    return f"<{len(lanes)} x i32> <{parts}>"
