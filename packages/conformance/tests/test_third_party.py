"""A backend that is not ours, through its entry points: the example of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "third_party_backend"
pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="tests run outside the repository")


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment where the example is installed, as pip does in editable mode."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / f"acme_tiny-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for g, names in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TINY_", "DEV", "PYTEST_", "MISTAKE"))}
    return {
        **kept,
        "TINY_CACHE": "0",
        "PYTHONPATH": os.pathsep.join((str(tmp_path / "site"), str(EXAMPLE / "src"))),
    }


CHOICES = {
    "packaging": ("--level", "0"),
    "runtime": ("--level", "1", "-k", "test_queue or test_memory or test_errors"),
    "ops": ("--level", "2", "--dtypes", "float32,int32", "-k", "test_kernels or test_index"),
}


@pytest.mark.parametrize("level", list(CHOICES))
def test_the_example_conforms(level: str, installed: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tiny_conformance", "ACME", "-q", "--tb=short", *CHOICES[level]]
    done = subprocess.run(command, env=installed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
