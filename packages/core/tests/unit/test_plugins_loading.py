"""Loading: a plugin that misbehaves stays a row, and nothing of it stays registered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_core.errors import PluginError
from tiny_core.plugins import loader, registry
from tiny_core.plugins.catalog import State, catalog
from tiny_core.settings import Context

Install = Callable[..., Path]
HEAD = "from tiny_core.api import CommandSpec, RendererSpec, RuntimeSpec, hookimpl\n"
RUNTIME = "@hookimpl\ndef tiny_runtimes(): return (RuntimeSpec('ACME', open='acme_thing.runtime:Device'),)\n"
RENDERER = (
    "@hookimpl\ndef tiny_renderers(): return (RendererSpec('ACME', make='acme_thing.render:Source'),)\n"
)


def registered() -> set[object]:
    """Plugins that the hook manager holds."""
    from tiny_core.plugins.manager import MANAGER

    return {name for name, plugin in MANAGER.list_name_plugin() if plugin is not None}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module_here", "No module named 'no_such_module_here'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (HEAD + RUNTIME, "an entry point names renderer ACME, but its hook gives none"),
        (HEAD + RUNTIME.replace("'ACME'", "'ACMF'") + RENDERER, "an entry point names runtime ACME"),
        (
            HEAD + RUNTIME + RENDERER.replace("),)", "), RendererSpec('MORE', make='x:y'))"),
            "MORE, which no entry",
        ),
        (HEAD + RUNTIME + RENDERER + "@hookimpl\ndef my_runtimes(): return ()\n", "no hook my_runtimes"),
        (HEAD + RUNTIME + RENDERER + "def tiny_runtime(): return ()\n", "did you mean tiny_runtimes"),
        (HEAD + RUNTIME.replace("()", "(config)", 1) + RENDERER, "config"),
        (HEAD + RUNTIME + RENDERER.replace("return (", "return [1] or ("), "tuple of RendererSpec"),
        (HEAD + RUNTIME + "@hookimpl\ndef tiny_renderers(): return 1 // 0\n", "ZeroDivisionError"),
    ],
)
def test_failures_are_kept_and_rolled_back(install: Install, code: str, why: str) -> None:
    install("acme-thing", "ACME", {"plugin.py": code})
    before = registered()
    with pytest.raises(PluginError, match="cannot be used") as caught:
        registry.runtime("ACME")
    assert why in str(caught.value)
    rows = catalog().claims("runtime", "ACME") + catalog().claims("renderer", "ACME")
    assert [r.state for r in rows] == [State.BROKEN, State.BROKEN]
    assert all(r.spec is None for r in rows)
    assert registered() == before


def test_the_marker_is_not_needed(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": (HEAD + RUNTIME + RENDERER).replace("@hookimpl\n", "")})
    assert registry.runtime("ACME").device == "ACME"


def test_the_traceback_is_kept(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": "def deep(): raise OSError('libfoo.so.3')\ndeep()"})
    with pytest.raises(PluginError):
        registry.runtime("ACME")
    (row,) = catalog().claims("runtime", "ACME")
    assert "in deep" in row.traceback
    assert "libfoo.so.3" in row.why


def test_one_broken_plugin_does_not_touch_another(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": "raise ValueError"})
    install("other-plugin", "OTHER")
    with pytest.raises(PluginError):
        registry.runtime("ACME")
    assert registry.runtime("OTHER").device == "OTHER"


def test_a_module_listed_twice_is_registered_once(install: Install) -> None:
    install("acme-thing", "ACME")
    registry.runtime("ACME")
    registry.renderer("ACME")
    assert len([name for name in registered() if "acme-thing" in str(name)]) == 1


def test_loading_is_not_reentered(install: Install) -> None:
    code = "from tiny_core.plugins import registry\nregistry.runtime('ACME')\n"
    install("acme-thing", "ACME", {"plugin.py": code})
    with pytest.raises(PluginError, match="while it is being imported"):
        registry.runtime("ACME")


def test_a_plugin_that_the_user_imported_first_is_used_as_it_is(install: Install) -> None:
    install("acme-thing", "ACME")
    import acme_thing.plugin  # type: ignore[import-not-found]  # written by the fixture

    acme_thing.plugin.SEEN = True
    registry.runtime("ACME")
    assert sys.modules["acme_thing.plugin"].SEEN


def test_a_plugin_imported_by_the_user_may_not_select_itself_half_way(install: Install) -> None:
    code = "from tiny_core.plugins import registry\nregistry.runtime('ACME')\n" + HEAD + RUNTIME + RENDERER
    install("acme-thing", "ACME", {"plugin.py": code})
    with pytest.raises(PluginError, match="circular import"):
        __import__("acme_thing.plugin")


def test_without_a_manifest_it_is_tried_in_a_subprocess_first(install: Install, tmp_path: Path) -> None:
    code = f"import os\nopen({str(tmp_path / 'who')!r}, 'a').write(f'{{os.getpid()}}\\n')\n" + HEAD + RUNTIME
    points = "[tiny.runtimes]\nACME = acme_thing.plugin\n"
    install("acme-thing", "ACME", {"plugin.py": code, "plugin.toml": None}, points=points)
    assert registry.runtime("ACME").device == "ACME"
    assert len(set((tmp_path / "who").read_text().split())) == 2


def test_a_crash_without_a_manifest_is_a_row(install: Install) -> None:
    points = "[tiny.runtimes]\nACME = acme_thing.plugin\n"
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    install("acme-thing", "ACME", {"plugin.py": code, "plugin.toml": None}, points=points)
    with pytest.raises(PluginError, match="SIGSEGV"):
        registry.runtime("ACME")
    assert "acme_thing.plugin" not in sys.modules


def test_hook_calls_are_traced_on_demand(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("acme-thing", "ACME")
    with Context(PLUGINS_TRACE=1):
        registry.runtime("ACME")
    assert "tiny_runtimes() -> (RuntimeSpec(device='ACME'" in capsys.readouterr().err


def test_commands_come_from_hooks_too(install: Install) -> None:
    code = (
        HEAD
        + "@hookimpl\ndef tiny_commands(): return (CommandSpec('frob', 'Frobs.', 'acme_thing.cli:main'),)\n"
    )
    points = "[tiny.commands]\nfrob = acme_thing.plugin\n"
    install("acme-thing", "ACME", {"plugin.py": code, "plugin.toml": None}, points=points)
    (row,) = catalog().claims("command", "frob")
    loader.load(row, probe=False)
    assert [c.help for c in registry.commands()] == ["Frobs."]
