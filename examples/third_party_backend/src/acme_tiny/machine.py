"""The K1 itself, for lack of a real one: its assembler, and a core that executes what the assembler made.

A core runs one group after another; a group is one item with registers of one or four lanes, and 16 KB of
scratch. An address outside its memory traps. Arithmetic is total, as the IR's is: nothing depends on what the
host's numpy does with a division by zero or a shift by 40.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tiny_core.api import CompileError, LaunchError

Array = npt.NDArray[Any]
Instruction = tuple[str, str, str, tuple[Any, ...]]  # operation, type, destination, operands
TYPES = {"b1": np.bool_, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "f32": np.float32}
NUMBERED = ("const", "arg", "group")
CONTROL = (*NUMBERED, "loop", "end")
MAGIC = b"ACME K1\n"


def dtype_of(kind: str) -> tuple[np.dtype[Any], int]:
    """The numpy dtype and the lanes (0: a scalar) of `f32x4` and the like; KeyError where there is none."""
    name, _, lanes = kind.partition("x")
    return np.dtype(TYPES[name]), int(lanes or 0)


def assemble(source: str, name: str) -> bytes:
    """Check and encode a program; raises CompileError with the line that is wrong."""
    code: list[Instruction] = []
    memory: list[tuple[str, str, int]] = []
    known = {""}
    loops: list[int] = []
    for number, text in enumerate(source.splitlines(), 1):
        words = text.partition(";")[0].replace("=", " = ").split()
        try:
            if not words or words[0] == ".kernel":
                continue
            if words[0].startswith("."):
                dtype_of(words[2])
                memory.append((words[1], words[2], int(words[3])))
                known.add(words[1])
                continue
            dest, words = (words[0], words[2:]) if words[1:2] == ["="] else ("", words)
            op, _, kind = words[0].partition(".")
            if kind:
                dtype_of(kind)
            if op not in CONTROL and op not in ALU and op not in MOVES:
                raise ValueError(f"no instruction {op}")
            unknown = [w for w in words[1:] if w[0] in "%ars" and w not in known]
            if unknown:
                raise ValueError(f"{unknown[0]} has no value yet")
            operands: list[Any] = [int(words[1], 0)] if op in NUMBERED else words[1:]
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


class Program:
    """A loaded program."""

    def __init__(self, binary: bytes) -> None:
        if not binary.startswith(MAGIC):
            raise LaunchError("not a program of the ACME K1")
        memory, code = json.loads(binary.removeprefix(MAGIC))
        self.memory: list[tuple[str, str, int]] = [tuple(m) for m in memory]
        self.code: list[Instruction] = [tuple(instruction) for instruction in code]

    def run(self, buffers: Sequence[memoryview], scalars: Sequence[int], grid: Sequence[int]) -> None:
        """Run every group of the grid; raises LaunchError where an access leaves its memory."""
        fixed: dict[str, Array] = {}
        for name, kind, size in self.memory:
            if name.startswith("a"):
                dtype, _ = dtype_of(kind)
                view = buffers[int(name[1:])]
                if size * dtype.itemsize > view.nbytes:
                    raise LaunchError(f"buffer {name} has {view.nbytes} bytes, not {size * dtype.itemsize}")
                fixed[name] = np.frombuffer(view, dtype, size)
        x, y, z = (*grid, 1, 1, 1)[:3]
        with np.errstate(all="ignore"):
            for group in product(range(z), range(y), range(x)):
                self._group(dict(fixed), scalars, group[::-1])

    def _group(self, values: dict[str, Any], scalars: Sequence[int], group: Sequence[int]) -> None:
        for name, kind, size in self.memory:
            if not name.startswith("a"):
                dtype, lanes = dtype_of(kind)
                values[name] = np.zeros((size, lanes) if lanes else size, dtype)
        code, pc = self.code, 0
        while pc < len(code):
            op, kind, dest, operands = code[pc]
            pc += 1
            if op == "const":
                bits = operands[0].to_bytes(8, "little")
                values[dest] = np.frombuffer(bits, dtype_of(kind)[0])[0]
            elif op in ("arg", "group"):
                values[dest] = dtype_of(kind)[0].type((scalars if op == "arg" else group)[operands[0]])
            elif op == "loop":
                values[dest] = dtype_of(kind)[0].type(0)
                if values[operands[0]] <= 0:
                    pc = operands[1] + 1
            elif op == "end":
                _, _, counter, (stop, _) = code[operands[0]]
                values[counter] = values[counter] + 1
                if values[counter] < values[stop]:
                    pc = operands[0] + 1
            elif op in MOVES:
                values[dest] = MOVES[op](kind, *(values.get(o, o) for o in operands))
            else:
                values[dest] = ALU[op](dtype_of(kind)[0], *(values[o] for o in operands))


# ---- memory and lanes --------------------------------------------------------------------------------------


def _span(memory: Array, index: Any, lanes: int) -> slice | int:
    """Where `lanes` elements from `index` on lie; a vector slot of the register file is one element."""
    wide = lanes if memory.ndim == 1 else 0
    if not 0 <= index <= len(memory) - max(wide, 1):
        raise LaunchError(f"address {index} is outside memory of {len(memory)} elements")
    return slice(index, index + wide) if wide else int(index)


def _load(kind: str, memory: Array, index: Any, gate: Any = True, other: Any = None) -> Any:
    lanes = dtype_of(kind)[1]
    if np.all(gate):
        return memory[_span(memory, index, lanes)].copy()
    if not lanes:
        return other  # lanes that are off touch no memory
    return np.array([memory[_span(memory, index + i, 0)] if gate[i] else other[i] for i in range(lanes)])


def _store(kind: str, memory: Array, index: Any, value: Any, gate: Any = True) -> None:
    if np.all(gate):
        memory[_span(memory, index, dtype_of(kind)[1])] = value
        return
    for i in np.flatnonzero(gate):
        memory[_span(memory, index + i, 0)] = value[i]


def _shuffle(kind: str, *operands: Any) -> Array:
    lanes = dtype_of(kind)[1]
    joined = np.concatenate([np.atleast_1d(o) for o in operands[: len(operands) - lanes]])
    return joined[[int(i) for i in operands[len(operands) - lanes :]]]


MOVES: dict[str, Callable[..., Any]] = {
    "ld": _load,
    "st": _store,
    "stack": lambda kind, *lanes: np.array(lanes, dtype_of(kind)[0]),
    "lane": lambda kind, vector, lane: vector[int(lane)],
    "shuffle": _shuffle,
}


# ---- arithmetic: from the result's dtype and the operands to the result ------------------------------------


def _cast(dtype: np.dtype[Any], x: Array) -> Any:
    """To an integer, floats saturate and NaN becomes 0; integers wrap; floats round to nearest."""
    x = np.asarray(x)
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)[()]
    info, edge = np.iinfo(dtype), 2.0 ** (8 * dtype.itemsize - 1)
    inside = np.where(np.isnan(x) | (np.abs(x) >= edge), 0, x).astype(dtype)
    return np.where(x >= edge, info.max, np.where(x < -edge, info.min, inside)).astype(dtype)[()]


def _divide(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
    """Toward zero; x/0 is 0; the least integer divided by -1 wraps."""
    safe = np.where((y == 0) | (y == -1), 1, y)
    quotient = x // safe + ((x % safe != 0) & ((x < 0) != (safe < 0)))
    return np.where(y == 0, 0, np.where(y == -1, np.negative(x), quotient)).astype(dtype)[()]


def _shift(left: bool) -> Callable[..., Any]:
    def shift(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
        bits = 8 * dtype.itemsize
        over = (y < 0) | (y >= bits)
        by = np.where(over, bits - 1, y).astype(dtype)
        shifted = np.where(over, 0, x << by) if left else x >> by  # the sign, if shifted too far to the right
        return shifted.astype(dtype)[()]

    return shift


def _extreme(pick: Callable[..., Any], first_if_negative: bool) -> Callable[..., Any]:
    """MAX and MIN: NaN if either is, and -0.0 is less than 0.0."""

    def extreme(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
        first = np.signbit(x) == first_if_negative
        return np.where(x == y, np.where(first, x, y), pick(x, y)).astype(dtype)[()]

    return extreme


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dtype, *operands: np.asarray(function(*operands), dtype)[()]


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "recip": np.reciprocal, "sqrt": np.sqrt, "exp2": np.exp2, "log2": np.log2, "trunc": np.trunc,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "where": np.where,
    "cmplt": np.less, "cmple": np.less_equal, "cmpeq": np.equal, "cmpne": np.not_equal,
    "relu": lambda x: np.where(x <= 0, np.float32(0), x),
}  # fmt: skip
ALU: dict[str, Callable[..., Any]] = {
    **{name: _plain(function) for name, function in _NUMPY.items()},
    "max": _extreme(np.maximum, False),
    "min": _extreme(np.minimum, True),
    "idiv": _divide,
    "imod": lambda dtype, x, y: (x - _divide(dtype, x, y) * y).astype(dtype),
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "cast": _cast,
    "bitcast": lambda dtype, x: np.asarray(x).view(dtype)[()],
}
