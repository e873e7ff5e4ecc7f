"""The ACME in software: its assembler, and a machine that executes what the assembler made.

It stands in for the toolkit and the chip, so that all of this works before they do; with them, it becomes
the device's mock. A core runs one group after another, and a group is one item. Groups do not see each
other's work, so this machine runs all of them at once, with numpy: a value is one number, or an array of one
number per group; lanes are its last axis. An address outside its memory traps. Arithmetic is total, as the
IR's is: x/0 is 0 for integers, shifts by more than the width give 0 or the sign, floats that do not fit an
integer saturate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiny_core.api import CompileError, LaunchError

Array = npt.NDArray[Any]
Instruction = tuple[str, str, str, tuple[Any, ...]]  # operation, type, destination, operands
TYPES = {
    "b1": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "u32": np.uint32, "f32": np.float32,
}  # fmt: skip
NUMBERED = ("const", "arg", "group")
CONTROL = (*NUMBERED, "loop", "end", "ld", "st", "stack")
MAGIC = b"ACME\n"
AT_ONCE = 16384  # groups


def dtype_of(kind: str) -> np.dtype[Any]:
    """The numpy dtype of `f32`, `f32x4` and the like; KeyError where there is none."""
    return np.dtype(TYPES[kind.partition("x")[0]])


def lanes_of(kind: str) -> int:
    """The lanes of `f32x4`; 0 for a scalar."""
    return int(kind.partition("x")[2] or 0)


# ---- the assembler -----------------------------------------------------------------------------------------


def assemble(source: str, name: str) -> bytes:
    """Check and encode a program; raises CompileError with the line that is wrong."""
    code: list[Instruction] = []
    memory: list[tuple[str, str, int]] = []
    known: set[str] = set()
    loops: list[int] = []
    for number, text in enumerate(source.splitlines(), 1):
        words = text.partition(";")[0].split()
        if not words or words[0] == ".kernel":
            continue
        try:
            if words[0] in (".buffer", ".scratch", ".register"):
                dtype_of(words[2])
                memory.append((words[1], words[2], int(words[3])))
                known.add(words[1])
                continue
            dest, words = (words[0], words[2:]) if words[1] == "=" else ("", words)
            op, _, kind = words[0].partition(".")
            if op not in CONTROL and op not in ALU:
                raise ValueError(f"no instruction {op}")
            if op != "end":
                dtype_of(kind)
            operands: list[Any] = [int(words[1], 0)] if op in NUMBERED else words[1:]
            unknown = [w for w in operands if op not in NUMBERED and w.partition(".")[0] not in known]
            if unknown:
                raise ValueError(f"{unknown[0]} has no value yet")
            if op == "loop":
                loops.append(len(code))
            if op == "end":  # a loop knows where it ends, an end where it began
                begin = loops.pop()
                if code[begin][2] != words[1]:
                    raise ValueError("end of a loop that is not the innermost")
                operands = [begin]
                code[begin] = (*code[begin][:3], (*code[begin][3], len(code)))
            code.append((op, kind, dest, tuple(operands)))
            known.add(dest)
        except (ValueError, KeyError, IndexError) as error:
            raise CompileError(f"{name}, line {number}: {error}: {text.strip()}", source=source) from error
    return MAGIC + json.dumps([memory, code]).encode()


# ---- the machine -------------------------------------------------------------------------------------------


class Program:
    """A loaded program."""

    def __init__(self, binary: bytes) -> None:
        if not binary.startswith(MAGIC):
            raise LaunchError("not a program of the ACME")
        memory, code = json.loads(binary.removeprefix(MAGIC))
        self.memory: list[tuple[str, str, int]] = [tuple(m) for m in memory]
        self.code: list[Instruction] = [tuple(instruction) for instruction in code]

    def run(self, buffers: Sequence[memoryview], scalars: Sequence[int], grid: Sequence[int]) -> None:
        """Run every group of the grid; raises LaunchError where an access leaves its memory."""
        fixed: dict[str, Any] = {}
        for name, kind, size in self.memory:
            if name.startswith("a"):
                view = buffers[int(name[1:])]
                if size * dtype_of(kind).itemsize > view.nbytes:
                    raise LaunchError(f"buffer {name} has {view.nbytes} bytes, and {size} elements are used")
                fixed[name] = np.frombuffer(view, dtype_of(kind), size)
        x, y, z = (*grid, 1, 1, 1)[:3]
        with np.errstate(all="ignore"):
            for first in range(0, x * y * z, AT_ONCE):
                number = np.arange(first, min(first + AT_ONCE, x * y * z))
                self._groups(dict(fixed), scalars, (number % x, number // x % y, number // (x * y)))

    def _groups(self, values: dict[str, Any], scalars: Sequence[int], group: Sequence[Array]) -> None:
        """Run some groups, whose indices are `group`; `values` holds memory, and each value as it is made."""
        for name, kind, size in self.memory:
            if name.startswith("r"):
                values[name] = np.zeros((size, len(group[0]), lanes_of(kind) or 1), dtype_of(kind))
                if not lanes_of(kind):
                    values[name] = values[name][..., 0]
            elif name.startswith("s"):
                values[name] = Scratch(np.zeros(size * len(group[0]), dtype_of(kind)), size)
        code, pc = self.code, 0
        while pc < len(code):
            op, kind, dest, operands = code[pc]
            pc += 1
            if op == "const":
                bits = operands[0].to_bytes(8, "little")
                values[dest] = np.frombuffer(bits, dtype_of(kind))[0]
            elif op in ("arg", "group"):
                values[dest] = np.asarray((scalars if op == "arg" else group)[operands[0]], dtype_of(kind))
            elif op == "loop":  # all groups run it equally often: its size is a number of the launch
                values[dest] = dtype_of(kind).type(0)
                if values[operands[0]] <= 0:
                    pc = operands[1] + 1
            elif op == "end":
                _, _, counter, (stop, _) = code[operands[0]]
                values[counter] = values[counter] + dtype_of(code[operands[0]][1]).type(1)
                if values[counter] < values[stop]:
                    pc = operands[0] + 1
            elif op == "ld":
                values[dest] = _load(lanes_of(kind), *(values[o] for o in operands))
            elif op == "st":
                _store(lanes_of(kind), *(values[o] for o in operands))
            elif op == "stack":
                parts = [_lane(values, o) for o in operands]
                values[dest] = np.stack(np.broadcast_arrays(*parts), -1) if lanes_of(kind) else parts[0]
            else:
                values[dest] = ALU[op](dtype_of(kind), *(values[o] for o in operands))


class Scratch:
    """Scratch memory of several groups, one after the other."""

    def __init__(self, memory: Array, size: int) -> None:
        self.memory, self.size = memory, size

    def at(self, index: Array, lanes: int) -> Array:
        """The positions of an access: each group's indices count from its own part."""
        parts = np.arange(0, len(self.memory), self.size)
        return index + (parts[:, None] if lanes else parts)


