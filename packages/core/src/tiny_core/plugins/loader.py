"""Loading one plugin module, so that whatever happens in it stays in its rows of the catalog.

In: an entry. Out: its `spec` filled in and its state LOADED, together with all entries of the plugin that
name the same module. A failure leaves them BROKEN (or INCOMPATIBLE) with the traceback kept as text and
nothing registered, and raises PluginError for whoever named the entry. A module without a manifest is
imported in a subprocess first.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TypeVar

from tiny_core.errors import PluginError
from tiny_core.plugins.catalog import REFUSED, Entry, State, catalog, contracts, mismatch, spec_kind
from tiny_core.plugins.hooks import HOOKS, Extra, Spec, spec_token
from tiny_core.plugins.specs import MockSpec

_Base = TypeVar("_Base")
_loading: list[str] = []  # modules being loaded, innermost last; guarded by the catalog's lock


def load(entry: Entry, probe: bool = True) -> Spec:
    """Return the spec of an entry, loading its module if that has not happened.

    Args:
        entry: a runtime, a renderer, or a command whose value is a module.
        probe: whether a plugin without a manifest is tried in a subprocess before it is imported here.

    Raises:
        PluginError: it is disabled, incompatible or broken, or is being loaded further up the stack.
    """
    table = catalog()
    with table.lock:
        status = table.status(entry)
        if status.state in REFUSED:
            raise refusal(entry, status.state, status.why, status.hint)
        if entry.spec is not None:
            return entry.spec
        if entry.module in _loading:
            raise PluginError(
                f"{entry.module} uses its own {entry.kind} {entry.token} while it is being imported",
                "plugin modules may only declare things; use them inside functions",
            )
        installed = entry.plugin.origin == "installed"
        if probe and installed and entry.plugin.manifest is None and entry.module not in sys.modules:
            _probe(entry)
        _loading.append(entry.module)
        try:
            specs = _specs(entry)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: an import must not end the process
            import traceback

            text = "".join(traceback.format_exception(error))
            _fail(entry, State.BROKEN, f"{type(error).__name__}: {error}", text)
            raise refusal(entry, entry.state, entry.why, entry.hint) from error
        finally:
            _loading.pop()
        return _accept(entry, specs)


def refusal(entry: Entry, state: State, why: str, hint: str) -> PluginError:
    """Return the error for somebody who asked for an entry that cannot be used."""
    word = "" if state is State.INCOMPATIBLE else f"{state.value}: "
    return PluginError(
        f"{entry.kind} {entry.token} ({entry.plugin}) cannot be used: {word}{why}",
        hint or f"tiny doctor {entry.token}",
    )


def load_class(path: str, base: type[_Base], owner: str) -> type[_Base]:
    """Return the class that the import string `module:Class` names; a subclass of `base`.

    Raises:
        PluginError: the module does not import, the name is missing, or it is something else; `owner` is who
            said it.
    """
    value = load_name(path, owner)
    if not (isinstance(value, type) and issubclass(value, base)):
        raise PluginError(f"{owner}: {path} is not a subclass of {base.__name__}", "tell its author")
    return value


def load_name(path: str, owner: str) -> object:
    """Return the object that the import string `module:name` names; raises PluginError as `load_class`."""
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise PluginError(
            f"{owner}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    value: object = getattr(module, name, None)
    if value is None:
        raise PluginError(f"{owner}: module {module_name} has no {name!r}", "tell its author")
    return value


def _probe(entry: Entry) -> None:
    from tiny_core.plugins import probe

    report = probe.run(entry, opening=False)
    if not report.ok:
        _fail(entry, State(report.state), report.why, report.traceback, report.hint)
        raise refusal(entry, entry.state, entry.why, entry.hint)


def _specs(entry: Entry) -> tuple[Spec | Extra, ...]:
    """Import the module of an entry and return what its hooks give."""
    module = importlib.import_module(entry.module)
    if getattr(getattr(module, "__spec__", None), "_initializing", False):
        raise ImportError(f"{entry.module} is still being imported (a circular import)")
    if entry.plugin.origin == "built in":
        return _plain(module)
    from tiny_core.plugins.manager import MANAGER, collect

    return collect(MANAGER, module, f"{entry.kind}:{entry.token} ({entry.plugin})")


def _plain(module: ModuleType) -> tuple[Spec | Extra, ...]:
    """The specs of a built-in module: plain functions, no pluggy."""
    return tuple(spec for hook in HOOKS if hasattr(module, hook) for spec in getattr(module, hook)())


def _accept(entry: Entry, made: tuple[Spec | Extra, ...]) -> Spec:
    """Hand the specs to the entries of the module, if they are what entry points and contracts promise."""
    group = _siblings(entry)
    specs = [s for s in made if isinstance(s, Spec)]
    extras = [s for s in made if not isinstance(s, Spec)]
    given = {(spec_kind(s), spec_token(s)): s for s in specs}
    wanted = {(e.kind, e.token) for e in group}
    for kind, token in sorted(wanted - set(given)):
        others = ", ".join(sorted(t for k, t in given if k == kind)) or "none"
        _fail(entry, State.BROKEN, f"an entry point names {kind} {token}, but its hook gives {others}")
    for kind, token in sorted(set(given) - wanted):
        _fail(entry, State.BROKEN, f"its hook gives {kind} {token}, which no entry point names")
    for extra in extras:
        if why := _misplaced(extra, {spec_token(s) for s in specs if spec_kind(s) != "command"}):
            _fail(entry, State.BROKEN, why)
    for key, spec in given.items():
        why, hint = mismatch(key[0], contracts(spec), entry.plugin.name)
        if why:
            _fail(entry, State.INCOMPATIBLE, why, hint=hint)
    if entry.state in REFUSED:
        if entry.plugin.origin == "installed":
            from tiny_core.plugins.manager import MANAGER, forget

            forget(MANAGER, f"{entry.kind}:{entry.token} ({entry.plugin})")
        raise refusal(entry, entry.state, entry.why, entry.hint)
    for sibling in group:
        sibling.state, sibling.spec = State.LOADED, given[sibling.kind, sibling.token]
        same = [e for e in group if e.token == sibling.token and e.kind != "command"]
        if same and sibling is min(
            same, key=lambda e: e.kind != "runtime"
        ):  # the renderer may be called as it
            sibling.extras = tuple(x for x in extras if extra_token(x) == sibling.token)
    assert entry.spec is not None
    return entry.spec


def extra_token(extra: Extra) -> str:
    """Return the token of the device or renderer that an extra is for."""
    return extra.device if isinstance(extra, MockSpec) else extra.token


def _misplaced(extra: Extra, tokens: set[str]) -> str:
    """Why a plugin may not say this, or ""."""
    token = extra_token(extra)
    if token not in tokens:
        have = ", ".join(sorted(tokens)) or "none"
        return f"its {type(extra).__name__} is for {token}, which it does not offer (it offers {have})"
    if isinstance(extra, MockSpec) and not extra.iface.startswith("MOCK"):
        return f"its mock interface {extra.iface} must have a name that begins with MOCK"
    return ""


def _siblings(entry: Entry) -> list[Entry]:
    """The entries of the same plugin that the same module serves."""
    return [e for e in entry.plugin.entries if ":" not in e.value and e.module == entry.module]


def _fail(entry: Entry, state: State, why: str, traceback: str = "", hint: str = "") -> None:
    """Mark all that the module serves; the first reason stays."""
    if entry.state in REFUSED:
        return
    for sibling in _siblings(entry):
        sibling.fail(state, why, hint, traceback)
