"""Files as tensors: parts of a file, mapped by the DISK device, that are read when they are used.

In: a path, and for each tensor an offset, a dtype and a shape. Out: tensors on `DISK:/path`. Nothing is
read until a tensor is copied to another device (`.to`) or looked at. Each call maps the file that the path
names then: a file saved later under the same name does not change tensors that were loaded before.
"""

from __future__ import annotations

import math
import os
import weakref
from typing import final

from tiny_core.dtypes import DType
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.plugins.opening import open_runtime
from tiny_core.runtime.buffer import Buffer, set_memory
from tiny_core.runtime.device import Device
from tiny_core.tensor.tensor import Tensor


@final
class MappedFile:
    """A mapped file; it stays mapped as long as this, or a tensor of it, lives.

    Args:
        path: of the file.
        nbytes: that it must have at least.

    Raises:
        DataError: it cannot be opened, or is shorter.
    """

    def __init__(self, path: str, nbytes: int) -> None:
        self.device = Device.canonicalize(f"DISK:{os.path.abspath(path)}")
        # A runtime of its own rather than the device's: that one keeps the file it first opened under the
        # name.
        runtime = open_runtime(self.device)
        try:
            handle = runtime.allocate(nbytes)
            # as the owner, it is asked at each copy whether the file still has all that is mapped
            self._memory = Buffer(Device[self.device], nbytes, path, external=handle, owner=runtime)
        except BaseException:
            runtime.close()
            raise
        weakref.finalize(self._memory, runtime.close).atexit = False

    def tensor(self, offset: int, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        """The tensor whose elements begin `offset` bytes into the file; they need not be aligned."""
        size = math.prod(shape)
        node = UOp.buffer(dtype, size, self.device)
        set_memory(node, self._memory.part(offset, size * dtype.itemsize))
        if shape != (size,):
            node = UOp(Ops.RESHAPE, dtype, (node,), p.Shape(shape))
        return Tensor._from_node(node, self.device, leaf=True)
