"""What this wheel offers: one device, and the renderer for it.

The entry points in pyproject.toml name this module. It is data with import strings, so that loading it
imports nothing else: no toolkit, no driver, no numpy. `tiny plugins check .` measures that.
"""

from __future__ import annotations

from tiny_core.api import CheckSpec, CommandSpec, HintSpec, MockSpec, RendererSpec, RuntimeSpec, hookimpl


@hookimpl
def tiny_runtimes() -> tuple[RuntimeSpec, ...]:
    """The devices."""
    memory = ("memory", "megabytes of device memory, by default 256")
    return (RuntimeSpec("ACME", "acme_tiny.runtime:AcmeRuntime", renderers=("ACME",), options=(memory,)),)


@hookimpl
def tiny_renderers() -> tuple[RendererSpec, ...]:
    """The renderers."""
    return (RendererSpec("ACME", "acme_tiny.renderer:AcmeRenderer", archs=("k1",)),)


@hookimpl
def tiny_mock_interfaces() -> tuple[MockSpec, ...]:
    """DEV=MOCK+ACME: two boards, whose memory is full of rubbish when it is handed out."""
    return (MockSpec("ACME", "MOCK", "acme_tiny.mock:MockRuntime", archs=("k1",)),)


@hookimpl
def tiny_doctor_checks() -> tuple[CheckSpec, ...]:
    """A row of `tiny doctor`."""
    summary = "the assembler and the machine agree with numpy"
    return (CheckSpec("acme.machine", "ACME", summary, "acme_tiny.care:machine"),)


@hookimpl
def tiny_error_hints() -> tuple[HintSpec, ...]:
    """What we know of errors that core can only name."""
    return (HintSpec("ACME", "acme_tiny.care:hint"),)


@hookimpl
def tiny_commands() -> tuple[CommandSpec, ...]:
    """`tiny acme FILE`."""
    about = "assemble a program of the K1 and say what is in it"
    return (CommandSpec("acme", about, "acme_tiny.command:main"),)
