"""What a plugin says beside its devices: mock interfaces, checks for `tiny doctor`, hints on errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_core.cli.main import main
from tiny_core.engine.cache import KernelCache
from tiny_core.errors import DeviceError, PluginError, RenderError, TargetError
from tiny_core.plugins import hints, registry, select
from tiny_core.plugins.opening import open_runtime
from tiny_core.plugins.target import Target
from tiny_core.settings import Context

Install = Callable[..., Path]
Capture = pytest.CaptureFixture[str]
HEAD = """
from tiny_core.api import CheckSpec, HintSpec, MockSpec, RendererSpec, RuntimeSpec

def tiny_runtimes():
    return (RuntimeSpec("ACME", open="acme_thing.runtime:Device", renderers=("ACME",)),)

def tiny_renderers():
    return (RendererSpec("ACME", make="acme_thing.render:Source"),)
"""
MOCK = """
def tiny_mock_interfaces():
    return (MockSpec("ACME", "MOCK", "acme_thing.mock:Mock"),)
"""
CHECKS = """
def tiny_doctor_checks():
    return (CheckSpec("acme.driver", "ACME", "the driver is new enough", "acme_thing.care:driver"),)
"""
HINTS = """
def tiny_error_hints():
    return (HintSpec("ACME", "acme_thing.care:hint"),)
"""
MOCK_FILE = "from acme_thing.runtime import Device\n\nclass Mock(Device):\n    pass\n"
CARE = """
from tiny_core.api import Check, Fix

def driver(target):
    fix = Fix(("acme", "update"), "updates it")
    yield Check("WARN", f"driver 3 serves {target}", "install driver 4", fix)

def hint(error):
    return "ask ACME" if "strange" in error.message else ""
