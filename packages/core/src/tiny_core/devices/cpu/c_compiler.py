"""The C compiler: C source to a relocatable object, by a compiler of the system."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tiny_core.api import Arch, Check, CompileError, Compiler, DeviceError, LaunchError
from tiny_core.devices.cpu import elf, host

# Floats: no contraction but where the source says fma; no flag that reorders, or that assumes away NaN,
# infinity or signed zeros. Nobody reads errno or the exception flags, so that instructions may stand for
# library functions. Freestanding, without builtins: loops do not become calls of memset or memcpy. Integers
# wrap; memory is untyped. Vectors of equal size convert: builtins of instructions name their operands `long
# long` or `char`, we `i64` and `i8`.
OPTIONS = (
    "-x", "c", "-std=gnu11", "-O2", "-c", "-w", "-fPIC", "-fvisibility=hidden",
    "-ffreestanding", "-fno-builtin", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
    "-fwrapv", "-fno-strict-aliasing", "-flax-vector-conversions", "-fno-common",
    "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
)  # fmt: skip
_GCC_ONLY = "-fno-tree-loop-distribute-patterns"
_OLDEST = {"gcc": 12, "clang": 14}
_HINT = "install gcc or clang, set CC, or use DEV=CPU:LLVM (pip install tiny-renderer-llvm)"


class CCompiler(Compiler):
    """Runs $CC, or the first of gcc, clang and cc on PATH.

    Args:
        arch: completed architecture to compile for.

    Raises:
        DeviceError: there is no compiler for this architecture.
    """

    def __init__(self, arch: Arch) -> None:
        self.machine = arch.name
        self.command = _command(arch.name, os.environ.get("CC", ""))
        self.version = _version(self.command)
        table = host.FEATURES[arch.name]
        self.options = [*OPTIONS, *(table[f].option for f, on in arch.features if on and table[f].option)]
        if "clang" not in self.version:
            self.options.append(_GCC_ONLY)
        if arch.name == "x86_64":
            self.options.append("-fcf-protection=none")

    def compile(self, source: str, name: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="tiny-") as folder:
            output = Path(folder, "kernel.o")
            ran = subprocess.run(
                [*self.command, *self.options, "-o", str(output), "-"],
                input=source, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if ran.returncode != 0 or not output.exists():
                message = ran.stderr.strip() or f"exit status {ran.returncode}"
                raise CompileError(f"{self.command[0]} rejected {name}:\n{message}", source=source)
            binary = output.read_bytes()
        try:
            missing = elf.parse(binary).undefined()
        except LaunchError as error:
            raise CompileError(
                f"{self.command[0]} gave no usable object: {error.message}", source=source
            ) from error
        if missing:
            raise CompileError(
                f"{name} needs {', '.join(missing)}, which no kernel may call",
                "the operation must be decomposed before rendering",
                source,
            )
        return binary

    def fingerprint(self) -> str:
        return f"{self.version} {' '.join(self.options)}"

    def disassemble(self, binary: bytes) -> str:
        objdump = shutil.which("objdump")
        if objdump is None:
            return super().disassemble(binary)
        with tempfile.NamedTemporaryFile(suffix=".o") as file:
            file.write(binary)
            file.flush()
            style = ["-M", "intel"] if self.machine == "x86_64" else []
            command = [objdump, "-d", "-r", "--no-show-raw-insn", *style, file.name]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            return super().disassemble(binary)
        return ran.stdout[max(ran.stdout.find("Disassembly"), 0) :].rstrip()  # what is before names the file


def _command(machine: str, chosen: str) -> tuple[str, ...]:
    """Return the command of a compiler for `machine`; `chosen` is the value of CC."""
    import platform

    if chosen:
        words = shlex.split(chosen)
        if shutil.which(words[0]) is None:
            raise DeviceError(f"CC={chosen!r}: there is no {words[0]}", _HINT)
        return tuple(words)
    native = machine == platform.machine()
    names = ("gcc", "clang", "cc") if native else (f"{machine}-linux-gnu-gcc", "clang")
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return (found,) if native or name != "clang" else (found, f"--target={machine}-linux-gnu")
    raise DeviceError(f"no C compiler for {machine} on PATH ({', '.join(names)})", _HINT)


@cache
def _version(command: tuple[str, ...]) -> str:
    try:
        ran = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DeviceError(f"{command[0]} --version failed: {error}", _HINT) from error
    first = ran.stdout.partition("\n")[0].strip()
    # `cc` says so in its first line on some systems and only further down on others
    return first if "clang" not in ran.stdout or "clang" in first else f"{first} (clang)"


def look(target: str) -> Iterator[Check]:
    """What `tiny doctor` says of the compiler: its version, and whether it is older than what is tested."""
    import platform

    version = _version(_command(platform.machine(), os.environ.get("CC", "")))
    number = re.search(r"(?:version | )(\d+)\.\d+", version)
    oldest = _OLDEST["clang" if "clang" in version else "gcc"]
    if number is not None and int(number[1]) < oldest:
        yield Check("WARN", f"{version} is older than {oldest}, the oldest that is tested", _HINT)
    else:
        yield Check("OK", version)
