"""The `tiny` command: what it prints, its exit codes, and how little it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tiny_core
from tiny_core.cli.main import main
from tiny_core.plugins.catalog import CORE_API
from tiny_core.settings import Context, declared

Install = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


def test_version_is_instant_and_lists_plugins_on_demand(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", version="3.1")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tiny-core {tiny_core.__version__}\n"
    assert main(["--version", "-v"]) == 0
    assert "acme-thing 3.1 at " in capsys.readouterr().out


def test_version_imports_next_to_nothing() -> None:
    code = (
        "import sys; from tiny_core.cli.main import main; main(['--version']); "
        "sys.exit(str({'argparse', 'rich', 'numpy', 'tiny_core.plugins.catalog'} & set(sys.modules) or 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() in ("", "0")


def test_plugins_list_imports_no_plugin(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", {"__init__.py": "raise RuntimeError"})
    install("bad-plugin", "BAD", {"plugin.toml": "manifest = 1"})
    assert main(["plugins", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["acme-thing"]["state"] == "found"
    assert rows["acme-thing"]["api"] == {"runtime": "1.0", "renderer": "1.0"}
    assert [o["token"] for o in rows["acme-thing"]["offers"]] == ["ACME", "ACME"]
    assert rows["bad-plugin"]["state"] == "broken"
    assert "`name` is missing" in rows["bad-plugin"]["why"]
    assert rows["cpu"]["origin"] == "built in"
    assert main(["plugins", "list"]) == 0
    assert "runtime ACME, renderer ACME" in capsys.readouterr().out


def test_devices_marks_the_default(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", detect="/", priority=5)
    assert main(["devices"]) == 0
    assert "*  ACME" in capsys.readouterr().out
    with Context(DEV="cpu"):
        assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "*  CPU" in out
    assert "detected, priority 5" in out


def test_settings_lists_every_setting_with_its_origin(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("TINY_DEBUG", "3")
    assert main(["settings", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {f"TINY_{s.name}" for s in declared()}
    assert (rows["TINY_DEBUG"]["value"], rows["TINY_DEBUG"]["from"]) == (3, "TINY_DEBUG")


def test_cache_info_and_clear(tmp_path: Path, capsys: Capture) -> None:
    with Context(CACHE_DIR=str(tmp_path / "cache")):
        assert main(["cache", "info"]) == 0
        assert str(tmp_path / "cache") in capsys.readouterr().out
        assert main(["cache", "clear"]) == 0
        assert capsys.readouterr().out == "removed 0 entries\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plugin"], "did you mean plugins?"),
        (["plugins", "lost"], "invalid choice"),
        (["--version", "--loud"], "usage"),
        ([], ""),
    ],
)
def test_wrong_usage_is_exit_code_2(words: list[str], says: str, capsys: Capture) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_a_wrong_target_is_exit_code_2_with_message_and_hint(capsys: Capture) -> None:
    with Context(DEV="CPU:$"):
        assert main(["devices"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("tiny: target 'CPU:$'")
    assert "^" in err
    assert main(["doctor", "NOSUCH"]) == 2


# ---- doctor ------------------------------------------------------------------------------------------------


def doctor(
    capsys: Capture, *words: str
) -> tuple[int, dict[tuple[str, str], dict[str, str]], dict[str, object]]:
    """Exit code, rows by (kind, token), and the environment of `tiny doctor --json`."""
    code = main(["doctor", "--json", *words])
    report = json.loads(capsys.readouterr().out)
    return code, {(r["kind"], r["token"]): r for r in report["rows"]}, report["environment"]


def test_doctor_opens_a_good_plugin(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME")
    code, rows, _ = doctor(capsys, "ACME")
    assert code == 0
    assert rows["runtime", "ACME"]["mark"] == "OK"
    assert rows["runtime", "ACME"]["text"] == "ACME, nothing 1"


@pytest.mark.parametrize(
    ("code", "state", "says"),
    [
        ("import no_such_module_here", "broken", "no_such_module_here"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "broken", "SIGSEGV"),
        ("import os; os._exit(3)", "broken", "exit code 3"),
        ("import threading; threading.Event().wait()", "broken", "did not answer within 1"),
        ("print('x' * 100000)\nimport no_such_module_here", "broken", "no_such_module_here"),
    ],
)
def test_doctor_survives_what_a_plugin_does(
    install: Install, capsys: Capture, code: str, state: str, says: str
) -> None:
    install("acme-thing", "ACME", {"plugin.py": code})
    exit_code, rows, _ = doctor(capsys, "acme-thing", "--limit", "1" if "wait" in code else "20")
    row = rows["runtime", "ACME"]
    assert (exit_code, row["mark"], row["state"]) == (1, "FAIL", state)
    assert says in row["text"]


def test_doctor_tells_a_device_that_is_absent_from_one_that_fails(install: Install, capsys: Capture) -> None:
    failing = "from tiny_core.api import DeviceError, Runtime\nclass Device(Runtime):\n"
    failing += "    def __init__(self, *a): raise DeviceError('not permitted', 'join the group')\n"
    for method in ("allocate", "free", "copy_in", "copy_out", "load", "launch"):
        failing += f"    def {method}(self, *a): pass\n"
    install("acme-thing", "ACME", {"runtime.py": failing}, detect="/")
    install("other-plugin", "OTHER", {"runtime.py": failing}, detect="/no/such/path")
    _, rows, _ = doctor(capsys, "ACME")
    row = rows["runtime", "ACME"]
    assert [row[k] for k in ("mark", "state", "text", "next")] == [
        "FAIL",
        "unavailable",
        "not permitted",
        "join the group",
    ]
    _, rows, _ = doctor(capsys, "OTHER")
    assert rows["runtime", "OTHER"]["mark"] == "--"


def test_doctor_fails_if_what_dev_names_does_not_work(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME")
    install("other-thing", "ACME")
    with Context(DEV="ACME"):
        code, rows, _ = doctor(capsys)
    assert code == 1
    assert rows["runtime", "ACME"]["selected"]
    assert rows["runtime", "CPU"]["mark"] == "OK"
    with Context(DEV="NOSUCH"):
        assert main(["doctor"]) == 2


def test_doctor_ends_with_a_block_for_reports(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", version="3.1")
    main(["doctor", "ACME"])
    out = capsys.readouterr().out
    tail = out[out.index("---- for bug reports ----") :]
    assert f"tiny-core {tiny_core.__version__}" in tail
    assert "acme-thing 3.1" in tail
    assert all(f"{kind} {major}.{minor}" in tail for kind, (major, minor) in CORE_API.items())


def test_doctor_shows_the_traceback_of_a_named_plugin(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", {"plugin.py": "def deep(): raise OSError('libfoo.so.3')\ndeep()"})
    assert main(["doctor", "acme-thing"]) == 1
    assert "in deep" in capsys.readouterr().out


# ---- commands of plugins -----------------------------------------------------------------------------------

CLI = "def main(argv):\n    print('frobbed', *argv)\n    return 7\n"


def test_a_plugin_command_is_loaded_when_it_is_invoked(install: Install, capsys: Capture) -> None:
    toml = 'manifest = 1\nname = "x"\n[[command]]\nname = "frob"\nhelp = "Frobs."\n'
    points = "[tiny.commands]\nfrob = acme_thing.cli:main\n[tiny.manifest]\nx = acme_thing:plugin.toml\n"
    install("acme-thing", "ACME", {"cli.py": CLI, "plugin.toml": toml}, points=points)
    assert main(["--help"]) == 0
    assert "frob      Frobs. (acme-thing 0.1)" in capsys.readouterr().out
    assert "acme_thing.cli" not in sys.modules
    assert main(["frob", "-x", "1"]) == 7
    assert capsys.readouterr().out == "frobbed -x 1\n"


def test_a_plugin_command_by_hook(install: Install, capsys: Capture) -> None:
    hook = "from tiny_core.api import CommandSpec\n"
    hook += "def tiny_commands(): return (CommandSpec('frob', '', 'acme_thing.cli:main'),)"
    toml = 'manifest = 1\nname = "x"\n[[command]]\nname = "frob"\n'
    points = "[tiny.commands]\nfrob = acme_thing.plugin\n[tiny.manifest]\nx = acme_thing:plugin.toml\n"
    install("acme-thing", "ACME", {"cli.py": CLI, "plugin.py": hook, "plugin.toml": toml}, points=points)
    assert main(["frob"]) == 7


def test_a_broken_plugin_command_is_exit_code_1(install: Install, capsys: Capture) -> None:
    points = "[tiny.commands]\nfrob = acme_thing.cli:absent\n"
    install("acme-thing", "ACME", {"cli.py": CLI, "plugin.toml": None}, points=points)
    assert main(["frob"]) == 1
    assert "has no 'absent'" in capsys.readouterr().err
