"""The kit notices a wrong backend, passes a right one, and reports what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FEW = "test_rounded or test_exact or test_every_tail or test_several_assignments"


def conform(
    tmp_path: Path, target: str, *words: str, mistake: str = "none"
) -> subprocess.CompletedProcess[str]:
    """Run the kit in a process of its own, with the backend of `wrong_backends`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TINY_", "DEV", "PYTEST_"))}
    env = {**kept, "MISTAKE": mistake, "TINY_CACHE": "0", "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "tiny_conformance", target, "-q", "--tb=short", *words]
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_right_backend_passes(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ("-p", "wrong_backends", "-k", FEW, "--dtypes", "float32,int32", "--json", str(report))
    done = conform(tmp_path, "PYTHON", *words)
    assert done.returncode == 0, done.stdout
    found = json.loads(report.read_text())
    assert found["target"] == "PYTHON"
    assert found["counts"]["passed"] > 50
    assert "failed" not in found["counts"]
    assert found["matrix"]["sqrt"] == {"float32": "passed"}
    assert set(found["matrix"]["add"]) == {"float32", "int32"}


@pytest.mark.parametrize(
    ("mistake", "noticed"),
    [
        ("truncated", "test_every_tail"),
        ("forgetful", "test_several_assignments"),
        ("inclusive", "test_exact[lt-float32]"),
        ("rounding", "test_exact[div-float32]"),
        ("unordered", "test_exact[maximum-float32]"),
    ],
)
def test_wrong_backend_fails(mistake: str, noticed: str, tmp_path: Path) -> None:
    words = ("-p", "wrong_backends", "-k", FEW, "--dtypes", "float32")
    done = conform(tmp_path, "PYTHON", *words, mistake=mistake)
    assert done.returncode == 1, done.stdout
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert any(noticed in line for line in failed), done.stdout


def test_target_that_runs_nothing(tmp_path: Path) -> None:
    done = conform(tmp_path, "NULL:LLVM:gfx1100", "-k", "test_exact and add")
    if "there is no renderer" in done.stdout + done.stderr or "unknown renderer" in done.stdout + done.stderr:
        pytest.skip("tiny-renderer-llvm is not installed")
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_target_that_does_not_exist(tmp_path: Path) -> None:
    done = conform(tmp_path, "NOWHERE")
    assert done.returncode != 0
    assert "NOWHERE" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_usage(tmp_path: Path) -> None:
    assert conform(tmp_path, "--help").returncode == 0
    assert (
        subprocess.run(
            [sys.executable, "-m", "tiny_conformance"], capture_output=True, check=False
        ).returncode
        == 2
    )
