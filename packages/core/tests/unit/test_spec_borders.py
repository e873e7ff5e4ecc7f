"""What the engine submits is a queue by its specification, or is not run."""

from __future__ import annotations

import os

import pytest

from tiny_core import Tensor
from tiny_core.engine.batch import Batch
from tiny_core.errors import SpecError
from tiny_core.runtime.device import Device
from tiny_core.runtime.queue import Slot
from tiny_core.settings import SPEC, Context


def test_a_queue_that_refers_to_nothing_is_not_submitted() -> None:
    batch = Batch(Device["PYTHON"], timed=False)
    touch = ("memory", 0, 4)
    batch.copy(Slot(0), Slot(3), 4, touch, touch)
    with Context(SPEC=1), pytest.raises(SpecError, match="queue: there is no slot 3 among 1"):
        batch.submit([object()])


@pytest.mark.skipif(os.environ.get("TINY_SPEC", "2") != "2", reason="TINY_SPEC says otherwise")
def test_every_pass_is_checked_in_these_tests() -> None:
    assert SPEC.value == 2
    with Context(DEV="PYTHON"):
        assert (Tensor([1.0, 2.0]) + 1).sum().item() == 5.0
