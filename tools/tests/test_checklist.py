"""docs/checklist.md names only files, tests and sessions that exist; what it calls missing is missing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = (ROOT / "docs" / "checklist.md").read_text()
FOLDERS = {
    "unit": "packages/core/tests/unit",
    "ir": "packages/core/tests/ir",
    "llvm": "packages/renderer-llvm/tests",
    "suite": "packages/conformance/src/tiny_conformance/suite",
}
ITEM = re.compile(r"^- \[( |x)\] (.*?)(?=^- \[|^#|\Z)", re.M | re.S)
NAMED = re.compile(r"`([\w./-]+\.(?:py|md))(?:::(\w+))?`")


def file_of(name: str) -> Path:
    first, _, rest = name.partition("/")
    return ROOT / FOLDERS[first] / rest if first in FOLDERS else ROOT / name


def test_what_is_named_exists() -> None:
    broken = []
    for done, text in ITEM.findall(LIST):
        shown = text.partition("Missing:")[0] if done == " " else text
        for name, test in NAMED.findall(shown):
            file = file_of(name)
            if not file.exists() or (test and f"def {test}(" not in file.read_text()):
                broken.append(f"{name}::{test}" if test else name)
    assert not broken


def test_an_open_box_says_what_is_missing_and_a_ticked_one_what_shows_it() -> None:
    items = ITEM.findall(LIST)
    assert len(items) > 80
    for done, text in items:
        assert ("Missing:" in text) == (done == " "), text
        assert done == " " or re.search(r"`[^`]+`", text), text


def test_sessions_that_are_named_exist() -> None:
    nox = (ROOT / "noxfile.py").read_text()
    words = re.findall(r"[Ss]essions? ((?:`\w+`(?:,? )?)+)", LIST)
    names = {name for word in words for name in re.findall(r"`(\w+)`", word)}
    assert {"isolation", "conform", "check_dist"} <= names
    for name in names:
        assert f"\ndef {name}(session" in nox, name
