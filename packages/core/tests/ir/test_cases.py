"""Simplification as text: each case of `cases/*.txt` is a graph before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiny_core.ir.algebra.simplifier import Simplifier
from tiny_core.ir.text import format, parse

_CASES = Path(__file__).parent / "cases"


def _cases() -> list[object]:
    found: list[object] = []
    for path in sorted(_CASES.glob("*.txt")):
        for block in path.read_text().split("\n== ")[1:]:
            title, _, body = block.partition("\n")
            before, _, after = body.partition("=>\n")
            found.append(pytest.param(before, after, id=f"{path.stem}: {title}"))
    return found


@pytest.mark.parametrize(("before", "after"), _cases())
def test_case(before: str, after: str) -> None:
    graph = parse(before)
    result = Simplifier()(graph)
    assert format(result) == format(parse(after))
    assert result is parse(after)


@pytest.mark.parametrize(("before", "after"), _cases())
def test_result_is_normal(before: str, after: str) -> None:
    normal = parse(after)
    assert Simplifier()(normal) is normal
