"""Try every plugin in a process of its own, say what works, and what to do about what does not.

A crash or a hang of a plugin is a row like any other. The block at the end is made for bug reports. The exit
code is 1 if a target that was named here, or anything that DEV or the automatic choice selects, has failed.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

import tiny_core
from tiny_core.cli import output
from tiny_core.cli.plugins import record
from tiny_core.errors import TargetError
from tiny_core.plugins import probe, registry
from tiny_core.plugins.builtin import NEVER_CHOSEN
from tiny_core.plugins.catalog import CORE_API, REFUSED, Entry, State, catalog
from tiny_core.plugins.discover import normalize
from tiny_core.plugins.select import chosen_devices
from tiny_core.plugins.target import Target, parse_dev
from tiny_core.settings import DEV

SLOW_MS = 250.0
"""A plugin whose module takes longer to load gets a warning; the aim is 20 ms, the rest is room for slow
disks.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the report.

    Args:
        mark: OK, WARN, FAIL, or -- for what is off or not there.
        token: what it is selected by.
        kind: runtime, renderer, …
        state: as in the catalog.
        source: its plugin.
        text: why, or what was found.
        next: the next command or step; "" where none is needed.
        selected: whether DEV or the automatic choice uses it.
        detail: traceback, and what the plugin printed.
    """

    mark: str
    token: str
    kind: str
    state: str
    source: str
    text: str = ""
    next: str = ""
    selected: bool = False
    detail: str = field(default="", repr=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", nargs="?", default="", help="a DEV target, a renderer or a plugin; default: everything"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--limit", type=float, default=probe.LIMIT_S, metavar="S", help="seconds that each probe may take"
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine and report; returns the exit code."""
    targets = parse_dev(DEV.value)
    wanted = _wanted(arguments.target) if arguments.target else dict.fromkeys(catalog().entries(), "")
    for target in targets if not arguments.target else ():
        claims = catalog().claims("runtime", target.device)
        if not claims:
            advice = registry.advice("runtime", target.device)
            raise target.error("device", f"unknown device {target.device}", advice)
        wanted.update(dict.fromkeys(claims, str(target)))
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        rows = list(pool.map(lambda item: _examine(item[0], item[1], arguments.limit), wanted.items()))
    rows = _select(rows, list(wanted), targets, named=bool(arguments.target))
    failed = any(r.mark == "FAIL" for r in rows if r.selected or arguments.target)
    if not arguments.target and not targets and not any(r.selected for r in rows):
        failed = True
    if arguments.json:
        output.as_json({"rows": [asdict(r) for r in rows], "environment": environment(), "ok": not failed})
        return int(failed)
    shown = [[r.mark, _name(r), r.state, r.source, _joined(r.text, r.next)] for r in rows]
    output.table(["", "target", "state", "from", "why / next step"], shown)
    if arguments.target:
        for row in rows:
            if row.detail:
                print(f"\n{row.kind} {row.token}:\n{row.detail}")
    print(f"\n{block()}")
    return int(failed)


def _wanted(text: str) -> dict[Entry, str]:
    """The entries that the words on the command line mean, each with the target to open."""
    table = catalog()
    of_plugin = [e for p in table.plugins if normalize(text) in {normalize(p.name)} for e in p.entries]
    target = Target.parse(text) if not of_plugin or table.claims("runtime", text.upper()) else None
    if target is not None and (claims := table.claims("runtime", target.device)):
        renderers = table.claims("renderer", target.renderer) if target.renderer else []
        return {**{e: str(target) for e in claims}, **dict.fromkeys(renderers, "")}
    if target is not None and (claims := table.claims("renderer", target.device)):
        return dict.fromkeys(claims, "")
    if of_plugin:
        return dict.fromkeys(of_plugin, "")
    raise TargetError(f"nothing is called {text}", registry.advice("runtime", text.upper()))


