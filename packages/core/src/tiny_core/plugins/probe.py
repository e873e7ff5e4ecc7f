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
from dataclasses import asdict, dataclass
from typing import Final

from tiny_core.errors import TinyError
from tiny_core.plugins.catalog import Entry, State, catalog
from tiny_core.settings import DEV, PLUGINS

LIMIT_S: Final = 20.0
_CHILD: Final = (
    "import sys,json; r=json.loads(sys.argv[1]); sys.path[:]=r['path']; "
    "from tiny_core.plugins.probe import child; child(r)"
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
    """

    state: str
    why: str = ""
    hint: str = ""
    traceback: str = ""
    facts: str = ""
    ms: float = 0.0
    output: str = ""

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
    request = {
        "path": sys.path,
        "kind": entry.kind,
        "token": entry.token,
        "plugin": entry.plugin.name,
        "opening": opening,
        "target": target or entry.token,
    }
    env = {**os.environ, "TINY_PLUGINS": PLUGINS.value, "TINY_DEV": target or DEV.value}
    command = [sys.executable, "-P", "-c", _CHILD, json.dumps(request)]
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
        return Report(State.BROKEN.value, f"did not answer within {limit_s:g} s")
    except BaseException:  # ctrl-C must not leave the child behind
        _kill(process)
        raise
    printed = "\n".join(err.decode(errors="replace").strip().splitlines()[-8:])
    return _read(out, process.returncode, printed)


def child(request: dict[str, object]) -> None:
    """Do what a request asks and write the report; runs in the subprocess."""
    answer = os.dup(1)
    os.dup2(2, 1)
    data = json.dumps(asdict(_attempt(request))).encode()
    while data:
        data = data[os.write(answer, data) :]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that a plugin left running must not keep the probe alive


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
    try:
        facts = opening.describe(entry, str(request["target"]))
    except Exception as error:
        import traceback

        text = "".join(traceback.format_exception(error))
        if isinstance(error, TinyError):
            return Report(State.UNAVAILABLE.value, error.message, error.hint, text, ms=ms)
        return Report(State.UNAVAILABLE.value, f"{type(error).__name__}: {error}", "", text, ms=ms)
    return Report(State.READY.value, facts=facts, ms=ms)


def _read(out: bytes, code: int, printed: str) -> Report:
    try:
        fields = json.loads(out)
    except ValueError:
        if code < 0:
            import signal

            return Report(
                State.BROKEN.value, f"crashed: killed by {signal.Signals(-code).name}", output=printed
            )
        return Report(State.BROKEN.value, f"ended with exit code {code} and no answer", output=printed)
    return Report(**{**fields, "output": printed})


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
