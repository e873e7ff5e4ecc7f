"""Losses against PyTorch: values and gradients."""

# mypy: disable-error-code="arg-type"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it

from tiny_core.tensor.tensor import Tensor

from .tensor_checks import close, rng, same_function

pytestmark = pytest.mark.usefixtures("oracle")

X = rng().standard_normal((6, 5))
Y = np.array([0, 4, 2, 2, 1, 3])
DEEP, LABELS = rng(1).standard_normal((2, 4, 3, 3)), rng(2).integers(0, 4, (2, 3, 3))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(reduction: str, smoothing: float) -> None:
    options = {"reduction": reduction, "label_smoothing": smoothing}
    for x, y in ((X, Y), (DEEP, LABELS), (X[0], Y[0])):
        same_function(
            lambda t, y=y: t.cross_entropy(Tensor(y), **options),
            lambda t, y=y: F.cross_entropy(t, torch.tensor(y), **options),
            x,
        )
    probabilities = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    same_function(
        lambda t: t.cross_entropy(Tensor(probabilities), **options),
        lambda t: F.cross_entropy(t, torch.tensor(probabilities), **options),
        X,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_sparse_categorical_crossentropy(reduction: str) -> None:
    y = Y.copy()
    y[2] = -1
    same_function(
        lambda t: t.sparse_categorical_crossentropy(Tensor(y), reduction=reduction),
        lambda t: F.cross_entropy(t, torch.tensor(y), ignore_index=-1, reduction=reduction),
        X,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss(reduction: str) -> None:
    weight = np.array([0.5, 1.0, 2.0, 0.1, 3.0])
    for options in ({}, {"weight": weight}, {"ignore_index": 2}, {"weight": weight, "ignore_index": 2}):
        ours = {k: Tensor(v) if k == "weight" else v for k, v in options.items()}
        theirs = {k: torch.tensor(v) if k == "weight" else v for k, v in options.items()}
        same_function(
            lambda t, o=ours: t.log_softmax().nll_loss(Tensor(Y), reduction=reduction, **o),
            lambda t, o=theirs: F.nll_loss(F.log_softmax(t, -1), torch.tensor(Y), reduction=reduction, **o),
            X,
        )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary_crossentropy(reduction: str) -> None:
    x, y = rng(3).uniform(0.05, 0.95, (4, 3)), rng(4).uniform(0, 1, (4, 3))
    same_function(
        lambda t: t.binary_crossentropy(Tensor(y), reduction),
        lambda t: F.binary_cross_entropy(t, torch.tensor(y), reduction=reduction),
        x,
    )
    weight = np.array([1.0, 2.0, 0.5])
    same_function(
        lambda t: t.binary_crossentropy_logits(Tensor(y), reduction, Tensor(weight)),
        lambda t: F.binary_cross_entropy_with_logits(
            t, torch.tensor(y), reduction=reduction, pos_weight=torch.tensor(weight)
        ),
        x * 8 - 4,
    )


def test_logits_far_out_do_not_overflow() -> None:
    x = Tensor([1000.0, -1000.0])
    close(x.binary_crossentropy_logits(Tensor([1.0, 0.0])), np.float32(0.0))
    close(x.unsqueeze(0).cross_entropy(Tensor([1])), np.float32(2000.0))
