"""The example of a third party's backend, found by its entry points and used through the plugin host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tiny_core import Device
from tiny_core.api import Compiled, Ops, UOp, dtypes, payload
from tiny_core.cli.main import main
from tiny_core.codegen.pipeline import generate
from tiny_core.plugins import catalog, select
from tiny_core.plugins.manifest import Manifest
from tiny_core.plugins.specs import RendererSpec, RuntimeSpec
from tiny_core.plugins.target import Target
from tiny_core.settings import Context

Array = npt.NDArray[np.float32]
EXAMPLE = Path(__file__).parents[4] / "examples" / "third_party_backend"
pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="tests run outside the repository")


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the example as pip does in editable mode: its metadata, and its source folder on the path."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "acme_tiny-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in points]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    catalog.reset()
    yield
    Device.close("ACME")
    catalog.reset()
    for module in [m for m in sys.modules if m.split(".")[0] == "acme_tiny"]:
        del sys.modules[module]


def test_dev_selects_it_and_opens_it() -> None:
    with Context(DEV="acme:acme:k1,memory=2"):
        name = select.default_device()
        runtime, renderer = select.open_device(name)
    assert name == "ACME"
    assert type(runtime).__name__ == "AcmeRuntime"
    assert runtime.options == {"memory": "2"}
    assert renderer is not None
    assert renderer.arch.name == "k1"
    assert renderer.capabilities.space("local") is not None


def test_its_specs_are_what_its_manifest_says() -> None:
    selection = select.select(Target.parse("ACME"))
    entry = catalog.catalog().find("runtime", "ACME")
    assert entry is not None
    described = entry.plugin.manifest
    assert isinstance(described, Manifest)
    assert described.notes == ()
    for spec in (selection.runtime, selection.renderer):
        kind = "runtime" if isinstance(spec, RuntimeSpec) else "renderer"
        offer = described.offer(kind, "ACME")  # type: ignore[arg-type]  # one of the two kinds
        assert offer is not None
        assert spec is not None
        assert offer.options == spec.options
        if isinstance(spec, RendererSpec):
            assert offer.archs == spec.archs


def test_it_is_never_chosen_unless_named() -> None:
    assert "ACME" not in [e.token for e in select.chosen_devices()]


def test_doctor_finds_it_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "ACME", "--json"]) == 0
    (row,) = [r for r in json.loads(capsys.readouterr().out)["rows"] if r["kind"] == "runtime"]
    assert (row["mark"], row["text"]) == ("OK", "ACME, k1, acme-as 1")


def test_tensors_run_on_it(tmp_path: Path) -> None:
    code = (
        "import json; from tiny_core import Tensor; a = Tensor([[1., -2.], [3., 4.]]); "
        "print(json.dumps([a.device, (a + 1).tolist(), (a @ a).relu().tolist(), a.sum(1).tolist()]))"
    )
    path = os.pathsep.join([str(tmp_path), str(EXAMPLE / "src")])
    env = {**os.environ, "PYTHONPATH": path, "DEV": "ACME", "TINY_CACHE": "0"}
    env.pop("TINY_DEV", None)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        "ACME",
        [[2.0, -1.0], [4.0, 5.0]],
        [[0.0, 0.0], [15.0, 10.0]],
        [-1.0, 7.0],
    ]


# ---- kernels that core generates for it ------------------------------------------------------------------


def run(store: UOp, *inputs: Array, options: tuple[payload.Option, ...] | None = None) -> tuple[Array, str]:
    """Generate, render, assemble and run a kernel; returns what it stored, and its assembly."""
    runtime, renderer = select.open_device("ACME")
    assert renderer is not None
    made = generate(UOp.sink(store, info=payload.KernelInfo(options=options)), renderer)
    source = renderer.render(made.linear, made.signature)
    binary = renderer.compiler().compile(source, made.signature.name)
    program = runtime.load(Compiled(made.signature, binary, source))
    out = np.zeros(made.signature.params[0].size, np.float32)
    handles = tuple(runtime.allocate(a.nbytes) for a in (out, *inputs))
    for handle, array in zip(handles[1:], inputs, strict=True):
        runtime.copy_in(handle, array.data)
    grid = tuple(g for g in made.signature.grid if isinstance(g, int))
    runtime.launch(program, handles, (), grid)
    runtime.copy_out(out.data, handles[0])
    return out, source


def param(slot: int, size: int) -> UOp:
    return UOp.param(slot, dtypes.float32, size, "r" if slot else "w", align=16)


def test_an_elementwise_kernel_uses_its_own_instruction() -> None:
    a = np.linspace(-2, 2, 64, dtype=np.float32)
    i = UOp.range(64, "i")
    out, source = run(param(0, 64).store(i, param(1, 64).load(i).maximum(0.0) + 1.0), a)
    np.testing.assert_array_equal(out, np.maximum(a, 0) + np.float32(1))
    assert "relu.f32" in source


def test_a_reduction() -> None:
    a = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    i, j = UOp.range(16, "i"), UOp.range(64, "j", "reduce")
    out, _ = run(param(0, 16).store(i, param(1, 1024).load(i * 64 + j).reduce(Ops.ADD, j)), a)
    np.testing.assert_allclose(out, a.sum(1, dtype=np.float64), rtol=1e-5, atol=1e-5)


STAGED = (
    payload.Option("tile", "i1", 4),
    payload.Option("map", "i0", how="group"),
    payload.Option("map", "i1.1", how="vector"),
    payload.Option("order", axes=("i0", "i1.0", "r0", "i1.1")),
    payload.Option("stage", "i0", slot=1, axes=("r0",)),
)


@pytest.mark.parametrize("options", [None, STAGED], ids=["heuristic", "staged in scratch"])
def test_a_matmul(options: tuple[payload.Option, ...] | None) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((8, 32)).astype(np.float32), rng.standard_normal((32, 8)).astype(np.float32)
    i, j, k = UOp.range(8, "i"), UOp.range(8, "j"), UOp.range(32, "k", "reduce")
    product = (param(1, 256).load(i * 32 + k) * param(2, 256).load(k * 8 + j)).reduce(Ops.ADD, k)
    out, source = run(param(0, 64).store(i * 8 + j, product), a, b, options=options)
    want = (a.astype(np.float64) @ b).ravel()
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)
    assert options is None or (".scratch" in source and "mul.f32x4" in source)
