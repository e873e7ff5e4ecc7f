"""The hooks that a plugin may implement, with their types, and the marker that says it does.

A plugin's module has functions with the names of hooks:

    @hookimpl
    def tiny_runtimes() -> tuple[RuntimeSpec, ...]: ...

The name makes it an implementation, as in pytest; the marker is for readers, and makes a name that is no hook
an error. All hooks are 1:N, take no arguments and return data, never callbacks. Work on nodes or kernels is
never a hook: a call costs twenty times a function's, and the result would depend on what else is installed.
This module does not import pluggy; `manager.py` does, when the first external plugin is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tiny_core.plugins.specs import (
    CheckSpec,
    CommandSpec,
    HintSpec,
    MockSpec,
    RendererSpec,
    RuntimeSpec,
)

Spec = RuntimeSpec | RendererSpec | CommandSpec
"""What is selected, by a token that an entry point names."""
Extra = MockSpec | CheckSpec | HintSpec
"""What a plugin adds to a device or renderer of its own."""
PREFIX: Final = "tiny_"
MARK: Final = "__tiny_hookimpl__"
HOOKS: Final[dict[str, type[Spec] | type[Extra]]] = {
    "tiny_runtimes": RuntimeSpec,
    "tiny_renderers": RendererSpec,
    "tiny_commands": CommandSpec,
    "tiny_mock_interfaces": MockSpec,
    "tiny_doctor_checks": CheckSpec,
    "tiny_error_hints": HintSpec,
}
_F = TypeVar("_F", bound=Callable[..., object])


def hookimpl(function: _F) -> _F:
    """Mark a function of a plugin's module as the implementation of the hook it is named after, and return
    it.
    """
    setattr(function, MARK, True)
    return function


class TinySpecs:
    """Hook specifications."""

    def tiny_runtimes(self) -> tuple[RuntimeSpec, ...]:
        """Return the devices of this plugin; called once, when the plugin is loaded."""
        raise NotImplementedError

    def tiny_renderers(self) -> tuple[RendererSpec, ...]:
        """Return the renderers of this plugin; called once, when the plugin is loaded."""
        raise NotImplementedError

    def tiny_commands(self) -> tuple[CommandSpec, ...]:
        """Return the sub-commands of this plugin; called once, when one of them is invoked."""
        raise NotImplementedError

    def tiny_mock_interfaces(self) -> tuple[MockSpec, ...]:
        """Return the mock interfaces of this plugin's devices; called once, when the plugin is loaded."""
        raise NotImplementedError

    def tiny_doctor_checks(self) -> tuple[CheckSpec, ...]:
        """Return what `tiny doctor` shall look at; called once, when the plugin is loaded."""
        raise NotImplementedError

    def tiny_error_hints(self) -> tuple[HintSpec, ...]:
        """Return who knows more about errors of this plugin's devices; called once, when it is loaded."""
        raise NotImplementedError


def spec_token(spec: Spec) -> str:
    """Return the token under which a spec is selected."""
    return spec.device if isinstance(spec, RuntimeSpec) else spec.name
