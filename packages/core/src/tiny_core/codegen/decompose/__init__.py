"""Decomposition: ops and dtypes that a target lacks, in terms of those it has."""

from tiny_core.codegen.decompose.legalize import decompose

__all__ = ["decompose"]
