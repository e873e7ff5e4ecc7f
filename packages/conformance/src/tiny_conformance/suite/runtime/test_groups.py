"""Work-items of a group: memory they share, and barriers, which make what one wrote visible to the others."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.bare import Bare, asked
from tiny_conformance.target import Target
from tiny_core.api import Ops, UOp, dtypes, payload

pytestmark = pytest.mark.needs("grid", "group_memory")


def row_sums(rows: int, columns: int, items: int) -> UOp:
    """out[i] = the sum of row i, by `items` work-items that combine their parts in shared memory."""
    i, j = UOp.range(rows, "i"), UOp.range(columns, "j", "reduce")
    total = UOp.param(1, dtypes.int32, rows * columns).load(i * columns + j).reduce(Ops.ADD, j)
    kernel = UOp.sink(UOp.param(0, dtypes.int32, rows, "w").store(i, total))
    return asked(kernel, payload.Option("group", "r0", items))


@pytest.mark.parametrize("items", [2, 16, 64])
def test_items_combine_their_parts(items: int, bare: Bare, target: Target) -> None:
    x = np.random.default_rng(1).integers(-99, 99, (5, 128)).astype(np.int32)
    kernel = row_sums(5, 128, items)
    program = bare.load(kernel)
    assert int(np.prod(program.compiled.signature.block)) == items, "the items do not form a group"
    got = bare.run(kernel, dtypes.int32, 5, x)
    if target.stores:
        assert got is not None
        np.testing.assert_array_equal(got, x.sum(1))


def test_a_tile_staged_by_all_is_read_by_all(bare: Bare, target: Target) -> None:
    from tiny_core import Tensor

    x = np.random.default_rng(1).integers(-9, 9, (64, 48)).astype(np.int32)
    y = np.random.default_rng(2).integers(-9, 9, (48, 64)).astype(np.int32)
    product = (Tensor(x) @ Tensor(y)).realize()
    if target.stores:
        np.testing.assert_array_equal(product.numpy(), x @ y)
