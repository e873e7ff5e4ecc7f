"""Run a user's script in this process, as `python SCRIPT.py WORDS` would.

In: a path and the words of its command line. Out: an `Outcome`: the exit code that Python would give, and the
exception that ended it. Guaranteed: the script is `__main__`, finds modules beside it, and sees its own
words; what it prints goes to standard error, so that standard output is the command's own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from types import CodeType, ModuleType, TracebackType

from tiny_core.errors import DataError


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a script ended.

    Args:
        code: its exit code.
        error: what it raised and did not catch; None for an end of its own, by `sys.exit` too.
        said: what it gave `sys.exit` instead of a code, to be printed.
    """

    code: int
    error: BaseException | None = None
    said: str = ""

    def show(self) -> None:
        """Print what Python prints at the end of such a script: its traceback, without the frames of this
        command."""
        if self.said:
            print(self.said, file=sys.stderr)
        error = self.error
        if error is not None:
            error.__traceback__ = _without_ours(error.__traceback__)
            sys.excepthook(type(error), error, error.__traceback__)


def run_script(path: str, words: Sequence[str]) -> Outcome:
    """Run a script to its end, with the threads that it waits for.

    Raises:
        DataError: there is no such file.
    """
    source = _read(path)
    module = ModuleType("__main__")
    module.__file__ = file = os.path.abspath(path)
    folder = os.path.dirname(file)
    kept = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv, sys.path[0:1], sys.modules["__main__"] = [path, *words], [folder], module
    try:
        with _output_aside():
            outcome = _execute(source, file, module)
            _wait_for_threads()
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = kept
    return outcome


def _read(path: str) -> bytes:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder", "name the script in it")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", _did_you_mean(path)) from None


def _did_you_mean(path: str) -> str:
    import difflib

    folder = os.path.dirname(path)
    try:
        names = [name for name in os.listdir(folder or ".") if name.endswith(".py")]
    except OSError:
        return f"there is no folder {folder}"
    close = difflib.get_close_matches(os.path.basename(path), names, n=1)
    return f"did you mean {os.path.join(folder, close[0])}?" if close else "name a Python file"


def _execute(source: bytes, file: str, module: ModuleType) -> Outcome:
    try:
        code: CodeType = compile(source, file, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return Outcome((end.code or 0) & 0xFF)
        return Outcome(1, None, str(end.code))
    except KeyboardInterrupt as error:
        return Outcome(130, error)
    except BaseException as error:
        return Outcome(1, error)
    return Outcome(0)


def _wait_for_threads() -> None:
    """Wait as Python does at its end: for all threads that are not daemons."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


@contextmanager
def _output_aside() -> Iterator[None]:
    """Within the block, what is written to standard output goes to standard error: by Python, by libraries
    and by child processes."""
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
    except (OSError, AttributeError, ValueError):  # replaced by something that is no file
        with redirect_stdout(sys.stderr):
            yield
        return
    sys.stdout.flush()
    kept = os.dup(out)
    os.dup2(err, out)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, out)
        os.close(kept)
