"""The processes of `tiny plugins check`: load a plugin, open it, load it again, fork with it.

In: a request on the command line (see `check`). Out: rows as JSON. Runs in a subprocess that has core loaded,
and notes what the plugin's module does while it is imported: how long it takes, which modules come with it,
which libraries, processes, threads and connections it opens.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tiny_core.plugins.catalog import Entry

Row = dict[str, object]
_EVENTS: Final = {
    "ctypes.dlopen": "opens the library",
    "subprocess.Popen": "starts the process",
    "os.system": "starts the process",
    "os.posix_spawn": "starts the process",
    "os.fork": "forks",
    "socket.connect": "connects to",
}
"""Audit events that a module must not cause while it is imported."""


def child(request: dict[str, object]) -> None:
    """Do a trial and write its rows; runs in the subprocess."""
    from tiny_core.plugins.probe import answer

    work = {"load": _load, "open": _open, "again": _again, "fork": _fork}[str(request["trial"])]
    answer(request, lambda r: {"rows": _guarded(work, r)})


def _guarded(work: Callable[[dict[str, object]], list[Row]], request: dict[str, object]) -> list[Row]:
    from tiny_core.errors import TinyError

    try:
        return work(request)
    except Exception as error:
        import traceback

        text = error.message if isinstance(error, TinyError) else f"{type(error).__name__}: {error}"
        detail = "".join(traceback.format_exception(error))
        return [_row(str(request["trial"]), "FAIL", text, getattr(error, "hint", ""), detail)]


def _row(check: str, mark: str, text: str, step: str = "", detail: str = "") -> Row:
    return {"check": check, "mark": mark, "text": text, "next": step, "detail": detail}


# ---- load --------------------------------------------------------------------------------------------------


def _load(request: dict[str, object]) -> list[Row]:
    """Import the module of each entry point and call its hooks; compare what they say with the manifest."""
    import importlib

    from tiny_core.plugins import loader, manager

    api = importlib.import_module("tiny_core.api")  # what a plugin needs of core is not counted
    for name in dir(api):
        getattr(api, name)
    assert loader and manager
    seen: list[str] = []
    watching = True

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event in _EVENTS and not (event == "ctypes.dlopen" and arguments[0] is None):
            seen.append(f"{_EVENTS[event]} {arguments[0] if arguments else ''}".strip())

    sys.addaudithook(audit)
    before, threads = set(sys.modules), threading.active_count()
    modules = {m.partition(":")[0]: "" for m in (p[2] for p in _points(request)) if ":" not in m}
    took = 0.0
    for module in modules:
        started = time.perf_counter()
        try:
            importlib.import_module(module)
        except BaseException as error:  # SystemExit too
            import traceback

            detail = "".join(traceback.format_exception(error))
            text = f"importing {module}: {type(error).__name__}: {error}"
            return [_row("load", "FAIL", text, "plugin modules may only declare things", detail)]
        took += (time.perf_counter() - started) * 1e3
    watching = False
    rows = [_budget(took), _imports(before, str(request["package"]))]
    if threading.active_count() > threads:
        seen.append("starts a thread")
    if seen:
        text = f"while it is loaded it {', '.join(dict.fromkeys(seen))}"
        rows.append(_row("side effects", "FAIL", text, "do that when the device is opened"))
    else:
        rows.append(_row("side effects", "OK", "opens no library, starts nothing"))
    return [_row("load", "OK", f"{', '.join(modules) or 'commands only'}"), *rows, *_hooks(request)]


def _budget(took: float) -> Row:
    from tiny_core.plugins.check import BUDGET_MS, SLOW_MS

    text, step = f"{took:.1f} ms of {BUDGET_MS:.0f} ms", "import heavy things inside functions"
    if took > SLOW_MS:
        return _row("load budget", "FAIL", text, step)
    return _row("load budget", "WARN", text, step) if took > BUDGET_MS else _row("load budget", "OK", text)


def _imports(before: set[str], package: str) -> Row:
    """Only the standard library, core and the plugin itself come with its module."""
    fine = {*sys.stdlib_module_names, "tiny_core", package, "pluggy"}
    tops = {m.partition(".")[0] for m in set(sys.modules) - before}
    foreign = sorted(t for t in tops - fine if not t.startswith("__"))
    if foreign:
        return _row(
            "imports", "FAIL", f"loading it imports {', '.join(foreign)}", "import that inside functions"
        )
    private = sorted(
        m
        for m in set(sys.modules) - before
        if m.startswith("tiny_core.") and not m.startswith("tiny_core.plugins")
    )
    if private:
        return _row("imports", "WARN", f"it uses {', '.join(private)}", "import tiny_core.api only")
    return _row("imports", "OK", "nothing but core and the standard library")


def _hooks(request: dict[str, object]) -> list[Row]:
    """Its hooks give what entry points, manifest and contracts promise, and the classes named are there."""
    from tiny_core.errors import PluginError
    from tiny_core.plugins import loader, opening
    from tiny_core.plugins.manifest import Manifest

    entries = _entries(request)
    for entry in entries:
        if ":" not in entry.value:
            try:
                loader.load(entry, probe=False)
            except PluginError as error:
                return [
                    _row(
                        "hooks", "FAIL", entry.why or error.message, entry.hint or error.hint, entry.traceback
                    )
                ]
    said = sum(len(e.extras) + (e.spec is not None) for e in entries)
    rows = [_row("hooks", "OK", f"{said} specs")]
    plugin = entries[0].plugin
    if isinstance(plugin.manifest, Manifest):
        differences = [d for e in entries for d in _differences(e)]
        text = "; ".join(differences) or "plugin.toml says what the hooks say"
        rows.append(
            _row("specs", "FAIL" if differences else "OK", text, "make them equal" if differences else "")
        )
    wrong = []
    for entry in entries:
        try:
            opening.load_classes(entry)
        except PluginError as error:
            wrong.append(error.message)
    text = "; ".join(wrong) or "all import strings name what they should"
    rows.append(
        _row("classes", "FAIL" if wrong else "OK", text, "correct the import strings" if wrong else "")
    )
    return rows


def _differences(entry: Entry) -> list[str]:
    """Where the manifest's offer and the loaded spec of an entry disagree."""
    from tiny_core.plugins.catalog import contracts
    from tiny_core.plugins.manifest import Manifest
    from tiny_core.plugins.specs import MockSpec, RendererSpec, RuntimeSpec

    offer, spec, described = entry.offer, entry.spec, entry.plugin.manifest
    if (
        offer is None
        or not isinstance(spec, RuntimeSpec | RendererSpec)
        or not isinstance(described, Manifest)
    ):
        return []
    pairs: list[tuple[str, object, object]] = [("options", offer.options, spec.options)]
    if isinstance(spec, RuntimeSpec):
        mocks = tuple(x.iface for x in entry.extras if isinstance(x, MockSpec) and x.iface not in spec.ifaces)
        pairs += [
            ("ifaces", offer.ifaces, (*spec.ifaces, *mocks)),
            ("renderers", offer.renderers, spec.renderers),
            ("profile", offer.profile, spec.profile),
        ]
    else:
        pairs.append(("archs", offer.archs, spec.archs))
    found = [
        f"{entry.kind} {entry.token}: {what} {a!r} in plugin.toml, {b!r} in the spec"
        for what, a, b in pairs
        if a != b
    ]
    # a spec that names no contract number was written for core's own: only an explicit older one can differ
    newer = [
        f"{entry.kind} {entry.token}: written for {k} API {v[0]}.{v[1]}, plugin.toml says {w[0]}.{w[1]}"
        for k, v in contracts(spec)
        if (w := described.contract(k)) is not None and v[0] != w[0]
    ]
    return found + newer


