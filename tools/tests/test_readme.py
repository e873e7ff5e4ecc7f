"""The README's code runs and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys

from tools import docblocks

README = docblocks.ROOT / "README.md"


def test_the_readme_has_examples_of_both_kinds() -> None:
    shown = [b for b in docblocks.blocks(README) if b.output is not None]
    assert {b.kind for b in shown} == {"python", "sh"}


def test_an_example_prints_what_the_readme_says() -> None:
    assert len(docblocks.run_page(README)) >= 2


def test_the_job_commands_of_the_readme_exist() -> None:
    for job in re.findall(r"python3 tools/dev.py (\w+)", README.read_text()):
        command = [sys.executable, str(docblocks.ROOT / "tools" / "dev.py"), "--help"]
        assert job in subprocess.run(command, capture_output=True, text=True, check=True).stdout
