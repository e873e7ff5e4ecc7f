"""What LLVM makes of kernels: architectures, IR, assembly, and code objects.

`tiny-llvm`, and `tiny llvm`, which is the same. Exit code 0, 1 for a failure, 2 for wrong usage or a target
that does not exist.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tiny_core.api import Arch, DataError, TargetError, TinyError

_STAGES = {"ir": "source", "asm": "asm"}


def script() -> int:
    """Run `tiny-llvm` with the words of the process; errors are printed with their hints."""
    try:
        return main(sys.argv[1:])
    except TinyError as error:
        print(f"tiny-llvm: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return 2 if isinstance(error, TargetError) else 1
    except BrokenPipeError:  # `tiny-llvm … | head`
        sys.stderr.close()
        return 1


def main(argv: Sequence[str]) -> int:
    """Run the command with these words and return the exit code; raises TinyError for what goes wrong."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="tiny-llvm", description=about, epilog=more.partition("Exit")[0])
    actions = parser.add_subparsers(dest="action", required=True, metavar="targets|ir|asm|object")
    targets = actions.add_parser("targets", help="architectures, and the features of this machine")
    targets.add_argument("--json", action="store_true", help="print JSON")
    for action, what in (("ir", "LLVM IR"), ("asm", "assembly")):
        one = actions.add_parser(
            action, help=f"print the {what} of a kernel, or of all that a script launches"
        )
        takes = "a kernel in text form (- for standard input), or a script (.py), whose words follow after --"
        one.add_argument("file", help=takes)
        one.add_argument(
            "--target", default="", help="architecture[,feature|,-feature]…; default: the host's"
        )
        one.add_argument("--kernel", metavar="N", help="of a script: this kernel only, by number")
    thing = actions.add_parser("object", help="show a code object: kernels, registers, segments, symbols")
    thing.add_argument("file", help="an AMDGPU ELF file; - for standard input")
    thing.add_argument("--json", action="store_true", help="print JSON, with every field")
    end = argv.index("--") if "--" in argv else len(argv)
    try:
        arguments = parser.parse_args(list(argv[:end]))
    except SystemExit as stop:  # argparse has printed what is wrong, or the help that was asked for
        return stop.code if isinstance(stop.code, int) else 2
    match arguments.action:
        case "targets":
            return _targets(arguments.json)
        case "object":
            return _object(arguments.file, arguments.json)
    if arguments.file.endswith(".py"):
        words = [arguments.file, *(["--kernel", arguments.kernel] if arguments.kernel else []), *argv[end:]]
        return _script(arguments.action, words, arguments.target)
    if arguments.kernel is not None:
        raise DataError("--kernel chooses among the kernels of a script", "a text file holds one kernel")
    return _kernel(arguments.action, arguments.file, arguments.target)


# ---- targets -----------------------------------------------------------------------------------------------


def _targets(as_json: bool) -> int:
    from tiny_renderer_llvm import features
    from tiny_renderer_llvm.architectures import ARCHITECTURES
    from tiny_renderer_llvm.show import table

    host = features.host_arch()
    have = sorted(features.host_features(host))
    if as_json:
        gpus = [
            {
                "name": a.name, "waves": list(a.waves), "lds": a.lds, "vgprs": a.vgprs, "sgprs": a.sgprs,
                "accumulators": a.accumulators, "max_waves": a.max_waves, "simds": a.simds,
                "max_items": a.max_items, "matrices": [m.name for m in a.matrices],
            }
            for a in ARCHITECTURES.values()
        ]  # fmt: skip
        cpus = [{"name": n, "features": sorted(f)} for n, f in features.BASELINES.items()]
        print(json.dumps({"host": {"name": host, "features": have}, "cpus": cpus, "gpus": gpus}, indent=2))
        return 0
    print(f"this machine: {host}\n  {' '.join(have)}\n")
    rows = [["CPU", "features by default"], *([n, " ".join(f)] for n, f in features.BASELINES.items())]
    print("\n".join(table(rows)), "\n")
    head = ["GPU", "waves", "LDS", "vector registers", "scalar", "waves of a SIMD", "matrix units"]
    rows = [head]
    for a in ARCHITECTURES.values():
        waves = ", ".join(map(str, a.waves))
        vectors = f"{a.vgprs}{' with accumulation' if a.accumulators else ''}"
        numbers = [vectors, str(a.sgprs), str(a.max_waves), str(len(a.matrices))]
        rows.append([a.name, waves, f"{a.lds >> 10} KiB", *numbers])
    print("\n".join(table(rows)))
    return 0


# ---- kernels -----------------------------------------------------------------------------------------------


def _kernel(action: str, file: str, target: str) -> int:
    from tiny_renderer_llvm import kernels
    from tiny_renderer_llvm.renderer import LLVMRenderer

    renderer = LLVMRenderer(parse_arch(target))
    linear, signature = kernels.read(_read(file).decode("utf-8", "replace"), renderer)
    source = renderer.render(linear, signature)
    print(source if action == "ir" else renderer.compiler().assembly(source))
    return 0


def _script(action: str, words: Sequence[str], target: str) -> int:
    """Let core trace the script on a device that compiles for the target and runs nothing: LLVM may end the
    process of a compilation, so it is not this one."""
    parse_arch(target)
    name, _, features = target.partition(",")
    dev = f"NULL:LLVM{':' + name if name else ''}{',' + features if features else ''}"
    command = [sys.executable, "-m", "tiny_core.cli.main", "trace", "--stage", _STAGES[action], *words]
    return subprocess.run(command, env={**os.environ, "DEV": dev}, check=False).returncode


def parse_arch(text: str) -> Arch:
    """Return the architecture that `gfx1100`, or `x86_64_v3,-avx2`, names; "" is the host's."""
    name, *features = text.split(",")
    return Arch(name, tuple((f.removeprefix("-"), not f.startswith("-")) for f in features))


# ---- objects -----------------------------------------------------------------------------------------------


def _object(file: str, as_json: bool) -> int:
    from tiny_renderer_llvm import codeobject, show

    found = codeobject.read(_read(file))
    print(json.dumps(show.as_json(found), indent=2) if as_json else show.as_text(found))
    return 0


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None
