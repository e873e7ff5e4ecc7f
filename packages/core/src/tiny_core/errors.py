"""Every exception that tiny raises for something a user can cause.

Each carries a message and, where there is one, a *hint*: the next thing to try. Invariants of our own are
`assert`s; anything a user, a plugin or a file can get wrong is one of these classes, raised where the mistake
was made.
"""

from __future__ import annotations


class TinyError(Exception):
    """Base of all errors of tiny.

    Args:
        message: what is wrong, with the values that show it.
        hint: what to do about it; printed on a line of its own.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class ShapeError(TinyError, ValueError):
    """Shapes do not fit an operation."""


class DTypeError(TinyError, TypeError):
    """A dtype is unknown or not accepted by an operation."""


class IndexOutOfRange(TinyError, IndexError):
    """A Python index lies outside its axis."""


class DeviceError(TinyError, RuntimeError):
    """A device is unknown, unavailable, or tensors of different devices were mixed."""


class TargetError(TinyError, ValueError):
    """A DEV string is malformed or names something that does not exist."""


class PluginError(TinyError, RuntimeError):
    """A plugin is broken, incompatible, or two plugins claim one name."""


class SettingError(TinyError, ValueError):
    """A setting is unknown or its value does not parse."""


class SpecError(TinyError, ValueError):
    """A graph breaks the specification of its stage."""


class RewriteError(TinyError, RuntimeError):
    """A rewrite did not come to rest; names the rules involved."""


class ParseError(TinyError, ValueError):
    """Text is not a valid text form of the IR."""


class OptionError(TinyError, ValueError):
    """A kernel option does not apply to the kernel it was given for."""


class RenderError(TinyError, RuntimeError):
    """A renderer was given an op, dtype or width it does not declare."""


class CompileError(TinyError, RuntimeError):
    """A compiler rejected a kernel, or its process died; carries the kernel's source in `source`."""

    def __init__(self, message: str, hint: str = "", source: str = "") -> None:
        super().__init__(message, hint)
        self.source = source


class LaunchError(TinyError, RuntimeError):
    """A program could not be loaded or launched."""


class RaceError(TinyError, RuntimeError):
    """The PYTHON device found two work-items touching one location without a barrier between them."""


class OutOfMemory(TinyError, MemoryError):
    """A device has no memory left."""


class VersionError(TinyError, RuntimeError):
    """A value's storage was overwritten before a gradient could read it."""


class JitError(TinyError, RuntimeError):
    """A captured function did something that cannot be captured or replayed."""


class DataError(TinyError, ValueError):
    """A file or data set is missing, truncated or not what it claims to be."""


class GradientError(TinyError, RuntimeError):
    """A gradient was asked for that does not exist: no differentiable path leads to the target."""


class TraceError(TinyError, LookupError):
    """A trace was asked for what it does not have: a kernel of that number, or a stage that its device has
    not."""
