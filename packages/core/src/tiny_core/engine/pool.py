"""Compile workers: processes that core starts itself, kept alive, replaced when they die.

In: jobs (a kernel's text, and what to build it with). Out: for each job a `Compiled`, or the error that it
ended in. A worker that dies takes one job with it, never the others and never this process. Workers have a
session of their own, so that ctrl-C reaches this process only; an interrupted run kills the workers that are
at work.
"""

from __future__ import annotations

import atexit
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, cast, final

from tiny_core import errors
from tiny_core.engine.codec import Json, compiled_from_parts, read_frame, write_frame
from tiny_core.errors import CompileError, TinyError
from tiny_core.render.renderer import Compiled
from tiny_core.runtime.device import Recipe

Outcome = Compiled | TinyError
_GRACE_SECONDS: Final = 0.5
_TAIL: Final = 2000


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to build.

    Args:
        text: the kernel in text form.
        name: for messages.
        recipe: how to make the renderer.
        fingerprint: what the renderer's fingerprint must be.
        mode: as in `engine/build.py`.
        settings: values of the settings that generated code depends on.
    """

    text: str
    name: str
    recipe: Recipe
    fingerprint: str
    mode: str
    settings: tuple[tuple[str, int | str | float], ...]

    def header(self) -> Json:
        return {
            "renderer": self.recipe.make,
            "arch": (self.recipe.arch.name, self.recipe.arch.features),
            "options": self.recipe.options,
            "fingerprint": self.fingerprint,
            "mode": self.mode,
            "settings": dict(self.settings),
            "path": [p for p in sys.path if p],
        }


@final
class _Worker:
    """One process and its pipes."""

    def __init__(self) -> None:
        # not a pipe, which would have to be drained while the worker works
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `release`
        search = [p or os.getcwd() for p in sys.path]
        self.process = subprocess.Popen(
            # -P: the working folder is on the path only if it is on ours
            [sys.executable, "-P", "-m", "tiny_core.engine.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            bufsize=0,  # a frame that waited in a buffer of ours would not wake `select`
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search), "TINY_DEBUG": "0"},
            start_new_session=True,
        )
        self.ready = False
        self.job: int | None = None
        self.source = ""

    @property
    def output(self) -> BinaryIO:
        assert self.process.stdout is not None
        return cast(BinaryIO, self.process.stdout)

    def send(self, number: int, job: Job) -> bool:
        """Give the worker a job; False if it is dead."""
        assert self.process.stdin is not None
        self.job, self.source = number, ""
        try:
            write_frame(cast(BinaryIO, self.process.stdin), job.header(), [job.text.encode()])
        except BrokenPipeError:
            return False
        return True

    def close(self, kill: bool) -> None:
        """End the process and reap it."""
        if kill:
            self.process.kill()
        self.release()
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def release(self) -> None:
        """Close our ends of the pipes, which ends an idle worker."""
        for stream in (self.process.stdin, self.process.stdout, self.log):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue  # bytes still buffered for a dead worker

    def obituary(self) -> str:
        """Return how the process ended, and the end of what it wrote to standard error."""
        code = self.process.wait()
        how = f"exit code {code}" if code >= 0 else _signal_name(-code)
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - _TAIL))
        said = self.log.read().decode(errors="replace").strip()
        return f"{how}{': ' + said if said else ''}"


@final
class WorkerPool:
    """The workers of this process. `run` may be called from any thread; runs follow one another."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._workers: list[_Worker] = []

    @property
    def alive(self) -> int:
        """Workers that were alive when last looked at."""
        return len(self._workers)

    def run(self, jobs: Sequence[Job], count: int) -> list[Outcome]:
        """Build `jobs` with `count` workers and return how each ended, in order."""
        outcomes: dict[int, Outcome] = {}
        with self._lock:
            try:
                self._drive(list(jobs), max(count, 1), outcomes)
            finally:
                # after an error or ctrl-C: whoever is still at work has no one to answer to
                for worker in [w for w in self._workers if w.job is not None]:
                    self._drop(worker, kill=True)
        return [outcomes[i] for i in range(len(jobs))]

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            for worker in list(self._workers):
                self._drop(worker, kill=worker.job is not None)

    def _drive(self, jobs: list[Job], count: int, outcomes: dict[int, Outcome]) -> None:
        for worker in [w for w in self._workers if w.process.poll() is not None]:
            self._drop(worker, kill=False)  # killed while idle: no job's fault
        waiting = list(range(len(jobs)))[::-1]
        with selectors.DefaultSelector() as selector:
            for worker in self._workers[:count]:
                selector.register(worker.output, selectors.EVENT_READ, worker)
            while len(outcomes) < len(jobs):
                active = [cast(_Worker, key.data) for key in selector.get_map().values()]
                while len(active) < count and waiting:
                    worker = _Worker()
                    self._workers.append(worker)
                    active.append(worker)
                    selector.register(worker.output, selectors.EVENT_READ, worker)
                for worker in active:
                    if worker.job is None and waiting:
                        number = waiting.pop()
                        worker.send(number, jobs[number])  # a dead one shows as the end of its output
                for key, _ in selector.select():
                    worker = cast(_Worker, key.data)
                    if self._listen(worker, jobs, outcomes):
                        continue
                    selector.unregister(worker.output)
                    if not worker.ready:  # it is no kernel's fault, and the next one would not start either
                        for number in waiting:
                            outcomes[number] = _no_start(worker)
                        waiting.clear()
                    self._drop(worker, kill=False)

    def _listen(self, worker: _Worker, jobs: list[Job], outcomes: dict[int, Outcome]) -> bool:
        """Read one frame of a worker; False if it has died."""
        frame = read_frame(worker.output)
        number = worker.job
        if frame is None:
            if number is not None:
                outcomes[number] = _died(worker, jobs[number]) if worker.ready else _no_start(worker)
                worker.job = None
            return False
        header, parts = frame
        if "ready" in header:
            worker.ready = True
        elif "rendered" in header:
            worker.source = parts[0].decode()
        else:
            assert number is not None
            worker.job = None
            outcomes[number] = (
                compiled_from_parts(cast(Json, header["done"]), parts)
                if "done" in header
                else _failed(header, parts[0].decode() or worker.source, jobs[number])
            )
        return True

    def _drop(self, worker: _Worker, kill: bool) -> None:
        self._workers.remove(worker)
        worker.close(kill)

    def after_fork(self) -> None:
        """Forget the workers of the parent process; they are not ours to end."""
        self._lock = threading.RLock()
        for worker in self._workers:
            worker.process.returncode = 0  # not our child: nothing to wait for
            worker.release()
        self._workers = []


def _died(worker: _Worker, job: Job) -> CompileError:
    return CompileError(
        f"the compile worker died on kernel {job.name} ({worker.obituary()})",
        "the compiler aborted: the kernel's source is in this error's `source`",
        worker.source or job.text,
    )


def _no_start(worker: _Worker) -> CompileError:
    return CompileError(
        f"the compile worker did not start ({worker.obituary()})", "TINY_WORKERS=0 compiles in this process"
    )


def _failed(header: Json, source: str, job: Job) -> TinyError:
    """The error that a worker reports, as the class it had there."""
    message, hint = str(header["message"]), str(header["hint"])
    kind = getattr(errors, str(header["error"]), None)
    if isinstance(kind, type) and issubclass(kind, CompileError):
        return kind(message, hint, source)
    if isinstance(kind, type) and issubclass(kind, TinyError):
        return kind(message, hint)
    return CompileError(
        f"compiling kernel {job.name} raised {header['error']}: {message}\n{header.get('trace', '')}",
        hint,
        source or job.text,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


pool: Final = WorkerPool()
atexit.register(pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.after_fork)