# ---- open, again, fork -------------------------------------------------------------------------------------


def _open(request: dict[str, object]) -> list[Row]:
    """Open each device and make each renderer, as `tiny doctor` does."""
    from tiny_core.errors import TinyError
    from tiny_core.plugins import loader, opening
    from tiny_core.plugins.specs import MockSpec

    rows = []
    for entry in _entries(request):
        if entry.kind not in ("runtime", "renderer"):
            continue
        loader.load(entry, probe=False)
        mocks = [x.iface for x in entry.extras if isinstance(x, MockSpec)]
        targets = [entry.token, *(f"{m}+{entry.token}" for m in mocks)]
        for target in targets:
            what = f"{entry.kind} {target}"
            try:
                rows.append(_row("open", "OK", f"{what}: {opening.describe(entry, target)}"))
            except TinyError as error:
                # a device that is not on this machine is no fault of the plugin; anything untyped is
                mark = (
                    "FAIL"
                    if error.__cause__ is not None or entry.kind == "renderer" or "+" in target
                    else "WARN"
                )
                hint = error.hint if not mocks else f"DEV={mocks[0]}+{entry.token} needs no hardware"
                rows.append(_row("open", mark, f"{what}: {error.message}", hint))
    return rows


def _again(request: dict[str, object]) -> list[Row]:
    """Import it as a user would, before core does; then forget the catalog and load it once more."""
    import importlib

    from tiny_core.plugins import catalog, loader

    for point in _points(request):
        importlib.import_module(point[2].partition(":")[0])
    seen = []
    for _ in range(2):
        catalog.reset()
        entries = [e for e in _entries(request) if ":" not in e.value]
        seen.append([loader.load(e, probe=False) for e in entries])
    if seen[0] != seen[1]:
        return [
            _row(
                "again",
                "FAIL",
                f"its hooks gave {seen[0]}, then {seen[1]}",
                "they must give the same each time",
            )
        ]
    return [_row("again", "OK", "can be imported first by a user, and loaded twice")]


