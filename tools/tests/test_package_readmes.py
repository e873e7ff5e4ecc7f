"""The examples in the packages' READMEs run, and print what the READMEs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import docblocks

READMES = sorted((docblocks.ROOT / "packages").glob("*/README.md"))


@pytest.mark.parametrize("readme", READMES, ids=lambda file: file.parent.name)
def test_every_package_has_an_example_and_a_changelog_of_its_version(readme: Path) -> None:
    assert docblocks.blocks(readme)
    project = (readme.parent / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"$', project, re.M)
    assert version and f"## {version[1]}" in (readme.parent / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("readme", READMES, ids=lambda file: file.parent.name)
def test_an_example_prints_what_the_readme_says(readme: Path) -> None:
    assert docblocks.run_page(readme)
