"""`tiny plugins show`: one plugin, what it declares, and why it does not work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_core.cli.main import main

Install = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


def test_what_it_declares_and_where_it_is_from(install: Install, capsys: Capture) -> None:
    folder = install("acme-thing", "ACME", version="3.1")
    assert main(["plugins", "show", "acme-thing"]) == 0
    out = capsys.readouterr().out
    assert "acme-thing 3.1" in out
    assert str(folder.parent) in out
    assert "contracts runtime 1.0, renderer 1.0" in out
    assert "runtime ACME: found (acme_thing.plugin)" in out
    assert "renderers  ACME" in out


@pytest.mark.parametrize("name", ["acme-thing", "Acme_Thing", "acme_thing", "ACMED"])
def test_the_names_it_goes_by(install: Install, capsys: Capture, name: str) -> None:
    install("acme-thing", "ACMED")
    assert main(["plugins", "show", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "acme-thing"


def test_a_name_that_nothing_has(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME")
    assert main(["plugins", "show", "acme-thin"]) == 2
    assert "did you mean acme-thing" in capsys.readouterr().err


def test_its_traceback_is_kept(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", {"plugin.py": "def deep(): raise OSError('libfoo.so.3')\ndeep()"})
    assert main(["plugins", "show", "ACME"]) == 1
    out = capsys.readouterr().out
    assert "runtime ACME: broken" in out
    assert out.count("in deep") == 1
    assert main(["plugins", "show", "ACME", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["state"] == "broken"
    assert "libfoo.so.3" in found["why"]
    assert "in deep" in found["offers"][0]["traceback"]


def test_a_crash_is_a_state(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME", {"plugin.py": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"})
    assert main(["plugins", "show", "ACME"]) == 1
    assert "SIGSEGV" in capsys.readouterr().out


def test_an_incompatible_one_is_not_loaded(install: Install, capsys: Capture) -> None:
    toml = (
        'manifest = 1\nname = "x"\n[api]\nruntime = "9.0"\nrenderer = "1.0"\n[[runtime]]\ndevice = "ACME"\n'
    )
    toml += '[[renderer]]\nname = "ACME"\n'
    install("acme-thing", "ACME", {"plugin.toml": toml, "plugin.py": "raise RuntimeError"})
    assert main(["plugins", "show", "ACME", "--json"]) == 1
    offer = json.loads(capsys.readouterr().out)["offers"][0]
    assert (offer["state"], offer["traceback"]) == ("incompatible", "")
    assert "needs runtime API 9.0" in offer["why"]


def test_a_built_in(capsys: Capture) -> None:
    assert main(["plugins", "show", "CPU"]) == 0
    assert "built in, tiny_core.devices.cpu.plugin" in capsys.readouterr().out
