"""Fixtures shared by all tests of core."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .oracle import Engine


@pytest.fixture(scope="module", autouse=True)
def every_pass_is_checked() -> Iterator[None]:
    """Hold what every pass makes against the specification of its stage, unless `TINY_SPEC` says otherwise;
    in child processes and compile workers too."""
    if "TINY_SPEC" in os.environ:
        yield
        return
    os.environ["TINY_SPEC"] = "2"
    yield
    os.environ.pop("TINY_SPEC", None)


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Run tensors by numpy, an op at a time, in place of the engine: for tests of what is built, not of how
    it runs."""
    import tiny_core.engine.realize as module
    from tiny_core.runtime.device import Device
    from tiny_core.tensor import counters

    engine = Engine()
    for name in ("realize_nodes", "allocate_from_host", "read_host"):
        monkeypatch.setattr(module, name, getattr(engine, name))
    monkeypatch.setattr(counters, "_counters", {})
    monkeypatch.setattr(counters, "_seed", [0])
    monkeypatch.setattr(Device, "_default", "CPU")
    yield engine
