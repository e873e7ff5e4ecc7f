"""The pytest plugin: options, which tests run and which are skipped, and fixtures.

Options: --target, --level, --dtypes, --seed, --max-examples, --xfails, --json. Fixtures: `target`, `rng`,
`check`, `bare`, `warn`, `measured`. A test that has a parameter `dtype` is skipped where the target neither
declares it nor has it emulated by core; one marked `needs("name")`, where that capability is not declared.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from tiny_conformance import offers, xfails
from tiny_conformance.check import Check
from tiny_conformance.report import LEVELS, Report
from tiny_conformance.target import CAPABILITIES, Target, open_target
from tiny_conformance.xfails import BadXfails, Xfail

if TYPE_CHECKING:
    import numpy as np

    from tiny_conformance.bare import Bare

SUITE: Final = "tiny_conformance.suite."
FOLDERS: Final = ("packaging", "runtime", "ops", "engine", "models", "speed")
"""Folders of the suite, by level."""
ERRORS: Final = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""What an xfail of kind "error" excuses, besides tiny's own errors: all but a wrong result."""

_REPORT = pytest.StashKey[Report]()
_TARGET = pytest.StashKey[Target]()
_XFAILS = pytest.StashKey[Sequence[Xfail]]()


class Warn(Protocol):
    """Puts a sentence into the report."""

    def __call__(self, text: str) -> None: ...


class Measured(Protocol):
    """Puts a figure into the report."""

    def __call__(self, name: str, value: float, unit: str) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiny-conformance")
    group.addoption("--target", default="", help="what to test, as in DEV=; default: DEV, or CPU")
    group.addoption(
        "--level", default="4", choices=LEVELS, help="the last level to run, 0 to 4, or P for speed as well"
    )
    group.addoption("--dtypes", default="", help="test these only, separated by commas")
    group.addoption("--seed", type=int, default=0, help="of the random numbers that tests draw")
    group.addoption("--max-examples", type=int, default=25, help="that each random test tries")
    group.addoption(
        "--xfails", default="", metavar="FILE", help=f"expected failures; default: the plugin's {xfails.FILE}"
    )
    group.addoption("--json", default="", metavar="FILE", help="write a report")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--target") or os.environ.get("TINY_DEV") or os.environ.get("DEV") or "CPU"
    os.environ["TINY_DEV"] = name
    os.environ.setdefault("TINY_SPEC", "2")  # what every pass makes, for this target too, is checked
    config.addinivalue_line("markers", "large: takes an interpreter too long")
    config.addinivalue_line("markers", "needs(capability, …): skipped where one of them is not declared")
    config.addinivalue_line("markers", "gradient: of derivatives")
    config.stash[_REPORT] = Report()
    config.stash[_TARGET] = _open(name)
    config.stash[_XFAILS] = _expected(config, config.stash[_TARGET])
    _configure_hypothesis(config.getoption("--max-examples"))


def _open(name: str) -> Target:
    """Open the target; a pytest.UsageError says why it cannot be."""
    from tiny_core.errors import TinyError

    try:
        return open_target(name)
    except TinyError as error:
        raise pytest.UsageError(f"{name}: {error}") from None


def _expected(config: pytest.Config, target: Target) -> tuple[Xfail, ...]:
    given = config.getoption("--xfails")
    file = Path(given) if given else xfails.find(target)
    if file is None:
        return ()
    try:
        return xfails.read(file)
    except BadXfails as error:
        raise pytest.UsageError(str(error)) from None


def _configure_hypothesis(examples: int) -> None:
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "tiny-conformance",
        max_examples=examples,
        deadline=None,
        database=None,
        # fixtures hold no state that an example changes; compiling takes as long as it takes
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    settings.load_profile("tiny-conformance")


def pytest_report_header(config: pytest.Config) -> str:
    target = config.stash[_TARGET]
    how = "" if target.stores else ", compiled and not run"
    level = config.getoption("--level")
    return f"target: {target.name}{how}; level {level}; seed {config.getoption('--seed')}"


# ---- which tests run ---------------------------------------------------------------------------------------


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen, last = config.getoption("--dtypes"), LEVELS.index(config.getoption("--level"))
    wanted = set(chosen.split(",")) if chosen else None
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        case, level = _case(item), _level(item)
        op, names = _operation(item), _dtypes(item)
        for key, value in (("case", case), ("level", level), ("op", op), ("dtypes", sorted(names))):
            item.user_properties.append((key, value))
        if item.get_closest_marker("gradient"):
            item.user_properties.append(("gradient", True))
        if level > last or (wanted is not None and not names <= wanted):
            left.append(item)
            continue
        kept.append(item)
        _gate(item, config.stash[_TARGET], names)
        _expect(item, case, level, config)
    kept.sort(key=_level)  # a mistake shows at the lowest level that it breaks
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _gate(item: pytest.Item, target: Target, names: set[str]) -> None:
    """Skip what the target does not promise."""
    for missing in sorted(n for n in names if not target.runs(n)):
        item.add_marker(pytest.mark.skip(reason=f"{target.name} does not declare {missing}"))
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            assert name in CAPABILITIES, f"{item.nodeid} needs {name}, which is no capability"
            if not target.has(name):
                item.add_marker(pytest.mark.skip(reason=f"{target.name} does not declare {name}"))
    if _level(item) >= 2 and not target.has("executes"):
        item.add_marker(pytest.mark.skip(reason=f"{target.name} does not declare executes"))
    if target.interprets and item.get_closest_marker("large"):
        item.add_marker(pytest.mark.skip(reason="too large for an interpreter"))


