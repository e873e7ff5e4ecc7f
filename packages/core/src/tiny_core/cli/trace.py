"""Run a script and show every kernel that it launches, at the stage asked for.

What the script prints goes to standard error, so that standard output holds the trace alone; a script that
fails is traced up to there. The exit code is the script's. docs/trace.md describes the output, `--json`
included.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tiny_core.cli import output
from tiny_core.cli.script import Outcome, run_script
from tiny_core.cli.trace_text import Shown, as_record, details, heading, summary, table
from tiny_core.errors import TraceError

if TYPE_CHECKING:
    from tiny_core.engine.tracing import Trace

TAKES_WORDS: Final = True
"""Words after `--` are the script's."""
STAGES: Final = ("schedule", "kernel", "linear", "source", "asm")
VERSION: Final = 1
"""Of the JSON object: changes when a field goes or changes its meaning, not when one is added."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", help="a Python file; words for it follow after `--`")
    parser.add_argument("--stage", choices=STAGES, help="print kernels as they are at this stage")
    parser.add_argument("--kernel", type=int, metavar="N", help="only kernel number N of the table")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the script, print its trace; returns its exit code."""
    from tiny_core.engine.tracing import Trace, tracing
    from tiny_core.tensor.lines import notes, origins

    trace, process = Trace(origins), os.getpid()
    with notes.taken(), tracing(trace):
        outcome = run_script(arguments.script, arguments.words)
    if os.getpid() != process:  # a child that came back: the trace is its parent's
        outcome.show()
        return outcome.code
    try:
        _print(trace, arguments, outcome)
    except TraceError as error:
        if outcome.code == 0:
            raise
        print(f"tiny: {error}", file=sys.stderr)  # what the script says is more important
    sys.stdout.flush()
    outcome.show()
    return outcome.code


def _print(trace: Trace, arguments: argparse.Namespace, outcome: Outcome) -> None:
    shown = [Shown(number, kernel) for number, kernel in enumerate(trace.kernels, 1)]
    if arguments.kernel is not None:
        shown = [_chosen(shown, arguments.kernel)]
    texts, missing = _texts(shown, arguments.stage)
    if arguments.json:
        output.as_json(
            {
                "version": VERSION,
                "script": arguments.script,
                "exit_code": outcome.code,
                "stage": arguments.stage,
                "kernels": [as_record(kernel, text) for kernel, text in zip(shown, texts, strict=True)],
                "copies": [
                    {"from": a, "to": b, "count": c.count, "bytes": c.nbytes, "seconds": c.seconds}
                    for (a, b), c in trace.copies.items()
                ],
            }
        )
    elif arguments.stage is not None and shown:
        parts = [
            f"{heading(kernel)}\n{text if text is not None else missing[kernel.number]}"
            for kernel, text in zip(shown, texts, strict=True)
        ]
        output.text("\n\n".join(parts))
    elif arguments.kernel is not None:
        output.text(details(shown[0]))
    else:
        output.text("\n".join([*table(shown), summary(shown, trace.copies.values())]))


def _chosen(shown: Sequence[Shown], number: int) -> Shown:
    if not 1 <= number <= len(shown):
        count = len(shown)
        there = (
            "the script launched none"
            if not count
            else "there is one"
            if count == 1
            else f"there are {count}"
        )
        raise TraceError(
            f"no kernel {number}: {there}", "`tiny trace SCRIPT.py` lists them with their numbers"
        )
    return shown[number - 1]


def _texts(shown: Sequence[Shown], stage: str | None) -> tuple[list[str | None], dict[int, str]]:
    """The text of each kernel at a stage; None where there is none, and why. Raises TraceError if no kernel
    has this stage."""
    if stage is None:
        return [None] * len(shown), {}
    texts: list[str | None] = []
    missing: dict[int, TraceError] = {}
    for kernel in shown:
        try:
            texts.append(_at(kernel, stage)())
        except TraceError as error:
            missing[kernel.number] = error
            texts.append(None)
    if missing and len(missing) == len(shown):
        raise next(iter(missing.values()))
    return texts, {number: f"({error.message})" for number, error in missing.items()}


def _at(kernel: Shown, stage: str) -> Callable[[], str]:
    from tiny_core.engine import describe

    known = {name: name for name in describe.STAGES}
    if stage in known:
        return lambda: kernel.traced.made.at(known[stage])
    return lambda: kernel.traced.schedule
