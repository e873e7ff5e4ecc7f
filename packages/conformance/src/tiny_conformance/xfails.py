"""Expected failures: a TOML file that lies next to a plugin.

    [[xfail]]
    test = "ops/test_unary.py::test_elementary[sin-float16]"    # fnmatch patterns are allowed
    reason = "the toolkit's sine is good to 4 ulp only"
    link = "https://example.org/acme/issues/12"
    kind = "error"      # or "wrong result"

An xfail is strict: one that passes is a failure, and so is one that names no test. Kind "error" excuses typed
errors and crashes of the test, not results that are wrong. "wrong result" excuses both, except that a plugin
of maturity `stable` may not have any at level 2 and above: it may fail, it may not lie.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tiny_conformance.target import Target

FILE: Final = "conformance-xfails.toml"
KINDS: Final = ("error", "wrong result")
_KEYS: Final = frozenset(("test", "reason", "link", "kind"))
_OPTIONAL: Final = frozenset(("kind",))


class BadXfails(ValueError):
    """The file of expected failures cannot be used."""


@dataclass(frozen=True, slots=True)
class Xfail:
    """An expected failure.

    Args:
        test: pattern of the names that reports give tests.
        reason: why, in words.
        link: where it is being dealt with.
        kind: one of KINDS.
    """

    test: str
    reason: str
    link: str
    kind: str = "error"

    def matches(self, case: str) -> bool:
        """Return whether it names this test; `[` and `]` stand for themselves."""
        return case == self.test or fnmatchcase(case, self.test.replace("[", "[[]"))


def find(target: Target) -> Path | None:
    """Return the file that lies next to the target's plugin, if there is one."""
    for package in target.packages:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            file = Path(folder) / FILE
            if file.is_file():
                return file
    return None


def read(file: Path) -> tuple[Xfail, ...]:
    """Read a file; raises BadXfails with what is wrong in it."""
    try:
        data = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadXfails(f"{file}: {error}") from None
    unknown = set(data) - {"xfail"}
    rows = data.get("xfail", [])
    if unknown or not isinstance(rows, list):
        raise BadXfails(f"{file}: it holds tables [[xfail]] and nothing else")
    return tuple(_row(file, number, row) for number, row in enumerate(rows, 1))


def _row(file: Path, number: int, row: object) -> Xfail:
    where = f"{file}: xfail {number}"
    if not isinstance(row, dict) or not all(isinstance(v, str) and v.strip() for v in row.values()):
        raise BadXfails(f"{where}: keys have texts that are not empty")
    missing, unknown = _KEYS - _OPTIONAL - set(row), set(row) - _KEYS
    if missing or unknown:
        said = [f"no {k}" for k in sorted(missing)] + [f"unknown key {k}" for k in sorted(unknown)]
        raise BadXfails(f"{where}: {', '.join(said)}; it has test, reason, link and perhaps kind")
    xfail = Xfail(**row)
    if xfail.kind not in KINDS:
        raise BadXfails(f"{where}: kind {xfail.kind!r} is neither {' nor '.join(map(repr, KINDS))}")
    return xfail


def forbidden(xfail: Xfail, level: int, maturity: str) -> bool:
    """Return whether a plugin of this maturity may not have this xfail at this level."""
    return xfail.kind == "wrong result" and level >= 2 and maturity == "stable"
