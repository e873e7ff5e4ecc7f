"""The example backend is what `tiny plugins new` and its steps give."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("git") is None, reason="steps are applied by git")
def test_the_example_is_the_template_and_its_steps() -> None:
    command = [sys.executable, "tools/make_example.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun python tools/make_example.py"


def test_every_step_is_explained() -> None:
    example = ROOT / "examples" / "third_party_backend"
    readme = (example / "README.md").read_text()
    steps = sorted((example / "steps").glob("*.diff"))
    assert len(steps) == 5
    assert [s.name for s in steps if s.name not in readme] == []
