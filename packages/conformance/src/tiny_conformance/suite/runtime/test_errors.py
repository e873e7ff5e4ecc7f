"""Mistakes are typed errors with a message, and the device works afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from tiny_conformance.bare import Bare, each
from tiny_conformance.offers import python
from tiny_conformance.plugin import Warn
from tiny_conformance.target import Target
from tiny_core.api import (
    Compiled,
    CompileError,
    LaunchError,
    Ops,
    RenderError,
    Signature,
    TinyError,
    UOp,
    dtypes,
    generate,
    payload,
)

GARBAGE = b"\x00this is no program of anybody's\xff" * 4


def works(bare: Bare, target: Target) -> None:
    kernel = each(lambda x: x + 1, dtypes.int32, [dtypes.int32], 5)
    got = bare.run(kernel, dtypes.int32, 5, np.arange(5, dtype=np.int32))
    if target.stores:
        assert got is not None and got.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.needs("executes", "stores")
def test_a_program_that_is_none_is_refused(bare: Bare, target: Target) -> None:
    with pytest.raises(LaunchError):
        bare.runtime.load(Compiled(Signature("nothing", ()), GARBAGE))
    works(bare, target)


@pytest.mark.needs("executes")
def test_source_that_does_not_compile_is_an_error_with_a_message(bare: Bare, target: Target) -> None:
    if target.interprets:
        pytest.skip("nothing is compiled")
    with pytest.raises(TinyError) as caught:
        bare.renderer.compiler().compile("this is no language's source ]]", "kernel")
    assert isinstance(caught.value, CompileError) or not target.stores
    assert caught.value.message
    works(bare, target)


@pytest.mark.needs("executes")
def test_a_node_of_nobody_is_refused(bare: Bare, target: Target, warn: Warn) -> None:
    if target.interprets:
        pytest.skip("nothing is rendered")
    strange = payload.TargetOp("nobody.frobnicate", lambda sources: sources[0])
    kernel = each(
        lambda x: UOp(Ops.TARGET, dtypes.float32, (x,), strange), dtypes.float32, [dtypes.float32], 8
    )
    made = generate(kernel, bare.renderer)
    try:
        source = bare.renderer.render(made.linear, made.signature)
    except RenderError:
        pass
    else:
        with pytest.raises(CompileError):
            bare.renderer.compiler().compile(source, made.signature.name)
        warn("a node of another plugin is refused by the compiler only, not by the renderer")
    works(bare, target)


def test_names_that_mean_nothing_are_typed_errors(target: Target) -> None:
    # in a process of its own: a device that is open keeps its options
    code = (
        "import sys\n"
        "from tiny_core import Device, Tensor\n"
        "from tiny_core.errors import TinyError\n"
        "try:\n"
        "    Device[Device.DEFAULT].runtime; (Tensor([1.0]) + 1).realize()\n"
        "except TinyError as error:\n"
        "    print(type(error).__name__, error.message)\n"
    )
    for dev in (f"{target.device},no-such-option=1", f"{target.device}:NOSUCHRENDERER"):
        done = python("-c", code, TINY_DEV=dev)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip(), f"DEV={dev} is accepted"


@pytest.mark.needs("executes")
def test_signatures_say_what_kernels_take(bare: Bare) -> None:
    kernel = each(lambda x, y: x * y, dtypes.float32, [dtypes.float32] * 2, 40)
    signature = bare.load(kernel).compiled.signature
    assert [p.dtype for p in signature.params] == [dtypes.float32] * 3
    assert [p.access for p in signature.params] == ["w", "r", "r"]
    assert all(p.size == 40 for p in signature.params)
