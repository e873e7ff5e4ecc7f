"""Matrices: factorisations, solving, determinants. Over the last two axes; other axes run in parallel.

A factorisation of n columns is n steps. Each changes the whole matrix and is stored, as the next one needs
all of it: two or three kernels a step, however large the matrix is.
"""

from __future__ import annotations

from typing import Self

from tiny_core import dtypes
from tiny_core.errors import DTypeError, ShapeError
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.tensor import graph as g
from tiny_core.tensor.handle import Handle, as_int, as_tensor
from tiny_core.tensor.resample import Resampling


class LinearAlgebra(Resampling):
    """Factorisations and what is made of them."""

    __slots__ = ()

    def cholesky(self) -> Self:
        """The lower triangular L with L·Lᵀ = this, which is symmetric and positive definite; of another
        matrix the result has NaN. Only the lower triangle is read.

        Raises:
            ShapeError: the last two axes differ.
            DTypeError: this is not of float32 or float64.

        >>> Tensor([[4.0, 0.0], [2.0, 5.0]]).cholesky().tolist()
        [[2.0, 0.0], [1.0, 2.0]]
        """
        n = self._matrix("cholesky", square=True)[0]
        i, a = self._upto(n), self
        for j, at in enumerate(self._steps(n)):
            # the column below the diagonal, then what it leaves of the columns to its right
            column = (a._column(j) / a._column(j)._row(j).sqrt()).contiguous()
            below = (i.unsqueeze(1) >= at).where(column, 0)
            right = (i > at).where(a - below * below.transpose(-2, -1), a)
            a = i.eq(at).where(column, right).contiguous()
        return a.tril()

    def lu(self) -> tuple[Self, Self, Self]:
        """Factors with partial pivoting: the order P (int32) of rows, L with ones on its diagonal, and U, so
        that L·U is this with its rows in that order.

        Raises:
            ShapeError: the last two axes differ.
            DTypeError: this is not of float32 or float64.
        """
        n = self._matrix("lu", square=True)[0]
        both, order, _ = self._factors(n)
        i = self._upto(n)
        unit = i.unsqueeze(1).eq(i).where(both.ones_like(), both.tril(-1))
        return order, unit, both.triu()

    def _factors(self, n: int) -> tuple[Self, Self, Self]:
        """L below the diagonal and U on and above it, the order of rows, and the sign of that order."""
        i, a = self._upto(n), self
        lead = self.shape[:-2]
        order = i.expand(*lead, n)
        sign = self.full_like(1)._column(0)._row(0).reshape(lead)
        for j, at in enumerate(self._steps(n)):
            size = (i >= at).where(a._column(j).squeeze(-1).abs(), -1)
            best = size.argmax(-1, keepdim=True)
            swapped = i.eq(at).where(best, i.eq(best).where(at, i)).contiguous()
            order = order.gather(-1, swapped)
            sign = best.eq(at).squeeze(-1).where(sign, -sign)
            a = a.gather(-2, swapped.unsqueeze(-1).expand(*lead, n, n)).contiguous()
            factor = (a._column(j) / a._row(j)._column(j)).contiguous()
            rest = (i > at).where(a - factor * a._row(j), i.eq(at).where(factor, a))
            a = (i.unsqueeze(1) > at).where(rest, a).contiguous()
        return a, order, sign

    def solve(self, b: Handle) -> Self:
        """The x with this · x = b, by LU factors with partial pivoting; of a singular matrix the result has
        infinities or NaN.

        Args:
            b: (…, n) for one right side, or (…, n, k) for k of them; other axes are those of this.

        Raises:
            ShapeError: the last two axes differ, or b does not fit.
            DTypeError: this is not of float32 or float64, or b is of another dtype.

        >>> Tensor([[2.0, 0.0], [1.0, 1.0]]).solve(Tensor([4.0, 5.0])).tolist()
        [2.0, 3.0]
        """
        n = self._matrix("solve", square=True)[0]
        as_tensor("solve", b)
        vector = b.ndim == self.ndim - 1
        want = b.shape[: self.ndim - 1]
        if want != self.shape[:-1] or b.ndim > self.ndim:
            raise ShapeError(f"solve: right side {b.shape} for {self.shape}", f"(…, {n}) or (…, {n}, k)")
        if b.dtype is not self.dtype:
            raise DTypeError(f"solve: {self.dtype.name} and {b.dtype.name}", "cast one of them")
        both, order, _ = self._factors(n)
        shape = (*b.shape, 1) if vector else b.shape
        x = self._result("solve", g.reshape(b.uop, shape), b)
        x = x.gather(-2, order.unsqueeze(-1).expand(shape))
        i = self._upto(n).unsqueeze(1)
        steps = self._steps(n)
        for j, at in enumerate(steps[:-1]):
            x = (i > at).where(x - both._column(j) * x._row(j), x).contiguous()
        for j, at in reversed(list(enumerate(steps))):
            value = (x._row(j) / both._row(j)._column(j)).contiguous()
            x = i.eq(at).where(value, (i < at).where(x - both._column(j) * value, x)).contiguous()
        return x.squeeze(-1) if vector else x

    def inverse(self) -> Self:
        """The inverse, by `solve`; of a singular matrix it has infinities or NaN.

        >>> Tensor([[2.0, 0.0], [0.0, 4.0]]).inverse().tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        n = self._matrix("inverse", square=True)[0]
        return self.solve(self._unit(n).expand(self.shape))

    def det(self) -> Self:
        """The determinant, by LU factors.

        >>> Tensor([[2.0, 0.0], [1.0, 3.0]]).det().item()
        6.0
        """
        n = self._matrix("det", square=True)[0]
        both, _, sign = self._factors(n)
        return both.diagonal(0, -2, -1).prod(-1) * sign

    def qr(self, mode: str = "complete") -> tuple[Self, Self]:
        """Q with orthonormal columns and an upper triangular R of Q·R = this, by Householder's reflections.

        Args:
            mode: "complete" for a square Q, "reduced" for as many columns as the smaller side has.

        Raises:
            ShapeError: this has fewer than two axes.
            DTypeError: this is not of float32 or float64, or there is no such mode.

        >>> q, r = Tensor([[3.0, 1.0], [4.0, 2.0]]).qr()
        >>> (q @ r).round().tolist()
        [[3.0, 1.0], [4.0, 2.0]]
        """
        if mode not in ("complete", "reduced"):
            raise DTypeError(f"qr: mode={mode!r}", "it is 'complete' or 'reduced'")
        rows, columns = self._matrix("qr")
        i = self._upto(rows).unsqueeze(1)
        r, q = self, self._unit(rows).expand(*self.shape[:-2], rows, rows).contiguous()
        for j, at in enumerate(self._steps(min(rows - 1, columns))):
            x = (i >= at).where(r._column(j), 0).contiguous()
            first, length = x._row(j), (x * x).sum(-2, keepdim=True).sqrt()
            v = i.eq(at).where(first + (first < 0).where(-length, length), x).contiguous()
            norm = (v * v).sum(-2, keepdim=True)
            scaled = norm.eq(0).where(0, v * 2 / norm.eq(0).where(1, norm)).contiguous()
            r = (r - scaled * (v * r).sum(-2, keepdim=True)).contiguous()
            q = (q - (q * v.transpose(-2, -1)).sum(-1, keepdim=True) * scaled.transpose(-2, -1)).contiguous()
        k = min(rows, columns) if mode == "reduced" else rows
        return q._part(self.ndim - 1, 0, k), r.triu()._part(self.ndim - 2, 0, k)

    def svd(self, full_matrices: bool = True) -> tuple[Self, Self, Self]:
        """U, S and V with U · diag(S) · V = this, U and V orthogonal, and S (…, k) not negative in descending
        order, by the one-sided method of Jacobi: columns are made orthogonal pair by pair.

        Args:
            full_matrices: whether U and V are square; otherwise they have k columns and k rows, for the
                smaller side k.

        Raises:
            ShapeError: this has fewer than two axes.
            DTypeError: this is not of float32 or float64.

        >>> Tensor([[0.0, 2.0], [1.0, 0.0]]).svd()[1].tolist()
        [2.0, 1.0]
        """
        rows, columns = self._matrix("svd")
        if rows < columns:
            u, s, v = self.transpose(-2, -1).svd(full_matrices)
            return v.transpose(-2, -1), s, u.transpose(-2, -1)
        a, v = self._orthogonal_columns(columns)
        s, order = (a * a).sum(-2).sqrt().sort(-1, descending=True)
        picked = order.unsqueeze(-2)
        a = a.gather(-1, picked.expand(a.shape)).contiguous()
        v = v.gather(-1, picked.expand(v.shape)).contiguous()
        # columns of length 0, and those that a square U has more, are whatever is orthogonal to the rest
        u, r = a.qr("complete" if full_matrices else "reduced")
        flip = (r.diagonal(0, -2, -1) < 0).where(-1, 1).cast(self.dtype).unsqueeze(-2)
        turned = u._part(u.ndim - 1, 0, columns) * flip
        rest = u._part(u.ndim - 1, columns, u.shape[-1])
        u = turned.cat(rest, dim=-1) if full_matrices and rows > columns else turned
        return u, s, v.transpose(-2, -1)

    def _orthogonal_columns(self, n: int) -> tuple[Self, Self]:
        """This times an orthogonal matrix so that its columns are orthogonal, and that matrix."""
        lead = self.shape[:-2]
        a, v = self.contiguous(), self._unit(n).expand(*lead, n, n).contiguous()
        half = (n + 1) // 2
        if n < 2:
            return a, v
        if n % 2:  # a column of zeros as a partner for the odd one
            a, v = a.pad((0, 1)).contiguous(), v.pad((0, 1)).contiguous()
        # in a tournament of 2·half players all meet once in 2·half - 1 rounds: one stays, the others move on
        # the index of a round from that of the one before: 0, last, 1, 2, …
        at = g.iota(2 * half, dtypes.int32)
        moved = g.where(
            g.scalar_op(Ops.CMPEQ, at, 1), g.const_like(2 * half - 1, at), g.scalar_op(Ops.SUB, at, 1)
        )
        step = g.where(g.scalar_op(Ops.CMPEQ, at, 0), at, moved)
        for _ in range(_SWEEPS[self.dtype]):
            for _ in range(2 * half - 1):
                x, y = a._halves(half)
                xx, yy, xy = (x * x).sum(-2), (y * y).sum(-2), (x * y).sum(-2)
                apart = xy.abs() > _TINY[self.dtype] * (xx * yy).sqrt()
                zeta = (yy - xx) / (apart.where(xy, 1) * 2)
                t = (zeta < 0).where(-1, 1).cast(self.dtype) / (zeta.abs() + (zeta * zeta + 1).sqrt())
                t = apart.where(t, 0)
                c = (t * t + 1).rsqrt().contiguous()
                s = (c * t).contiguous()
                a, v = a._turned(half, c, s, step), v._turned(half, c, s, step)
        return (a._part(a.ndim - 1, 0, n), v._part(v.ndim - 1, 0, n)) if n % 2 else (a, v)

    def _halves(self, half: int) -> tuple[Self, Self]:
        axis = self.ndim - 1
        return self._part(axis, 0, half), self._part(axis, half, 2 * half).flip(axis)

    def _turned(self, half: int, c: Self, s: Self, step: UOp) -> Self:
        """Rotate pairs of columns, and let them meet others in the next round."""
        x, y = self._halves(half)
        cosine, sine = c.unsqueeze(-2), s.unsqueeze(-2)
        both = (x * cosine - y * sine).cat((x * sine + y * cosine).flip(-1), dim=-1)
        return self._from_node(
            g.along(both.uop, self.ndim - 1, 2 * half, step), self._cell.device
        ).contiguous()

    def newton_schulz(
        self, steps: int = 5, params: tuple[float, ...] = (3.4445, -4.7750, 2.0315), eps: float = 1e-7
    ) -> Self:
        """Bring all singular values near 1 by iterating the odd polynomial of these coefficients (Jordan et
        al.: Muon, 2024): x ← (a + b·x·xᵀ + c·(x·xᵀ)² + …) · x.

        Args:
            steps: iterations.
            params: coefficients, of the lowest degree first.
            eps: added to the norm that this is divided by at first.

        Raises:
            ShapeError: this has fewer than two axes.
        """
        rows, columns = self._matrix("newton_schulz")
        x = self / ((self * self).sum((-2, -1), keepdim=True).sqrt() + eps)
        x = x.transpose(-2, -1) if rows > columns else x
        for _ in range(as_int("newton_schulz", steps)):
            square = x.matmul(x.transpose(-2, -1))
            total, power = x * params[0], x
            for factor in params[1:]:
                power = square.matmul(power)
                total = total + power * factor
            x = total
        return x.transpose(-2, -1) if rows > columns else x

    # ---- parts --------------------------------------------------------------------------------------------

    def _matrix(self, what: str, square: bool = False) -> tuple[int, int]:
        """The last two lengths, checked."""
        if self.ndim < 2 or (square and self.shape[-1] != self.shape[-2]):
            raise ShapeError(
                f"{what} of shape {self.shape}",
                "the last two axes are a square matrix" if square else "a matrix",
            )
        if self.dtype not in _SWEEPS:
            raise DTypeError(f"{what} of {self.dtype.name}", "cast to float32 or float64")
        return self.shape[-2], self.shape[-1]

    def _upto(self, n: int) -> Self:
        return self._from_node(g.iota(n, dtypes.int32))

    def _steps(self, n: int) -> list[Self]:
        """0 … n - 1 as stored numbers, so that a kernel serves all steps: which one it is are data."""
        numbers = self._upto(n).contiguous()
        return [numbers._part(0, j, j + 1) for j in range(n)]

    def _unit(self, n: int) -> Self:
        i = self._upto(n)
        return i.unsqueeze(1).eq(i).cast(self.dtype)

    def _column(self, j: int) -> Self:
        return self._part(self.ndim - 1, j, j + 1)

    def _row(self, j: int) -> Self:
        return self._part(self.ndim - 2, j, j + 1)


_SWEEPS = {dtypes.float64: 14, dtypes.float32: 10}  # of Jacobi's method; near the end each doubles the digits
_TINY = {dtypes.float64: 1e-15, dtypes.float32: 1e-7}  # columns are orthogonal from here on
