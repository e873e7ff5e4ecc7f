"""Graphs of one structure are scheduled once, and run on whatever storage they read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tiny_core import Context, Tensor
from tiny_core.schedule import scheduler


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts the schedules that are really made."""
    count: list[int] = []
    make = scheduler._schedule

    def counting(roots: object, device: object) -> object:
        count.append(1)
        return make(roots, device)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(scheduler, "_schedule", counting)
    with Context(DEV="CPU"):
        yield count


def test_a_known_structure_is_not_scheduled_again(made: list[int]) -> None:
    a, b = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([10.0, 20.0, 30.0]).realize()
    made.clear()
    assert ((a * 3.25 + 1).sum() - 7.5).item() == 15.0
    assert len(made) == 1
    assert ((b * 3.25 + 1).sum() - 7.5).item() == 190.5
    assert len(made) == 1


def test_another_shape_or_constant_is_another_structure(made: list[int]) -> None:
    a, b = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([1.0, 2.0]).realize()
    made.clear()
    results = [(x * k).sum().item() for x, k in ((a, 5.125), (b, 5.125), (a, 6.125))]
    assert results == [30.75, 15.375, 36.75]
    assert len(made) == 3
