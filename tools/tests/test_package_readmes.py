"""The examples in the packages' READMEs run, and print what the READMEs say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
READMES = {file.parent.name: file.read_text() for file in sorted(PACKAGES.glob("*/README.md"))}
EXAMPLES = [
    (package, *example)
    for package, text in READMES.items()
    for example in re.findall(r"```python\n([^`]*)```\n\n```text\n([^`]*)```", text)
]
COMMANDS = [
    (package, command)
    for package, text in READMES.items()
    for block in re.findall(r"```sh\n([^`]*)```", text)
    for command in block.splitlines()
]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("DEV", "TINY_DEV", "TINY_DEBUG")}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_every_package_has_an_example_and_a_changelog_of_its_version() -> None:
    assert {p for p, *_ in (*EXAMPLES, *COMMANDS)} == set(READMES)
    for package in READMES:
        version = re.search(r'^version = "(.+)"$', (PACKAGES / package / "pyproject.toml").read_text(), re.M)
        assert version and f"## {version[1]}" in (PACKAGES / package / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(("package", "code", "output"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_an_example_prints_what_the_readme_says(package: str, code: str, output: str) -> None:
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == output.strip()


@pytest.mark.parametrize(("package", "command"), COMMANDS, ids=[c[0] for c in COMMANDS])
def test_a_command_succeeds(package: str, command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "tiny-conform"
    done = run(sys.executable, "-m", "tiny_conformance", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
