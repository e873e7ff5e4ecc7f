"""Settings: each declared once, read from the environment at first use, changed for a block with `Context`.

>>> with Context(DEBUG=2):
...     assert DEBUG.value == 2
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from tiny_core.errors import SettingError

T = TypeVar("T", int, str, float)
_declared: dict[str, Setting[int] | Setting[str] | Setting[float]] = {}


class Setting(Generic[T]):
    """A setting.

    Args:
        name: without the prefix: the environment variable is `TINY_` + name.
        default: its value when nothing is said; its type is the setting's type.
        help: one line.
        codegen: whether generated code depends on it (it is then part of the key of cached kernels).
        alias: a second environment variable, e.g. DEV.
    """

    def __init__(self, name: str, default: T, help: str, codegen: bool = False, alias: str = "") -> None:
        self.name, self.help, self.codegen, self.alias = name, help, codegen, alias
        self.default: T = default
        self._value: ContextVar[T] = ContextVar(name)
        _declared[name] = self

    @property
    def value(self) -> T:
        """The value in this context: set by `Context`, else from the environment, else the default."""
        try:
            return self._value.get()
        except LookupError:
            text = os.environ.get(f"TINY_{self.name}", os.environ.get(self.alias) if self.alias else None)
            return self.default if text is None else self.parse(text)

    def set(self, value: T) -> None:
        """Change the setting in this context, for good."""
        self._value.set(value)

    def parse(self, text: str) -> T:
        """Return the value that `text` stands for; raises SettingError."""
        try:
            value: T = type(self.default)(text)
            return value
        except ValueError:
            kind = type(self.default).__name__
            raise SettingError(f"TINY_{self.name}={text!r} is not {kind}", self.help) from None

    def __bool__(self) -> bool:
        return bool(self.value)


def declared() -> tuple[Setting[int] | Setting[str] | Setting[float], ...]:
    """Return all settings, by name."""
    return tuple(_declared[name] for name in sorted(_declared))


def getenv(name: str, default: T = 0) -> T:  # type: ignore[assignment]  # 0 where nothing else is said
    """Return a setting's value if there is one of this name, else what the environment says, as `default`'s
    type.

    Raises:
        SettingError: the text is not of that type.
    """
    text = str(_declared[name].value) if name in _declared else os.environ.get(name)
    if text is None:
        return default
    try:
        value: T = type(default)(text)
    except ValueError:
        raise SettingError(
            f"{name}={text!r} is not {type(default).__name__}", "it has the default's type"
        ) from None
    return value


def codegen_key() -> tuple[tuple[str, int | str | float], ...]:
    """Return the names and values of the settings that generated code depends on."""
    return tuple((s.name, s.value) for s in declared() if s.codegen)


def overrides(settings: Iterable[Setting[int] | Setting[str] | Setting[float]]) -> tuple[object, ...]:
    """Return what `Context` says of these settings here; None for those that it does not mention."""
    return tuple([s._value.get(None) for s in settings])


@contextmanager
def Context(**values: int | str | float) -> Iterator[None]:  # noqa: N802 - the field's name for it
    """Change settings within a `with` block (or a decorated function); in this thread and task only.

    Raises:
        SettingError: there is no such setting, or the value has another type.
    """
    tokens = []
    for name, value in values.items():
        setting = _declared.get(name)
        if setting is None:
            import difflib

            close = difflib.get_close_matches(name, _declared, n=1)
            raise SettingError(
                f"unknown setting {name!r}", f"did you mean {close[0]}?" if close else "see `tiny settings`"
            )
        tokens.append((setting, setting.parse(str(value))))
    resets = [(s, s._value.set(v)) for s, v in tokens]  # type: ignore[arg-type]  # parse gave its type
    try:
        yield
    finally:
        for setting, token in reversed(resets):
            setting._value.reset(token)  # type: ignore[arg-type]  # the token is this setting's


DEV = Setting(
    "DEV",
    "",
    "targets, first is the default: [IFACE+]DEVICE[:RENDERER[:ARCH]][,feature|-feature|key=value]",
    alias="DEV",
)
DEBUG = Setting(
    "DEBUG",
    0,
    "1 summary, 2 a line a kernel, 3 options and schedule, 4 source, 5 UOps, 6 rewrites, 7 assembly",
)
CHECK = Setting("CHECK", 0, "1: tensor indices and labels out of range raise IndexError; jit does not replay")
SPEC = Setting(
    "SPEC",
    1,
    "0: graphs are not checked; 1: at the borders of stages; 2: after every pass, which errors name",
)
PLUGINS = Setting(
    "PLUGINS", "", "none, or names to allow (amd,llvm) or to deny (-nv), by distribution or token"
)
PLUGINS_TRACE = Setting("PLUGINS_TRACE", 0, "1: print each hook call")
CACHE = Setting("CACHE", 1, "0: no persistent kernel cache")
CACHE_DIR = Setting("CACHE_DIR", "", "folder of the persistent cache; default: the user's cache folder")
CACHE_MB = Setting("CACHE_MB", 1024, "size the persistent cache is kept under, in MB")
WORKERS = Setting("WORKERS", -1, "compile processes: 0 in this process, -1 one per core")
OPTIMIZE = Setting("OPTIMIZE", 1, "0: no kernel options beyond what the target requires", codegen=True)
JIT_CHECK = Setting(
    "JIT_CHECK", 0, "n: every n-th call of a captured function also runs uncaptured and is compared"
)
STRICT = Setting(
    "STRICT", 1 if os.environ.get("CI") else 0, "1: a device that is detected but does not open is an error"
)
TRAINING = Setting("TRAINING", 0, "1: dropout drops and batch norm uses its batch; set by Tensor.train()")
GRAD = Setting("GRAD", 1, "0: realized values forget what they were computed from; set by Tensor.no_grad()")
DATA = Setting("DATA", "", "folder of data sets")