def _checked(size: int, index: Array, gate: Any) -> Array:
    """The indices of an access, those that are gated off replaced by 0."""
    index = np.where(gate, index, 0)
    if len(wrong := index[(index < 0) | (index >= size)]):
        raise LaunchError(f"address {wrong[0]} is outside memory of {size} elements")
    return index


def _place(memory: Any, index: Any, lanes: int, gate: Any) -> tuple[Array, Array]:
    """The array that an access touches, and where."""
    if isinstance(memory, Scratch):
        return memory.memory, memory.at(_checked(memory.size, _span(index, lanes), gate), lanes)
    return memory, _checked(len(memory), _span(index, lanes), gate)


def _span(index: Any, lanes: int) -> Array:
    """The indices of the elements of an access that begins at `index`."""
    return np.asarray(index)[..., None] + np.arange(lanes) if lanes else np.asarray(index)


def _lane(values: dict[str, Any], name: str) -> Array:
    """The value `%3`, or the lane `%3.0` of one."""
    value, _, lane = name.partition(".")
    return np.asarray(values[value][..., int(lane)] if lane else values[value])


def _load(lanes: int, memory: Any, index: Any, gate: Any = True, other: Any = None) -> Array:
    if (
        isinstance(memory, np.ndarray) and memory.ndim > 1
    ):  # registers: a row for each slot, and the slot is the same for all groups
        value: Array = memory[int(index)].copy()
    else:
        array, where = _place(memory, index, lanes, gate)
        value = array[where]
    return value if gate is True else np.where(gate, value, other)


