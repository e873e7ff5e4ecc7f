"""`tiny plugins show`: one plugin, with the state of each thing it offers, and why."""

from __future__ import annotations

import argparse
from dataclasses import replace

from tiny_core.cli import output
from tiny_core.cli.plugins import record
from tiny_core.plugins import probe
from tiny_core.plugins.catalog import REFUSED, Entry, Plugin, State, catalog
from tiny_core.plugins.manifest import Manifest
from tiny_core.plugins.subject import find_plugin


def run(arguments: argparse.Namespace) -> int:
    """Show it; returns 1 if something it offers is broken or incompatible.

    What has not been loaded here is loaded in a subprocess, so that a traceback can be shown. JSON: the
    record of `tiny plugins list --json`, where each offer also has `options`, `ifaces`, `renderers`, `archs`,
    `detect`, `help`, `ms` (milliseconds that loading took) and `traceback`.

    Raises:
        TargetError: nothing is called that; with close matches.
    """
    plugin = find_plugin(arguments.name)
    found = record(plugin)
    offers = found["offers"]
    assert isinstance(offers, list)
    for entry, offer in zip(plugin.entries, offers, strict=True):
        offer.update(_more(entry))
    bad = any(o["state"] in (State.BROKEN.value, State.INCOMPATIBLE.value) for o in offers)
    if bad:
        worst = next(o for o in offers if o["state"] in (State.BROKEN.value, State.INCOMPATIBLE.value))
        found.update({k: worst[k] for k in ("state", "why", "hint")})
    if arguments.json:
        output.as_json(found)
        return int(bad)
    print("\n".join(_lines(plugin, found)))
    seen: set[str] = set()
    for offer in offers:
        print("\n" + "\n".join(_offer_lines(offer, seen)))
    return int(bad)


def _more(entry: Entry) -> dict[str, object]:
    """What `record` does not say of an entry: what it declares, and what loading it gives."""
    offer = entry.offer
    told: dict[str, object] = {
        "options": dict(offer.options) if offer else {},
        "ifaces": list(offer.ifaces) if offer else [],
        "renderers": list(offer.renderers) if offer else [],
        "archs": list(offer.archs) if offer else [],
        "detect": "" if offer is None or offer.detect is None else offer.detect.missing() or "found",
        "help": offer.help if offer else "",
        "ms": 0.0,
        "traceback": entry.traceback,
    }
    status = catalog().status(entry)
    if status.state in REFUSED or entry.plugin.origin != "installed" or ":" in entry.value:
        return told
    report = probe.run(entry, opening=False)
    report = replace(report, traceback=report.traceback or ("" if report.ok else report.output))
    told.update(ms=report.ms, traceback=report.traceback)
    return told if report.ok else {**told, "state": report.state, "why": report.why, "hint": report.hint}


def _lines(plugin: Plugin, found: dict[str, object]) -> list[str]:
    described = plugin.manifest
    lines = [f"{plugin.name} {plugin.version}".strip(), f"from       {plugin.origin}, {plugin.path}"]
    if plugin.origin == "installed":
        how = f"{plugin.installer or 'unknown'}{', editable' if plugin.editable else ''}"
        lines.append(f"installer  {how}")
    if isinstance(described, Manifest):
        api = found["api"]
        numbers = ", ".join(f"{k} {v}" for k, v in api.items()) if isinstance(api, dict) else ""
        lines.append(f"manifest   {described.name}, {described.maturity}; contracts {numbers or 'none'}")
    else:
        lines.append(f"manifest   {'none' if described is None else described.why}")
    lines += [f"note       {note}" for note in plugin.notes]
    return [*lines, f"caution    {plugin.caution}"] if plugin.caution else lines


def _offer_lines(offer: dict[str, object], seen: set[str]) -> list[str]:
    """The lines of something that is offered; a traceback is shown once."""
    lines = [f"{offer['kind']} {offer['token']}: {offer['state']} ({offer['value']})"]
    for key in ("help", "why", "hint", "detect"):
        if offer[key]:
            lines.append(f"  {'next' if key == 'hint' else key:<9}  {offer[key]}")
    for key in ("ifaces", "renderers", "archs"):
        value = offer[key]
        if isinstance(value, list) and value:
            lines.append(f"  {key:<9}  {', '.join(value)}")
    options = offer["options"]
    for name, about in options.items() if isinstance(options, dict) else ():
        lines.append(f"  option     {name}: {about}")
    text = str(offer["traceback"])
    if text and text not in seen:
        seen.add(text)
        lines += ["", *(f"  {line}" for line in text.rstrip().splitlines())]
    return lines
