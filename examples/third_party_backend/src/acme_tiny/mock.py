"""The K1 as tests want it: `DEV=MOCK+ACME` has two boards, and memory full of rubbish when it is handed out,
as a chip's is. A program that reads what nothing has written is found out by that.

It is the shipped runtime and the shipped machine code below, so what is tested is what is used.
"""

from __future__ import annotations

from collections.abc import Mapping

from acme_tiny.runtime import AcmeRuntime

from tiny_core.api import Handle  # isort: skip

RUBBISH = 0xA5


class MockRuntime(AcmeRuntime):
    """One of two boards."""

    boards = 2

    def __init__(self, index: int = 0, iface: str = "MOCK", options: Mapping[str, str] | None = None) -> None:
        super().__init__(index, iface, options)

    def allocate(self, nbytes: int) -> Handle:
        handle = super().allocate(nbytes)
        self._at(handle)[:] = bytes([RUBBISH]) * nbytes
        return handle
