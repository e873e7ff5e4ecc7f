"""MessagePack, read: what the metadata note of a code object is written in.

In: bytes. Out: plain Python values. The format is that of the MessagePack specification (msgpack.org,
"Formats"), without extension types, which no code object has.
"""

from __future__ import annotations

import struct
from typing import Final

from tiny_core.api import DataError

Value = None | bool | int | float | str | bytes | list["Value"] | dict[str, "Value"]
_DEEPEST: Final = 32
_FIXED: Final[dict[int, Value]] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS: Final = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
# what a length field precedes, and its format
_SIZED: Final = {
    0xC4: ("bin", ">B"), 0xC5: ("bin", ">H"), 0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"), 0xDA: ("str", ">H"), 0xDB: ("str", ">I"),
    0xDC: ("array", ">H"), 0xDD: ("array", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip


def unpack(data: bytes) -> Value:
    """Return the value that `data` holds, and nothing else; maps have strings as keys.

    Raises:
        DataError: it is malformed, truncated, nested too deeply, or has an extension type.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise DataError(f"MessagePack: {len(data) - reader.at} bytes follow the value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise DataError(f"MessagePack: truncated at byte {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> int | float:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        assert isinstance(value, int | float)
        return value

    def value(self, depth: int) -> Value:
        if depth > _DEEPEST:
            raise DataError(f"MessagePack: nested more than {_DEEPEST} deep")
        tag = self.take(1)[0]
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag in _FIXED:
            return _FIXED[tag]
        if tag in _NUMBERS:
            return self.number(_NUMBERS[tag])
        if tag < 0xC0:
            # three families with the length in the tag: maps, arrays, strings
            kind, size = ("str", tag & 31) if tag >= 0xA0 else ("array" if tag >= 0x90 else "map", tag & 15)
        elif tag in _SIZED:
            kind, form = _SIZED[tag]
            size = int(self.number(form))
        else:
            raise DataError(f"MessagePack: type {tag:#x} is not read here")
        match kind:
            case "bin":
                return self.take(size)
            case "str":
                return self.take(size).decode("utf-8", "replace")
            case "array":
                return [self.value(depth + 1) for _ in range(size)]
        return dict(self.pair(depth + 1) for _ in range(size))

    def pair(self, depth: int) -> tuple[str, Value]:
        key = self.value(depth)
        if not isinstance(key, str):
            raise DataError(f"MessagePack: {key!r} as a key, which are strings here")
        return key, self.value(depth)
