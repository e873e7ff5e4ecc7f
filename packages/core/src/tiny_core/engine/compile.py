"""Kernels to programs: loaded before, compiled before (persistent cache), or compiled now, here or in
workers.

In: kernels (SINKs at the kernel stage) and a device. Out: for each a `Compiled`, or a `Program` that the
device has loaded. Equal kernels are compiled once. One kernel that fails does not keep the others from being
compiled and cached.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from tiny_core.engine.build import Mode, build
from tiny_core.engine.cache import kernel_cache
from tiny_core.engine.fingerprint import core_digest, package_digest
from tiny_core.errors import CompileError, DeviceError, TinyError
from tiny_core.ir import payload as p
from tiny_core.ir.ops import Ops
from tiny_core.ir.uop import UOp
from tiny_core.render.renderer import Compiled
from tiny_core.render.signature import Signature
from tiny_core.runtime.device import Device, OpenDevice, Program
from tiny_core.runtime.runtime import Runtime
from tiny_core.settings import WORKERS, codegen_key

_WORKER_START_SECONDS: Final = 0.2
"""Measured: a worker is up and has LLVM loaded after 0.15 to 0.25 s."""
_FIRST_GUESS_SECONDS: Final = 0.03
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - a thread that is not in this process may have held the old one
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@final
@dataclass(slots=True)
class CompileStats:
    """What compilation did in this process: kernels compiled here and by workers, and the seconds it took."""

    here: int = 0
    workers: int = 0
    seconds: float = 0.0
    per_kernel: float = _FIRST_GUESS_SECONDS


stats: Final = CompileStats()


def compile_kernels(kernels: Sequence[UOp], device: OpenDevice | str) -> list[Compiled]:
    """Compile kernels for a device.

    Args:
        kernels: SINKs at the kernel stage.
        device: an open device, or the name of one.

    Raises:
        TinyError: the first error, once all others are compiled. A CompileError carries the source of its
            kernel.
    """
    return [program.compiled for program in programs_for(kernels, device)]


def programs_for(kernels: Sequence[UOp], device: OpenDevice | str) -> list[Program]:
    """As `compile_kernels`, and remember the programs with the device, which loads each at its first
    launch."""
    device = Device[device] if isinstance(device, str) else device
    settings = codegen_key()
    found: dict[UOp, Program] = {}
    missing: list[UOp] = []
    for kernel in kernels:
        if kernel in found:
            continue
        program = device.program((kernel, settings))
        if program is None:
            missing.append(kernel)
        else:
            found[kernel] = program
    if missing:
        missing = list(dict.fromkeys(missing))
        for kernel, compiled in zip(missing, _compile(missing, device, settings), strict=True):
            found[kernel] = device.add_program((kernel, settings), compiled)
        _give_pool(device)
    return [found[kernel] for kernel in kernels]


def _compile(
    kernels: list[UOp], device: OpenDevice, settings: tuple[tuple[str, int | str | float], ...]
) -> list[Compiled]:
    """From the persistent cache, and the rest compiled."""
    from tiny_core.ir.text import format as to_text

    mode = mode_of(device)
    prefix = f"{target_key(device, mode)}\n{settings}\n".encode()
    texts = [to_text(kernel) for kernel in kernels]
    keys = [hashlib.sha256(prefix + text.encode()).hexdigest() for text in texts]
    with (
        _lock
    ):  # another thread may be compiling the same kernels: then they are in the cache when we get here
        done: dict[int, Compiled | TinyError] = {}
        for i, key in enumerate(keys):
            if (compiled := kernel_cache.get(key)) is not None:
                done[i] = compiled
        rest = [i for i in range(len(kernels)) if i not in done]
        if rest:
            _build_all(rest, kernels, texts, device, mode, settings, done)
            for i in rest:
                if isinstance(made := done[i], Compiled):
                    kernel_cache.put(keys[i], made)
    failures = [made for made in done.values() if isinstance(made, TinyError)]
    if failures:
        if len(failures) > 1:
            failures[0].add_note(f"{len(failures) - 1} more kernels failed to compile")
        from tiny_core.plugins.hints import advise

        raise advise(failures[0], device.name.partition(":")[0], device.renderer.name)
    return [made for i in range(len(kernels)) if isinstance(made := done[i], Compiled)]


def _give_pool(device: OpenDevice) -> None:
    """Compile the worker pool of a host device, once, with the renderer that compiles its first kernels."""
    runtime = device.runtime
    if device.pooled or type(runtime).host_pool is Runtime.host_pool:
        return
    with _lock:
        source = "" if device.pooled else device.renderer.host_pool()
        device.pooled = True
        if not source:
            return
        name = "tiny_pool_run"
        key = hashlib.sha256(f"{target_key(device, 'binary')}\n{name}\n{source}".encode()).hexdigest()
        compiled = kernel_cache.get(key)
        if compiled is None:
            binary = device.kit.compiler.compile(source, name)
            compiled = Compiled(Signature(name, ()), binary, source)
            kernel_cache.put(key, compiled)
        runtime.host_pool(compiled.binary)


def _build_all(
    numbers: list[int],
    kernels: list[UOp],
    texts: list[str],
    device: OpenDevice,
    mode: Mode,
    settings: tuple[tuple[str, int | str | float], ...],
    done: dict[int, Compiled | TinyError],
) -> None:
    start, started = time.perf_counter(), False
    workers = _workers([kernels[i] for i in numbers], device, mode)
    if workers:
        from tiny_core.engine.pool import Job, pool

        started = pool.alive < workers
        kit = device.kit
        mark = kit.renderer.fingerprint()
        jobs = [Job(texts[i], _name(kernels[i]), kit.recipe, mark, mode, settings) for i in numbers]
        done.update(zip(numbers, pool.run(jobs, workers), strict=True))
        stats.workers += len(numbers)
    else:
        for i in numbers:
            try:
                done[i] = build(kernels[i], device.renderer, mode)
            except TinyError as error:
                done[i] = error
            except Exception as error:  # a plugin's own mistake, said as a worker would say it
                what = f"{type(error).__name__}: {error}"
                failed = CompileError(f"compiling kernel {_name(kernels[i])} raised {what}", source=texts[i])
                failed.__cause__ = error
                done[i] = failed
        stats.here += len(numbers)
    spent = time.perf_counter() - start
    stats.seconds += spent
    if not started:  # else it would count the start of workers
        stats.per_kernel += 0.3 * (spent * max(workers, 1) / len(numbers) - stats.per_kernel)


def _workers(kernels: Sequence[UOp], device: OpenDevice, mode: Mode) -> int:
    """How many workers should compile `kernels`; 0 for this process.

    A compiler for another machine may abort the process (LLVM does when it cannot select an instruction), so
    it always runs in a worker. For the host, where every op was declared from probed features, it is a matter
    of time.
    """
    asked, count = WORKERS.value, len(kernels)
    if asked == 0 or not _has_name(device) or any(map(_has_target_ops, kernels)):
        return 0
    most = min(count, asked if asked > 0 else _cores())
    if asked > 0 or not (mode != "binary" or _is_host(device)):
        return most
    from tiny_core.engine.pool import pool

    here = count * stats.per_kernel
    there = -(-count // most) * stats.per_kernel + (_WORKER_START_SECONDS if pool.alive < most else 0)
    return most if there < here else 0


def _is_host(device: OpenDevice) -> bool:
    return device.renderer.capabilities.launch == "threads" and device.runtime.capabilities.host_visible


def _has_name(device: OpenDevice) -> bool:
    """Whether another process can find the renderer's class."""
    make = device.kit.recipe.make
    return not make.startswith("__main__:") and "<" not in make


