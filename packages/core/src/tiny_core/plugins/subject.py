"""What `tiny plugins check` looks at: a source folder, a wheel file, or what is installed, in one form.

In: a path or a name. Out: a `Subject`: metadata, entry points, the files that belong to it, and the folders
that make it importable. A wheel is unpacked, and for a source folder metadata is written, into a temporary
folder: nothing is built and nothing is installed.
"""

from __future__ import annotations

import os
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from tiny_core.errors import PluginError, TargetError
from tiny_core.plugins import discover
from tiny_core.plugins.catalog import Plugin, catalog
from tiny_core.plugins.discover import Point, normalize
from tiny_core.plugins.target import did_you_mean


@dataclass(frozen=True, slots=True)
class Subject:
    """A plugin under examination.

    Args:
        form: what was given.
        name: of the distribution.
        version: likewise.
        where: the path that was given, or of the metadata folder.
        points: its entry points in our groups.
        roots: folders to put first on `sys.path`; none for what is installed.
        files: what the wheel holds or will hold, as far as is known: paths with slashes.
        licence: what its metadata says of its licence.
        build: for a source folder, problems of its build configuration.
    """

    form: Literal["source folder", "wheel", "installed"]
    name: str
    version: str
    where: str
    points: tuple[Point, ...]
    roots: tuple[str, ...]
    files: frozenset[str]
    licence: str
    build: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """Its top-level package, that of the manifest or else of the first entry point; "" without any."""
        ordered = sorted(self.points, key=lambda p: p[0] != discover.MANIFEST_GROUP)
        return ordered[0][2].partition(":")[0].partition(".")[0] if ordered else ""


@contextmanager
def open_subject(what: str) -> Iterator[Subject]:
    """Yield the subject that a path or a name stands for.

    Raises:
        TargetError: there is no such file, folder or plugin.
        PluginError: the file is no wheel, or the folder no project, or their metadata cannot be read.
    """
    path = Path(what)
    with TemporaryDirectory(prefix="tiny-check-") as folder:
        if path.is_dir():
            yield _source(path, Path(folder))
        elif path.is_file():
            yield _wheel(path, Path(folder))
        else:
            yield _installed(find_plugin(what))


def find_plugin(name: str) -> Plugin:
    """Return the plugin called `name`: by distribution, by a name of its entry points, or by a token.

    Raises:
        TargetError: nothing is; with close matches.
    """
    wanted = normalize(name)
    known: dict[str, Plugin] = {}
    for plugin in catalog().plugins:
        for alias in (normalize(plugin.name), *sorted(plugin.aliases)):
            known.setdefault(alias, plugin)
    for plugin in catalog().plugins:
        for entry in plugin.entries:
            known.setdefault(normalize(entry.token), plugin)
    if wanted in known:
        return known[wanted]
    hint = did_you_mean(wanted, known, f"plugins: {', '.join(p.name for p in catalog().plugins)}")
    raise TargetError(f"there is no plugin, file or folder {name!r}", hint)


# ---- the three forms ---------------------------------------------------------------------------------------


def _source(folder: Path, aside: Path) -> Subject:
    """A project: its pyproject.toml, and its package in src/ or beside it."""
    file = folder / "pyproject.toml"
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PluginError(f"{file}: {error.strerror}", "name the folder that holds pyproject.toml") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PluginError(f"{file} is not valid TOML: {error}") from error
    project = table.get("project")
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        raise PluginError(f"{file} has no [project] with a name", "tiny plugins new writes one that works")
    version = str(project.get("version", "0"))
    groups = project.get("entry-points", {})
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for g, named in groups.items()]
    text = "\n".join(lines)
    info = aside / f"{normalize(project['name']).replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(text)
    points = discover.parse_entry_points(text)
    roots = [folder / "src"] if (folder / "src").is_dir() else [folder]
    files = {
        f.relative_to(root).as_posix()
        for root in roots
        for package in {p[2].partition(":")[0].partition(".")[0] for p in points}
        for f in (root / package).rglob("*")
        if f.is_file() and "__pycache__" not in f.parts
    }
    files |= {f.name for f in folder.iterdir() if f.is_file()}
    return Subject(
        "source folder",
        project["name"],
        version,
        str(folder),
        points,
        (str(aside), *(str(r.absolute()) for r in roots)),
        frozenset(files),
        _licence(project, folder),
        tuple(_build(table, folder)),
    )


