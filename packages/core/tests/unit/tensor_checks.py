"""Comparisons of tensors with PyTorch, shared by the tests of tensors."""

# mypy: disable-error-code="arg-type, no-untyped-call"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tiny_core import dtypes
from tiny_core.tensor.tensor import Tensor

Numbers = np.ndarray[Any, np.dtype[Any]]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def ours(data: Numbers, **kwargs: Any) -> Tensor:
    return Tensor(data, **kwargs)


def close(have: Tensor, want: torch.Tensor | Numbers, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    """Assert equal shapes, and values within tolerance; NaN equals NaN."""
    expected = want.detach().numpy() if isinstance(want, torch.Tensor) else np.asarray(want)
    assert have.shape == expected.shape
    np.testing.assert_allclose(have.numpy(), expected, rtol=rtol, atol=atol)


def same_function(
    function: Callable[..., Tensor],
    reference: Callable[..., torch.Tensor],
    *inputs: Numbers,
    gradients: bool = True,
    rtol: float = 1e-9,
    atol: float = 1e-9,
) -> None:
    """Assert that a function of float64 tensors has PyTorch's value, and PyTorch's gradients for a random
    cotangent."""
    mine = [Tensor(a, requires_grad=gradients) for a in inputs]
    theirs = [torch.tensor(a, requires_grad=gradients) for a in inputs]
    out, want = function(*mine), reference(*theirs)
    close(out, want, rtol, atol)
    if not gradients:
        return
    seed = rng(7).standard_normal(want.shape)
    want.backward(torch.tensor(seed))
    for got, t in zip(out.gradient(*mine, gradient=Tensor(seed)), theirs, strict=True):
        assert got.dtype is dtypes.float64
        close(got, t.grad if t.grad is not None else torch.zeros_like(t), rtol, atol)
