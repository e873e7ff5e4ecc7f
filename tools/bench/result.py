"""Results: figures beside budgets, as JSON objects and as lines to read.

In: figures of one run, round by round. Out: `Line` (one figure, one budget) and `Result` (all lines of a
benchmark; it meets its budget if every line does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tools.bench.measure import Spread, ratios, spread

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]
Judged = Literal["ours", "ratio"]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a figure has to reach.

    Args:
        first: the first budget; None if there is only a goal.
        goal: where it should get to.
        of: what is judged: our own figure, or its ratio to the peer's.
        more: whether a greater figure is better (rates), or a smaller one (times).
    """

    first: float | None
    goal: float | None
    of: Judged = "ours"
    more: bool = False

    def met(self, value: float, bound: float | None) -> bool | None:
        """Whether `value` is within `bound`; None where there is none."""
        if bound is None:
            return None
        return value >= bound if self.more else value <= bound


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of a benchmark.

    Args:
        what: what was measured.
        unit: of `ours` and `peers`.
        ours: our figures, round by round.
        peer: who is compared with; "" for nobody.
        peers: the peer's figures of the same rounds.
        budget: what to reach, if there is a budget.
        details: whatever else was seen.
    """

    what: str
    unit: str
    ours: Sequence[float]
    peer: str = ""
    peers: Sequence[float] = ()
    budget: Budget | None = None
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def spread(self) -> Spread:
        """Of the ratios; where there is no peer, of our figures."""
        return spread(ratios(self.ours, self.peers) if self.peers else self.ours)

    @property
    def judged(self) -> float:
        """The figure that the budget is about."""
        if self.budget is not None and self.budget.of == "ratio":
            return self.spread.median
        return spread(self.ours).median

    @property
    def met(self) -> bool | None:
        """Whether the first budget is met; None without one."""
        return None if self.budget is None else self.budget.met(self.judged, self.budget.first)

    def json(self) -> dict[str, Json]:
        """Return the line as a JSON object."""
        around = self.spread
        out: dict[str, Json] = {
            "what": self.what,
            "unit": self.unit,
            "ours": _round(spread(self.ours).median),
            "peer": _round(spread(self.peers).median) if self.peers else None,
            "peer_name": self.peer or None,
            "ratio": _round(around.median) if self.peers else None,
            "spread": [_round(around.low), _round(around.high)],
            "rounds": len(self.ours),
        }
        if self.budget is not None:
            out["budget"] = {
                "of": self.budget.of,
                "better": "more" if self.budget.more else "less",
                "first": self.budget.first,
                "goal": self.budget.goal,
            }
            out["goal_met"] = self.budget.met(self.judged, self.budget.goal)
        out["met"] = self.met
        if self.details:
            out["details"] = dict(self.details)
        return out

    def text(self) -> str:
        """Return the line for people."""
        around, words = self.spread, [f"{self.what:<34}", _amount(spread(self.ours).median, self.unit)]
        if self.peers:
            words.append(f"{self.peer} {_amount(spread(self.peers).median, self.unit)}")
            words.append(f"ratio {around.median:.3g} ({around.low:.3g} … {around.high:.3g})")
        else:
            words.append(f"({around.low:.3g} … {around.high:.3g})")
        if self.budget is not None:
            sign = "≥" if self.budget.more else "≤"
            of = "" if self.budget.of == "ours" else "ratio "
            for name, bound in (("budget", self.budget.first), ("goal", self.budget.goal)):
                if bound is not None:
                    yes = self.budget.met(self.judged, bound)
                    words.append(f"{name} {of}{sign} {bound:g}: {'met' if yes else 'MISSED'}")
        return "  ".join(words)


@dataclass(frozen=True, slots=True)
class Result:
    """What a benchmark measured; its first line is its headline."""

    name: str
    lines: Sequence[Line]

    @property
    def met(self) -> bool:
        """Whether every line that has a first budget meets it."""
        return all(line.met is not False for line in self.lines)

    def json(self) -> dict[str, Json]:
        """Return one JSON object: the headline's fields, and all lines."""
        head = self.lines[0].json()
        return {"name": self.name, **head, "met": self.met, "lines": [line.json() for line in self.lines]}

    def text(self) -> str:
        """Return the result for people, a line per figure."""
        return "\n".join(f"{self.name:<16} {line.text()}" for line in self.lines)


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _amount(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}"
