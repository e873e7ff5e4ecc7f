"""Advice of plugins on errors of their devices.

In: an error that is about to be raised, and the devices and renderers it concerns. Out: the same error, its
hint extended by what the plugins of those say. Only plugins that are loaded are asked, and no error is
replaced by another: a hint that fails becomes a note.
"""

from __future__ import annotations

from typing import TypeVar

from tiny_core.errors import TinyError
from tiny_core.plugins.catalog import Entry, catalog
from tiny_core.plugins.specs import HintSpec

_Error = TypeVar("_Error", bound=TinyError)


def advise(error: _Error, *tokens: str) -> _Error:
    """Return `error` with the hints of the loaded plugins that serve the devices or renderers `tokens`."""
    for entry in catalog().entries():
        if entry.token in tokens and entry.kind != "command":
            for extra in entry.extras:
                if isinstance(extra, HintSpec):
                    _add(error, extra, entry)
    return error


def _add(error: TinyError, spec: HintSpec, entry: Entry) -> None:
    from tiny_core.plugins.loader import load_name

    owner = f"the hint of {entry.token} ({entry.plugin})"
    try:
        function = load_name(spec.hint, owner)
        said = function(error) if callable(function) else ""
    except Exception as wrong:
        error.add_note(f"{owner} failed: {type(wrong).__name__}: {wrong}")
        return
    if isinstance(said, str) and said and said not in error.hint:
        error.hint = f"{error.hint}; {said}" if error.hint else said
