"""Which installed distributions offer something, read from their `entry_points.txt` files.

In: `sys.path`. Out: a `Distribution` for each that has an entry point in a group of ours. Reading the files
directly takes a few ms at a hundred distributions; `importlib.metadata` takes tens and is asked only by
`thorough`, for what lies where no plain folder is looked at (zip files, custom finders). Imports nothing of
what it finds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tiny_core.plugins.manifest import Kind

GROUPS: Final[dict[str, Kind]] = {
    "tiny.runtimes": "runtime",
    "tiny.renderers": "renderer",
    "tiny.kernels": "kernels",
    "tiny.commands": "command",
}
MANIFEST_GROUP: Final = "tiny.manifest"
Point = tuple[str, str, str]
"""Group, name and value of an entry point."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution with entry points of ours.

    Args:
        name: as pip shows it.
        version: likewise.
        path: its metadata folder.
        points: its entry points in our groups, in the file's order.
        editable: whether it is installed in editable mode.
        installer: what installed it, "" if that is not recorded.
        caution: "" or why its origin deserves a second look.
    """

    name: str
    version: str
    path: str
    points: tuple[Point, ...]
    editable: bool = False
    installer: str = ""
    caution: str = ""


def normalize(name: str) -> str:
    """Return a distribution's name as pip compares it: lower case, with single dashes."""
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def parse_entry_points(text: str) -> tuple[Point, ...]:
    """Return the entry points of our groups in the text of an entry_points.txt."""
    group, points = "", []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif line and line[0] not in "#;" and (group in GROUPS or group == MANIFEST_GROUP):
            name, _, value = line.partition("=")
            points.append((group, name.strip(), value.partition("[")[0].strip()))
    return tuple(points)


def quick(path: Iterable[str] | None = None) -> list[Distribution]:
    """Return the distributions found in the plain folders of `path` (default `sys.path`).

    Of two distributions with one name the first on the path counts, as it is the one whose code would be
    imported.
    """
    found: list[Distribution] = []
    seen: set[str] = set()
    for folder in sys.path if path is None else path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:  # a zip file, or a folder that does not exist: usual on sys.path
            continue
        for entry in names:
            stem, dot, ending = entry.rpartition(".")
            if ending not in ("dist-info", "egg-info") or not dot:
                continue
            name, _, version = stem.partition("-")
            key = normalize(name)
            if key in seen:
                continue
            seen.add(key)
            where = os.path.join(folder, entry)
            data = _read(os.path.join(where, "entry_points.txt"))
            if b"[tiny." not in data:
                continue
            points = parse_entry_points(data.decode(errors="replace"))
            if points:
                found.append(_describe(where, name, version, points, folder))
    return found


def thorough() -> list[Distribution]:
    """Return what `importlib.metadata` knows; slow, and complete."""
    from importlib import metadata

    found: list[Distribution] = []
    seen: set[str] = set()
    for dist in metadata.distributions():
        name = dist.metadata["Name"] or ""
        if not name or normalize(name) in seen:
            continue
        seen.add(normalize(name))
        points = parse_entry_points(dist.read_text("entry_points.txt") or "")
        if points:
            where = str(getattr(dist, "_path", ""))  # public API has no way to ask where a distribution lies
            found.append(_describe(where, name, dist.version, points, os.path.dirname(where)))
    return found


def _describe(where: str, name: str, version: str, points: tuple[Point, ...], folder: str) -> Distribution:
    """Complete a distribution's record from its metadata folder."""
    header = _read(os.path.join(where, "METADATA")) or _read(os.path.join(where, "PKG-INFO"))
    for line in header.split(b"\n\n", 1)[0].decode(errors="replace").splitlines():
        key, _, value = line.partition(": ")
        if key == "Name":
            name = value.strip()
        elif key == "Version":
            version = value.strip()
    editable = b'"editable": true' in _read(os.path.join(where, "direct_url.json"))
    installer = _read(os.path.join(where, "INSTALLER")).decode(errors="replace").strip()
    return Distribution(name, version, where, points, editable, installer, _caution(folder))


def _caution(folder: str) -> str:
    here = os.path.realpath(folder or os.curdir)
    if here == os.path.realpath(os.curdir):
        return "found in the current folder"
    extra = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if any(p and os.path.realpath(p) == here for p in extra):
        return "found through PYTHONPATH"
    return ""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # a distribution without that file
        return b""
