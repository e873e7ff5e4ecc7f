"""plugin.toml: what is accepted, and how what is not is reported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tiny_core.plugins import manifest
from tiny_core.plugins.detect import Detect
from tiny_core.plugins.manifest import BadManifest, Manifest

GOOD = """
manifest = 1
name = "amd"
maturity = "provisional"
[api]
runtime = "1.2"
[[runtime]]
device = "AMD"
ifaces = ["KFD", "MOCK"]
renderers = ["LLVM", "hip"]
priority = 80
detect = { platform = ["linux"], any_path = ["/dev/kfd"], pci_vendor = [0x1002] }
options = { waves = "wavefronts per workgroup hint" }
"""


def read(text: str) -> Manifest | BadManifest:
    return manifest.parse(text.encode(), "here")


def test_a_good_manifest() -> None:
    got = read(GOOD)
    assert isinstance(got, Manifest)
    offer = got.offer("runtime", "AMD")
    assert offer is not None
    assert offer.renderers == ("LLVM", "HIP")
    assert offer.detect == Detect(("linux",), ("/dev/kfd",), pci_vendor=(0x1002,))
    assert offer.options == (("waves", "wavefronts per workgroup hint"),)
    assert got.contract("runtime") == (1, 2)
    assert got.notes == ()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("manifest = 1", "", "manifest = 1` is missing"),
        ("manifest = 1", "manifest = 7", "version 7"),
        ('name = "amd"', "", "`name` is missing"),
        ('"provisional"', '"golden"', "maturity"),
        ('"1.2"', '"one"', "MAJOR.MINOR"),
        ('runtime = "1.2"', "", "`api.runtime` is missing"),
        ('device = "AMD"', 'device = "A MD"', "must be a name"),
        ('device = "AMD"', "device = 1", "must be a string"),
        ("priority = 80", 'priority = "high"', "must be an integer"),
        ("priority = 80", "priority = true", "must be an integer"),
        ('["KFD", "MOCK"]', '"KFD"', "must be a list"),
        ("pci_vendor = [0x1002]", 'pci_vendor = ["1002"]', "list of an integer"),
        ("[[runtime]]", "[runtime]", "array of tables"),
        ("[api]", "[api", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, why: str) -> None:
    assert old in GOOD
    got = read(GOOD.replace(old, new))
    assert isinstance(got, BadManifest)
    assert why in got.why


def test_a_newer_manifest_version_is_told_apart() -> None:
    got = read("manifest = 2")
    assert isinstance(got, BadManifest)
    assert got.newer


def test_unknown_keys_are_notes() -> None:
    got = read(GOOD.replace("priority", "prioritty"))
    assert isinstance(got, Manifest)
    assert got.notes == ("plugin.toml: unknown key `runtime.prioritty`",)


def test_reading_does_not_import_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "never_imported"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError")
    (package / "data" / "plugin.toml").write_text(GOOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(manifest.read("never_imported:data/plugin.toml"), Manifest)
    assert "never_imported" not in sys.modules


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_package_here:plugin.toml", "no package"),
        ("tiny_core:absent.toml", "is it in the wheel?"),
        ("tiny_core", "package:file"),
        ("tiny_core:../../secret.toml", "in the package"),
        ("json.decoder:plugin.toml", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_found(value: str, why: str) -> None:
    got = manifest.read(value)
    assert isinstance(got, BadManifest)
    assert why in got.why


def test_detect_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "renderD128").touch()
    monkeypatch.setenv("TINY_TEST_HERE", "1")
    assert Detect((sys.platform,), (f"{tmp_path}/renderD*",), any_env=("TINY_TEST_HERE",)).missing() == ""
    assert Detect(("plan9",)).missing() == "runs on plan9 only"
    assert Detect(any_path=("/no/such", "/nor/such")).missing() == "no path /no/such or /nor/such"
    assert "libnothing.so" in Detect(any_library=("libnothing.so",)).missing()
    assert Detect(pci_vendor=(0xFFFE,)).missing() == "no PCI device of vendor 0xfffe"


def test_detect_follows_a_variable_that_names_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "mycc"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("MYCC", f"{tool} -O2")
    assert Detect(any_program=("$MYCC",)).missing() == ""
    monkeypatch.delenv("MYCC")
    assert "$MYCC" in Detect(any_program=("$MYCC",)).missing()
