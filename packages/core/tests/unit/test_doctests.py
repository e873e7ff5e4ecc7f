"""Examples in docstrings give what they say; what users call has a docstring."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import tiny_core
from tiny_core import Context, Tensor, jit, nn

MODULES = sorted(m.name for m in pkgutil.walk_packages(tiny_core.__path__, "tiny_core."))
USED = (Tensor, nn, nn.optim, nn.state, nn.datasets)


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with Context(DEV="CPU"):
        yield


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"Tensor": Tensor, "nn": nn, "jit": jit})
    assert not found.failed


def test_methods_have_examples() -> None:
    shown = [n for n in dir(Tensor) if ">>>" in (inspect.getdoc(inspect.getattr_static(Tensor, n)) or "")]
    assert len(shown) > 40


@pytest.mark.parametrize("owner", USED, ids=lambda owner: owner.__name__)
def test_what_users_call_has_a_docstring(owner: object) -> None:
    bare = [
        name
        for name, value in inspect.getmembers_static(owner)
        if not name.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, (type, property)))
        and getattr(value, "__module__", "tiny_core").startswith("tiny_core")
        and not (value.__doc__ or "").strip()
    ]
    assert not bare
