"""Our docstrings as the site's generator reads them: an extension of griffe, named in mkdocs.yml.

In: docstrings in the manner of this repository. Out: the same said with one name per argument, fences around
examples, and no brackets that Markdown takes for a link.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

import griffe

if TYPE_CHECKING:
    from griffe import GriffeLoader, Object

_HEAD = re.compile(r"^([A-Z]\w+):$")
_NAMES = re.compile(r"^    (\w+(?:, \w+)+): ")


class Docstrings(griffe.Extension):  # type: ignore[misc]  # griffe is where the site is built only
    """Rewrites the docstring of every object once it is known."""

    def on_object(self, *, obj: Object, loader: GriffeLoader, **kwargs: object) -> None:
        """Called by griffe for each object."""
        if obj.docstring is not None:
            obj.docstring.value = for_site(obj.docstring.value)


def for_site(text: str) -> str:
    """Return a docstring as the site's generator reads it."""
    out: list[str] = []
    section, example = "", False
    lines = text.splitlines()
    for i, line in enumerate(lines):
        head = _HEAD.match(line)
        if head:
            section = head[1]
        elif line and not line.startswith(" "):
            section = ""
        if example and not line.strip():
            out.append("```")
            example = False
        elif not example and line.startswith(">>> "):
            out += ["", "```pycon"]
            example = True
        names = _NAMES.match(line) if section == "Args" else None
        if section == "Raises" and re.match(r"    \w+ `", line):
            out[-1] = f"Raises {line.strip()}"  # "as `Optimizer`", which is no list of errors
            section = ""
        elif names:  # several arguments share a description
            more = list(takewhile(lambda below: below.startswith("        "), lines[i + 1 :]))
            *others, last = names[1].split(", ")
            for name in others:
                out += [f"    {name}: {_plain(line[names.end() :])}", *map(_plain, more)]
            out.append(f"    {last}: {_plain(line[names.end() :])}")
        else:
            out.append(line if example else _plain(line))
    if example:
        out.append("```")
    return "\n".join(out)


def _plain(line: str) -> str:
    """Without what looks like a reference: `a[i][j]` outside code."""
    parts = line.split("`")
    return "`".join(part if i % 2 else part.replace("][", "]&#91;") for i, part in enumerate(parts))
