"""Movement against numpy and PyTorch: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it

from tiny_core import dtypes
from tiny_core.tensor.tensor import Tensor

from .tensor_checks import rng, same_function

pytestmark = pytest.mark.usefixtures("oracle")

X = rng().standard_normal((4, 3, 6))
CASES: list[tuple[str, Callable[..., Tensor], Callable[..., torch.Tensor]]] = [
    ("reshape", lambda t: t.reshape(2, -1, 3), lambda t: t.reshape(2, -1, 3)),
    ("reshape keeps None", lambda t: t.reshape(None, 18), lambda t: t.reshape(4, 18)),
    ("view", lambda t: t.view((12, 6)), lambda t: t.view(12, 6)),
    ("flatten", lambda t: t.flatten(1), lambda t: t.flatten(1)),
    ("unflatten", lambda t: t.unflatten(2, (2, -1)), lambda t: t.unflatten(2, (2, -1))),
    ("unsqueeze", lambda t: t.unsqueeze(-2), lambda t: t.unsqueeze(-2)),
    ("squeeze", lambda t: t.unsqueeze(1).squeeze(1), lambda t: t),
    ("squeeze all", lambda t: t[:1].squeeze(), lambda t: t[:1].squeeze()),
    (
        "expand",
        lambda t: t.unsqueeze(1).expand(2, 4, 5, -1, 6),
        lambda t: t.unsqueeze(1).expand(2, 4, 5, 3, 6),
    ),
    ("permute", lambda t: t.permute(2, 0, 1), lambda t: t.permute(2, 0, 1)),
    ("transpose", lambda t: t.transpose(0, -1), lambda t: t.transpose(0, -1)),
    (
        "permute then reshape",
        lambda t: t.permute(2, 0, 1).reshape(-1, 4),
        lambda t: t.permute(2, 0, 1).reshape(-1, 4),
    ),
    ("flip", lambda t: t.flip((0, 2)), lambda t: t.flip((0, 2))),
    ("shrink", lambda t: t.shrink(((1, 3), None, (2, 6))), lambda t: t[1:3, :, 2:6]),
    ("pad", lambda t: t.pad((1, 2, 0, 1)), lambda t: F.pad(t, (1, 2, 0, 1))),
    (
        "pad by axis",
        lambda t: t.pad(((1, 0), None, (2, 2)), value=5),
        lambda t: F.pad(t, (2, 2, 0, 0, 1, 0), value=5),
    ),
    ("pad negative", lambda t: t.pad((-1, 2, 1, -1)), lambda t: F.pad(t, (-1, 2, 1, -1))),
    ("cat", lambda t: t.cat(t * 2, t[:, :1], dim=1), lambda t: torch.cat((t, t * 2, t[:, :1]), 1)),
    ("stack", lambda t: Tensor.stack(t, t * 2, dim=-1), lambda t: torch.stack((t, t * 2), -1)),
    ("split", lambda t: t.split(4, 2)[1] * 2, lambda t: t.split(4, 2)[1] * 2),
    ("split into sizes", lambda t: t.split([1, 2], 1)[1], lambda t: t.split([1, 2], 1)[1]),
    ("chunk", lambda t: t.chunk(4, 2)[2], lambda t: t.chunk(4, 2)[2]),
    ("repeat", lambda t: t.repeat(2, 1, 3, 2), lambda t: t.repeat(2, 1, 3, 2)),
    ("repeat_interleave", lambda t: t.repeat_interleave(3, 1), lambda t: t.repeat_interleave(3, 1)),
    ("roll", lambda t: t.roll(2, 2), lambda t: t.roll(2, 2)),
    ("tril", lambda t: t.tril(1), lambda t: t.tril(1)),
    ("triu", lambda t: t.triu(-1), lambda t: t.triu(-1)),
    ("unfold", lambda t: t.unfold(2, 3, 2), lambda t: t.unfold(2, 3, 2)),
    ("unfold tiles", lambda t: t.unfold(2, 2, 2), lambda t: t.unfold(2, 2, 2)),
]


@pytest.mark.parametrize(("name", "function", "reference"), CASES, ids=[c[0] for c in CASES])
def test_movement(name: str, function: Callable[..., Tensor], reference: Callable[..., torch.Tensor]) -> None:
    same_function(function, reference, X)


def test_matrix_transpose() -> None:
    assert Tensor([[1, 2, 3], [4, 5, 6]]).T.tolist() == [[1, 4], [2, 5], [3, 6]]


def test_split_gives_all_parts() -> None:
    assert [t.shape for t in Tensor.zeros(7, 2).split(3)] == [(3, 2), (3, 2), (1, 2)]
    assert [t.shape for t in Tensor.zeros(7).chunk(3)] == [(3,), (3,), (1,)]


def test_cat_promotes_and_skips_empty() -> None:
    joined = Tensor([1, 2]).cat(Tensor.zeros(0), Tensor([True]))
    assert joined.dtype is dtypes.float32
    assert joined.tolist() == [1.0, 2.0, 1.0]
    assert Tensor.zeros(0, 2).cat(Tensor.zeros(0, 2)).shape == (0, 2)


def test_pad_of_other_dtypes() -> None:
    assert Tensor([True]).pad((1, 1)).tolist() == [False, True, False]
    assert Tensor([3]).pad((0, 2), value=-1).tolist() == [3, -1, -1]


def test_empty_shapes() -> None:
    x = Tensor.zeros(0, 3)
    assert x.reshape(3, 0).tolist() == [[], [], []]
    assert x.T.shape == (3, 0)
    assert (x + 1).tolist() == []


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1), (5,), ()])
def test_movement_that_changes_nothing_builds_nothing(shape: tuple[int, ...]) -> None:
    x: Any = Tensor(np.ones(shape))
    axes = range(len(shape))
    assert x.reshape(shape).uop is x.uop
    assert x.expand(shape).uop is x.uop
    assert x.permute(*axes).uop is x.uop if shape else True
    assert x.shrink([None] * len(shape)).uop is x.uop
    assert x.pad([None] * len(shape)).uop is x.uop
