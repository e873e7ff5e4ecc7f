"""Mistakes end to end, on real devices: each is an exception of its own with a hint, raised where it was
made, and the next good operation works."""

# mypy: disable-error-code="arg-type,call-overload,operator,index,list-item"
# Mistakes made on purpose are not for the type checker to judge here.
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tiny_core import Context, Device, Tensor, dtypes
from tiny_core.devices.cpu.c import CRenderer
from tiny_core.errors import (
    CompileError,
    DataError,
    DeviceError,
    DTypeError,
    LaunchError,
    RenderError,
    SettingError,
    ShapeError,
    TargetError,
    TinyError,
)
from tiny_core.render.renderer import Arch, Compiler

from .conftest import Install
from .engine_fakes import FakeCompiler, FakeRuntime


@pytest.fixture(autouse=True)
def still_works() -> Iterator[None]:
    """After each mistake, a good operation gives what it should."""
    kept = Tensor([1.0, 2.0])
    lazy = kept * 3
    yield
    assert (kept + lazy).tolist() == [4.0, 8.0]


def _compute() -> object:
    return (Tensor([1.0, 2.0]) + 1).tolist()


# ---- devices, renderers, targets ---------------------------------------------------------------------------

TARGETS = [
    ("CPUU", DeviceError, "there is no device CPUU", "CPU"),
    ("CPU:LVM", TargetError, "CPU cannot run what LVM renders", "LLVM"),
    ("PYTHON:NONSENSE", TargetError, "unknown renderer NONSENSE", ""),
    ("NULL:C:sparc", TargetError, "C does not know the architecture sparc", "x86_64"),
    ("MOCK+CPU", TargetError, "CPU has no interface MOCK", "write CPU alone"),
    ("PYTHON,color=red", TargetError, "PYTHON has no option 'color'", "options: "),
    ("PYTHON,check=2", TargetError, "check=2 of PYTHON is neither 0 nor 1", "check=0"),
    ("CPU,threads=many", TargetError, "threads=many of CPU is not a number", "threads=4"),
    ("DISK", DeviceError, "DISK needs a path", "DISK:/path/to/file"),
]


@pytest.mark.parametrize(("dev", "kind", "text", "hint"), TARGETS, ids=[t[0] for t in TARGETS])
def test_a_target_that_does_not_exist(dev: str, kind: type[TinyError], text: str, hint: str) -> None:
    with Context(DEV=dev), pytest.raises(kind, match=text) as raised:
        if dev.startswith("CPU,"):  # CPU is open: what its options say is seen when it is opened
            Device.close("CPU:77")
            Device["CPU:77"].close()
        else:
            _compute()
    assert raised.value.hint and hint in raised.value.hint


@pytest.mark.parametrize(
    ("dev", "at"),
    [("CPU LLVM", 3), ("CPU:", None), ("+CPU", 0), ("CPU,", 4), (";", 0), ("CPU:LLVM:x:y", 10), ("1CPU", 0),
     ("CPU:-1", 4), ("CPU,a=", 6), ("CPU;CPU", 4)],
)  # fmt: skip
def test_a_malformed_target_has_a_caret_under_the_mistake(dev: str, at: int | None) -> None:
    with Context(DEV=dev):
        if at is None:
            assert _compute() == [2.0, 3.0]  # an empty renderer is the preferred one
            return
        with pytest.raises(TargetError) as raised:
            _compute()
    lines = raised.value.message.splitlines()
    assert dev in lines[1] and lines[2].index("^") == 4 + at
    assert raised.value.hint


@pytest.mark.parametrize("name", ["CPUU", "CPU:x", "CPU:1:2", "CPU:LLVM", "", "1", 5, (), ("CPU", 1), "NUL"])
def test_a_device_is_unknown_at_the_line_that_names_it(name: object) -> None:
    makers: list[Callable[[], object]] = [
        lambda: Tensor([1.0], device=name),
        lambda: Tensor.zeros(2, device=name),
        lambda: Tensor.empty(2, device=name),
        lambda: Tensor.rand(2, device=name),
        lambda: Tensor([1.0]).to(name),
    ]
    for make in makers:
        with pytest.raises((DeviceError, TargetError)) as raised:
            make()
        assert raised.value.hint


def test_devices_do_not_mix() -> None:
    a, b = Tensor([1.0], device="PYTHON"), Tensor([2.0], device="PYTHON:1")
    with pytest.raises(DeviceError, match=r"add: tensors on PYTHON and PYTHON:1") as raised:
        a + b
    assert ".to('PYTHON')" in raised.value.hint
    assert (a + b.to("PYTHON")).tolist() == [3.0]


