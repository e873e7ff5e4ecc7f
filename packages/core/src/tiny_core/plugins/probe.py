"""Trying a plugin in a process of its own, so that a crash or a hang of it is a result like any other.

In: an entry of the catalog, and whether to open what it offers. Out: a `Report`. The child is
`python -c … REQUEST`: it takes over the parent's `sys.path` and settings, does the work with anything the
plugin prints sent to stderr, and writes one JSON object to its stdout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from tiny_core.errors import PluginError, TinyError
from tiny_core.plugins.catalog import Entry, State, catalog
from tiny_core.plugins.specs import Check, CheckSpec
from tiny_core.settings import DEV, PLUGINS

LIMIT_S: Final = 20.0
_CHILD: Final = (
    "import sys,json; r=json.loads(sys.argv[1]); sys.path[:]=r['path']; from {} import child; child(r)"
)


@dataclass(frozen=True, slots=True)
class Report:
    """What a probe found.

    Args:
        state: name of the state reached.
        why: reason, where the state needs one.
        hint: what to do about it.
        traceback: of the exception, if there was one.
        facts: what was opened, in words.
        ms: time that loading the plugin's module took, in milliseconds.
        output: the last lines that the plugin printed.
        checks: what its checks found: fields of a `Check`, its fix as a table or None, and the `name` of its
            spec.
    """

    state: str
    why: str = ""
    hint: str = ""
    traceback: str = ""
    facts: str = ""
    ms: float = 0.0
    output: str = ""
    checks: tuple[dict[str, object], ...] = ()

    @property
    def ok(self) -> bool:
        return self.state in ("loaded", "ready")


def run(entry: Entry, opening: bool = True, target: str = "", limit_s: float = LIMIT_S) -> Report:
    """Probe an entry in a subprocess.

    Args:
        entry: what to probe.
        opening: whether to open the device, or make the renderer and look for its compiler; otherwise only
            load.
        target: the DEV target to open a device with; "" for the device's token.
        limit_s: seconds after which the child is killed.
    """
    request: dict[str, object] = {
        "path": sys.path,
        "kind": entry.kind,
        "token": entry.token,
        "plugin": entry.plugin.name,
        "opening": opening,
        "target": target or entry.token,
    }
    answer = ask("tiny_core.plugins.probe", request, {"TINY_DEV": target or DEV.value}, limit_s)
    if answer.value is None:
        return Report(State.BROKEN.value, answer.why, output=answer.output)
    return Report(**{**answer.value, "output": answer.output})  # type: ignore[arg-type]  # asdict's inverse


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subprocess answered: the fields of a JSON object, or None and why not; and the last lines that
    it printed."""

    value: dict[str, object] | None
    why: str = ""
    output: str = ""


def ask(module: str, request: dict[str, object], env: dict[str, str], limit_s: float) -> Answer:
    """Let the function `child` of a module of core answer a request, in a process of its own.

    Args:
        module: where it is.
        request: what JSON can hold; `path` becomes the child's `sys.path`.
        env: variables that it sees besides ours.
        limit_s: seconds after which it is killed, with all that it started.
    """
    env = {**os.environ, "TINY_PLUGINS": PLUGINS.value, **env}
    command = [sys.executable, "-P", "-c", _CHILD.format(module), json.dumps(request)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=os.name == "posix",
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Answer(None, f"did not answer within {limit_s:g} s")
    except BaseException:  # ctrl-C must not leave the child behind
        _kill(process)
        raise
    printed = "\n".join(err.decode(errors="replace").strip().splitlines()[-8:])
    return _read(out, process.returncode, printed)


def answer(request: dict[str, object], work: Callable[[dict[str, object]], object]) -> None:
    """Write what `work` makes of a request to the parent, and end this process; what it prints goes to
    stderr."""
    pipe = os.dup(1)
    os.dup2(2, 1)
    data = json.dumps(work(request)).encode()
    while data:
        data = data[os.write(pipe, data) :]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that a plugin left running must not keep the probe alive


def child(request: dict[str, object]) -> None:
    """Do what a request asks and write the report; runs in the subprocess."""
    answer(request, lambda r: asdict(_attempt(r)))


def _attempt(request: dict[str, object]) -> Report:
    from tiny_core.plugins import loader, opening

    wanted = (request["plugin"], request["kind"], request["token"])
    entry = next((e for e in catalog().entries() if (e.plugin.name, e.kind, e.token) == wanted), None)
    if entry is None:
        return Report(
            State.BROKEN.value, "is not found by a new process; was sys.path changed after the start?"
        )
    started = time.perf_counter()
    try:
        loader.load(entry, probe=False)
    except Exception as error:
        return Report(entry.state.value, entry.why or str(error), entry.hint, entry.traceback)
    ms = (time.perf_counter() - started) * 1e3
    if not request["opening"]:
        return Report(State.LOADED.value, ms=ms)
    target = str(request["target"])
    checks = tuple(c for x in entry.extras if isinstance(x, CheckSpec) for c in run_check(x, target))
    try:
        facts = opening.describe(entry, target)
    except Exception as error:
        import traceback

        text = "".join(traceback.format_exception(error))
        if isinstance(error, TinyError):
            return Report(State.UNAVAILABLE.value, error.message, error.hint, text, ms=ms, checks=checks)
        why = f"{type(error).__name__}: {error}"
        return Report(State.UNAVAILABLE.value, why, "", text, ms=ms, checks=checks)
    return Report(State.READY.value, facts=facts, ms=ms, checks=checks)


def run_check(spec: CheckSpec, target: str) -> list[dict[str, object]]:
    """Run a check here; one that fails itself is a row that says so."""
    from tiny_core.plugins.loader import load_name

    found: list[Check] = []
    try:
        function = load_name(spec.run, f"check {spec.name}")
        if not callable(function):
            raise PluginError(f"{spec.run} is not a function")
        for check in function(target):
            if not isinstance(check, Check):
                raise PluginError(f"{spec.run} gives {check!r}, which is no Check")
            found.append(check)
    except Exception as error:
        said = error.message if isinstance(error, TinyError) else f"{type(error).__name__}: {error}"
        found.append(Check("FAIL", f"the check could not be made: {said}", getattr(error, "hint", "")))
    return [{"name": spec.name, **asdict(check)} for check in found]


def _read(out: bytes, code: int, printed: str) -> Answer:
    try:
        return Answer(json.loads(out), output=printed)
    except ValueError:
        if code < 0:
            import signal

            return Answer(None, f"crashed: killed by {signal.Signals(-code).name}", printed)
        return Answer(None, f"ended with exit code {code} and no answer", printed)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the child and what it started, and wait for it."""
    if os.name == "posix":
        import signal

        os.killpg(process.pid, signal.SIGKILL)  # its own session, so its own process group
    else:
        process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
