"""Contestants: processes that do one round of work when told to.

In: the module of a benchmark, the name of one of its contestants, parameters. Out: a `Contestant` whose
`round` has the process do one round and returns the figure. Every contestant is a process of its own: it has
its thread pools, its caches and its environment for itself, both cores, and OPENBLAS_CORETYPE unset (some
machines set it, which slows numpy).

The process speaks lines of JSON: `ready` with notes once it is set up, then a figure for each line that it
reads.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

from tools.bench.measure import Round
from tools.bench.result import Json

THREADS: Final = 2
Params = Mapping[str, Json]


@dataclass(slots=True)
class Work:
    """What a contestant has set up.

    Args:
        round: does one round and returns its figure.
        notes: what else is worth telling, known once it is set up.
    """

    round: Round
    notes: dict[str, Json] = field(default_factory=dict)


Setup = Callable[[Params], Work]


class ContestantError(RuntimeError):
    """A contestant's process ended, or failed; its message is on standard error."""


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of contestants: this process's without what would favour or hinder one, two
    threads."""
    hidden: tuple[str, ...] = (
        "OPENBLAS_CORETYPE",
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
    )
    hidden += ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # what is installed, with its byte code
    env = {
        k: v for k, v in os.environ.items() if k not in hidden and not k.startswith("TINY_") and k != "DEV"
    }
    env |= {"OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": str(THREADS)}
    return env | {"DEV": os.environ.get("DEV", f"CPU:LLVM,threads={THREADS}")} | changes


def cores() -> list[int]:
    """Return the cores that contestants run on: as many as they have threads, where the system lets us
    choose."""
    return sorted(os.sched_getaffinity(0))[:THREADS] if hasattr(os, "sched_getaffinity") else []


@final
class Contestant:
    """A process, set up and waiting.

    Args:
        module: of the benchmark, under tools.bench; has a table `CONTESTANTS` of setups by name.
        name: which of them.
        params: what its setup is given.
        env: changes to the environment.

    Raises:
        ContestantError: it could not set itself up.
    """

    def __init__(
        self, module: str, name: str, params: Params | None = None, env: Mapping[str, str] | None = None
    ):
        self._who = f"{module}.{name}"
        command = [
            sys.executable,
            str(Path(__file__).parent),
            "--contestant",
            module,
            name,
            json.dumps(params or {}),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(**(env or {}))
        )
        notes = self._read()
        assert isinstance(notes, dict)
        self.notes: dict[str, Json] = notes

    def round(self) -> float:
        """Have it do one round; returns its figure. Raises ContestantError."""
        figure = self._ask("round")
        assert isinstance(figure, int | float)
        return float(figure)

    def close(self) -> None:
        """Let the process end."""
        if self._process.poll() is None:
            self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self.close()

    def _ask(self, line: str) -> Json:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ContestantError(f"{self._who} has ended with {self._process.wait()}") from None
        return self._read()

    def _read(self) -> Json:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ContestantError(f"{self._who} has ended with {self._process.wait()}")
        answer: Json = json.loads(line)
        return answer


def serve(module: str, name: str, params: str) -> None:
    """Be a contestant: set up, then do a round for every line on standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints, does it to standard error
    if cores():
        os.sched_setaffinity(0, cores())
    table: dict[str, Setup] = importlib.import_module(f"tools.bench.{module}").CONTESTANTS
    work = table[name](json.loads(params))
    print(json.dumps(work.notes), file=answers, flush=True)
    for _ in sys.stdin:
        print(json.dumps(work.round()), file=answers, flush=True)
