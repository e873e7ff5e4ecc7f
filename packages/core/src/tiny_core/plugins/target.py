"""Targets: the text of DEV and the device strings of tensors, to data and back.

    dev     = target *( ";" target )               first is the default, others configure further devices
    target  = [ [iface] [ ":" index *( "," index ) ] "+" ] device [ ":" [renderer] [ ":" [arch] ] ]
              *( "," item )
    item    = key "=" value | [ "-" ] feature      keys and features keep their case
    iface, device, renderer = letter *( letter | digit | "_" )      folded to upper case
    arch    = 1*( letter | digit | "_" | "." | "-" )

In: text. Out: `Target`, a frozen value with `Target.parse(str(target)) == target`. Only the grammar is
checked here; whether the names exist is `select`'s business, which puts its carets with `Target.error`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from tiny_core.errors import DeviceError, TargetError

if TYPE_CHECKING:
    from tiny_core.render.renderer import Arch

_TOKEN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ARCH: Final = re.compile(r"[A-Za-z0-9_.\-]+")
_INDEX: Final = re.compile(r"[0-9]{1,9}(?![0-9])")
_FEATURE: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\-]*")
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_VALUE: Final = re.compile(r"[^,;]+")
# A plus belongs to an interface only if nothing but a name and indices stands before it: option values may
# hold one.
_PREFIX: Final = re.compile(r"[^,=;+]*(?:,[0-9]+)*\+")
_GRAMMAR: Final = (
    "a target is [IFACE+]DEVICE[:RENDERER[:ARCH]][,feature|-feature|key=value], e.g. CPU:LLVM,threads=2"
)
_SAY: Final = {
    "iface": "interface",
    "indices": "device index",
    "device": "device",
    "renderer": "renderer",
    "arch": "architecture",
    "feature": "feature",
    "key": "option",
    "value": "value",
}


def close_matches(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three of `known` that `name` may be meant to be, closest first; case does not count."""
    import difflib

    folded = {k.lower(): k for k in known}
    return tuple(folded[k] for k in difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6))


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint that names the close matches of `name`, or `otherwise` where there are none."""
    close = close_matches(name, known)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


@dataclass(frozen=True, slots=True)
class Target:
    """One target of DEV. Made canonical when constructed: names upper case, features and options sorted.

    Args:
        device: device token.
        renderer: renderer token, "" for the device's preferred one.
        arch: architecture, "" for what the device has.
        features: features with True (use it) or False (`-feature`: do not).
        options: `key=value` items.
        iface: interface, "" for the device's default.
        indices: which devices are visible, in that order; () for all.

    Raises:
        TargetError: a part does not meet the grammar, or is given twice.
    """

    device: str
    renderer: str = ""
    arch: str = ""
    features: tuple[tuple[str, bool], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    iface: str = ""
    indices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        put = object.__setattr__
        for part in ("device", "renderer", "iface"):
            text: str = getattr(self, part)
            _check(_TOKEN.fullmatch(text) is not None or (not text and part != "device"), part, text)
            put(self, part, text.upper())
        _check(not self.arch or _ARCH.fullmatch(self.arch) is not None, "arch", self.arch)
        for feature, _ in self.features:
            _check(_FEATURE.fullmatch(feature) is not None, "feature", feature)
        for key, value in self.options:
            _check(_KEY.fullmatch(key) is not None, "key", key)
            _check(_is_value(value), "value", value)
        for index in self.indices:
            _check(0 <= index < 10**9, "indices", str(index))
        _unique("feature", [f for f, _ in self.features])
        _unique("option", [k for k, _ in self.options])
        _unique("device index", [str(i) for i in self.indices])
        put(self, "features", tuple(sorted(self.features)))
        put(self, "options", tuple(sorted(self.options)))

    @staticmethod
    def parse(text: str) -> Target:
        """Return the target that `text` stands for.

        >>> Target.parse("mock+amd:llvm:gfx1100,waves=4").iface
        'MOCK'

        Raises:
            TargetError: with a caret at the offending character and the parts read before it.
        """
        if ";" in text:
            raise _located(text, text.index(";"), "one target is wanted here, not a list", "", "")
        return _Reader(text, 0, len(text)).target()

    def __str__(self) -> str:
        return "".join(text for _, text in self._pieces())

    def to_arch(self) -> Arch:
        """Return the part that generated code depends on."""
        from tiny_core.render.renderer import Arch

        return Arch(self.arch, self.features)

    def error(self, part: str, message: str, hint: str = "") -> TargetError:
        """Return (not raise) a TargetError whose caret points at `part`.

        Args:
            part: `iface`, `indices`, `device`, `renderer`, `arch`, or the name of a feature or option.
            message: what is wrong with it.
            hint: what to do instead.
        """
        at = 0
        for name, text in self._pieces():
            if name == part:
                return _located(str(self), at, message, "", hint)
            at += len(text)
        return _located(str(self), 0, message, "", hint)

    def _pieces(self) -> Iterator[tuple[str, str]]:
        """The text, cut into (name of the part, its characters); separators have no name."""
        if self.iface or self.indices:
            yield "iface", self.iface
            if self.indices:
                yield "", ":"
                yield "indices", ",".join(map(str, self.indices))
            yield "", "+"
        yield "device", self.device
        if self.renderer or self.arch:
            yield "", ":"
            yield "renderer", self.renderer
        if self.arch:
            yield "", ":"
            yield "arch", self.arch
        for feature, wanted in self.features:
            yield "", "," if wanted else ",-"
            yield feature, feature
        for key, value in self.options:
            yield "", ","
            yield key, f"{key}={value}"


def parse_dev(text: str) -> tuple[Target, ...]:
    """Return the targets of a `;`-separated list, the default one first; () for blank text.

    Raises:
        TargetError: as `Target.parse`; also where two targets configure one device.
    """
    if not text.strip():
        return ()
    targets: list[Target] = []
    start = 0
    for piece in text.split(";"):
        stop = start + len(piece)
        target = _Reader(text, start, stop).target()
        if any(t.device == target.device for t in targets):
            raise _located(text, start, f"device {target.device} is configured twice", "", "")
        targets.append(target)
        start = stop + 1
    return tuple(targets)


def split_device(text: str) -> tuple[str, str]:
    """Return the name (upper case) and what follows the first colon of a tensor's device string.

    Raises:
        DeviceError: it does not begin with a name.
    """
    name, _, rest = text.strip().partition(":")
    if not _TOKEN.fullmatch(name):
        raise DeviceError(f"{text!r} is not a device", "write NAME, NAME:INDEX or DISK:/path")
    return name.upper(), rest


def parse_device(text: str) -> tuple[str, int | str]:
    """Return the name and the index of a tensor's device string, or the name and the path for storage
    devices.

    >>> parse_device("CPU"), parse_device("cpu:1"), parse_device("DISK:/tmp/weights")
    (('CPU', 0), ('CPU', 1), ('DISK', '/tmp/weights'))

    Raises:
        DeviceError: no such device (with close matches), or something else than an index after the colon.
    """
    from tiny_core.plugins import registry

    name, rest = split_device(text)
    if registry.is_storage(name):  # raises DeviceError for a name that nobody offers
        if not rest:
            raise DeviceError(f"{name} needs a path", f"write {name}:/path/to/file")
        return name, rest
    if ":" not in text:
        return name, 0
    if _INDEX.fullmatch(rest):
        return name, int(rest)
    raise DeviceError(
        f"{text!r} is not a device: an index comes after the colon, not {rest!r}",
        f"a renderer and an architecture are chosen in the environment: DEV={text}",
    )


# ---- reading -----------------------------------------------------------------------------------------------


class _Reader:
    """Reads one target out of `text[at:stop]`; carets are placed in the whole text."""

    __slots__ = ("at", "found", "stop", "text")

    def __init__(self, text: str, start: int, stop: int) -> None:
        part = text[start:stop]
        self.text = text
        self.at = start + len(part) - len(part.lstrip())
        self.stop = max(self.at, start + len(part.rstrip()))
        self.found: list[str] = []

    def target(self) -> Target:
        iface, indices = self._prefix() if _PREFIX.match(self.text, self.at, self.stop) else ("", ())
        if self._peek().isdigit():
            self._fail(
                "a device name begins with a letter",
                "to see only some devices write :0,2+DEVICE, as in :0+AMD",
            )
        device = self._take(_TOKEN, "device")
        renderer = arch = ""
        if self._skip(":"):
            if self._peek().isdigit():
                number = _INDEX.match(self.text, self.at, self.stop)
                n = number.group() if number else "0"
                self._fail(
                    "a renderer name begins with a letter",
                    f"{device}:{n} is a tensor's device; in DEV, :{n}+{device} makes only device {n} visible",
                )
            renderer = self._take(_TOKEN, "renderer", optional=True)
            if self._skip(":"):
                arch = self._take(_ARCH, "arch", optional=True)
        features: list[tuple[str, bool]] = []
        options: list[tuple[str, str]] = []
        while self._skip(","):
            self._item(features, options)
        if self.at < self.stop:
            self._unexpected(arch)
        return Target(device, renderer, arch, tuple(features), tuple(options), iface, indices)

    def _prefix(self) -> tuple[str, tuple[int, ...]]:
        iface = self._take(_TOKEN, "iface", optional=True)
        indices: list[int] = []
        if self._skip(":"):
            indices.append(int(self._take(_INDEX, "indices")))
            while self._skip(","):
                start = self.at
                index = int(self._take(_INDEX, "indices"))
                if index in indices:
                    self._fail(f"device index {index} is given twice", at=start)
                indices.append(index)
        if not iface and not indices:
            self._fail("an interface or an index is missing before '+'", "write IFACE+DEVICE or :0+DEVICE")
        if not self._skip("+"):
            self._fail(
                f"unexpected {self._peek()!r} in the interface", "an interface is written IFACE+DEVICE"
            )
        return iface.upper(), tuple(indices)

    def _item(self, features: list[tuple[str, bool]], options: list[tuple[str, str]]) -> None:
        start = self.at
        wanted = not self._skip("-")
        key = _KEY.match(self.text, self.at, self.stop)
        if wanted and key and self.text.startswith("=", key.end(), self.stop):
            name = self._take(_KEY, "key")
            self.at += 1
            value = self._take(_VALUE, "value")
            if not _is_value(value):
                self._fail("a value may not begin or end with a space, and must be printable", at=start)
            if any(k == name for k, _ in options):
                self._fail(f"option {name!r} is given twice", at=start)
            options.append((name, value))
            return
        name = self._take(_FEATURE, "feature")
        if self._peek() == "=":
            self._fail(
                "an option is written key=value", "only features can be switched off with '-'", at=start
            )
        if any(f == name for f, _ in features):
            self._fail(f"feature {name!r} is given twice", at=start)
        features.append((name, wanted))

    def _peek(self) -> str:
        return self.text[self.at] if self.at < self.stop else ""

    def _skip(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self.at += 1
        return True

    def _take(self, pattern: re.Pattern[str], part: str, optional: bool = False) -> str:
        match = pattern.match(self.text, self.at, self.stop)
        if match is None:
            if optional and self._peek() in ("", ":", ",", "+"):
                return ""
            have = self._peek()
            self._fail(f"unexpected {have!r} in the {_SAY[part]}" if have else f"the {_SAY[part]} is missing")
        self.at = match.end()
        self.found.append(f"{_SAY[part]} {match.group()}")
        return match.group()

    def _unexpected(self, arch: str) -> NoReturn:
        char = self._peek()
        hint = "features and options follow a comma: CPU:LLVM:x86_64,-avx512f,threads=2"
        if char == ":":
            hint = "an architecture holds no ':'; write features after a comma: gfx90a,sramecc,-xnack"
        if char == "+":
            hint = "one interface at most, before the device: IFACE+DEVICE; a feature is written without '+'"
        self._fail(f"unexpected {char!r}" + (f" after the architecture {arch!r}" if arch else ""), hint)

    def _fail(self, message: str, hint: str = "", at: int | None = None) -> NoReturn:
        raise _located(
            self.text, self.at if at is None else at, message, ", ".join(self.found), hint
        ) from None


def _located(text: str, at: int, message: str, found: str, hint: str) -> TargetError:
    """A TargetError with the text, a caret under character `at`, and what was read before it."""
    hint = hint or _GRAMMAR
    shown = "".join(c if c.isprintable() else "?" for c in text)
    read = f"\n  read so far: {found}" if found else ""
    return TargetError(f"target {shown!r}: {message}\n    {shown}\n    {' ' * at}^{read}", hint)


def _is_value(text: str) -> bool:
    return bool(text) and text == text.strip() and text.isprintable() and _VALUE.fullmatch(text) is not None


def _check(good: bool, part: str, text: str) -> None:
    if not good:
        raise TargetError(f"{text!r} is not a valid {_SAY[part]} of a target", _GRAMMAR)


def _unique(what: str, names: list[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise TargetError(f"{what} {name!r} is given twice", "give it once")
