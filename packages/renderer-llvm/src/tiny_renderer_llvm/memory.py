"""LOAD and STORE: addresses, register slots, masks and gates.

A lane that its gate turns off gives nothing of what it touches. A gate that is one bool for all lanes chooses
between the address and that of a constant (host), or of the first element (grid), or branches; other gates
are masked loads and stores, which LLVM turns into predicated code where the target has no masks.
"""

from __future__ import annotations

from tiny_core.api import Ops, UOp, dtypes, payload
from tiny_renderer_llvm.function import Function
from tiny_renderer_llvm.types import in_memory, lanes_of, mangle, value_type, vector

_LINE = 64  # bytes of a cache line


def address(f: Function, buf: UOp, index: UOp) -> tuple[str, str]:
    """Write the address of element `index` of `buf`; return the pointer's type and value."""
    pointer = f.dialect.pointer(_space(buf))
    of, base, offset = in_memory(buf.dtype), f.pointers[buf], 0
    if index.op is Ops.ADD and index.src[1].is_const and index in f.exact:
        # accesses that differ by a constant share one address computation
        index, offset = index.src[0], int(index.src[1].value)
    if index.is_const:
        offset += int(index.value)
    else:
        base = f.once(("address", buf, index), f"getelementptr {of}, {pointer} {base}, i64 {f.wide(index)}")
    if offset:
        key = ("address", buf, None if index.is_const else index, offset)
        base = f.once(key, f"getelementptr {of}, {pointer} {base}, i64 {offset}")
    return pointer, base


def _space(buf: UOp) -> str:
    return buf.payload(payload.Param).space if buf.op is Ops.PARAM else buf.payload(payload.Storage).space


def _uniform(gate: UOp) -> UOp | None:
    """Return the bool that gates all lanes alike, or None."""
    if not gate.shape:
        return gate
    return gate.src[0] if gate.op is Ops.STACK and all(s is gate.src[0] for s in gate.src) else None


def render_load(f: Function, node: UOp) -> str:
    """Write a LOAD and return its value."""
    slot = f.traffic.slots.get(node)
    if slot is not None:
        return f.slots.get(slot, "poison")  # a slot that was never stored holds nothing in particular
    buf, lanes, align = node.src[0].base, lanes_of(node), node.payload(payload.Access).align
    one = _uniform(node.src[2]) if len(node.src) > 2 else None
    if len(node.src) > 2 and f.dialect.kind == "grid" and _reaches(buf, lanes if one is not None else 0):
        return _load_first(f, node, buf, one)
    pointer, at = address(f, buf, node.src[1])
    t = vector(in_memory(node.dtype), lanes)
    if len(node.src) < 3:
        return _as_value(f, node, f.emit(f"load {t}, {pointer} {at}, align {align}"))
    gate, alternative = node.src[2], node.src[3]
    if one is None:
        other = _as_memory(f, alternative)
        name = f"@llvm.masked.load.{mangle(in_memory(node.dtype), lanes)}.p{f.dialect.spaces[_space(buf)]}"
        mask = vector("i1", lanes)
        f.declarations[f"declare {t} {name}({pointer}, i32 immarg, {mask}, {t})"] = None
        call = f"call {t} {name}({pointer} {at}, i32 {align}, {mask} {f.value(gate)}, {t} {other})"
        return _as_value(f, node, f.emit(call))
    if f.dialect.kind == "host":
        return _load_either(f, node, t, pointer, at, f.value(one))
    return _as_value(
        f, node, _load_branching(f, t, f"{pointer} {at}, align {align}", f.value(one), alternative)
    )


def _reaches(buf: UOp, lanes: int) -> bool:
    """Whether an access of so many lanes at element 0 stays within the buffer."""
    arg = buf.arg
    assert isinstance(arg, payload.Param | payload.Storage)
    return arg.size >= max(1, lanes)


def _load_first(f: Function, node: UOp, buf: UOp, one: UOp | None) -> str:
    """Write a gated LOAD of a grid program without a branch: where the gate is off, element 0 is read instead
    and thrown away. `one` gates all lanes; if there is none, lanes are loaded one by one."""
    lanes, align = lanes_of(node), node.payload(payload.Access).align
    pointer, of = f.dialect.pointer(_space(buf)), in_memory(node.dtype)
    base, index, gate = f.pointers[buf], f.wide(node.src[1]), node.src[2]
    if one is not None:
        on = f.value(one)
        place = f.emit(f"select i1 {on}, i64 {index}, i64 0")
        at = f.emit(f"getelementptr {of}, {pointer} {base}, i64 {place}")
        loaded = _as_value(f, node, f.emit(f"load {vector(of, lanes)}, {pointer} {at}, align {align}"))
        v = value_type(node)
        return f.emit(f"select i1 {on}, {v} {loaded}, {v} {f.value(node.src[3])}")
    t, text, mask = vector(of, lanes), "poison", f.value(gate)
    for k in range(lanes):
        on = f.value(gate.src[k]) if gate.op is Ops.STACK else f.emit(
            f"extractelement {vector('i1', lanes)} {mask}, i64 {k}")  # fmt: skip
        mine = f.emit(f"add nsw i64 {index}, {k}") if k else index
        place = f.emit(f"select i1 {on}, i64 {mine}, i64 0")
        at = f.emit(f"getelementptr {of}, {pointer} {base}, i64 {place}")
        got = f.emit(f"load {of}, {pointer} {at}, align {node.dtype.itemsize}")
        text = f.emit(f"insertelement {t} {text}, {of} {got}, i64 {k}")
    v, loaded = value_type(node), _as_value(f, node, text)
    return f.emit(f"select {vector('i1', lanes)} {mask}, {v} {loaded}, {v} {f.value(node.src[3])}")