def _store(lanes: int, memory: Any, index: Any, value: Any, gate: Any = True) -> None:
    if isinstance(memory, np.ndarray) and memory.ndim > 1:
        memory[int(index)] = np.where(gate, value, memory[int(index)])
        return
    array, where = _place(memory, index, lanes, gate)
    where, value, gate = np.broadcast_arrays(where, value, gate)
    array[where[gate]] = value[gate]


# ---- arithmetic: from the result's dtype and the operands to the result ------------------------------------


def _cast(dtype: np.dtype[Any], x: Array) -> Array:
    """To an integer, floats saturate and NaN becomes 0; integers wrap; floats round to nearest."""
    x = np.asarray(x)
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    inside = np.where(np.isnan(x) | (x < low) | (x >= high), 0, x).astype(dtype)
    return np.where(x >= high, high, np.where(x < low, low, inside)).astype(dtype)


def _divide(dtype: np.dtype[Any], x: Array, y: Array) -> Array:
    """Toward zero; x/0 is 0; the least integer divided by -1 wraps."""
    whole = np.where(y == 0, 0, y).astype(np.int64)
    wide = x.astype(np.int64)
    quotient = np.abs(wide) // np.maximum(np.abs(whole), 1) * np.sign(wide) * np.sign(whole)
    return quotient.astype(dtype)


def _shift(left: bool) -> Callable[..., Array]:
    def shift(dtype: np.dtype[Any], x: Array, y: Array) -> Array:
        bits = 8 * dtype.itemsize
        over = (y < 0) | (y >= bits)
        by = np.where(over, 0, y).astype(dtype)
        lost = np.where(x < 0, -1, 0) if not left else 0  # the sign, if shifted too far to the right
        return np.where(over, lost, x << by if left else x >> by).astype(dtype)

    return shift


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda dtype, *operands: np.asarray(function(*operands), dtype)


def _extreme(pick: Callable[..., Any], first_if_negative: bool) -> Callable[..., Array]:
    """MAX and MIN: NaN if either is, and -0.0 is less than 0.0."""

    def extreme(dtype: np.dtype[Any], x: Array, y: Array) -> Array:
        first = np.signbit(x) == first_if_negative if dtype.kind == "f" else True
        return np.where(x == y, np.where(first, x, y), pick(x, y)).astype(dtype)

    return extreme


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "recip": np.reciprocal, "sqrt": np.sqrt, "exp2": np.exp2, "log2": np.log2, "trunc": np.trunc,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "where": np.where,
    "cmplt": np.less, "cmple": np.less_equal, "cmpeq": np.equal, "cmpne": np.not_equal,
    "relu": lambda x: np.where(x <= 0, np.float32(0), x),
}  # fmt: skip
ALU: dict[str, Callable[..., Array]] = {
    **{name: _plain(function) for name, function in _NUMPY.items()},
    "max": _extreme(np.maximum, False),
    "min": _extreme(np.minimum, True),
    "idiv": _divide,
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "cast": _cast,
    "bitcast": lambda dtype, x: np.asarray(x).view(dtype),
}
