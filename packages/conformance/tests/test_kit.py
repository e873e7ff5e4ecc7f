"""The command: targets, levels, and the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_conformance.report import LEVELS

from .kit_runs import conform, some

FEW = "test_rounded or test_every_tail"


def test_a_few_tests_and_their_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = conform(
        tmp_path, "PYTHON", "-k", FEW, "--dtypes", "float32,int32", "--json", str(report), "--seed", "5"
    )
    assert done.returncode == 0, done.stdout
    found = json.loads(report.read_text())
    assert found["format"] == 1
    assert (found["target"], found["device"], found["renderer"]) == ("PYTHON", "PYTHON", "PYTHON")
    assert found["profile"] == "minimal"
    assert found["seed"] == 5
    assert found["counts"]["passed"] > 40
    assert "failed" not in found["counts"]
    assert found["levels"] == {"2": found["counts"]}
    assert found["matrix"]["sqrt"] == {"float32": "passed"}
    assert set(found["matrix"]["neg"]) == {"float32", "int32"}
    assert not found["complete"]
    assert found["level"] is None
    assert {"executes", "stores", "interprets", "float32"} <= set(found["capabilities"])
    assert not found["failures"]


def test_a_failure_is_in_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    tests = ("ops/test_kernels.py::test_op[max-float32]", "ops/test_kernels.py::test_op[add-float32]")
    done = some(tmp_path, *tests, "--json", str(report), mistake="maximum loses NaN")
    assert done.returncode == 1
    found = json.loads(report.read_text())
    assert found["matrix"]["max"] == {"float32": "failed"}
    assert found["matrix"]["add"] == {"float32": "passed"}
    (failure,) = found["failures"]
    assert failure["test"] == "ops/test_kernels.py::test_op[max-float32]"
    assert "differ" in failure["message"]


def test_gradients_have_a_table_of_their_own(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = some(
        tmp_path, "ops/test_gradient.py::test_gradient[float32-mul, broadcast]", "--json", str(report)
    )
    assert done.returncode == 0, done.stdout
    found = json.loads(report.read_text())
    assert found["gradients"] == {"mul, broadcast": {"float32": "passed"}}
    assert found["matrix"] == {}


def test_levels_are_cumulative(tmp_path: Path) -> None:
    counts = []
    for level in LEVELS:
        done = conform(tmp_path, "PYTHON", "--level", level, "--collect-only")
        assert done.returncode == 0, done.stdout
        folders = {line.partition("/suite/")[2].partition("/")[0] for line in done.stdout.splitlines()}
        folders |= {line.partition("/")[0] for line in done.stdout.splitlines() if "::" in line}
        counts.append(len(folders & {"packaging", "runtime", "ops", "engine", "models", "speed"}))
    assert counts == [1, 2, 3, 4, 5, 6]


def test_more_processes_give_one_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = conform(tmp_path, "PYTHON", "-k", "test_every_tail", "-n", "2", "--json", str(report))
    assert done.returncode == 0, done.stdout
    found = json.loads(report.read_text())
    assert found["counts"] == {"passed": 17}
    assert found["matrix"]["every_tail"] == {"": "passed"}


def test_a_target_that_runs_nothing(tmp_path: Path) -> None:
    done = conform(tmp_path, "NULL:LLVM:gfx1100", "-k", "test_exact and add")
    if "there is no renderer" in done.stdout + done.stderr or "unknown renderer" in done.stdout + done.stderr:
        pytest.skip("tiny-renderer-llvm is not installed")
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_a_target_that_does_not_exist(tmp_path: Path) -> None:
    done = conform(tmp_path, "NOWHERE")
    assert done.returncode != 0
    assert "NOWHERE" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_usage(tmp_path: Path) -> None:
    helped = conform(tmp_path, "--help")
    assert helped.returncode == 0
    assert "--xfails FILE" in helped.stdout
    command = [sys.executable, "-m", "tiny_conformance"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
