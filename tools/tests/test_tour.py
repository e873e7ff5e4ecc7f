"""docs/tour.md is what the compiler prints today."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
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


def test_the_tour_is_up_to_date(make_tour: ModuleType) -> None:
    written, made = make_tour.TOUR.read_text(), make_tour.tour()
    advice = "run `python tools/make_tour.py` and read the difference"
    assert written.partition(make_tour.ASSEMBLY)[0] == made.partition(make_tour.ASSEMBLY)[0], advice
    if f"(llvmlite {importlib.metadata.version('llvmlite')})" not in written:
        pytest.skip("the page has the machine code of another version of LLVM")
    assert written == made, advice


def test_no_line_is_hidden(make_tour: ModuleType) -> None:
    page = make_tour.TOUR.read_text()
    for stage in ("reduce.add", "range.reduce", "linear ", "define void", "vfmadd"):
        assert stage in page
