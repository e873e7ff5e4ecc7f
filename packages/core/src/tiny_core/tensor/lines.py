"""Where the user wrote it: the first line outside this package, kept as a code object and a number."""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import final

from tiny_core.dtypes import DType

Line = tuple[CodeType, int]
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line() -> Line | None:
    """Return the line of the innermost caller that is not part of tiny_core."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_HERE):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


@final
class MemoryLabel:
    """What memory is for, put into words only when a message needs them."""

    __slots__ = ("dtype", "line", "shape")

    def __init__(self, dtype: DType, shape: tuple[int, ...], line: Line | None) -> None:
        self.dtype, self.shape, self.line = dtype, shape, line

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)} made at {show(self.line)}"


def show(line: Line | None) -> str:
    """`file.py:12`, the file relative to the working directory where it lies below it."""
    if line is None:
        return "an unknown line"
    name = line[0].co_filename
    here = os.getcwd() + os.sep
    return f"{name.removeprefix(here)}:{line[1]}"