def _expect(item: pytest.Item, case: str, level: int, config: pytest.Config) -> None:
    """Mark what the plugin's file expects to fail."""
    from tiny_core.errors import TinyError

    expected = config.stash[_XFAILS]
    for number, xfail in enumerate(expected):
        if not xfail.matches(case):
            continue
        if xfails.forbidden(xfail, level, offers.maturity(config.stash[_TARGET])):
            raise pytest.UsageError(f"{case}: a stable plugin may fail, but not give wrong results")
        raises = (TinyError, *ERRORS) if xfail.kind == "error" else None
        item.add_marker(pytest.mark.xfail(reason=xfail.reason, strict=True, raises=raises))
        item.user_properties.append(("xfail", number))
        return


def _case(item: pytest.Item) -> str:
    """The name by which reports and xfails know a test: `ops/test_cast.py::test_cast[bool-int8]`."""
    module = item.getparent(pytest.Module)
    name = module.obj.__name__ if module is not None else ""
    return f"{name.removeprefix(SUITE).replace('.', '/')}.py::{item.name}"


def _level(item: pytest.Item) -> int:
    folder = _case(item).partition("/")[0]
    return FOLDERS.index(folder) if folder in FOLDERS else 2


def _parameters(item: pytest.Item) -> dict[str, object]:
    return (
        dict(item.callspec.params) if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    )


def _dtypes(item: pytest.Item) -> set[str]:
    return {str(v) for k, v in _parameters(item).items() if k == "dtype" or k.endswith("_dtype")}


def _operation(item: pytest.Item) -> str | None:
    """The row of the report's matrix; None for tests of no operation."""
    if _level(item) != 2:
        return None
    op = _parameters(item).get("op")
    return str(getattr(op, "name", op or item.name.partition("[")[0].removeprefix("test_")))


# ---- the report --------------------------------------------------------------------------------------------

_ACTIVE: list[pytest.Config] = []
"""The session's configuration: reports do not carry it."""


def pytest_sessionstart(session: pytest.Session) -> None:
    _ACTIVE.append(session.config)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if _ACTIVE:
        _ACTIVE[-1].stash[_REPORT].add(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _ACTIVE:
        _ACTIVE.pop()
    if hasattr(config, "workerinput") or _TARGET not in config.stash or config.option.collectonly:
        return
    report, expected = config.stash[_REPORT], config.stash[_XFAILS]
    chosen = (config.getoption("-k"), config.getoption("-m"), config.getoption("--dtypes"))
    report.deselected = any(chosen) or session.exitstatus in (pytest.ExitCode.INTERRUPTED, 3, 4)
    for xfail in report.unused(expected, LEVELS.index(config.getoption("--level"))):
        report.warnings[f"xfail {xfail.test} names no test: remove it"] = None
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    path = config.getoption("--json")
    if path:
        seed, examples = config.getoption("--seed"), config.getoption("--max-examples")
        report.write(Path(path), report.data(config.stash[_TARGET], expected, seed, examples))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    report, expected = config.stash[_REPORT], config.stash[_XFAILS]
    for reason, count in sorted(report.skips.items()):
        terminalreporter.write_line(f"{count} skipped: {reason}")
    for number, xfail in enumerate(expected):
        if report.expected[number]:
            terminalreporter.write_line(
                f"{report.expected[number]} failed as expected: {xfail.reason} ({xfail.link})"
            )
    for text in report.warnings:
        terminalreporter.write_line(f"warning: {text}")
    for name, figure in sorted(report.speed.items()):
        terminalreporter.write_line(f"{name}: {figure['value']} {figure['unit']}")


# ---- fixtures ----------------------------------------------------------------------------------------------


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


@pytest.fixture
def bare(target: Target) -> Iterator[Bare]:
    """The device without the engine; what is allocated through it is freed afterwards."""
    from tiny_conformance.bare import Bare
    from tiny_core import Tensor

    if target.has("executes"):
        (Tensor([1.0]) + 1).realize()  # so that a host device has its worker pool
    device = Bare()
    yield device
    device.close()


@pytest.fixture
def warn(request: pytest.FixtureRequest) -> Warn:
    """Puts a sentence into the report: of what is no failure."""
    item = request.node

    def add(text: str) -> None:
        item.user_properties.append(("warning", text))

    return add


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Puts a figure into the report."""
    item = request.node

    def add(name: str, value: float, unit: str) -> None:
        item.user_properties.append(("speed", (name, float(f"{value:.3g}"), unit)))

    return add
