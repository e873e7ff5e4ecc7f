"""The tables by which a loader finds symbols: string tables and the two hash tables.

gABI chapter 5, "Hash Table", for `.hash`. `.gnu.hash` is described in the GNU C library's
`elf/dl-lookup.c` and in "GNU Hash ELF Sections" (A. Roenky, 2008): a header, a Bloom filter, the first
symbol of each bucket, and for every symbol its hash, whose lowest bit ends the bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

_BLOOM_BITS_PER_SYMBOL: Final = 12
_BLOOM_SHIFT: Final = 26


class Strings:
    """A string table while it is filled; offset 0 is the empty string."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._known = {"": 0}

    def add(self, text: str) -> int:
        """Return the offset of `text`, which is added if it is not there."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return known


def sysv_hash(name: str) -> int:
    """Return the hash of `.hash`."""
    h = 0
    for byte in name.encode():
        h = (h << 4) + byte
        high = h & 0xF0000000
        h = (h ^ high >> 24) & ~high & 0xFFFFFFFF
    return h


def gnu_hash(name: str) -> int:
    """Return the hash of `.gnu.hash`."""
    h = 5381
    for byte in name.encode():
        h = (h * 33 + byte) & 0xFFFFFFFF
    return h


def sysv_table(names: Sequence[str]) -> bytes:
    """Return `.hash` for symbols 1, 2, … called `names`; a bucket for every symbol."""
    count = len(names) + 1
    buckets, chains = [0] * count, [0] * count
    for i, name in enumerate(names, 1):
        bucket = sysv_hash(name) % count
        chains[i], buckets[bucket] = buckets[bucket], i
    return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)


def gnu_buckets(count: int) -> int:
    """Return how many buckets `.gnu.hash` has for `count` symbols."""
    return max(count // 4, 1)


def gnu_order(names: Sequence[str]) -> list[str]:
    """Return names in the order in which `.gnu.hash` wants symbols: by bucket."""
    buckets = gnu_buckets(len(names))
    return sorted(names, key=lambda name: gnu_hash(name) % buckets)


def gnu_table(names: Sequence[str]) -> bytes:
    """Return `.gnu.hash` for symbols 1, 2, … called `names`, which are in `gnu_order`."""
    count = gnu_buckets(len(names))
    words = 1 << (max(len(names) * _BLOOM_BITS_PER_SYMBOL - 1, 0) // 64).bit_length()
    bloom, buckets, chain = [0] * words, [0] * count, list[int]()
    hashes = [gnu_hash(name) for name in names]
    for i, h in enumerate(hashes):
        bloom[h // 64 % words] |= 1 << h % 64 | 1 << (h >> _BLOOM_SHIFT) % 64
        if not buckets[h % count]:
            buckets[h % count] = i + 1
        last = i + 1 == len(hashes) or hashes[i + 1] % count != h % count
        chain.append(h & ~1 | last)
    head = struct.pack("<4I", count, 1, words, _BLOOM_SHIFT)
    return head + struct.pack(f"<{words}Q{count}I{len(chain)}I", *bloom, *buckets, *chain)
