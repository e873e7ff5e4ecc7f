"""Symbolic algebra in declared domains: `index` (unbounded integers), `wrap` (fixed-width integers), `ieee`
(floats)."""

from tiny_core.ir.algebra.api import simplify, simplify_given

__all__ = ["simplify", "simplify_given"]