def _has_target_ops(kernel: UOp) -> bool:
    """Whether the kernel has operations whose descriptors only this process has."""
    return any(node.op is Ops.TARGET for node in kernel.toposort())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _name(kernel: UOp) -> str:
    return kernel.arg.name if isinstance(kernel.arg, p.KernelInfo) else "kernel"


def mode_of(device: OpenDevice) -> Mode:
    """Return what `Compiled.binary` is for a device."""
    if device.runtime.capabilities.interprets:
        return "text"
    if not device.runtime.capabilities.stores:  # nothing will run, so a missing toolkit is no obstacle
        try:
            device.kit.compiler.fingerprint()
        except DeviceError:
            return "source"
    return "binary"


def target_key(device: OpenDevice, mode: Mode) -> str:
    """Return what, besides kernel and settings, the binary depends on: target, versions, and compiler
    sources."""
    known = device.kit.target_keys.get(mode)
    if known is None:
        renderer = device.renderer
        parts = [mode, core_digest(), repr(renderer.arch), renderer.fingerprint()]
        parts.append(package_digest(type(renderer).__module__))
        if mode == "binary":
            parts += [device.kit.compiler.fingerprint(), package_digest(type(device.kit.compiler).__module__)]
        known = device.kit.target_keys[mode] = "\n".join(parts)
    return known
