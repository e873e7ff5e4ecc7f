"""The pluggy manager behind the typed hooks. The only module that imports pluggy; loaded with the first
external plugin.

In: an imported plugin module. Out: the specs its hook implementations return, checked to be what the hook
promises.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Final

import pluggy

from tiny_core.errors import PluginError
from tiny_core.plugins.hooks import HOOKS, MARK, PREFIX, Extra, Spec, TinySpecs
from tiny_core.plugins.target import did_you_mean
from tiny_core.settings import PLUGINS_TRACE


class HookManager(pluggy.PluginManager):
    """Knows hooks by their prefix and implementations by our own marker, so that plugins need not import
    pluggy.
    """

    def __init__(self) -> None:
        super().__init__("tiny")
        self.add_hookspecs(TinySpecs)

    def parse_hookspec_opts(self, module_or_class: object, name: str) -> pluggy.HookspecOpts | None:
        if not name.startswith(PREFIX):
            return None
        return {
            "firstresult": False,
            "historic": False,
            "warn_on_impl": None,
            "warn_on_impl_args": None,
        }

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        # Looks into the module's dictionary: `getattr` would run the lazy imports that some modules have.
        function = vars(plugin).get(name)
        if not isinstance(function, FunctionType):
            return None
        if name not in HOOKS:
            if name.startswith(PREFIX) or getattr(function, MARK, False):
                raise PluginError(
                    f"there is no hook {name}", did_you_mean(name, HOOKS, f"hooks: {', '.join(HOOKS)}")
                )
            return None
        return {
            "wrapper": False,
            "hookwrapper": False,
            "optionalhook": False,
            "tryfirst": False,
            "trylast": False,
            "specname": None,
        }


def collect(manager: HookManager, module: ModuleType, name: str) -> tuple[Spec | Extra, ...]:
    """Register `module` as plugin `name` and return the specs that its hooks give.

    Raises:
        PluginError: an unknown hook, a wrong argument, or a result of another type. Nothing stays registered
            then.
        Exception: whatever a hook implementation raises; likewise.
    """
    for known in (name, manager.get_name(module)):
        if known is not None:
            forget(manager, known)  # from before the catalog was reset
    try:
        manager.register(module, name)
        others = [p for p in manager.get_plugins() if p is not module]
        return tuple(spec for hook in HOOKS for spec in _call(manager, hook, others, name))
    except pluggy.PluginValidationError as error:
        forget(manager, name)
        raise PluginError(f"plugin {name}: {error}", "hooks take no arguments") from error
    except BaseException:
        forget(manager, name)
        raise


def _call(manager: HookManager, hook: str, others: list[object], name: str) -> list[Spec | Extra]:
    kind = HOOKS[hook]
    specs: list[Spec | Extra] = []
    for result in manager.subset_hook_caller(hook, others)():
        if PLUGINS_TRACE.value:
            print(f"tiny: {name}: {hook}() -> {result!r}", file=sys.stderr)
        if not isinstance(result, (tuple, list)) or not all(isinstance(s, kind) for s in result):
            raise PluginError(
                f"plugin {name}: {hook}() must return a tuple of {kind.__name__}, not {result!r}"
            )
        specs.extend(result)
    return specs


def forget(manager: HookManager, name: str) -> None:
    """Take back a registration, or the part of it that happened before it failed."""
    if manager.has_plugin(name):
        manager.unregister(name=name)


MANAGER: Final = HookManager()
