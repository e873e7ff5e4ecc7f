"""What the wheel declares: entry points, manifest and loaded specs say the same."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from importlib.resources import files

from tiny_core.api import Renderer
from tiny_renderer_llvm.plugin import tiny_renderers


def test_entry_points() -> None:
    points = {(e.group, e.name): e.value for e in distribution("tiny-renderer-llvm").entry_points}
    assert points == {
        ("console_scripts", "tiny-llvm"): "tiny_renderer_llvm.command:script",
        ("tiny.commands", "llvm"): "tiny_renderer_llvm.command:main",
        ("tiny.renderers", "LLVM"): "tiny_renderer_llvm.plugin",
        ("tiny.manifest", "llvm"): "tiny_renderer_llvm:plugin.toml",
    }


def test_manifest_and_specs_agree() -> None:
    from tiny_renderer_llvm.renderer import ARCHS

    manifest = tomllib.loads(files("tiny_renderer_llvm").joinpath("plugin.toml").read_text())
    (spec,), (row,) = tiny_renderers(), manifest["renderer"]
    assert manifest["manifest"] == 1
    assert (row["name"], tuple(row["archs"])) == (spec.name, spec.archs)
    assert spec.archs == ARCHS
    assert row["options"] == dict(spec.options)
    assert manifest["api"] == {"renderer": ".".join(map(str, spec.api)), "ir": ".".join(map(str, spec.ir))}


def test_the_spec_names_a_renderer() -> None:
    module, _, name = tiny_renderers()[0].make.partition(":")
    found = getattr(__import__(module, fromlist=[name]), name)
    assert issubclass(found, Renderer) and found.name == "LLVM"


def test_core_finds_it() -> None:
    from tiny_core.plugins.manifest import Manifest, read

    manifest = read("tiny_renderer_llvm:plugin.toml")
    assert isinstance(manifest, Manifest), manifest
    offer = manifest.offer("renderer", "LLVM")
    assert offer is not None and not manifest.notes


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = "import tiny_renderer_llvm.plugin as p, sys; p.tiny_renderers(); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"llvmlite", "numpy", "pluggy", "tiny_renderer_llvm.renderer"})


def test_the_pool_of_workers_has_no_undefined_symbol() -> None:
    from tiny_core.api import Arch
    from tiny_renderer_llvm.elf import symbols
    from tiny_renderer_llvm.renderer import LLVMRenderer

    for arch in ("x86_64", "aarch64"):
        renderer = LLVMRenderer(Arch(arch))
        binary = renderer.compiler().compile(renderer.host_pool(), "tiny_pool_run")
        assert {"tiny_pool_worker", "tiny_pool_copy"} <= symbols(binary).defined
    assert LLVMRenderer(Arch("gfx942")).host_pool() == ""