def test_a_runtime_that_does_not_open(install: Install) -> None:
    install("tiny-sad", "SAD", {"runtime.py": "class Device:\n    pass\n"})
    with Context(DEV="SAD"), pytest.raises(TinyError, match="SAD") as raised:
        _compute()
    assert raised.value.hint
    assert (Tensor([1.0], device="PYTHON") + 1).tolist() == [2.0]


def test_a_runtime_whose_constructor_raises(install: Install) -> None:
    runtime = (
        "from tiny_core.api import Runtime, RuntimeCapabilities\n"
        "class Device(Runtime):\n"
        "    capabilities = RuntimeCapabilities()\n"
        "    def __init__(self, index=0, iface='', options=None):\n"
        "        raise OSError('no such bus')\n"
        "    allocate = free = copy_in = copy_out = load = launch = None\n"
    )
    install("tiny-sad", "SAD", {"runtime.py": runtime})
    with (
        Context(DEV="SAD"),
        pytest.raises(DeviceError, match="SAD cannot be opened: OSError: no such bus") as raised,
    ):
        _compute()
    assert raised.value.hint == "tiny doctor SAD"


class _Plain(CRenderer):
    """Renders C that nothing compiles."""

    def compiler(self) -> Compiler:
        return FakeCompiler()


class _Refusing(_Plain):
    def render(self, linear: object, signature: object) -> str:
        raise RenderError("REFUSING renders nothing", "ask another one")


class _Breaking(_Plain):
    def render(self, linear: object, signature: object) -> str:
        raise ZeroDivisionError("inside a plugin")


def test_a_renderer_that_raises() -> None:
    Device.install("REFUSE", FakeRuntime(), _Refusing(Arch("x86_64")))
    x = Tensor([1.0], device="REFUSE")
    y = x + 1
    for _ in range(2):  # the failure leaves x and the graph as they were
        with Context(CACHE=0, WORKERS=0), pytest.raises(RenderError) as raised:
            y.realize()
        assert raised.value.hint
    assert x.tolist() == [1.0] and not y.is_realized


def test_a_renderer_that_breaks_keeps_its_own_exception() -> None:
    Device.install("BREAK", FakeRuntime(), _Breaking(Arch("x86_64")))
    x = Tensor([1.0], device="BREAK")
    with (
        Context(CACHE=0, WORKERS=0),
        pytest.raises(CompileError, match=r"raised ZeroDivisionError: inside a plugin") as raised,
    ):
        (x + 1).realize()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert "add" in raised.value.source, "the kernel"
    assert x.tolist() == [1.0]


class _Unloadable(FakeRuntime):
    """Loads no program."""

    def load(self, compiled: object) -> str:
        raise LaunchError("not a program of this device", "was it made for another one?")


def test_a_program_that_does_not_load_runs_no_assignment() -> None:
    Device.install("UNLOAD", _Unloadable(), _Plain(Arch("x86_64")))
    x = Tensor([1.0], device="UNLOAD")
    x.assign(x + 1)
    with Context(CACHE=0, WORKERS=0), pytest.raises(LaunchError):
        x.realize()
    assert not x.is_realized, "and it is still to be done"


