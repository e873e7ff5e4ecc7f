"""The pytest plugin: what target to test, what it can do, and how a result is checked.

Options: --target, --dtypes, --seed, --json. Fixtures: `target`, `rng`, `check`. A test that has a parameter
`dtype` is skipped where the target neither declares it nor has it emulated by core.
"""

from __future__ import annotations

import json
import os
import platform
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import numpy as np

    from tiny_conformance.compare import Array, Tolerance
    from tiny_core import Tensor

EMULATED = frozenset(("float16", "bfloat16", "int64", "uint64", "int8", "uint8", "int16", "uint16"))
"""Dtypes that core takes apart for targets that lack them."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is tested.

    Args:
        name: as given to --target.
        dtypes: names of those that its renderer declares.
        stores: whether results can be read; if not, kernels are compiled and their results not looked at.
        interprets: whether kernels are interpreted: tests of large sizes are left out.
    """

    name: str
    dtypes: frozenset[str]
    stores: bool
    interprets: bool

    def runs(self, dtype: str) -> bool:
        """Return whether kernels on this dtype must work."""
        return dtype in self.dtypes or dtype in EMULATED


class Check:
    """Compares results; raises AssertionError with the places where they differ."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @property
    def reads(self) -> bool:
        """Whether results can be looked at."""
        return self._target.stores

    def __call__(
        self,
        got: Tensor,
        want: Array,
        tolerance: Tolerance | None = None,
        scale: Array | float = 1.0,
        dtype: str = "",
    ) -> None:
        """Compute a tensor and compare it.

        Args:
            got: the result.
            want: of numpy; of the result's dtype, or a wider one.
            tolerance: None for equal bits.
            scale: what the tolerance's epsilons are relative to.
            dtype: the dtype it must have; "" for that of `want`.
        """
        from tiny_conformance.compare import EXACT, differences, numpy_dtype

        name = dtype or want.dtype.name
        expected = numpy_dtype(name)
        assert numpy_dtype(got.dtype.name) == expected, f"result is {got.dtype.name}, not {name}"
        assert got.shape == want.shape, f"result has shape {got.shape}, not {want.shape}"
        if not self._target.stores:
            got.realize()
            return
        text = differences(got.numpy(), want, tolerance or EXACT, scale)
        assert not text, text


@dataclass(slots=True)
class _Report:
    """What --json writes."""

    outcomes: Counter[str] = field(default_factory=Counter)
    matrix: dict[str, dict[str, str]] = field(default_factory=dict)
    skips: Counter[str] = field(default_factory=Counter)


_REPORT = pytest.StashKey[_Report]()
_TARGET = pytest.StashKey[Target]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiny-conformance")
    group.addoption("--target", default="", help="what to test, as in DEV=; default: DEV, or CPU")
    group.addoption("--dtypes", default="", help="test these only, separated by commas")
    group.addoption("--seed", type=int, default=0, help="of the random numbers that tests draw")
    group.addoption("--json", default="", metavar="FILE", help="write a report")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--target") or os.environ.get("TINY_DEV") or os.environ.get("DEV") or "CPU"
    os.environ["TINY_DEV"] = name
    config.addinivalue_line("markers", "large: takes an interpreter too long")
    config.stash[_REPORT] = _Report()
    config.stash[_TARGET] = _open(name)


def _open(name: str) -> Target:
    """Open the target; a pytest.UsageError says why it cannot be."""
    from tiny_core import Device
    from tiny_core.errors import TinyError

    try:
        device = Device[Device.DEFAULT]
        capabilities = device.renderer.capabilities
    except TinyError as error:
        raise pytest.UsageError(f"{name}: {error}") from None
    traits = device.runtime.capabilities
    declared = frozenset(d.name for d in capabilities.dtypes)
    return Target(name, declared, traits.stores, traits.interprets)


def pytest_report_header(config: pytest.Config) -> str:
    target = config.stash[_TARGET]
    how = "" if target.stores else ", compiled and not run"
    return f"target: {target.name}{how}; seed {config.getoption('--seed')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    target, chosen = config.stash[_TARGET], config.getoption("--dtypes")
    wanted = set(chosen.split(",")) if chosen else None
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        params = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        names = {str(v) for k, v in params.items() if k == "dtype" or k.endswith("_dtype")}
        item.user_properties.append(("op", getattr(params.get("op"), "name", _name_of(item))))
        item.user_properties.append(("dtypes", sorted(names)))
        (kept if wanted is None or names <= wanted else left).append(item)
        for missing in sorted(n for n in names if not target.runs(n)):
            item.add_marker(pytest.mark.skip(reason=f"{target.name} does not declare {missing}"))
        if target.interprets and item.get_closest_marker("large"):
            item.add_marker(pytest.mark.skip(reason="too large for an interpreter"))
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _name_of(item: pytest.Item) -> str:
    return item.name.partition("[")[0].removeprefix("test_")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if _ACTIVE and (report.when == "call" or report.outcome != "passed"):
        _record(_ACTIVE[-1].stash[_REPORT], report)


_ACTIVE: list[pytest.Config] = []
"""The session's configuration: reports do not carry it."""


def pytest_sessionstart(session: pytest.Session) -> None:
    _ACTIVE.append(session.config)


def _record(to: _Report, report: pytest.TestReport) -> None:
    properties = dict(report.user_properties)
    to.outcomes[report.outcome] += 1
    if report.skipped and isinstance(report.longrepr, tuple):
        to.skips[report.longrepr[2].removeprefix("Skipped: ")] += 1
    row = to.matrix.setdefault(str(properties.get("op", "")), {})
    names = properties.get("dtypes")
    for name in names if isinstance(names, (list, tuple)) and names else ("",):
        worse = {"passed": 0, "skipped": 1, "failed": 2}
        if worse[report.outcome] >= worse[row.get(name, "passed")]:
            row[name] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _ACTIVE:
        _ACTIVE.pop()
    path = config.getoption("--json")
    if path and not hasattr(config, "workerinput"):
        Path(path).write_text(json.dumps(_summary(config), indent=1) + "\n")


def _summary(config: pytest.Config) -> dict[str, object]:
    import tiny_conformance
    import tiny_core

    report = config.stash[_REPORT]
    return {
        "kit": tiny_conformance.__version__,
        "core": tiny_core.__version__,
        "python": platform.python_version(),
        "target": config.stash[_TARGET].name,
        "seed": config.getoption("--seed"),
        "counts": dict(sorted(report.outcomes.items())),
        "skips": dict(sorted(report.skips.items())),
        "matrix": {op: dict(sorted(row.items())) for op, row in sorted(report.matrix.items())},
    }


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason, count in sorted(config.stash[_REPORT].skips.items()):
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> Target:
    """What is tested."""
    return pytestconfig.stash[_TARGET]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers of a test's own: they depend on its name and --seed only."""
    import numpy

    name = f"{request.module.__name__}.{request.node.name}"
    return numpy.random.default_rng([request.config.getoption("--seed"), zlib.crc32(name.encode())])


@pytest.fixture
def check(target: Target) -> Check:
    """Compares a tensor with an array."""
    return Check(target)
