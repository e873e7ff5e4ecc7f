"""The README's code runs and prints what the README says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```(python|sh)\n([^`]*)```\n\n```text\n([^`]*)```", README)


def test_the_readme_has_examples_of_both_kinds() -> None:
    assert {kind for kind, _, _ in EXAMPLES} == {"python", "sh"}


@pytest.mark.parametrize(("kind", "code", "output"), EXAMPLES, ids=[kind for kind, _, _ in EXAMPLES])
def test_an_example_prints_what_the_readme_says(kind: str, code: str, output: str) -> None:
    if kind == "python":
        command = [sys.executable, "-c", code]
    else:
        program, *rest = shlex.split(code)
        assert program == "tiny"
        command = [sys.executable, "-m", "tiny_core.cli.main", *rest]
    environment = {k: v for k, v in os.environ.items() if k not in ("DEV", "TINY_DEV", "TINY_DEBUG")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_the_job_commands_of_the_readme_exist() -> None:
    for job in re.findall(r"python3 tools/dev.py (\w+)", README):
        command = [sys.executable, str(Path(__file__).parents[1] / "dev.py"), "--help"]
        assert job in subprocess.run(command, capture_output=True, text=True, check=True).stdout