def _fork(request: dict[str, object]) -> list[Row]:
    """Use each device before a fork and in the child: memory holds what is put there."""
    from tiny_core.errors import TinyError
    from tiny_core.plugins import loader, opening

    if not hasattr(os, "fork"):
        return [_row("fork", "--", "this system has no fork")]
    names = []
    for entry in _entries(request):
        if entry.kind != "runtime":
            continue
        loader.load(entry, probe=False)
        try:
            runtime = opening.open_runtime(entry.token)
        except TinyError:
            continue  # the row `open` has said so
        names.append(entry.token)
        if runtime.capabilities.stores and runtime.capabilities.executes:
            _round_trip(runtime)
        process = os.fork()
        if process == 0:
            code = 1
            try:
                runtime.after_fork()
                if runtime.capabilities.stores and runtime.capabilities.executes:
                    _round_trip(runtime)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        if status:
            text = f"{entry.token} does not work in a forked child (status {status})"
            return [_row("fork", "FAIL", text, "see Runtime.after_fork")]
        runtime.close()
    text = f"{', '.join(names)} works in a forked child" if names else "no device opens here"
    return [_row("fork", "OK" if names else "--", text)]


def _round_trip(runtime: object) -> None:
    from tiny_core.runtime.runtime import Runtime

    assert isinstance(runtime, Runtime)
    handle = runtime.allocate(64)
    runtime.copy_in(handle, memoryview(bytes(range(64))))
    out = bytearray(64)
    runtime.copy_out(memoryview(out), handle)
    runtime.free(handle, 64)
    if out != bytes(range(64)):
        raise ValueError("memory does not hold what was put there")


def _points(request: dict[str, object]) -> list[tuple[str, str, str]]:
    points = request["points"]
    assert isinstance(points, list)
    return [(str(g), str(n), str(v)) for g, n, v in points]


def _entries(request: dict[str, object]) -> list[Entry]:
    """The subject's rows in this process's catalog."""
    from tiny_core.plugins.catalog import catalog
    from tiny_core.plugins.discover import normalize

    name = normalize(str(request["plugin"]))
    found = [
        e
        for p in catalog().plugins
        if normalize(p.name) == name and p.origin == "installed"
        for e in p.entries
    ]
    if not found:
        raise LookupError(f"{name} is not found where its files are")
    return found