def _examine(entry: Entry, target: str, limit_s: float) -> Row:
    status = catalog().status(entry)
    source = str(entry.plugin)
    common = (entry.token, entry.kind)
    if status.state in REFUSED:
        mark = "--" if status.state is State.DISABLED else "FAIL"
        return Row(mark, *common, status.state.value, source, status.why, status.hint, detail=entry.traceback)
    if entry.kind in ("command", "kernels") or entry.plugin.origin == "in code":
        return Row("OK", *common, status.state.value, source, "not tried")
    report = probe.run(entry, target=target, limit_s=limit_s)
    detail = "\n".join(part for part in (report.traceback, report.output) if part)
    missing = entry.offer.detect.missing() if entry.offer and entry.offer.detect else ""
    if report.ok:
        slow = f"its module takes {report.ms:.0f} ms to load" if report.ms > SLOW_MS else ""
        cautions = "; ".join(c for c in (slow, entry.plugin.caution, *entry.plugin.notes) if c)
        text = "; ".join(t for t in (report.facts, cautions) if t)
        never = "only when named" if entry.kind == "runtime" and entry.token in NEVER_CHOSEN else ""
        if entry.plugin.origin == "installed" and entry.plugin.manifest is None:
            never = "no plugin.toml: only when named"
        return Row("WARN" if cautions else "OK", *common, report.state, source, text, never, detail=detail)
    absent = missing and report.state == State.UNAVAILABLE.value
    hint = report.hint or ("" if target else f"tiny doctor {entry.token}")
    return Row("--" if absent else "FAIL", *common, report.state, source, report.why, hint, detail=detail)


def _select(rows: list[Row], entries: list[Entry], targets: tuple[Target, ...], named: bool) -> list[Row]:
    """Mark the rows of what DEV names, or of the device that would be chosen."""
    if named:
        return rows
    if targets:
        names = {("runtime", t.device) for t in targets} | {("renderer", t.renderer) for t in targets}
    else:
        good = {e for e, r in zip(entries, rows, strict=True) if r.mark in ("OK", "WARN")}
        chosen = next((e for e in chosen_devices() if e in good), None)
        names = {("runtime", chosen.token)} if chosen is not None else set()
    return [_marked(r, (r.kind, r.token) in names and r.state != "disabled") for r in rows]


def _marked(row: Row, selected: bool) -> Row:
    return Row(**{**asdict(row), "selected": selected}) if selected else row


def _name(row: Row) -> str:
    kind = "" if row.kind == "runtime" else f" ({row.kind})"
    return row.token + kind + ("*" if row.selected else "")


def _joined(why: str, step: str) -> str:
    return f"{why} -> {step}" if why and step else why or step


# ---- the block for bug reports -----------------------------------------------------------------------------


def environment() -> dict[str, object]:
    """Return what a bug report needs: versions, contract numbers, settings and plugins; no secrets."""
    return {
        "core": tiny_core.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "os": platform.platform(),
        "machine": platform.machine(),
        "contracts": {k: f"{v[0]}.{v[1]}" for k, v in CORE_API.items()},
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith("TINY_") or k == "DEV"},
        "plugins": [record(p) for p in catalog().plugins if p.origin == "installed"],
    }


def block() -> str:
    """Return the environment as a block of text."""
    return "\n".join(["---- for bug reports ----", *_lines(), "-------------------------"])


def _lines() -> Iterator[str]:
    known = environment()
    yield f"tiny-core {known['core']}, {known['python']}, {known['os']}"
    contracts = known["contracts"]
    variables = known["variables"]
    assert isinstance(contracts, dict)
    assert isinstance(variables, dict)
    yield "contracts: " + ", ".join(f"{k} {v}" for k, v in contracts.items())
    yield "variables: " + (" ".join(f"{k}={v}" for k, v in variables.items()) or "none")
    installed = [p for p in catalog().plugins if p.origin == "installed"]
    yield "plugins: " + (", ".join(f"{p}{' (editable)' if p.editable else ''}" for p in installed) or "none")
