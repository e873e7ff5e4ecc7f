"""List, show, check and make plugins: what is installed, and tools for who writes one."""

from __future__ import annotations

import argparse

from tiny_core.cli import output
from tiny_core.plugins.catalog import Plugin, State, catalog
from tiny_core.plugins.manifest import Manifest

_WORST = (State.BROKEN, State.INCOMPATIBLE, State.DISABLED, State.UNAVAILABLE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|check|new")
    about = "List installed plugins from their metadata and manifests; nothing of them is imported."
    listing = actions.add_parser("list", help=about, description=about)
    about = "Show all that is known of one plugin: what it offers, where it comes from, its state, and why."
    show = actions.add_parser("show", help=about, description=about)
    show.add_argument("name", help="a distribution, a name from its entry points, or a token")
    about = "Check a plugin before it is published: manifest, contracts, loading, packaging."
    check = actions.add_parser("check", help=about, description=about)
    check.add_argument("what", help="a source folder, a wheel file, or the name of an installed plugin")
    check.add_argument(
        "--limit", type=float, default=20.0, metavar="S", help="seconds that each attempt to load it may take"
    )
    about = "Write the source of a backend that works, in a new folder."
    new = actions.add_parser("new", help=about, description=about)
    new.add_argument("name", help="of the device, as DEV will say it: letters, digits, dashes")
    new.add_argument("--path", metavar="DIR", default="", help="folder to write; default: ./NAME-tiny")
    for each in (listing, show, check, new):
        each.add_argument("--json", action="store_true", help="print JSON, with every field")


def run(arguments: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    if arguments.action == "new":
        from tiny_core.cli.plugin_new import run as run_new

        return run_new(arguments)
    if arguments.action == "check":
        from tiny_core.cli.plugin_check import run as run_check

        return run_check(arguments)
    if arguments.action == "show":
        from tiny_core.cli.plugin_show import run as run_show

        return run_show(arguments)
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
