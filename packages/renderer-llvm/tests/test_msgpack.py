"""The reader of MessagePack, format by format as its specification writes them."""

from __future__ import annotations

import random
import struct

import pytest

from tiny_core.api import DataError
from tiny_renderer_llvm.msgpack import unpack

CASES: list[tuple[bytes, object]] = [
    # the example on msgpack.org
    (b"\x82\xa7compact\xc3\xa6schema\x00", {"compact": True, "schema": 0}),
    (b"\x7f", 127), (b"\xe0", -32), (b"\xff", -1), (b"\xc0", None), (b"\xc2", False),
    (b"\xcc\xff", 255), (b"\xcd\x01\x00", 256), (b"\xce\xff\xff\xff\xff", (1 << 32) - 1),
    (b"\xcf" + b"\xff" * 8, (1 << 64) - 1), (b"\xd0\x80", -128), (b"\xd1\x80\x00", -32768),
    (b"\xd2\x80\x00\x00\x00", -(1 << 31)), (b"\xd3" + b"\x80" + bytes(7), -(1 << 63)),
    (b"\xca" + struct.pack(">f", 0.5), 0.5), (b"\xcb" + struct.pack(">d", -2.25), -2.25),
    (b"\xa0", ""), (b"\xa3abc", "abc"), (b"\xd9\x20" + b"x" * 32, "x" * 32), (b"\xda\x00\x01\x79", "y"),
    (b"\xdb\x00\x00\x00\x02\xc3\xa9", "é"), (b"\xc4\x02\x00\xff", b"\x00\xff"),
    (b"\xc5\x00\x01\x07", b"\x07"), (b"\xc6\x00\x00\x00\x00", b""),
    (b"\x90", []), (b"\x93\x01\xc0\x92\x02\x03", [1, None, [2, 3]]), (b"\xdc\x00\x02\x01\x02", [1, 2]),
    (b"\xdd\x00\x00\x00\x01\xa1z", ["z"]), (b"\x80", {}), (b"\xde\x00\x01\xa1k\x01", {"k": 1}),
    (b"\xdf\x00\x00\x00\x01\xa1k\x80", {"k": {}}),
]  # fmt: skip


@pytest.mark.parametrize(("data", "value"), CASES, ids=lambda v: v.hex()[:16] if isinstance(v, bytes) else "")
def test_a_format(data: bytes, value: object) -> None:
    found = unpack(data)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("data", [data for data, _ in CASES], ids=lambda v: v.hex()[:16])
def test_what_is_cut_off_or_followed_by_more_is_an_error(data: bytes) -> None:
    for n in range(len(data)):
        with pytest.raises(DataError, match="MessagePack"):
            unpack(data[:n])
    with pytest.raises(DataError, match="1 bytes follow"):
        unpack(data + b"\x00")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xd4\x01\x00", "type 0xd4"),  # an extension
        (b"\xc1", "type 0xc1"),  # never used
        (b"\x91" * 100, "nested"),
        (b"\x81\x01\x01", "as a key"),
        (b"\x81\x91\x01\x01", "as a key"),
        (b"\xdd\xff\xff\xff\xff", "truncated"),
        (b"\xdb\xff\xff\xff\xff", "truncated"),
    ],
)
def test_what_is_not_read_is_an_error(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        unpack(data)


def test_any_bytes_are_a_value_or_an_error() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        try:
            unpack(rng.randbytes(rng.randrange(40)))
        except DataError:
            continue
