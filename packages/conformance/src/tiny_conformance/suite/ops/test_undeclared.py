"""What is not declared: refused by a typed error, or right. A wrong result is never allowed."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.check import Check
from tiny_conformance.compare import numpy_dtype
from tiny_conformance.plugin import Warn
from tiny_conformance.table import ALL, FLOATS8
from tiny_conformance.target import Target
from tiny_core import Tensor
from tiny_core.errors import TinyError


@pytest.mark.parametrize("name", [*ALL, *FLOATS8])
def test_a_dtype(name: str, target: Target, check: Check, warn: Warn) -> None:
    if target.runs(name):
        pytest.skip("it is declared, or emulated")
    x = np.array([0, 1, 1, 0, 1], numpy_dtype(name))
    try:
        got = (Tensor(x) * Tensor(x)).realize()
        if target.stores:
            got.numpy()
    except TinyError:
        return
    check(got, x * x)
    warn(f"{name} works and is not declared")
