"""A compile worker: `python -m tiny_core.engine.worker`, started by `engine/pool.py`.

In: frames on standard input, one kernel each. Out: frames on standard output: `ready` once, then for each job
its source as soon as it is rendered (so that the parent has it if the compiler aborts the process) and a
result or an error. It ends when its input does. What anything else prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import BinaryIO, cast

from tiny_core.engine.build import Mode, build
from tiny_core.engine.codec import Json, compiled_to_parts, read_frame, write_frame
from tiny_core.errors import CompileError, DeviceError, TinyError
from tiny_core.ir.text import parse
from tiny_core.render.renderer import Arch, Renderer
from tiny_core.settings import Context

Options = tuple[tuple[str, str], ...] | None
Recipe = tuple[str, Arch, Options]


def make_renderer(reference: str, arch: Arch, options: Options) -> Renderer:
    """Return a renderer of the class `module:name`."""
    module, _, name = reference.partition(":")
    found: object = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, type) and issubclass(found, Renderer)
    # the second argument is agreed on by declaring options, as `plugins.opening.make_renderer` says
    return found(arch) if options is None else found(arch, dict(options))  # type: ignore[call-arg]


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer jobs until `source` ends."""
    renderers: dict[Recipe, Renderer] = {}
    write_frame(sink, {"ready": True})
    while (frame := read_frame(source)) is not None:
        header, (text,) = frame
        try:
            meta, parts = _work(header, text.decode(), renderers, sink)
            write_frame(sink, {"done": meta}, parts)
        except Exception as error:
            write_frame(sink, *_explain(error))


def _work(
    header: Json, text: str, renderers: dict[Recipe, Renderer], sink: BinaryIO
) -> tuple[Json, list[bytes]]:
    sys.path.extend(p for p in cast("list[str]", header["path"]) if p not in sys.path)
    name, features = cast("tuple[str, list[tuple[str, bool]]]", header["arch"])
    arch = Arch(name, tuple((f, bool(has)) for f, has in features))
    options = cast("list[tuple[str, str]] | None", header["options"])
    key = (str(header["renderer"]), arch, None if options is None else tuple((k, v) for k, v in options))
    renderer = renderers.get(key)
    if renderer is None:
        renderer = renderers[key] = make_renderer(*key)
    if renderer.fingerprint() != header["fingerprint"]:
        raise DeviceError(
            f"renderer {key[0]} is another one in the compile worker: {renderer.fingerprint()}, "
            f"not {header['fingerprint']}",
            "was the package changed while this program runs? restart it",
        )
    with Context(**cast("dict[str, int | str | float]", header["settings"])):
        compiled = build(
            parse(text),
            renderer,
            cast(Mode, header["mode"]),
            lambda rendered: write_frame(sink, {"rendered": True}, [rendered.encode()]),
        )
    return compiled_to_parts(compiled)


def _explain(error: Exception) -> tuple[Json, list[bytes]]:
    told: Json = {"error": type(error).__name__, "message": str(error), "hint": ""}
    if isinstance(error, TinyError):
        told.update(message=error.message, hint=error.hint)
    else:
        told["trace"] = traceback.format_exc()
    return told, [error.source.encode() if isinstance(error, CompileError) else b""]


def main() -> None:
    """Serve the parent over the standard streams, kept apart from what libraries may print."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    try:
        serve(source, sink)
    except BrokenPipeError:
        os._exit(1)  # the parent is gone, and so is whoever would read a traceback


if __name__ == "__main__":
    main()
