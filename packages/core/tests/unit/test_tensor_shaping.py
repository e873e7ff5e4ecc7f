"""Einstein sums, arrangements, diagonals, other paddings, other resolutions: against PyTorch."""

# mypy: disable-error-code="arg-type, no-untyped-call, call-overload"
# Stubs of numpy and PyTorch, and mistakes made on purpose, are not for the type checker to judge here.
from __future__ import annotations

import numpy as np
import pytest
import torch

from tiny_core import Tensor
from tiny_core.errors import DTypeError, ShapeError

from .tensor_checks import close, rng, same_function

FORMULAS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]),
    ("ij->j", [(3, 4)]), ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("iij->j", [(3, 3, 4)]),
    ("i,j->ij", [(3,), (4,)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("i...->...", [(3, 2, 2)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("abc,bd,ce->ade", [(2, 3, 4), (3, 5), (4, 2)]),
    ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("i,i,i->", [(4,), (4,), (4,)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
    ("iijj->ij", [(2, 2, 3, 3)]), ("ba", [(2, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "shapes"), FORMULAS, ids=[f for f, _ in FORMULAS])
def test_einsum(formula: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [rng(k).standard_normal(s) for k, s in enumerate(shapes)]
    same_function(lambda *t: Tensor.einsum(formula, *t), lambda *t: torch.einsum(formula, *t), *inputs)


@pytest.mark.parametrize(
    "formula", ["ij,jk->ik,", "ij->ik", "ijk->i", "i1,ij->j", "ij->ii", "i..,ij->j", "ij,kj->ik", "..."]
)
def test_formulas_that_do_not_fit(formula: str) -> None:
    with pytest.raises(ShapeError, match="einsum"):
        Tensor.einsum(formula, Tensor.ones(2, 3), Tensor.ones(3, 4))


def test_products() -> None:
    a, b = rng().standard_normal((2, 3)), rng(1).standard_normal((4, 3))
    same_function(lambda x, y: x.kron(y), torch.kron, a, b)
    same_function(lambda x, y: x.outer(y), torch.outer, a[0], b[0])
    same_function(lambda x, y: x.cross(y), lambda x, y: torch.cross(x, y, dim=-1), a, b[:2])
    same_function(lambda x, y: x.cross(y, 0), lambda x, y: torch.cross(x, y, dim=0), a.T, b[:2].T)
    with pytest.raises(ShapeError):
        Tensor.ones(2).cross(Tensor.ones(2))


REARRANGED = [
    ("b c h w -> b h w c", {}, lambda x: x.permute(0, 2, 3, 1)),
    ("b c h w -> b (c h w)", {}, lambda x: x.reshape(2, -1)),
    ("b (c1 c2) h w -> (b c1) c2 h w", {"c1": 2}, lambda x: x.reshape(2, 2, 2, 5, 6).reshape(4, 2, 5, 6)),
    ("b ... -> ... b", {}, lambda x: x.permute(1, 2, 3, 0)),
    ("... w -> (...) w", {}, lambda x: x.reshape(-1, 6)),
    (
        "b c h (w1 w2) -> b 1 c w2 h w1",
        {"w2": 3},
        lambda x: x.reshape(2, 4, 5, 2, 3).permute(0, 1, 4, 2, 3)[:, None],
    ),
    ("b c h w -> () (b c h w)", {}, lambda x: x.reshape(1, -1)),
]


@pytest.mark.parametrize(("formula", "sizes", "want"), REARRANGED, ids=[f for f, _, _ in REARRANGED])
def test_rearrange(formula, sizes, want) -> None:  # type: ignore[no-untyped-def]
    x = rng().standard_normal((2, 4, 5, 6))
    close(Tensor(x).rearrange(formula, **sizes), want(torch.tensor(x)))


@pytest.mark.parametrize(
    ("formula", "sizes"),
    [("a b", {}), ("a -> a", {}), ("a b -> a", {}), ("(a c) b -> a b c", {}), ("(a c) b -> a b c", {"a": 4}),
     ("a b -> (a b", {}), ("a b -> a b)", {}), ("a a -> a a", {}), ("a b -> b a", {"c": 1}),
     ("a 2 -> a", {})],
)  # fmt: skip
def test_arrangements_that_do_not_fit(formula: str, sizes: dict[str, int]) -> None:
    with pytest.raises(ShapeError, match="rearrange"):
        Tensor.ones(2, 3).rearrange(formula, **sizes)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing: str) -> None:
    lines = [rng(k).standard_normal(n) for k, n in enumerate((2, 3, 4))]
    got = Tensor(lines[0]).meshgrid(*map(Tensor, lines[1:]), indexing=indexing)
    for mine, its in zip(got, torch.meshgrid(*map(torch.tensor, lines), indexing=indexing), strict=True):
        close(mine, its)
    with pytest.raises(DTypeError):
        Tensor([1]).meshgrid(indexing="ji")


@pytest.mark.parametrize("offset", [-5, -2, -1, 0, 1, 2, 5])
def test_diagonals(offset: int) -> None:
    x = rng().standard_normal((3, 4, 5))
    for dims in ((0, 1), (1, 2), (2, 0)):
        if abs(offset) <= min(x.shape[d] for d in dims):
            same_function(
                lambda t, d=dims: t.diagonal(offset, *d), lambda t, d=dims: torch.diagonal(t, offset, *d), x
            )
    same_function(lambda t: t.diag(offset), lambda t: torch.diag(t, offset), x[0, 0])
    close(Tensor(x[0]).diag(offset), np.diag(x[0], offset))


def test_to_a_shape() -> None:
    x = Tensor.arange(6).reshape(2, 3)
    assert x.pad_to(3, None).tolist() == [[0, 1, 2], [3, 4, 5], [0, 0, 0]]
    assert x.shrink_to((None, 2)).tolist() == [[0, 1], [3, 4]]
    for wrong in (lambda: x.pad_to(1, 3), lambda: x.shrink_to(2, 4), lambda: x.pad_to(2)):
        with pytest.raises(ShapeError):
            wrong()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [(1, 2), (2, 1, 3, 0), (0, 3, 1, 1)])
def test_other_paddings(mode: str, padding: tuple[int, ...]) -> None:
    x = rng().standard_normal((2, 3, 4, 4))[: 2 if len(padding) == 4 else 1]
    x = x if len(padding) == 4 else x[0]
    same_function(lambda t: t.pad(padding, mode), lambda t: torch.nn.functional.pad(t, padding, mode), x)


def test_paddings_that_do_not_fit() -> None:
    with pytest.raises(ShapeError):
        Tensor.ones(3).pad((3, 0), "reflect")
    with pytest.raises(ShapeError):
        Tensor.ones(3).pad((4, 0), "circular")
    with pytest.raises(DTypeError):
        Tensor.ones(3).pad((1, 0), "mirror")


@pytest.mark.parametrize("size", [(4,), (9,), (1,), (6,)])
@pytest.mark.parametrize("mode", ["linear", "nearest", "nearest-exact"])
def test_interpolate(mode: str, size: tuple[int, ...]) -> None:
    x = rng().standard_normal((2, 3, 6))
    f = torch.nn.functional.interpolate
    same_function(lambda t: t.interpolate(size, mode), lambda t: f(t, size, mode=mode), x)
    if mode == "linear":
        same_function(
            lambda t: t.interpolate(size, mode, align_corners=True),
            lambda t: f(t, size, mode=mode, align_corners=True),
            x,
        )


def test_interpolate_two_axes() -> None:
    x = rng().standard_normal((2, 3, 6, 5))
    f = torch.nn.functional.interpolate
    same_function(lambda t: t.interpolate((9, 3)), lambda t: f(t, (9, 3), mode="bilinear"), x)
    same_function(lambda t: t.interpolate((9, 3), "nearest"), lambda t: f(t, (9, 3), mode="nearest"), x)
    with pytest.raises(ShapeError):
        Tensor.ones(2, 3, 4).interpolate([5], "bilinear")
    with pytest.raises(DTypeError):
        Tensor.ones(4).interpolate([5], "cubic")


@pytest.mark.parametrize("stride", [1, 2, (3, 2)])
@pytest.mark.parametrize(
    ("padding", "more", "dilation", "groups"), [(0, 0, 1, 1), (1, 1, 1, 1), ((1, 2), 0, 2, 2), (0, 1, 2, 4)]
)
def test_transposed_convolution(stride, padding, more, dilation, groups) -> None:  # type: ignore[no-untyped-def]
    if more and stride == 1 and dilation == 1:
        pytest.skip("output_padding is less than stride or dilation")
    x, w = rng().standard_normal((2, 4, 5, 4)), rng(1).standard_normal((4, 3, 3, 2))
    b = rng(2).standard_normal(3 * groups)
    same_function(
        lambda x, w, b: x.conv_transpose2d(w, b, groups, stride, dilation, padding, more),
        lambda *t: torch.nn.functional.conv_transpose2d(*t, stride, padding, more, groups, dilation),
        x, w, b,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [((2, 2), None, 0), ((3, 2), (2, 2), 1), ((2, 2), (1, 1), 0)]
)
def test_unpooling(kernel, stride, padding) -> None:  # type: ignore[no-untyped-def]
    x = rng().standard_normal((2, 3, 6, 8))
    values, places = Tensor(x).max_pool2d_with_indices(kernel, stride, padding=padding)
    its, there = torch.nn.functional.max_pool2d(torch.tensor(x), kernel, stride, padding, return_indices=True)
    close(values, its)
    close(places, there)
    if stride != (1, 1):  # places that overlap may be written in any order
        got = values.max_unpool2d(places, kernel, stride, padding=padding, output_size=(6, 8))
        close(got, torch.nn.functional.max_unpool2d(its, there, kernel, stride, padding, output_size=(6, 8)))


def test_several_at_once() -> None:
    x = Tensor([1.0, 2.0])
    assert x.usum(x, 3).tolist() == [5.0, 7.0] and x.uprod(x, 3).tolist() == [3.0, 12.0]
    assert x.allclose(x + 1e-9) and not x.allclose(x + 1)
