"""How `tiny trace` says what it has found: the table, a kernel in detail, and records for JSON."""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from tiny_core.cli import output
from tiny_core.engine.report import count, duration, rates
from tiny_core.engine.tracing import Copies, Traced
from tiny_core.ir.text import format as to_text
from tiny_core.runtime.memory import human
from tiny_core.tensor.lines import Origin, Place

_MOST = 8
"""Lines of one kernel in a row of the table."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A kernel with its number in the trace."""

    number: int
    traced: Traced

    @property
    def options(self) -> list[str]:
        """The options that were applied, as text: `map(axis="i0", how="vector")`."""
        return re.findall(r"\w+\([^()]*\)", self.traced.made.compiled.detail)

    @property
    def lines(self) -> list[tuple[Origin, int]]:
        """Where the tensors that it serves come from, by file and line, and in how many launches."""
        found = [(cast(Origin, line), n) for line, n in self.traced.lines.items()]
        return sorted(
            found, key=lambda pair: (pair[0].place, pair[0].gradient is not None, str(pair[0].gradient))
        )

    @property
    def time(self) -> str:
        seconds = self.traced.seconds
        return "not run" if seconds is None else duration(seconds)

    @property
    def rates(self) -> str:
        """Operations and bytes a second, as TINY_DEBUG=2 prints them; "" on a device that runs nothing."""
        seconds = self.traced.seconds
        if seconds is None:
            return ""
        return " ".join(rates(self.traced.made.compiled, self.traced.launches, seconds).split())


def table(shown: Sequence[Shown]) -> list[str]:
    """A line for each kernel, and below it its options and lines."""
    if not shown:
        return []
    heads = ["#", "kernel", "device", "launches", "time", "flops", "bytes", "rates"]
    rows = []
    for kernel in shown:
        made, compiled = kernel.traced.made, kernel.traced.made.compiled
        work = [count(compiled.flops).rstrip(), human(compiled.bytes)]
        times = [str(kernel.traced.launches), kernel.time]
        rows.append([str(kernel.number), made.name, made.device, *times, *work, kernel.rates])
    first, *lines = output.plain(heads, rows).split("\n")
    out = [first]
    for kernel, line in zip(shown, lines, strict=True):
        out.append(line)
        out += [f"    {text}" for text in (" ".join(kernel.options), brief(kernel)) if text]
    return out


def summary(shown: Sequence[Shown], copies: Iterable[Copies]) -> str:
    """What it comes to."""
    times = [seconds for k in shown if (seconds := k.traced.seconds) is not None]
    number = nbytes = 0
    for kind in copies:
        number, nbytes = number + kind.count, nbytes + kind.nbytes
    copied = f"; {number} {'copy' if number == 1 else 'copies'}, {human(nbytes)}" if number else ""
    if not shown:
        return f"no kernels were launched{copied}"
    total = launches(sum(k.traced.launches for k in shown))
    kinds = f"{len(shown)} kernel{'s' if len(shown) > 1 else ''}"
    return f"{kinds}, {total}, {duration(sum(times)) if times else 'not run'}{copied}"


def launches(number: int) -> str:
    return f"{number} launch{'es' if number != 1 else ''}"


def brief(kernel: Shown) -> str:
    """The lines of a kernel in few words: `net.py:4, 7; at net.py:9 gradients of net.py:4`."""
    made: dict[str, list[Place]] = {}
    for origin, _ in kernel.lines:
        made.setdefault("" if origin.gradient is None else str(origin.gradient), []).append(origin.place)
    parts = []
    for asked, places in made.items():
        text = _places(places)
        parts.append(f"at {asked} gradients of {text}" if asked else text)
    return "; ".join(parts)


