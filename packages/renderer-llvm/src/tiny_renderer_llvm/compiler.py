"""LLVMCompiler: the text of an LLVM module to what a loader takes, in this process, through llvmlite.

For CPUs that is LLVM's relocatable object, which core's loader relocates; for AMD GPUs the code object that
our linker makes of it.

LLVM's code generator runs at level 1 with position-independent code in the small code model, and no IR
passes run: on code of this kind they cost more than all the rest and give nothing, as the renderer already
writes SSA form. llvmlite holds one lock while it compiles, and LLVM ends the process if it cannot select an
instruction.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tiny_core.api import CompileError, Compiler, DeviceError, Resources
from tiny_renderer_llvm.elf import EM_AMDGPU, symbols

LEVEL: Final = 1
_REMEMBERED: Final = 64


class LLVMCompiler(Compiler):
    """Compiles modules for one processor.

    Args:
        triple: LLVM's name of the target.
        cpu: the processor.
        features: LLVM's feature string.

    Raises:
        DeviceError: llvmlite is not installed.
    """

    def __init__(self, triple: str, cpu: str, features: str) -> None:
        # llvmlite takes 70 ms to import: only a compilation does that, so that cached kernels start without
        self._version = _installed_version()
        self.triple, self.cpu, self.features = triple, cpu, features
        self._sources: OrderedDict[bytes, str] = OrderedDict()

    def compile(self, source: str, name: str) -> bytes:
        binary = self.relocatable(source)
        found = symbols(binary)
        if found.missing:
            raise CompileError(
                f"LLVM left {', '.join(sorted(found.missing))} undefined in {name}",
                "an op that needs a library function must be decomposed before it is rendered",
                source,
            )
        if name not in found.defined:
            raise CompileError(f"the compiled module does not define {name}", source=source)
        if found.machine == EM_AMDGPU:
            binary = _link(binary, name, source)
        self._sources[hashlib.sha256(binary).digest()] = source
        if len(self._sources) > _REMEMBERED:
            self._sources.popitem(last=False)
        return binary

    def relocatable(self, source: str) -> bytes:
        """Return the object that LLVM makes of a module; raises CompileError like `compile`."""
        binary = self._run(source, "emit_object")
        assert isinstance(binary, bytes)
        return binary

    def assembly(self, source: str) -> str:
        """Return the assembly text of a module; raises CompileError like `compile`."""
        text = self._run(source, "emit_assembly")
        assert isinstance(text, str)
        return text

    def _run(self, source: str, action: str) -> object:
        binding, machine, layout = self._toolkit
        try:
            module = binding.parse_assembly(source)
            module.triple, module.data_layout = self.triple, layout
            module.verify()
        except RuntimeError as e:
            raise CompileError(f"LLVM rejected the module: {e}", source=source) from None
        with module:
            result: object = getattr(machine, action)(module)
        return result

    @cached_property
    def _toolkit(self) -> tuple[ModuleType, Any, str]:
        """llvmlite's binding, a target machine, and its data layout."""
        try:
            from llvmlite import binding
        except ImportError as e:
            raise DeviceError(f"LLVM: llvmlite cannot be imported: {e}", "reinstall llvmlite") from None
        binding.initialize_all_targets()  # both may run again, and do nothing then
        binding.initialize_all_asmprinters()
        machine = binding.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=LEVEL, reloc="pic", codemodel="small"
        )
        return binding, machine, str(machine.target_data)

    def fingerprint(self) -> str:
        # a wheel of llvmlite carries its LLVM: its version stands for both
        return f"llvmlite {self._version} opt={LEVEL} pic small {self.triple} {self.cpu} {self.features}"

    def disassemble(self, binary: bytes) -> str:
        # llvmlite has no disassembler; LLVM's own assembly text of what was compiled lately is better than
        # one anyway
        source = self._sources.get(hashlib.sha256(binary).digest())
        return (
            self.assembly(source) if source is not None else _objdump(binary) or super().disassemble(binary)
        )

    def listing(self, binary: bytes, source: str) -> str:
        return self.assembly(source)

    def resources(self, binary: bytes, name: str) -> Resources | None:
        if not self.triple.startswith("amdgcn"):
            return None  # a CPU's object says nothing of registers
        from tiny_renderer_llvm import codeobject, occupancy

        return occupancy.resources(codeobject.read(binary).kernel(name))


def _link(binary: bytes, name: str, source: str) -> bytes:
    from tiny_renderer_llvm.link import link  # only grid targets need it

    try:
        return link([binary])
    except CompileError as error:
        raise CompileError(f"{name}: {error.message}", error.hint, source) from None


def _installed_version() -> str:
    """Return the version of llvmlite, found without importing it; raises DeviceError if it is not there."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise DeviceError("LLVM: llvmlite is not installed", "pip install llvmlite")
    folders = list(Path(spec.origin).parent.parent.glob("llvmlite-*.dist-info"))
    if len(folders) == 1:
        return folders[0].name.removeprefix("llvmlite-").removesuffix(".dist-info")
    from importlib.metadata import version  # slow to import, so only for unusual installations

    return version("llvmlite")


def _objdump(binary: bytes) -> str:
    """Return what the first disassembler on PATH makes of an object; "" if there is none or it does not
    know it."""
    for tool in ("llvm-objdump", "objdump"):
        path = shutil.which(tool)
        if path is None:
            continue
        with tempfile.NamedTemporaryFile(suffix=".o") as file:
            file.write(binary)
            file.flush()
            done = subprocess.run([path, "-d", file.name], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
    return ""
