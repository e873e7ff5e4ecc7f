"""Factorisations, solving and determinants against numpy, and their gradients against PyTorch."""

# mypy: disable-error-code="arg-type, no-untyped-call"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import numpy as np
import pytest
import torch

from tiny_core import Tensor
from tiny_core.errors import DTypeError, ShapeError

from .tensor_checks import Numbers, close, rng, same_function

SQUARES = [(1, 1), (2, 2), (5, 5), (2, 4, 4)]


def positive(shape: tuple[int, ...]) -> Numbers:
    a = rng().standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


@pytest.mark.parametrize("shape", SQUARES)
def test_cholesky(shape: tuple[int, ...]) -> None:
    a = positive(shape)
    close(Tensor(a).cholesky(), np.linalg.cholesky(a))
    assert np.isnan(Tensor([[1.0, 2.0], [2.0, 1.0]]).cholesky().numpy()).any()


@pytest.mark.parametrize("shape", SQUARES)
def test_factors_and_what_is_solved_by_them(shape: tuple[int, ...]) -> None:
    a, b = rng().standard_normal(shape), rng(1).standard_normal((*shape[:-1], 3))
    order, low, high = Tensor(a).lu()
    rows = np.take_along_axis(a, order.numpy()[..., None].astype(int), -2)
    close(low @ high, rows)
    close(Tensor(a).solve(Tensor(b)), np.linalg.solve(a, b))
    close(Tensor(a).solve(Tensor(b[..., 0])), np.linalg.solve(a, b)[..., 0])
    close(Tensor(a).inverse(), np.linalg.inv(a))
    close(Tensor(a).det(), np.linalg.det(a))


def test_of_singular_matrices() -> None:
    assert Tensor([[1.0, 2.0], [2.0, 4.0]]).det().item() == 0.0
    assert not np.isfinite(Tensor([[1.0, 2.0], [2.0, 4.0]]).inverse().numpy()).all()


@pytest.mark.parametrize("mode", ["complete", "reduced"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (2, 3, 4), (1, 1)])
def test_qr(shape: tuple[int, ...], mode: str) -> None:
    a = rng().standard_normal(shape)
    q, r = Tensor(a).qr(mode)
    want = np.linalg.qr(a, mode)
    assert (q.shape, r.shape) == (want[0].shape, want[1].shape)
    close(q @ r, a)
    close(
        q.transpose(-2, -1) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1]))
    )
    assert (np.tril(r.numpy(), -1) == 0).all()


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (2, 3, 4), (1, 1)])
def test_svd(shape: tuple[int, ...], full: bool) -> None:
    a = rng().standard_normal(shape)
    u, s, v = Tensor(a).svd(full)
    want = np.linalg.svd(a, full_matrices=full)
    assert (u.shape, v.shape) == (want[0].shape, want[2].shape)
    close(s, want[1])
    k = min(shape[-2:])
    close(u[..., :k] * s.unsqueeze(-2) @ v[..., :k, :], a)
    n = u.shape[-1]
    close(u.transpose(-2, -1) @ u, np.broadcast_to(np.eye(n), (*shape[:-2], n, n)))


def test_a_matrix_of_lower_rank() -> None:
    a = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    u, s, v = Tensor(a).svd(False)
    close(s, np.linalg.svd(a)[1], atol=1e-12)
    close(u * s.unsqueeze(-2) @ v, a)


def test_newton_schulz_brings_singular_values_near_one() -> None:
    a = rng().standard_normal((4, 6))
    s = np.linalg.svd(Tensor(a).newton_schulz(8).numpy())[1]
    assert (s > 0.6).all() and (s < 1.3).all()
    # the classical cubic converges to the polar factor
    u, _, v = np.linalg.svd(a, full_matrices=False)
    close(Tensor(a).newton_schulz(40, (1.5, -0.5)), u @ v, 1e-6, 1e-6)


def test_gradients() -> None:
    a, b = positive((3, 3)), rng(1).standard_normal((3, 2))
    same_function(lambda x, y: x.solve(y), torch.linalg.solve, a, b)
    same_function(lambda x: x.det(), torch.linalg.det, a)
    same_function(lambda x: x.inverse(), torch.linalg.inv, a)


def test_mistakes() -> None:
    with pytest.raises(ShapeError, match="square"):
        Tensor.ones(2, 3).det()
    with pytest.raises(ShapeError):
        Tensor.ones(3).qr()
    with pytest.raises(ShapeError, match="right side"):
        Tensor.ones(2, 2).solve(Tensor.ones(3))
    with pytest.raises(DTypeError, match="int32"):
        Tensor([[1]]).inverse()
    with pytest.raises(DTypeError, match="mode"):
        Tensor.ones(2, 2).qr("full")
