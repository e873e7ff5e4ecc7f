"""List installed plugins from their metadata and manifests; nothing of them is imported."""

from __future__ import annotations

import argparse

from tiny_core.cli import output
from tiny_core.plugins.catalog import Plugin, State, catalog
from tiny_core.plugins.manifest import Manifest

_WORST = (State.BROKEN, State.INCOMPATIBLE, State.DISABLED, State.UNAVAILABLE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["list"], help="what to do")
    parser.add_argument("--json", action="store_true", help="print JSON, with every field")


def run(arguments: argparse.Namespace) -> int:
    """Print the plugins; returns the exit code."""
    records = [record(plugin) for plugin in catalog().plugins]
    if arguments.json:
        output.as_json(records)
        return 0
    rows = []
    for plugin, row in zip(catalog().plugins, records, strict=True):
        offers = ", ".join(f"{e.kind} {e.token}" for e in plugin.entries)
        why = "; ".join(w for w in (str(row["why"]), *plugin.notes, plugin.caution) if w)
        rows.append([plugin.name, plugin.version or "built in", offers, str(row["state"]), why])
    output.table(["plugin", "version", "offers", "state", "why"], rows)
    return 0


def record(plugin: Plugin) -> dict[str, object]:
    """Return everything known of a plugin, as JSON can hold it."""
    table = catalog()
    statuses = [table.status(entry) for entry in plugin.entries]
    worst = next(
        (s for state in _WORST for s in statuses if s.state is state), statuses[0] if statuses else None
    )
    described = plugin.manifest if isinstance(plugin.manifest, Manifest) else None
    return {
        "name": plugin.name,
        "version": plugin.version,
        "origin": plugin.origin,
        "offers": [
            {
                "kind": e.kind,
                "token": e.token,
                "value": e.value,
                "state": s.state.value,
                "why": s.why,
                "hint": s.hint,
            }
            for e, s in zip(plugin.entries, statuses, strict=True)
        ],
        "api": {kind: f"{major}.{minor}" for kind, (major, minor) in (described.api if described else ())},
        "maturity": described.maturity if described else "",
        "manifest": described is not None,
        "state": worst.state.value if worst else State.FOUND.value,
        "why": worst.why if worst else "",
        "hint": worst.hint if worst else "",
        "path": plugin.path,
        "editable": plugin.editable,
        "installer": plugin.installer,
        "caution": plugin.caution,
        "notes": list(plugin.notes),
    }
