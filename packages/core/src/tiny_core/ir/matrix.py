"""Matrix units as data: what one multiplies, and where each element of its operands is.

A unit computes D = A·B + C, of m by n by k elements, once for the `lanes` work-items that issue it together.
Each lane hands over a *fragment* of every operand, a few values; a fragment's layout says which element of
the matrix each of them is. Layouts are mixed-radix linear maps: the number of a lane and the number of an
element fall into digits, lowest first, and each digit moves along one axis of the matrix by a stride. Nothing
else
defines a unit: code generation computes indices from the same digits from which PYTHON computes values.

In and out: frozen data with a text form, `str(unit)` and `MatrixUnit.parse`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.errors import DTypeError, SpecError


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of the number of a lane or element.

    Args:
        axis: the axis that it moves along: `m`, `n`, `k`, `s` (block of `scale` elements of k); "" for none:
            lanes that differ in such a digit hold copies.
        size: its radix.
        stride: how far a step of it moves.
    """

    axis: str
    size: int
    stride: int = 1

    def __str__(self) -> str:
        at = f"@{self.stride}" if self.axis and self.stride != 1 else ""
        return f"{self.axis or '-'}{self.size}{at}"


@dataclass(frozen=True, slots=True)
class Format:
    """How elements that are no dtype of their own are encoded, packed from the lowest bit of a fragment on.

    Args:
        bits: width of an element.
        kind: "int" or "uint", or "float" of `exponent` and `mantissa` bits, without infinities or NaN.
    """

    bits: int
    kind: str
    exponent: int = 0
    mantissa: int = 0


