"""For who runs these tests from a clone without having installed the wheel: metadata as pip would write it.

It is there while a test of this folder runs, so that no other test of the repository sees the device.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="session")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the metadata of the wheel."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / f"acme_tiny-{PROJECT['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    groups = PROJECT["entry-points"].items()
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for g, named in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(autouse=True)
def _installed(_site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the entry points known, if the wheel is not installed."""
    if any(d.metadata["Name"] == PROJECT["name"] for d in metadata.distributions()):
        yield
        return
    from tiny_core import Device
    from tiny_core.plugins import catalog

    monkeypatch.setattr(sys, "path", [str(_site), str(HERE / "src"), *sys.path])
    Device.close("ACME")  # in this repository other plugins of that name are tested
    catalog.reset()
    yield
    Device.close("ACME")
    catalog.reset()