def _licence(project: dict[str, object], folder: Path) -> str:
    said = project.get("license")
    if isinstance(said, dict):
        said = said.get("text") or said.get("file")
    patterns = project.get("license-files", ["LICEN[CS]E*", "COPYING*"])
    found = [f.name for p in patterns for f in folder.glob(p)] if isinstance(patterns, list) else []
    return f"{said or 'unnamed'} ({', '.join(found)})" if found else ""


def _build(table: dict[str, object], folder: Path) -> Iterator[str]:
    """What will be missing from the wheel: hatchling passes over a package folder that does not exist."""
    node: object = table
    for key in ("tool", "hatch", "build", "targets", "wheel", "packages"):
        node = node.get(key) if isinstance(node, dict) else None
    for package in node if isinstance(node, list) else ():
        if not (folder / str(package)).is_dir():
            yield f"tool.hatch.build.targets.wheel.packages names {package}, which does not exist"


def _wheel(file: Path, aside: Path) -> Subject:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            archive.extractall(aside)  # which keeps members below the folder
    except (zipfile.BadZipFile, OSError) as error:
        raise PluginError(
            f"{file} is not a wheel: {error}", "name a .whl file, a folder or a plugin"
        ) from error
    found = [d for d in sorted(aside.iterdir()) if d.name.endswith(".dist-info")]
    if len(found) != 1:
        raise PluginError(f"{file} is not a wheel: it has {len(found)} folders of metadata")
    return _described(found[0], "wheel", str(file), frozenset(names), (str(aside),))


def _installed(plugin: Plugin) -> Subject:
    if plugin.origin != "installed":
        raise TargetError(f"{plugin.name} is {plugin.origin} and is not checked", "tiny doctor tries it")
    info = Path(plugin.path)
    record = _text(info / "RECORD")
    files = {line.split(",")[0] for line in record.splitlines() if line}
    for top in {e.value.partition(":")[0].partition(".")[0] for e in plugin.entries}:
        # an editable installation records no files of the package: look where it is
        if not any(f.startswith(f"{top}/") for f in files):
            files |= set(_tree(top))
    files |= {f"{info.name}/{f.relative_to(info).as_posix()}" for f in info.rglob("*") if f.is_file()}
    return _described(info, "installed", str(info), frozenset(files), ())


def _tree(package: str) -> Iterator[str]:
    from importlib.util import find_spec

    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        for path, _, names in os.walk(folder):
            below = os.path.relpath(path, os.path.dirname(folder)).replace(os.sep, "/")
            yield from (f"{below}/{name}" for name in names)


def _described(
    info: Path,
    form: Literal["wheel", "installed"],
    where: str,
    files: frozenset[str],
    roots: tuple[str, ...],
) -> Subject:
    """A subject from its metadata folder."""
    import email

    header = email.message_from_string(_text(info / "METADATA"))
    said = header.get("License-Expression") or header.get("License") or ""
    texts = sorted(f.rsplit("/", 1)[-1] for f in files if ".dist-info/" in f and _is_licence(f))
    licence = f"{said or 'unnamed'} ({', '.join(texts)})" if texts else ""
    points = discover.parse_entry_points(_text(info / "entry_points.txt"))
    stem = info.name.removesuffix(".dist-info").partition("-")
    name, version = header.get("Name") or stem[0], header.get("Version") or stem[2]
    return Subject(form, str(name), str(version), where, points, roots, files, licence)


def _is_licence(path: str) -> bool:
    return path.rsplit("/", 1)[-1].upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # metadata without that file
        return ""
