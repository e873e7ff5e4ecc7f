"""Compiled kernels as JSON and bytes, and the frames in which they cross a pipe. Nothing is ever unpickled.

A frame is two little-endian 32-bit lengths, a JSON object of the first length and a payload of the second.
What a payload holds is said by the object: `parts`, the lengths of the pieces of which it is the
concatenation.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import BinaryIO, Final, Literal, cast

from tiny_core import dtypes
from tiny_core.render.renderer import Compiled
from tiny_core.render.signature import Expr, ParamSpec, ScalarSpec, Signature

Json = dict[str, object]
_ACCESS: Final[dict[str, Literal["r", "w", "rw"]]] = {"r": "r", "w": "w", "rw": "rw"}
_HEAD: Final = struct.Struct("<II")


def signature_to_json(signature: Signature) -> Json:
    """Return a signature as a JSON object."""
    return {
        "name": signature.name,
        "params": [[s.dtype.name, s.size, s.access, s.align, s.space, s.may_alias] for s in signature.params],
        "scalars": [[s.name, s.kind] for s in signature.scalars],
        "grid": list(signature.grid),
        "block": list(signature.block),
        "parallel": signature.parallel,
        "local_bytes": signature.local_bytes,
        "device_index": signature.device_index,
    }


def signature_from_json(data: Json) -> Signature:
    """Return the signature that `signature_to_json` wrote; raises KeyError, TypeError or ValueError for other
    data."""
    params = cast("list[list[str]]", data["params"])
    scalars = cast("list[list[str]]", data["scalars"])
    return Signature(
        str(data["name"]),
        tuple(
            ParamSpec(dtypes.parse(dtype), int(size), _access(access), int(align), space, bool(may_alias))
            for dtype, size, access, align, space, may_alias in params
        ),
        tuple(ScalarSpec(name, "float64" if kind == "float64" else "int64") for name, kind in scalars),
        tuple(_extent(e) for e in cast("list[object]", data["grid"])),
        tuple(int(n) for n in cast("list[int]", data["block"])),
        _extent(data["parallel"]),
        int(cast(int, data["local_bytes"])),
        bool(data["device_index"]),
    )


def compiled_to_parts(compiled: Compiled) -> tuple[Json, list[bytes]]:
    """Return a compiled kernel as a JSON object, and its source and binary."""
    meta: Json = {
        "signature": signature_to_json(compiled.signature),
        "flops": compiled.flops,
        "bytes": compiled.bytes,
        "detail": compiled.detail,
    }
    return meta, [compiled.source.encode(), compiled.binary]


def compiled_from_parts(meta: Json, parts: Sequence[bytes]) -> Compiled:
    """Return what `compiled_to_parts` took apart; raises KeyError, TypeError or ValueError for other data."""
    source, binary = parts
    return Compiled(
        signature_from_json(cast(Json, meta["signature"])),
        binary,
        source.decode(),
        int(cast(int, meta["flops"])),
        int(cast(int, meta["bytes"])),
        str(meta["detail"]),
    )


def write_frame(stream: BinaryIO, header: Json, parts: Sequence[bytes] = ()) -> None:
    """Write one frame and flush; `parts` in the header is filled in."""
    text = json.dumps({**header, "parts": [len(p) for p in parts]}).encode()
    left = memoryview(_HEAD.pack(len(text), sum(map(len, parts))) + text + b"".join(parts))
    while left:
        left = left[stream.write(left) :]  # an unbuffered pipe may take a part
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[Json, list[bytes]] | None:
    """Read one frame: its header and parts. None where the stream ends, even in the middle of a frame."""
    head = _exactly(stream, _HEAD.size)
    if head is None:
        return None
    lengths = _HEAD.unpack(head)
    text, payload = _exactly(stream, lengths[0]), _exactly(stream, lengths[1])
    if text is None or payload is None:
        return None
    header: Json = json.loads(text)
    parts, at = [], 0
    for length in cast("list[int]", header["parts"]):
        parts.append(payload[at : at + length])
        at += length
    return header, parts


def _exactly(stream: BinaryIO, n: int) -> bytes | None:
    data = b""
    while len(data) < n:
        more = stream.read(n - len(data))
        if not more:
            return None
        data += more
    return data


def _access(text: str) -> Literal["r", "w", "rw"]:
    if text not in _ACCESS:
        raise ValueError(f"access {text!r}")
    return _ACCESS[text]


def _extent(data: object) -> int | Expr:
    if isinstance(data, list | tuple):
        return tuple(item if isinstance(item, str) else int(item) for item in data)
    return int(cast(int, data))
