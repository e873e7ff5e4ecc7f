"""`import tiny_core` is light, and its names come when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tiny_core


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_no_heavy_module() -> None:
    heavy = "('numpy', 'pluggy', 'importlib.metadata', 'llvmlite', 'ml_dtypes', 'rich')"
    assert run(f"import tiny_core, sys; print([m for m in {heavy} if m in sys.modules])") == "[]\n"


def test_tensors_are_built_without_numpy() -> None:
    code = (
        "from tiny_core import Tensor; import sys; x = Tensor.zeros(3) + 1; y = (x @ x).relu().sum(); "
        "print('numpy' in sys.modules)"
    )
    assert run(code) == "False\n"


@pytest.mark.parametrize(
    "name", ["Tensor", "Device", "dtypes", "Context", "GlobalCounters", "nn", "jit", "TinyJit", "getenv"]
)
def test_name(name: str) -> None:
    assert getattr(tiny_core, name) is not None
    assert name in dir(tiny_core)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="Tensr"):
        _ = tiny_core.Tensr


def test_getenv_reads_settings_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from tiny_core import Context, getenv

    monkeypatch.setenv("SOME_NUMBER", "7")
    assert getenv("SOME_NUMBER") == 7
    assert getenv("SOME_OTHER_NUMBER", 3) == 3
    assert getenv("SOME_TEXT", "a") == "a"
    with Context(DEBUG=2):
        assert getenv("DEBUG") == 2