FORMATS: dict[str, Format] = {
    "int4": Format(4, "int"),
    "uint4": Format(4, "uint"),
    # OCP Microscaling Formats (MX) specification 1.0, section 5.3
    "fp4e2m1": Format(4, "float", 2, 1),
    "fp6e2m3": Format(6, "float", 2, 3),
    "fp6e3m2": Format(6, "float", 3, 2),
    # float32 of which the unit reads only the upper 10 bits of the mantissa
    "xf32": Format(32, "float", 8, 10),
}
"""Formats by name."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A lane's part of an operand.

    Args:
        dtype: of the values that a lane hands over, and
        width: how many: 1 is a scalar of the IR, more are a value of so many lanes.
        lanes: digits of the lane's number, and
        elements: of the element's, lowest first.
        format: a name of FORMATS where elements are packed into the values; "" where they are the values.
    """

    dtype: DType
    width: int
    lanes: tuple[Digit, ...]
    elements: tuple[Digit, ...]
    format: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the fragment in the IR."""
        return (self.width,) if self.width > 1 else ()

    @property
    def count(self) -> int:
        """Elements of a lane."""
        count = 1
        for d in self.elements:
            count *= d.size
        return count

    @property
    def encoding(self) -> Format | None:
        """How elements are packed, or None where the values are the elements."""
        return FORMATS[self.format] if self.format else None

    def place(self, lane: int, element: int) -> dict[str, int]:
        """Return the position along each axis of an element of a lane."""
        at: dict[str, int] = {}
        for digits, number in ((self.lanes, lane), (self.elements, element)):
            for d in digits:
                if d.axis:
                    at[d.axis] = at.get(d.axis, 0) + number % d.size * d.stride
                number //= d.size
        return at

    def extent(self, axis: str) -> int:
        """Return the number of positions along an axis."""
        return 1 + sum((d.size - 1) * d.stride for d in (*self.lanes, *self.elements) if d.axis == axis)

    def __str__(self) -> str:
        lanes = ".".join(map(str, self.lanes))
        elements = ".".join(map(str, self.elements))
        return f"{self.dtype.name}x{self.width}{'/' + self.format if self.format else ''}:{lanes}|{elements}"

    @classmethod
    def parse(cls, text: str) -> Fragment:
        """Return the fragment whose text this is; raises SpecError."""
        head, _, rest = text.partition(":")
        head, _, format = head.partition("/")
        name, _, width = head.rpartition("x")
        lanes, _, elements = rest.partition("|")
        if format and format not in FORMATS:
            raise SpecError(f"there is no format {format!r}", f"there are {', '.join(FORMATS)}")
        try:
            return cls(dtypes.parse(name), int(width), _digits(lanes), _digits(elements), format)
        except (ValueError, DTypeError):
            raise SpecError(f"{text!r} is no fragment", "e.g. float16x4:m16.k4@4|k4") from None


def _digits(text: str) -> tuple[Digit, ...]:
    out = []
    for part in filter(None, text.split(".")):
        size, _, stride = part[1:].partition("@")
        out.append(Digit(part[0].replace("-", ""), int(size), int(stride or 1)))
    return tuple(out)


@dataclass(frozen=True)
class MatrixUnit:
    """A matrix instruction: D = A·B + C.

    Args:
        name: unique among the units of a target, e.g. `mfma_f32_16x16x16_f16`.
        m, n, k: A has m by k elements, B k by n, C and D m by n.
        lanes: work-items that issue it together: 1, or a subgroup.
        a, b, c: fragments; D is laid out as C.
        scale: elements of k that share a factor; 0 where there are no factors.
        scale_a, scale_b: fragments of the factors: exponents of two with a bias of 127, of axes m and s, or n
            and s.
        feature: feature of the architecture without which there is no such instruction, "" for none.
        accumulators: how many C a lane can hold where they have registers of their own; 0 where they are
            ordinary registers.
        cycles: for how long one occupies the unit, to tell which unit is faster; 0 where nobody says.

    Products are exact; their sum and C are added and rounded once (floats), or wrap (integers). A real unit
    may round in between: an accumulator's additions may be reassociated, as everywhere in this IR.
    """

    name: str
    m: int
    n: int
    k: int
    lanes: int
    a: Fragment
    b: Fragment
    c: Fragment
    scale: int = 0
    scale_a: Fragment | None = None
    scale_b: Fragment | None = None
    feature: str = ""
    accumulators: int = 0
    cycles: int = 0

    def __hash__(self) -> int:  # names tell units apart, but for different targets
        return hash((self.name, self.m, self.n, self.k, self.lanes))

    @property
    def operands(self) -> tuple[Fragment, ...]:
        """The fragments of the sources of a MATRIX node, in order: A, B, C, and the factors."""
        more = () if self.scale_a is None or self.scale_b is None else (self.scale_a, self.scale_b)
        return (self.a, self.b, self.c, *more)

    @property
    def exact(self) -> bool:
        """Whether the unit multiplies the values as they are handed over: of their dtype, every bit of
        them."""
        return not (self.a.format or self.b.format or self.scale)

    @cached_property
    def _text(self) -> str:
        parts = [self.name, f"{self.m}x{self.n}x{self.k}", f"lanes={self.lanes}"]
        parts += [f"a={self.a}", f"b={self.b}", f"c={self.c}"]
        if self.scale:
            parts += [f"scale={self.scale}", f"sa={self.scale_a}", f"sb={self.scale_b}"]
        if self.feature:
            parts.append(f"feature={self.feature}")
        if self.accumulators:
            parts.append(f"accumulators={self.accumulators}")
        if self.cycles:
            parts.append(f"cycles={self.cycles}")
        return " ".join(parts)

    def __str__(self) -> str:
        return self._text

    @classmethod
    def parse(cls, text: str) -> MatrixUnit:
        """Return the unit whose text this is; raises SpecError."""
        try:
            name, shape, *rest = text.split()
            m, n, k = map(int, shape.split("x"))
            given = dict(part.split("=", 1) for part in rest)
            fragments = {key: Fragment.parse(given[key]) for key in ("a", "b", "c")}
            lanes, scale = int(given["lanes"]), int(given.get("scale", 0))
        except (ValueError, KeyError):
            raise SpecError(f"{text!r} is no matrix unit") from None
        sa = Fragment.parse(given["sa"]) if "sa" in given else None
        sb = Fragment.parse(given["sb"]) if "sb" in given else None
        feature = given.get("feature", "")
        accumulators, cycles = int(given.get("accumulators", 0)), int(given.get("cycles", 0))
        a, b, c = fragments["a"], fragments["b"], fragments["c"]
        return cls(name, m, n, k, lanes, a, b, c, scale, sa, sb, feature, accumulators, cycles)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the table: each operand's lanes and elements must reach every element of
        its matrix, equally often, and no other."""
        blocks = self.k // self.scale if self.scale else 1
        sizes = {"m": self.m, "n": self.n, "k": self.k, "s": blocks}
        for what, fragment, axes in zip("ABCPQ", self.operands, ("mk", "kn", "mn", "ms", "ns"), strict=False):
            lanes = 1
            for d in fragment.lanes:
                lanes *= d.size
            if lanes != self.lanes:
                yield f"{what}: digits of the lane make {lanes}, not {self.lanes}"
            bits = fragment.encoding.bits if fragment.encoding else fragment.dtype.bits
            if fragment.count * bits > fragment.width * fragment.dtype.bits:
                yield f"{what}: {fragment.count} elements in {fragment.width} of {fragment.dtype.name}"
            seen: dict[tuple[int, ...], int] = {}
            for lane in range(lanes):
                for e in range(fragment.count):
                    at = fragment.place(lane, e)
                    if not set(at) <= set(axes):
                        yield f"{what}: moves along {', '.join(sorted(at))}"
                        return
                    key = tuple(at.get(x, 0) for x in axes)
                    seen[key] = seen.get(key, 0) + 1
            whole = sizes[axes[0]] * sizes[axes[1]]
            inside = all(all(0 <= p < sizes[x] for p, x in zip(key, axes, strict=True)) for key in seen)
            if len(seen) != whole or not inside or len(set(seen.values())) != 1:
                yield f"{what}: the layout does not cover its matrix once, or equally often"
