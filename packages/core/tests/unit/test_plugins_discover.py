"""Discovery: which distributions are found, without importing any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_core.plugins import discover
from tiny_core.plugins.catalog import catalog

Install = Callable[..., Path]


def test_entry_points_of_our_groups_are_read_and_others_are_not() -> None:
    text = (
        "[console_scripts]\nx = a:b\n# note\n"
        "[tiny.runtimes]\nFOO = foo.plugin [extra]\n\n[tiny.manifest]\nfoo = foo:p.toml"
    )
    assert discover.parse_entry_points(text) == (
        ("tiny.runtimes", "FOO", "foo.plugin"),
        ("tiny.manifest", "foo", "foo:p.toml"),
    )


def test_a_distribution_is_described_from_its_metadata(install: Install) -> None:
    folder = install("acme-thing", "ACMETHING")
    info = folder.parent / "acme_thing-0.1.dist-info"
    (info / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///x"}')
    (info / "INSTALLER").write_text("pip\n")
    found = [d for d in discover.quick() if d.name == "acme-thing"]
    assert [(d.version, d.editable, d.installer) for d in found] == [("0.1", True, "pip")]


def test_the_first_distribution_of_a_name_on_the_path_counts(install: Install, tmp_path: Path) -> None:
    folder = install("acme-thing", "ACMETHING")
    second = tmp_path / "later"
    (second / "acme_thing-9.dist-info").mkdir(parents=True)
    (second / "acme_thing-9.dist-info" / "entry_points.txt").write_text("[tiny.runtimes]\nX = x")
    found = discover.quick([str(folder.parent), str(second)])
    assert [d.version for d in found] == ["0.1"]


def test_missing_folders_and_zip_files_on_the_path_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK")
    assert discover.quick([str(tmp_path / "a.zip"), str(tmp_path / "none")]) == []


def test_quick_finds_what_importlib_metadata_finds(install: Install) -> None:
    install("acme-thing", "ACMETHING")
    install("acme-other", "ACMEOTHER")
    assert {(d.name, d.points) for d in discover.quick()} == {(d.name, d.points) for d in discover.thorough()}


def test_a_plugin_from_pythonpath_is_marked(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install("acme-thing", "ACMETHING")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    found = next(d for d in discover.quick() if d.name == "acme-thing")
    assert found.caution == "found through PYTHONPATH"


def test_building_the_catalog_imports_no_plugin(install: Install) -> None:
    install(
        "acme-thing", "ACMETHING", {"__init__.py": "raise RuntimeError", "plugin.py": "raise RuntimeError"}
    )
    assert "ACMETHING" in catalog().tokens("runtime")
    assert "acme_thing" not in sys.modules


def test_a_token_that_quick_cannot_see_is_searched_thoroughly(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-thing", "ACMETHING")
    monkeypatch.setattr(discover, "quick", list)
    entry = catalog().find("runtime", "ACMETHING")
    assert entry is not None
    assert entry.plugin.name == "acme-thing"


def test_import_tiny_core_discovers_nothing() -> None:
    code = (
        "import sys, tiny_core; "
        "never = {'pluggy', 'importlib.metadata', 'numpy', 'rich', 'tiny_core.plugins.discover'}; "
        "bad = never & set(sys.modules); "
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
