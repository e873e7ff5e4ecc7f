"""Runs of the kit in processes of their own, for its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def environment(mistake: str = "none") -> dict[str, str]:
    """The environment for a backend of `wrong_backends`: nothing of ours from outside, and no cache."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TINY_", "DEV", "PYTEST_", "MISTAKE"))}
    return {**kept, "MISTAKE": mistake, "TINY_CACHE": "0", "PYTHONPATH": str(HERE)}


def conform(folder: Path, target: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the whole kit's command in a folder that is not the tree."""
    command = [sys.executable, "-m", "tiny_conformance", target, "-q", "--tb=short", *words]
    return subprocess.run(command, env=environment(), cwd=folder, capture_output=True, text=True, check=False)


def some(folder: Path, *words: str, mistake: str = "none") -> subprocess.CompletedProcess[str]:
    """Run named tests of the suite, `ops/test_unary.py::test_rounded`, on a backend of `wrong_backends`."""
    tests = [w for w in words if ".py::" in w]
    rest = [w for w in words if ".py::" not in w]
    nodes = []
    for test in tests:
        file, name = test.split(".py::")
        nodes.append(f"tiny_conformance.suite.{file.replace('/', '.')}::{name}")
    plugins = ("-p", "tiny_conformance.plugin", "-p", "wrong_backends", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--import-mode=importlib", *plugins]
    return subprocess.run(
        [*command, "--target", "PYTHON", *rest, "--pyargs", *nodes],
        env=environment(mistake), cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
