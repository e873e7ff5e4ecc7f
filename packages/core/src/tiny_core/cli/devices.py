"""List the devices that DEV can name, and say which one is used; nothing is imported or opened."""

from __future__ import annotations

import argparse

from tiny_core.cli import output
from tiny_core.plugins.builtin import LAST_RESORT, NEVER_CHOSEN
from tiny_core.plugins.catalog import REFUSED, Entry, catalog
from tiny_core.plugins.select import chosen_devices
from tiny_core.plugins.target import parse_dev
from tiny_core.settings import DEV


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the devices; returns the exit code."""
    targets = parse_dev(DEV.value)
    first = targets[0].device if targets else next(chosen_devices()).token
    records = [_record(entry, first) for entry in catalog().entries("runtime")]
    if arguments.json:
        output.as_json(records)
        return 0
    rows = [
        ["*" if r["default"] else "", str(r["device"]), str(r["state"]), str(r["from"]), str(r["note"])]
        for r in records
    ]
    output.table(["", "device", "state", "from", "note"], rows)
    if targets:
        print(f"\n* the default, by DEV={DEV.value}")
    else:
        print("\n* tried first, as DEV is not set; `tiny doctor` opens devices to see whether they work")
    return 0


def _record(entry: Entry, first: str) -> dict[str, object]:
    status = catalog().status(entry)
    return {
        "device": entry.token,
        "state": status.state.value,
        "from": str(entry.plugin),
        "note": status.why or _note(entry),
        "hint": status.hint,
        "default": entry.token == first and status.state not in REFUSED,
    }


def _note(entry: Entry) -> str:
    offer = entry.offer
    if entry.token == LAST_RESORT and offer is not None:
        return offer.help
    if entry.token in NEVER_CHOSEN and offer is not None:
        return f"{offer.help}; only when named"
    if offer is None or offer.detect is None:
        return "only when named" if offer is not None else "no manifest: only when named"
    missing = offer.detect.missing()
    found = f"not detected: {missing}" if missing else f"detected, priority {offer.priority}"
    return f"{found}; interfaces {', '.join(offer.ifaces)}" if offer.ifaces else found
