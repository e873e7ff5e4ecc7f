"""`tiny plugins new`: a backend that works, to be made into somebody's own.

In: the name of a device. Out: a folder with the source of a wheel: package, manifest, renderer, runtime,
tests, CI.
Guaranteed: the name is one that a wheel, a module and DEV can have and that nothing else uses; no file that
exists is touched; and the folder is there as a whole or not at all.

The files are those in `template/`, with the placeholders replaced: `newchip` in its spellings by the device's
name, `@WORDS@` by facts about core.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib import util
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import tiny_core
from tiny_core.errors import PluginError, TargetError
from tiny_core.plugins import discover
from tiny_core.plugins.builtin import OFFICIAL
from tiny_core.plugins.catalog import catalog
from tiny_core.plugins.manifest import Kind
from tiny_core.plugins.specs import IR_API, RENDERER_API, RUNTIME_API

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+)*")  # PEP 508, and DEV's tokens
_LONGEST: Final = 40
_RESERVED: Final = {"NONE": "TINY_PLUGINS=none", "TINY": "this project"}
_KINDS: Final[tuple[Kind, ...]] = ("runtime", "renderer")


@dataclass(frozen=True, slots=True)
class Names:
    """How a device is spelled in different places.

    Args:
        name: short name, normalized: `acme-k1`.
        token: in DEV: `ACME_K1`.
        distribution: its wheel: `acme-k1-tiny`.
        package: its import name: `acme_k1_tiny`.
        stem: of class names: `AcmeK1`.
    """

    name: str
    token: str
    distribution: str
    package: str
    stem: str


def names(name: str) -> Names:
    """Return how a device called `name` is spelled; nothing is looked up.

    >>> names("Acme.K1")
    Names(name='acme-k1', token='ACME_K1', distribution='acme-k1-tiny', package='acme_k1_tiny', stem='AcmeK1')

    Raises:
        TargetError: a wheel, a module or DEV cannot have that name.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise TargetError(
            f"{name!r} cannot be the name of a device",
            f"letters and digits, a letter first, parts joined by single dashes; at most {_LONGEST} of them",
        )
    short = discover.normalize(name)
    for prefix, suffix in (("tiny-", ""), ("", "-tiny")):
        core = short.removeprefix(prefix) if prefix else short.removesuffix(suffix)
        if core != short:
            raise TargetError(
                f"{name!r} is a wheel's name; the device's is wanted",
                f"tiny plugins new {core.removeprefix('runtime-')}",
            )
    words = short.split("-")
    token = "_".join(words).upper()
    stem = "".join(w.capitalize() for w in words)
    return Names(short, token, f"{short}-tiny", f"{'_'.join(words)}_tiny", stem)


def check_free(wanted: Names) -> None:
    """Raise PluginError if something else uses one of the names; imports no plugin."""
    hint = "choose another name"
    token = wanted.token
    if token in _RESERVED or token.startswith("MOCK"):
        meaning = _RESERVED.get(token, "mock interfaces")
        raise PluginError(f"{token} cannot be a device: the word belongs to {meaning}", hint)
    for kind in _KINDS:
        if (kind, token) in OFFICIAL:
            raise PluginError(f"{kind} {token} belongs to {OFFICIAL[kind, token]}", hint)
        for entry in catalog().claims(kind, token):
            raise PluginError(f"{kind} {token} is already offered ({entry.plugin})", hint)
    for plugin in catalog().plugins:
        if discover.normalize(plugin.name) == wanted.distribution:
            raise PluginError(f"{plugin} is already installed ({plugin.path})", hint)
    found = util.find_spec(wanted.package)
    if found is not None:
        raise PluginError(f"there is a package {wanted.package} already ({found.origin})", hint)


def content(wanted: Names) -> dict[str, bytes]:
    """Return the files of a new backend: path below its folder, with slashes, to what is in it."""
    numbers = {"RUNTIME_API": RUNTIME_API, "RENDERER_API": RENDERER_API, "IR_API": IR_API}
    major, minor, *_ = tiny_core.__version__.split(".")
    replaced = {
        "newchip_tiny": wanted.package,
        "newchip-tiny": wanted.distribution,
        "NEWCHIP": wanted.token,
        "Newchip": wanted.stem,
        "newchip1": f"{wanted.package.removesuffix('_tiny')}1",
        "newchip": wanted.name,
        "@CORE@": f"{major}.{minor}",
        "@YEAR@": str(date.today().year),
        **{f"@{word}@": f"{a}.{b}" for word, (a, b) in numbers.items()},
    }
    pattern = re.compile("|".join(map(re.escape, replaced)))
    made = {}
    for path, resource in _files(files("tiny_core.plugins") / "template", ""):
        text = resource.read_text(encoding="utf-8")
        place = path.replace("dot-", ".").replace("src/package", f"src/{wanted.package}")
        place = place.replace("test_package", f"test_{wanted.package.removesuffix('_tiny')}")
        made[place] = pattern.sub(lambda m: replaced[m[0]], text).encode()
    return made


def write(wanted: Names, folder: Path) -> tuple[str, ...]:
    """Write a new backend into `folder`, which must not exist, and return the paths of its files.

    Raises:
        PluginError: the folder exists, or cannot be written. Nothing is left behind then.
    """
    if os.path.lexists(folder):
        raise PluginError(f"{folder} exists already; nothing is overwritten", "name a new folder with --path")
    made = content(wanted)
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{wanted.distribution}-", dir=folder.absolute().parent))
    except OSError as error:
        raise PluginError(
            f"{folder} cannot be written: {error.strerror}", "name a folder with --path"
        ) from error
    try:
        tree = aside / "tree"  # mkdtemp's own folder is closed to others, and a project's should not be
        for path, data in made.items():
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        os.rename(tree, folder)
    except OSError as error:
        raise PluginError(
            f"{folder} cannot be written: {error.strerror}", "name a folder with --path"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # also where ctrl-C ended it
    return tuple(sorted(made))


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    """The files below a resource folder, with their paths; template files end in `.in`."""
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files(item, f"{path}{item.name}/")
        elif item.name.endswith(".in"):
            yield path + item.name.removesuffix(".in"), item
