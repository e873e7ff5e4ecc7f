"""The report of a run: what `--json` writes, and what the terminal says at the end.

The file is one JSON object, format 1:

    format      1
    kit, core, python, platform     versions
    target      as named; device, renderer, arch: what was opened; plugins: who serves it
    profile     that the runtime promises; maturity: of the least mature plugin
    capabilities    names of what is declared
    seed, max_examples      of random tests
    complete    whether every test of the levels was chosen: no -k, no --dtypes
    level       the greatest level such that it and all below have no failure; null if incomplete
    counts      tests: passed, failed, skipped, xfailed
    levels      those counts by level, "0" to "4" and "P"
    matrix      operation -> dtype ("" where there is none) -> passed, failed, xfailed or skipped
    gradients   likewise, for derivatives
    skips       reason -> number of tests
    xfails      list of {test, reason, link, kind, cases}: expected failures and how many tests they were
    warnings    sentences; undeclared capabilities that work are among them
    failures    list of {test, message}
    speed       name -> {value, unit}
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tiny_conformance.target import Target
from tiny_conformance.xfails import Xfail

FORMAT: Final = 1
LEVELS: Final = ("0", "1", "2", "3", "4", "P")
_WORSE: Final = {"passed": 0, "skipped": 1, "xfailed": 2, "failed": 3}


@dataclass(slots=True)
class Report:
    """What is known of the tests so far. `add` takes pytest's reports; `data` gives the object."""

    outcomes: dict[str, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    matrix: dict[str, dict[str, str]] = field(default_factory=dict)
    gradients: dict[str, dict[str, str]] = field(default_factory=dict)
    skips: Counter[str] = field(default_factory=Counter)
    expected: Counter[int] = field(default_factory=Counter)
    warnings: dict[str, None] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    speed: dict[str, dict[str, object]] = field(default_factory=dict)
    deselected: bool = False

    def add(self, report: pytest.TestReport) -> None:
        """Take what one phase of a test gave."""
        if report.when != "call" and report.outcome == "passed":
            return
        said = {k: v for k, v in report.user_properties if k not in ("warning", "speed")}
        case, outcome = str(said.get("case", report.nodeid)), _outcome(report)
        if _WORSE[outcome] < _WORSE[self.outcomes.get(case, "passed")]:
            return
        self.outcomes[case] = outcome
        self.levels[case] = LEVELS[int(str(said.get("level", 2)))]
        if outcome == "skipped":
            self.skips[_reason(report)] += 1
        if outcome == "xfailed" or "xfail" in said:
            self.expected[int(str(said.get("xfail", -1)))] += outcome == "xfailed"
        if outcome == "failed":
            self.failures[case] = _message(report)
        for key, value in report.user_properties:
            if key == "warning":
                self.warnings[str(value)] = None
            elif key == "speed" and isinstance(value, (list, tuple)):
                name, figure, unit = value
                self.speed[str(name)] = {"value": figure, "unit": unit}
        if said.get("op") is not None:
            table = self.gradients if said.get("gradient") else self.matrix
            row, names = table.setdefault(str(said["op"]), {}), said.get("dtypes")
            for name in names if isinstance(names, (list, tuple)) and names else ("",):
                row[name] = max(outcome, row.get(name, "passed"), key=_WORSE.__getitem__)

    def counts(self, level: str | None = None) -> dict[str, int]:
        """Return how many tests had each outcome, at one level or at all."""
        chosen = (o for case, o in self.outcomes.items() if level in (None, self.levels[case]))
        return dict(sorted(Counter(chosen).items()))

    def reached(self) -> int | None:
        """Return the greatest level without failures at it and below; None if tests were left out, or where
        not even level 0 is."""
        if self.deselected:
            return None
        level = None
        for number, name in enumerate(LEVELS[:5]):
            counts = self.counts(name)
            if not counts or counts.get("failed"):
                break
            level = number
        return level

    def unused(self, xfails: Sequence[Xfail], level: int) -> list[Xfail]:
        """Return the xfails that named no test of a complete run of all levels."""
        if self.deselected or level < 4:
            return []
        return [x for number, x in enumerate(xfails) if number not in self.expected]

    def data(
        self, target: Target, xfails: Sequence[Xfail], seed: int, max_examples: int
    ) -> dict[str, object]:
        """Return the report as JSON can hold it; see the module."""
        import tiny_conformance
        import tiny_core
        from tiny_conformance import offers

        return {
            "format": FORMAT,
            "kit": tiny_conformance.__version__,
            "core": tiny_core.__version__,
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
            "target": target.name,
            "device": target.device,
            "renderer": target.renderer,
            "arch": target.arch,
            "plugins": [str(o) for o in offers.serving(target)],
            "profile": offers.profile(target),
            "maturity": offers.maturity(target),
            "capabilities": sorted(target.capabilities),
            "seed": seed,
            "max_examples": max_examples,
            "complete": not self.deselected,
            "level": self.reached(),
            "counts": self.counts(),
            "levels": {name: self.counts(name) for name in LEVELS if self.counts(name)},
            "matrix": _sorted(self.matrix),
            "gradients": _sorted(self.gradients),
            "skips": dict(sorted(self.skips.items())),
            "xfails": [{**asdict(x), "cases": self.expected[n]} for n, x in enumerate(xfails)],
            "warnings": list(self.warnings),
            "failures": [{"test": t, "message": m} for t, m in self.failures.items()],
            "speed": dict(sorted(self.speed.items())),
        }

    def write(self, file: Path, data: dict[str, object]) -> None:
        """Write the report to a file."""
        file.write_text(json.dumps(data, indent=1) + "\n")


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "failed"
    return report.outcome


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def _message(report: pytest.TestReport) -> str:
    """The first line of what went wrong."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message) if crash is not None else str(report.longrepr)
    return text.strip().partition("\n")[0][:300]


def _sorted(table: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {op: dict(sorted(row.items())) for op, row in sorted(table.items())}
