"""Interleaved measurement: what two contestants do in turns, and what the turns say.

In: functions that do one round of their work and return what it took. Out: their figures round by round, the
ratio of each round, the median of those ratios and their quartiles. The machine has quiet and contended
phases, so figures of one round belong together and a ratio of medians would compare different phases.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PAUSE_SECONDS: Final = 0.1
"""Between contestants. OpenBLAS and OpenMP workers spin for a while after a call and would slow whoever runs
next."""

Round = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Spread:
    """Lower quartile, median, upper quartile."""

    low: float
    median: float
    high: float


def interleave(
    contestants: Mapping[str, Round],
    rounds: int,
    pause: float = PAUSE_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, list[float]]:
    """Run every contestant once a round.

    Args:
        contestants: what to run, by name. Every second round runs them in reverse order, so that nobody
        always follows the
            same neighbour.
        rounds: at least 1.
        pause: seconds of rest before each turn.
        sleep: how to rest.

    Returns:
        for each name, its figures in the order of the rounds.
    """
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for i in range(rounds):
        for name in order if i % 2 == 0 else reversed(order):
            sleep(pause)
            figures[name].append(contestants[name]())
    return figures


def ratios(ours: Sequence[float], peers: Sequence[float]) -> list[float]:
    """Return ours / peer's, round by round."""
    return [a / b for a, b in zip(ours, peers, strict=True)]


def spread(values: Sequence[float]) -> Spread:
    """Return the quartiles of at least one value; linear between neighbours."""
    ordered = sorted(values)
    return Spread(_quantile(ordered, 0.25), statistics.median(ordered), _quantile(ordered, 0.75))


def _quantile(ordered: Sequence[float], q: float) -> float:
    at = q * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])
