"""THREEFRY in 32-bit additions, rotations and exclusive ors (Salmon et al., SC 2011; the rounds are in
`ir/arith.py`).

Counter and key are taken apart into 32-bit words and the result is put together from two; no 64-bit
multiplication or addition is needed, and where a target has no 64-bit integers `wide.py` removes the taking
apart as well.
"""

from __future__ import annotations

from tiny_core import dtypes
from tiny_core.ir.arith import THREEFRY_PARITY, THREEFRY_ROTATIONS
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.capabilities import Capabilities


def threefry(node: UOp, target: Capabilities) -> UOp | None:
    """Threefry-2x32 with 20 rounds."""
    word, long = dtypes.uint32, dtypes.uint64
    counter, key = ((x.cast(word), (x >> 32).cast(word)) for x in node.src)
    keys = (*key, key[0] ^ key[1] ^ THREEFRY_PARITY)
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for turn in THREEFRY_ROTATIONS[block % 2]:
            a = a + b
            b = ((b << turn) | (b >> (32 - turn))) ^ a
        a = a + keys[(block + 1) % 3]
        b = b + (keys[(block + 2) % 3] + (block + 1))
    return (b.cast(long) << 32) | a.cast(long)


RULES = {Ops.THREEFRY: (threefry,)}