"""


def rows(capsys: Capture, *words: str) -> tuple[int, list[dict[str, str]]]:
    capsys.readouterr()
    code = main(["doctor", *words, "--json"])
    found: list[dict[str, str]] = json.loads(capsys.readouterr().out)["rows"]
    return code, found


# ---- mock interfaces ---------------------------------------------------------------------------------------


def test_a_mock_opens_in_the_devices_place(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + MOCK, "mock.py": MOCK_FILE})
    with Context(DEV="MOCK+ACME"):
        runtime = open_runtime("ACME")
    assert type(runtime).__name__ == "Mock"
    assert runtime.iface == "MOCK"
    with Context(DEV="ACME"):
        assert type(open_runtime("ACME")).__name__ == "Device"


def test_a_mock_is_not_imported_unless_it_is_named(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + MOCK, "mock.py": "raise RuntimeError"})
    with Context(DEV="ACME"):
        open_runtime("ACME")
    with Context(DEV="MOCK+ACME"), pytest.raises(PluginError, match="mock failed: RuntimeError"):
        open_runtime("ACME")


def test_an_interface_that_does_not_exist_names_the_mocks(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + MOCK, "mock.py": MOCK_FILE})
    with pytest.raises(TargetError, match="did you mean MOCK"):
        select.select(Target.parse("MOK+ACME"))


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (MOCK.replace('"MOCK"', '"SIM"'), "begins with MOCK"),
        (MOCK.replace('"ACME"', '"CPU"'), "MockSpec is for CPU, which it does not offer"),
        (CHECKS.replace('"ACME"', '"AMD"'), "CheckSpec is for AMD"),
        (HINTS.replace('"ACME"', '"C"'), "HintSpec is for C"),
        ("def tiny_error_hints(): return (1,)\n", "must return a tuple of HintSpec"),
        ("def tiny_error_hints(error): return ()\n", "error"),
    ],
)
def test_what_a_plugin_may_not_say(install: Install, extra: str, why: str) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + extra})
    with pytest.raises(PluginError) as caught:
        registry.runtime("ACME")
    assert why in str(caught.value)


# ---- hints -------------------------------------------------------------------------------------------------


def test_a_hint_is_added_to_an_error_of_its_device_only(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + HINTS, "care.py": CARE})
    registry.runtime("ACME")
    assert hints.advise(RenderError("strange", "first"), "ACME").hint == "first; ask ACME"
    assert hints.advise(RenderError("usual"), "ACME").hint == ""
    assert hints.advise(RenderError("strange"), "CPU").hint == ""


def test_a_plugin_that_is_not_loaded_is_not_asked(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + HINTS, "care.py": "raise RuntimeError"})
    assert hints.advise(RenderError("strange"), "ACME").hint == ""


def test_a_hint_that_fails_is_a_note(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + HINTS, "care.py": "def hint(error): return 1 // 0"})
    registry.runtime("ACME")
    error = hints.advise(RenderError("strange", "first"), "ACME")
    assert error.hint == "first"
    assert ["ZeroDivisionError" in note for note in error.__notes__] == [True]


def test_an_error_of_opening_gets_it(install: Install) -> None:
    runtime = "from tiny_core.api import DeviceError, Runtime\nclass Device(Runtime):\n"
    runtime += "    def __init__(self, *a): raise DeviceError('strange')\n"
    for method in ("allocate", "free", "copy_in", "copy_out", "load", "launch"):
        runtime += f"    def {method}(self, *a): pass\n"
    files = {"plugin.py": HEAD + HINTS, "care.py": CARE, "runtime.py": runtime}
    install("acme-thing", "ACME", files)
    with Context(DEV="ACME"), pytest.raises(DeviceError) as caught:
        open_runtime("ACME")
    assert caught.value.hint == "ask ACME"


# ---- checks ------------------------------------------------------------------------------------------------


def test_a_check_is_a_row_with_its_fix(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + CHECKS, "care.py": CARE})
    code, found = rows(capsys, "ACME")
    (row,) = [r for r in found if r["kind"] == "check"]
    assert code == 0
    assert [row[k] for k in ("mark", "token", "text", "next", "fix", "does")] == [
        "WARN",
        "acme.driver",
        "driver 3 serves ACME",
        "install driver 4",
        "acme update",
        "updates it",
    ]


def test_a_fix_of_a_plugin_is_never_run(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + CHECKS, "care.py": CARE})
    assert main(["doctor", "ACME", "--fix", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "tiny acme update: updates it" in out
    assert "run it yourself" in out


@pytest.mark.parametrize(
    ("care", "says"),
    [
        ("def driver(target): raise OSError('no permission')", "OSError: no permission"),
        ("def driver(target): return [1]", "gives 1, which is no Check"),
        ("driver = 3", "is not a function"),
        ("", "has no 'driver'"),
    ],
)
def test_a_check_that_fails_itself(install: Install, capsys: Capture, care: str, says: str) -> None:
    install("acme-thing", "ACME", {"plugin.py": HEAD + CHECKS, "care.py": care})
    code, found = rows(capsys, "ACME")
    (row,) = [r for r in found if r["kind"] == "check"]
    assert (code, row["mark"]) == (1, "FAIL")
    assert says in row["text"]


def test_the_compiler_of_the_c_renderer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    old = tmp_path / "gcc"
    old.write_text("#!/bin/sh\necho 'gcc (GCC) 4.8.5 20150623'\n")
    old.chmod(0o755)
    monkeypatch.setenv("CC", str(old))
    _, found = rows(capsys, "C")
    (row,) = [r for r in found if r["token"] == "cpu.compiler"]
    assert row["mark"] == "WARN"
    assert "older than 12" in row["text"]


def test_variables_that_are_no_settings(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("TINY_DEBUGG", "1")
    monkeypatch.setenv("TINY_WORKERS", "many")
    code, found = rows(capsys, "core")
    said = {r["text"]: r for r in found if r["token"] == "core.settings"}
    assert said["TINY_DEBUGG is no setting and does nothing"]["next"].startswith("did you mean TINY_DEBUG")
    assert code == 1
    assert any(r["mark"] == "FAIL" and "many" in text for text, r in said.items())


def test_a_damaged_cache_is_found_and_fixed_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("TINY_CACHE_DIR", str(tmp_path))
    folder = Path(KernelCache().folder)
    (folder / "ab").mkdir(parents=True, mode=0o700)
    os.chmod(folder, 0o700)
    (folder / "ab" / ("ab" * 32)).write_bytes(b"not an entry")
    _, found = rows(capsys, "core")
    (row,) = [r for r in found if r["token"] == "core.cache"]
    assert (row["mark"], row["fix"]) == ("WARN", "cache clear")
    assert "1 of 1 entries" in row["text"]
    main(["doctor", "core", "--fix"])  # nobody is there to be asked
    assert "not run; --yes runs it" in capsys.readouterr().out
    assert list((folder / "ab").iterdir())
    main(["doctor", "core", "--fix", "--yes"])
    assert "removes all kernels in" in capsys.readouterr().out
    _, found = rows(capsys, "core")
    assert [r["mark"] for r in found if r["token"] == "core.cache"] == ["OK"]
