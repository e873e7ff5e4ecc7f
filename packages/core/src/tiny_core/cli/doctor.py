"""Try every plugin in a process of its own, say what works, and what to do about what does not.

A crash or a hang of a plugin is a row like any other. The block at the end is made for bug reports. The exit
code is 1 if a target that was named here, or anything that DEV or the automatic choice selects, has failed,
or a check of core's.

JSON: `{"rows": [row, …], "environment": {…}, "ok": bool}`; a row has the fields of `Row`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib import import_module

import tiny_core
from tiny_core.cli import output
from tiny_core.cli.plugins import record
from tiny_core.errors import TargetError
from tiny_core.plugins import probe, registry
from tiny_core.plugins.builtin import NEVER_CHOSEN
from tiny_core.plugins.catalog import CORE_API, REFUSED, Entry, State, Status, catalog
from tiny_core.plugins.discover import normalize
from tiny_core.plugins.select import chosen_devices
from tiny_core.plugins.target import Target, parse_dev
from tiny_core.settings import DEV

_SAFE = frozenset({"cache clear"})
"""Commands that --fix may run: ours, and nothing is lost by them."""
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
        fix: words of the command of `tiny` that mends it, "" if there is none, and
        does: exactly what that does.
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
    fix: str = ""
    does: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        default="",
        help="a DEV target, a renderer, a plugin, or core; default: everything",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--fix", action="store_true", help="offer to run the commands of tiny that mend what was found"
    )
    parser.add_argument("--yes", action="store_true", help="with --fix: do not ask")
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
        found = list(pool.map(lambda item: _examine(item[0], item[1], arguments.limit), wanted.items()))
    rows, checks = [r for r, _ in found], [c for _, more in found for c in more]
    if not arguments.target or not wanted:
        checks += _core_checks()
    rows = _select(rows, list(wanted), targets, named=bool(arguments.target))
    failed = any(r.mark == "FAIL" for r in rows if r.selected or arguments.target)
    failed |= any(c.mark == "FAIL" for c in checks if c.source == "core" or arguments.target)
    if not arguments.target and not targets and not any(r.selected for r in rows):
        failed = True
    rows += checks
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
    if arguments.fix:
        _mend(rows, arguments.yes)
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
    if of_plugin or normalize(text) in {p.name for p in table.plugins if not p.entries}:
        return dict.fromkeys(of_plugin, "")  # nothing to open where the plugin is core: checks only
    raise TargetError(f"nothing is called {text}", registry.advice("runtime", text.upper()))


def _examine(entry: Entry, target: str, limit_s: float) -> tuple[Row, list[Row]]:
    """Probe an entry; returns its row, and those of the checks of its plugin."""
    status = catalog().status(entry)
    if status.state in REFUSED or entry.kind in ("command", "kernels") or entry.plugin.origin == "in code":
        return _untried(entry, status), []
    report = probe.run(entry, target=target, limit_s=limit_s)
    return _tried(entry, report, target), [_check_row(c, str(entry.plugin)) for c in report.checks]


def _untried(entry: Entry, status: Status) -> Row:
    common = (entry.token, entry.kind, status.state.value, str(entry.plugin))
    if status.state not in REFUSED:
        return Row("OK", *common, "not tried")
    mark = "--" if status.state is State.DISABLED else "FAIL"
    return Row(mark, *common, status.why, status.hint, detail=entry.traceback)


def _check_row(found: dict[str, object], source: str) -> Row:
    """The row of what a check found; see `probe.Report.checks`."""
    fix = found["fix"]
    words = " ".join(fix["words"]) if isinstance(fix, dict) else ""
    mark, text, step = str(found["mark"]), str(found["text"]), str(found["next"])
    does = str(fix["says"]) if isinstance(fix, dict) else ""
    return Row(mark, str(found["name"]), "check", "", source, text, step, fix=words, does=does)


def _core_checks() -> list[Row]:
    """Checks of built-in plugins that offer no device: of core itself."""
    return [
        _check_row(found, plugin.name)
        for plugin in catalog().plugins
        if plugin.origin == "built in" and not plugin.entries
        for spec in import_module(plugin.path).tiny_doctor_checks()
        for found in probe.run_check(spec, "")
    ]


def _mend(rows: list[Row], sure: bool) -> None:
    """Run the commands that mend what was found: ours only, each shown first, and asked about."""
    from tiny_core.cli.main import main

    fixes = {r.fix: r.does for r in rows if r.fix}
    if not fixes:
        print("\nnothing to fix that a command of tiny fixes")
    for words, does in fixes.items():
        print(f"\ntiny {words}: {does}")
        if words not in _SAFE:
            print("  this is a plugin's command: run it yourself if you want that")
        elif sure or (sys.stdin.isatty() and input("  run it? [y/N] ").strip().lower() in ("y", "yes")):
            main(words.split())
        else:
            print("  not run; --yes runs it without asking")


def _tried(entry: Entry, report: probe.Report, target: str) -> Row:
    source = str(entry.plugin)
    common = (entry.token, entry.kind)
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
    kind = "" if row.kind in ("runtime", "check") else f" ({row.kind})"
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