def _load_either(f: Function, node: UOp, t: str, pointer: str, at: str, gate: str) -> str:
    alternative, align = node.src[3], node.payload(payload.Access).align
    elsewhere = f.constant_data(alternative, align)
    if elsewhere is not None:
        chosen = f.emit(f"select i1 {gate}, {pointer} {at}, {pointer} {elsewhere}")
        return _as_value(f, node, f.emit(f"load {t}, {pointer} {chosen}, align {align}"))
    elsewhere = f.constant_data(UOp.const(0, node.dtype, lanes_of(node)), align)
    chosen = f.emit(f"select i1 {gate}, {pointer} {at}, {pointer} {elsewhere}")
    loaded = _as_value(f, node, f.emit(f"load {t}, {pointer} {chosen}, align {align}"))
    v = value_type(node)
    return f.emit(f"select i1 {gate}, {v} {loaded}, {v} {f.value(alternative)}")


def _load_branching(f: Function, t: str, what: str, gate: str, alternative: UOp) -> str:
    other, before = _as_memory(f, alternative), f.block
    on, off = f.fresh("on"), f.fresh("off")
    f.effect(f"br i1 {gate}, label %{on}, label %{off}")
    f.begin(on)
    loaded = f.emit(f"load {t}, {what}")
    f.effect(f"br label %{off}")
    f.begin(off)
    return f.emit(f"phi {t} [ {loaded}, %{on} ], [ {other}, %{before} ]")


def render_store(f: Function, node: UOp) -> None:
    """Write a STORE."""
    value, gate = node.src[2], node.src[3] if len(node.src) > 3 else None
    slot = f.traffic.slots.get(node)
    if slot is not None:
        f.slots[slot] = f.value(value)
        return
    buf, lanes, align = node.src[0].base, lanes_of(value), node.payload(payload.Access).align
    pointer, at = address(f, buf, node.src[1])
    t, text = vector(in_memory(value.dtype), lanes), _as_memory(f, value)
    if gate is None:
        past = ", !nontemporal !0" if _streams(f, buf, lanes * value.dtype.itemsize, align) else ""
        f.effect(f"store {t} {text}, {pointer} {at}, align {align}{past}")
        return
    one = _uniform(gate)
    if one is None:
        name = f"@llvm.masked.store.{mangle(in_memory(value.dtype), lanes)}.p{f.dialect.spaces[_space(buf)]}"
        mask = vector("i1", lanes)
        f.declarations[f"declare void {name}({t}, {pointer}, i32 immarg, {mask})"] = None
        f.effect(f"call void {name}({t} {text}, {pointer} {at}, i32 {align}, {mask} {f.value(gate)})")
        return
    on, off = f.fresh("on"), f.fresh("off")
    f.effect(f"br i1 {f.value(one)}, label %{on}, label %{off}")
    f.begin(on)
    f.effect(f"store {t} {text}, {pointer} {at}, align {align}")
    f.effect(f"br label %{off}")
    f.begin(off)


def _streams(f: Function, buf: UOp, nbytes: int, align: int) -> bool:
    """Whether a store goes past the caches: whole lines of an array that is larger than they are and only
    written, which would otherwise be read first, to be overwritten, and push out what others want."""
    if not f.dialect.stream or buf.op is not Ops.PARAM or nbytes < _LINE or align % _LINE:
        return False
    param = buf.payload(payload.Param)
    if param.access != "w" or param.size * buf.dtype.itemsize < f.dialect.stream:
        return False
    f.streamed = True
    return True


# A bool is a bit in a value and a byte in memory. Any byte but 0 reads as True.


def _as_value(f: Function, node: UOp, loaded: str) -> str:
    if node.dtype is not dtypes.bool_:
        return loaded
    lanes = lanes_of(node)
    return f.emit(f"icmp ne {vector('i8', lanes)} {loaded}, {'zeroinitializer' if lanes else '0'}")


def _as_memory(f: Function, value: UOp) -> str:
    text = f.value(value)
    if value.dtype is not dtypes.bool_:
        return text
    return f.emit(f"zext {value_type(value)} {text} to {vector('i8', lanes_of(value))}")