def test_code_for_another_machine_is_refused_before_it_runs() -> None:
    code = "from tiny_core import Tensor; (Tensor([1.0]) + 1).tolist()"
    pytest.importorskip("tiny_renderer_llvm")
    for arch in ("gfx1100", "aarch64" if os.uname().machine == "x86_64" else "x86_64"):
        env = {**os.environ, "DEV": f"CPU:LLVM:{arch}", "TINY_CACHE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, "an exception, not a crash"
        assert "LaunchError" in done.stderr and "hint: DEV names an architecture" in done.stderr


@pytest.mark.parametrize(("name", "value"), [("DEBUG", "loud"), ("CHECK", "yes"), ("WORKERS", "1.5")])
def test_a_setting_that_does_not_parse(name: str, value: str) -> None:
    code = "from tiny_core import Tensor; (Tensor([1.0]) + 1).tolist()"
    env = {**os.environ, "DEV": "PYTHON", f"TINY_{name}": value, "TINY_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert f"SettingError: TINY_{name}={value!r} is not int" in done.stderr and "hint: " in done.stderr


def test_a_setting_that_does_not_exist() -> None:
    with pytest.raises(SettingError, match="unknown setting 'DEBUF'") as raised, Context(DEBUF=1):
        pass
    assert raised.value.hint == "did you mean DEBUG?"


# ---- shapes, at the line of the operation ------------------------------------------------------------------


def test_a_shape_mismatch_is_raised_at_the_line_of_the_operation(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "from tiny_core import Tensor\n"
        "a = Tensor.ones(2, 3)\n"
        "b = Tensor.ones(4)\n"
        "\n"
        "def model(x, y):\n"
        "    return (x * 2) + y\n"
        "\n"
        "c = model(a, b)\n"
        "print(c.tolist())\n"
    )
    env = {**os.environ, "DEV": "PYTHON"}
    done = subprocess.run(
        [sys.executable, script.name], env=env, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert 'mine.py", line 6, in model\n    return (x * 2) + y' in done.stderr
    assert "ShapeError: add: shapes (2, 3) and (4,) do not broadcast" in done.stderr
    assert "operands were made at mine.py:6, mine.py:3" in done.stderr


def test_a_failed_operation_leaves_its_operands_as_they_were() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([1.0, 2.0, 3.0])
    for wrong in (lambda: x.assign(y), lambda: x + y, lambda: x.__iadd__(y), lambda: x.__setitem__(0, y)):
        with pytest.raises(ShapeError):
            wrong()
    x += 1
    assert x.tolist() == [2.0, 3.0] and y.tolist() == [1.0, 2.0, 3.0]


# ---- dtypes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["floot32", "void", "", "float33", 5, float, np.float32, dtypes.void])
def test_an_unknown_dtype(dtype: object) -> None:
    makers: list[Callable[[], object]] = [
        lambda: Tensor([1.0], dtype=dtype),
        lambda: Tensor([1.0]).cast(dtype),
        lambda: Tensor.zeros(2, dtype=dtype),
        lambda: Tensor.arange(2, dtype=dtype),
        lambda: Tensor([1.0]).sum(dtype=dtype),
        lambda: Tensor([1.0]).bitcast(dtype),
    ]
    for make in makers:
        with pytest.raises(DTypeError) as raised:
            make()
        assert raised.value.hint


X = [[1.0, 2.0], [3.0, 4.0]]
NOT_TENSORS: list[tuple[str, Callable[[object], object]]] = [
    ("matmul", lambda v: Tensor(X).matmul(v)),
    ("linear", lambda v: Tensor(X).linear(v)),
    ("conv2d", lambda v: Tensor.ones(1, 1, 3, 3).conv2d(v)),
    ("conv2d", lambda v: Tensor.ones(1, 1, 3, 3).conv2d(Tensor.ones(1, 1, 2, 2), v)),
    ("cat", lambda v: Tensor(X).cat(v)),
    ("stack", lambda v: Tensor(X).stack(v)),
    ("gather", lambda v: Tensor(X).gather(0, v)),
    ("cross_entropy", lambda v: Tensor(X).cross_entropy(v)),
    ("gradient", lambda v: Tensor(X).sum().gradient(v)),
    ("gradient=", lambda v: Tensor(X).gradient(Tensor(X), gradient=v)),
    ("masked_fill", lambda v: Tensor(X).masked_fill(v, 0)),
    ("replace", lambda v: Tensor(X).replace(v)),
    ("realize", lambda v: Tensor(X).realize(v)),
    ("attention", lambda v: Tensor(X).scaled_dot_product_attention(v, Tensor(X))),
]


@pytest.mark.parametrize(
    ("what", "call"), NOT_TENSORS, ids=[f"{i}-{w}" for i, (w, _) in enumerate(NOT_TENSORS)]
)
def test_what_is_no_tensor_is_told_apart(what: str, call: Callable[[object], object]) -> None:
    for value in (3, 2.5, "a", [1.0], np.ones(2)):
        with pytest.raises(DTypeError, match=f"{what}: .* where a tensor is wanted") as raised:
            call(value)
        assert raised.value.hint


NOT_NUMBERS: list[Callable[[object], object]] = [
    lambda v: Tensor.full((2,), v),
    lambda v: Tensor([True]).where(v, 1),
    lambda v: Tensor([True]).where(1, v),
    lambda v: Tensor([1.0]).assign(v),
    lambda v: Tensor([1.0]).pow(v),
    lambda v: Tensor([1.0]).add(v),
    lambda v: Tensor([1.0]).mod(v),
    lambda v: Tensor([1.0]).maximum(v),
    lambda v: Tensor([1.0]).pad(((1, 1),), value=v),
    lambda v: Tensor([1.0]).dropout(v),
    Tensor.arange,
    lambda v: Tensor.linspace(0, v, 3),
]


@pytest.mark.parametrize("call", NOT_NUMBERS)
def test_what_is_no_number_is_told_apart(call: Callable[[object], object]) -> None:
    for value in ("a", None, 1j, [1.0], np.ones(2), object()):
        with pytest.raises(DTypeError) as raised:
            call(value)
        assert raised.value.hint


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", "**", "@", "<", "<=", ">", ">=", "&", "<<"])
def test_operators_leave_other_types_to_python(op: str) -> None:
    """What is no operand may know what to do with a tensor; if not, Python says so."""
    for value in ("None", "'a'", "1j", "{}"):
        with pytest.raises(TypeError):
            eval(f"Tensor([1]) {op} {value}")


NOT_INTEGERS: list[Callable[[object], object]] = [
    lambda v: Tensor(X).sum(v),
    lambda v: Tensor(X).reshape(v, 2),
    Tensor.zeros,
    lambda v: Tensor.rand(v, 2),
    lambda v: Tensor(X).permute(v, 0),
    lambda v: Tensor(X).expand(v, 2),
    lambda v: Tensor(X).unsqueeze(v),
    lambda v: Tensor(X).flip(v),
    lambda v: Tensor(X).transpose(v, 0),
    lambda v: Tensor(X).softmax(v),
    lambda v: Tensor(X).repeat(v, 1),
    lambda v: Tensor(X).chunk(v),
    lambda v: Tensor(X).shrink(((v, 2), None)),
    lambda v: Tensor(X)[v],
    lambda v: Tensor(X)[0, v],
    lambda v: Tensor([1]).one_hot(v),
    Tensor.manual_seed,
    lambda v: Tensor.randint(2, high=v),
    Tensor.eye,
    lambda v: Tensor.linspace(0, 1, v),
    lambda v: Tensor.ones(1, 1, 3, 3).max_pool2d(v),
]


@pytest.mark.parametrize("call", NOT_INTEGERS)
def test_what_is_no_integer_is_told_apart(call: Callable[[object], object]) -> None:
    for value in (1.0, "a", 1j, np.float32(1)):
        with pytest.raises((DTypeError, ShapeError)) as raised:
            call(value)
        assert raised.value.hint


def test_data_that_is_no_numbers() -> None:
    wrong = ["abc", {1: 2}, {1.0}, object(), range(3), iter([1]), np.array([None]), np.array([1j]),
             np.array(["a"]), np.array(["2020"], "M8[D]"), [1, "a"], [object()], 1j]  # fmt: skip
    for data in wrong:
        with pytest.raises(DTypeError) as raised:
            Tensor(data)
        assert raised.value.hint
    with pytest.raises(DTypeError, match="which int64 does not hold") as raised:
        Tensor([1, 1 << 63])
    assert Tensor([1 << 63], dtype="uint64").tolist() == [1 << 63] and "uint64" in raised.value.hint
    loop: list[object] = [0.0]
    loop[0] = loop
    for ragged in ([[1], 2], [1, [2]], [[1], [2, 3]], [np.ones(2), np.ones(2)], loop):
        with pytest.raises(ShapeError) as uneven:
            Tensor(ragged)
        assert uneven.value.hint


# ---- files: what state and datasets test in every way, here as a user meets it -----------------------------


def test_truncated_and_lying_files(tmp_path: Path) -> None:
    from tiny_core import nn

    model = nn.Linear(2, 3)
    before = model.weight.tolist()
    path = tmp_path / "weights.safetensors"
    nn.state.safe_save(nn.state.get_state_dict(model), path)
    whole = path.read_bytes()
    lying = whole.replace(b'"shape":[3,2]', b'"shape":[9,2]')
    assert lying != whole
    for content in (whole[:-1], whole[:12], b"", lying):
        path.write_bytes(content)
        with pytest.raises(
            DataError, match=r"weights\.safetensors is not a whole safetensors file"
        ) as raised:
            nn.state.load_state_dict(model, nn.state.safe_load(path))
        assert raised.value.hint and model.weight.tolist() == before
    path.write_bytes(whole)
    nn.state.load_state_dict(model, nn.state.safe_load(path))


def test_truncated_and_lying_idx(tmp_path: Path) -> None:
    from tiny_core.nn.datasets import fashion_mnist

    header = b"\0\0\x08\x03" + (60000).to_bytes(4, "big") + (28).to_bytes(4, "big") * 2
    for content in (b"", header, header + b"\0" * 100, b"not an IDX file"):
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                     "t10k-labels-idx1-ubyte"):  # fmt: skip
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError) as raised:
            fashion_mnist(tmp_path, download=False)
        assert raised.value.hint
