"""docs/tour.md is what the compiler prints today."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[1] / "make_tour.py"


@pytest.fixture(scope="module")
def make_tour() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_tour", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_tour"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def checked() -> subprocess.CompletedProcess[str]:
    """`make_tour.py --check` in an environment where the user has chosen other things."""
    environment = {**os.environ, "DEV": "PYTHON", "TINY_OPTIMIZE": "0"}
    command = [sys.executable, str(TOOL), "--check"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_tour_is_up_to_date(checked: subprocess.CompletedProcess[str]) -> None:
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_its_machine_code_has_been_compared(
    make_tour: ModuleType, checked: subprocess.CompletedProcess[str]
) -> None:
    named = make_tour.named_llvmlite(make_tour.TOUR.read_text())
    if named != version("llvmlite"):
        pytest.skip(f"the page has machine code of llvmlite {named}, and here is {version('llvmlite')}")
    assert "not compared" not in checked.stdout


def test_every_change_of_the_page_is_found(make_tour: ModuleType) -> None:
    page = make_tour.TOUR.read_text()
    assert make_tour.differences(page, page) == []
    for heading in make_tour.sections(page):
        assert make_tour.differences(page.replace(heading, "changed", 1), page) or not heading
    assert make_tour.differences(page.replace("reduce.add", "reduce.max", 1), page)
    assert make_tour.differences(page.replace("vfmadd231ps", "vfmadd213ps", 1), page)


def test_another_llvm_may_choose_other_instructions_and_nothing_else(make_tour: ModuleType) -> None:
    page = make_tour.TOUR.read_text()
    here = make_tour.named_llvmlite(page)
    other = page.replace("vfmadd231ps", "vfmadd213ps").replace(f"(llvmlite {here})", "(llvmlite 99.0)")
    said: list[str] = []
    assert make_tour.differences(other, page, said.append) == []
    assert "99.0" in said[0]
    assert make_tour.differences(other.replace("reduce.add", "reduce.max", 1), page, said.append)


def test_every_stage_is_on_the_page(make_tour: ModuleType) -> None:
    page = make_tour.TOUR.read_text()
    for stage in ("reduce.add %", "range.reduce", "mulacc", 'linear "', "define void", "vfmadd", "CPU True"):
        assert stage in page


def test_files_that_the_page_names_exist(make_tour: ModuleType) -> None:
    root = TOOL.parents[1]
    named = re.findall(r"`([\w/.-]+(?:\.py|/))`", make_tour.TOUR.read_text())
    assert len(named) > 20
    for name in named:
        assert (root / name).exists() or (root / "packages/core/src/tiny_core" / name).exists(), name