def _places(places: Sequence[Place]) -> str:
    """`a.py:1, 5, b.py:2`."""
    words, file = [], ""
    for place in places[:_MOST]:
        words.append(str(place.number) if place.file == file else str(place))
        file = place.file
    more = len(places) - _MOST
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def heading(kernel: Shown) -> str:
    """What stands above a kernel's text."""
    made, compiled = kernel.traced.made, kernel.traced.made.compiled
    work = f"{count(compiled.flops)}FLOP, {human(compiled.bytes)}"
    times = launches(kernel.traced.launches)
    parts = [f"# {kernel.number} {made.name} on {made.device}: {times}, {kernel.time}; {work}", kernel.rates]
    out = ["; ".join(part for part in parts if part)]
    return "\n".join(
        [*out, *(f"#   {t}" for t in (" ".join(kernel.options), takes(kernel), brief(kernel)) if t)]
    )


def takes(kernel: Shown) -> str:
    """What it takes of the machine; "" where that cannot be known."""
    found = kernel.traced.made.resources()
    return "" if found is None else str(found)


def details(kernel: Shown) -> str:
    """All that is known of a kernel, but for its text."""
    traced, compiled = kernel.traced, kernel.traced.made.compiled
    renderer = traced.made.kit.renderer
    each = f"{count(compiled.flops)}FLOP and {human(compiled.bytes)} a launch"
    if compiled.bytes:
        each += f", {compiled.flops / compiled.bytes:.3g} FLOP a byte"
    rows = [
        ("kernel", f"{kernel.number}, {traced.made.name}, id {identity(kernel)}"),
        ("device", f"{traced.made.device}, {renderer.name} for {renderer.arch.name or 'any machine'}"),
        ("launches", str(traced.launches)),
        ("time", ", ".join(part for part in (kernel.time, kernel.rates) if part)),
        ("work", each),
        ("takes", takes(kernel)),
        *_repeated("options", kernel.options or ["none"]),
        *_repeated("lines", [_line(origin, n) for origin, n in kernel.lines]),
    ]
    return "\n".join(f"{head:<9} {text}".rstrip() for head, text in rows if text)


def _repeated(head: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [("" if i else head, text) for i, text in enumerate(texts)]


def _line(origin: Origin, times: int) -> str:
    text = linecache.getline(origin.place.file, origin.place.number).strip()
    why = "" if origin.gradient is None else f", gradient asked for at {origin.gradient}"
    return f"{origin.place} ({launches(times)}{why})  {text}".rstrip()


def identity(kernel: Shown) -> str:
    """A name for a kernel and its target that is the same in every run."""
    made = kernel.traced.made
    renderer = made.kit.renderer
    text = f"{made.device}\n{renderer.name}\n{renderer.arch}\n{made.settings}\n{to_text(made.kernel)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def as_record(kernel: Shown, text: str | None) -> dict[str, object]:
    """What `--json` prints of a kernel."""
    traced, made = kernel.traced, kernel.traced.made
    compiled, seconds = made.compiled, traced.seconds
    found = made.resources()
    return {
        "number": kernel.number,
        "id": identity(kernel),
        "name": made.name,
        "device": made.device,
        "renderer": made.kit.renderer.name,
        "arch": made.kit.renderer.arch.name,
        "launches": traced.launches,
        "seconds": seconds,
        "flops": compiled.flops,
        "bytes": compiled.bytes,
        "gflops_per_second": _rate(compiled.flops * traced.launches, seconds),
        "gbytes_per_second": _rate(compiled.bytes * traced.launches, seconds),
        "options": kernel.options,
        "resources": None if found is None else {**asdict(found), "registers": dict(found.registers)},
        "lines": [
            {
                "file": origin.place.file,
                "line": origin.place.number,
                "text": linecache.getline(origin.place.file, origin.place.number).strip(),
                "gradient_at": _asked(origin.gradient),
                "launches": times,
            }
            for origin, times in kernel.lines
        ],
        "text": text,
    }


def _asked(place: Place | None) -> dict[str, object] | None:
    return None if place is None else {"file": place.file, "line": place.number}


def _rate(work: int, seconds: float | None) -> float | None:
    return None if not seconds else work * 1e-9 / seconds
