"""The PYTHON renderer: the text form of linear kernels, with everything that the interpreter can run
declared."""

from __future__ import annotations

from tiny_core.api import (
    ALU,
    GLOBAL,
    REGISTER,
    Arch,
    Capabilities,
    Compiler,
    DType,
    Ops,
    Renderer,
    Signature,
    TargetError,
    UOp,
    dtypes,
    text,
)

# What each kind of dtype has no meaning for; the interpreter's table (`ops.py`) has the rest, as a test
# checks.
_INTEGER_ONLY = {Ops.IDIV, Ops.IMOD, Ops.FLOORDIV, Ops.FLOORMOD, Ops.SHL, Ops.SHR}
_BITWISE = {Ops.NOT, Ops.AND, Ops.OR, Ops.XOR}
_FLOAT_ONLY = {Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.DIV, Ops.POW}
_LANES = (2, 4, 8, 16, 32, 64)


def _ops(dtype: DType) -> frozenset[Ops]:
    if dtype.is_float:
        return ALU - _INTEGER_ONLY - _BITWISE - {Ops.THREEFRY}
    if dtype.kind == "bool":
        return ALU - _INTEGER_ONLY - _FLOAT_ONLY - {Ops.NEG, Ops.SUB, Ops.THREEFRY}
    return ALU - _FLOAT_ONLY - (frozenset() if dtype is dtypes.uint64 else {Ops.THREEFRY})


class PythonRenderer(Renderer):
    """Renders a kernel as its own text.

    A host-shaped target with wide vectors: the interpreter spends its time per node and not per lane or
    iteration of the thread axis, so that wide values, many such iterations and little code in loops are fast.
    It declares no near memory: a tile that each iteration stages for itself would cost more than it saves.
    MULACC is no single instruction here (an exact one is ten numpy calls), so none is made; kernels of other
    targets that hold it run all the same.

    Raises:
        TargetError: an architecture or a feature was named; there is none.
    """

    name = "PYTHON"

    def __init__(self, arch: Arch) -> None:
        if arch.name or arch.features:
            said = arch.name or ", ".join(name for name, _ in arch.features)
            raise TargetError(
                f"PYTHON has no architectures and no features, so not {said}", "write DEV=PYTHON"
            )
        self.arch = arch
        self.capabilities = Capabilities(
            launch="threads",
            dtypes=frozenset(dtypes.storable),
            ops=frozenset(
                (op, dtype) for dtype in dtypes.storable for op in (*_ops(dtype), Ops.CAST, Ops.BITCAST)
            ),
            lanes=tuple((dtype, _LANES) for dtype in dtypes.storable),
            spaces=(GLOBAL, REGISTER),
            vector_bytes=256,
            registers=1,
            tasks=1 << 16,
        )

    def render(self, linear: UOp, signature: Signature) -> str:
        return text.format(linear)

    def compiler(self) -> Compiler:
        return TextCompiler()


class TextCompiler(Compiler):
    """Encodes the text, which is what the interpreter loads."""

    def compile(self, source: str, name: str) -> bytes:
        return source.encode()

    def fingerprint(self) -> str:
        return "text"

    def disassemble(self, binary: bytes) -> str:
        return binary.decode()
