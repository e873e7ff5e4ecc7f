"""What compiler edges use: everything a renderer, a runtime or a kernel pack may import.

Re-exports only; each name is imported when it is first asked for, so that loading a plugin stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiny_core import dtypes as dtypes
    from tiny_core.codegen.pipeline import Generated as Generated
    from tiny_core.codegen.pipeline import generate as generate
    from tiny_core.dtypes import DType as DType
    from tiny_core.errors import CompileError as CompileError
    from tiny_core.errors import DataError as DataError
    from tiny_core.errors import DeviceError as DeviceError
    from tiny_core.errors import LaunchError as LaunchError
    from tiny_core.errors import OutOfMemory as OutOfMemory
    from tiny_core.errors import RaceError as RaceError
    from tiny_core.errors import RenderError as RenderError
    from tiny_core.errors import SpecError as SpecError
    from tiny_core.errors import TargetError as TargetError
    from tiny_core.errors import TinyError as TinyError
    from tiny_core.ir import payload as payload
    from tiny_core.ir import text as text
    from tiny_core.ir.matrix import Digit as Digit
    from tiny_core.ir.matrix import Fragment as Fragment
    from tiny_core.ir.matrix import MatrixUnit as MatrixUnit
    from tiny_core.ir.ops import ALU as ALU
    from tiny_core.ir.ops import ELEMENTWISE as ELEMENTWISE
    from tiny_core.ir.ops import Ops as Ops
    from tiny_core.ir.pattern import Pattern as Pattern
    from tiny_core.ir.pattern import Rule as Rule
    from tiny_core.ir.pattern import Rules as Rules
    from tiny_core.ir.pattern import const as const
    from tiny_core.ir.pattern import like as like
    from tiny_core.ir.pattern import op as op
    from tiny_core.ir.pattern import rule as rule
    from tiny_core.ir.pattern import scalar as scalar
    from tiny_core.ir.pattern import var as var
    from tiny_core.ir.rewrite import rewrite as rewrite
    from tiny_core.ir.spec import check as check
    from tiny_core.ir.uop import UOp as UOp
    from tiny_core.plugins.hooks import hookimpl as hookimpl
    from tiny_core.plugins.specs import Check as Check
    from tiny_core.plugins.specs import CheckSpec as CheckSpec
    from tiny_core.plugins.specs import CommandSpec as CommandSpec
    from tiny_core.plugins.specs import Fix as Fix
    from tiny_core.plugins.specs import HintSpec as HintSpec
    from tiny_core.plugins.specs import MockSpec as MockSpec
    from tiny_core.plugins.specs import RendererSpec as RendererSpec
    from tiny_core.plugins.specs import RuntimeSpec as RuntimeSpec
    from tiny_core.render.capabilities import GLOBAL as GLOBAL
    from tiny_core.render.capabilities import REGISTER as REGISTER
    from tiny_core.render.capabilities import AddressSpace as AddressSpace
    from tiny_core.render.capabilities import Capabilities as Capabilities
    from tiny_core.render.renderer import Arch as Arch
    from tiny_core.render.renderer import Compiled as Compiled
    from tiny_core.render.renderer import Compiler as Compiler
    from tiny_core.render.renderer import Renderer as Renderer
    from tiny_core.render.resources import Resources as Resources
    from tiny_core.render.signature import ParamSpec as ParamSpec
    from tiny_core.render.signature import ScalarSpec as ScalarSpec
    from tiny_core.render.signature import Signature as Signature
    from tiny_core.runtime import queue as queue
    from tiny_core.runtime.runtime import Handle as Handle
    from tiny_core.runtime.runtime import ProgramHandle as ProgramHandle
    from tiny_core.runtime.runtime import Runtime as Runtime
    from tiny_core.runtime.runtime import RuntimeCapabilities as RuntimeCapabilities

_WHERE = {
    "dtypes": "tiny_core.dtypes:", "DType": "tiny_core.dtypes", "payload": "tiny_core.ir.payload:",
    "text": "tiny_core.ir.text:", "queue": "tiny_core.runtime.queue:", "UOp": "tiny_core.ir.uop",
    **dict.fromkeys(("ALU", "ELEMENTWISE", "Ops"), "tiny_core.ir.ops"),
    **dict.fromkeys(("Pattern", "Rule", "Rules", "const", "like", "op", "rule", "scalar", "var"),
                    "tiny_core.ir.pattern"),
    "rewrite": "tiny_core.ir.rewrite",
    "check": "tiny_core.ir.spec", **dict.fromkeys(("Generated", "generate"), "tiny_core.codegen.pipeline"),
    "hookimpl": "tiny_core.plugins.hooks",
    **dict.fromkeys(
        ("Check", "CheckSpec", "CommandSpec", "Fix", "HintSpec", "MockSpec", "RendererSpec", "RuntimeSpec"),
        "tiny_core.plugins.specs",
    ),
    **dict.fromkeys(("GLOBAL", "REGISTER", "AddressSpace", "Capabilities"), "tiny_core.render.capabilities"),
    **dict.fromkeys(("Digit", "Fragment", "MatrixUnit"), "tiny_core.ir.matrix"),
    **dict.fromkeys(("Arch", "Compiled", "Compiler", "Renderer"), "tiny_core.render.renderer"),
    "Resources": "tiny_core.render.resources",
    **dict.fromkeys(("ParamSpec", "ScalarSpec", "Signature"), "tiny_core.render.signature"),
    **dict.fromkeys(
        ("Handle", "ProgramHandle", "Runtime", "RuntimeCapabilities"), "tiny_core.runtime.runtime"
    ),
    **dict.fromkeys(
        ("CompileError", "DataError", "DeviceError", "LaunchError", "OutOfMemory", "RaceError", "RenderError",
         "SpecError", "TargetError", "TinyError"),
        "tiny_core.errors",
    ),
}  # fmt: skip


def __getattr__(name: str) -> object:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    if where.endswith(":"):
        value: object = importlib.import_module(where[:-1])
    else:
        value = getattr(importlib.import_module(where), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_WHERE)
