"""Weights by name: found in objects, saved as safetensors, mapped back lazily, loaded into models."""

from __future__ import annotations

import json
import os
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from tiny_core import Device, GlobalCounters, Tensor, dtypes, nn
from tiny_core.errors import DataError, DeviceError, DTypeError, ShapeError
from tiny_core.nn.state import (
    get_parameters,
    get_state_dict,
    load_state_dict,
    safe_load,
    safe_load_metadata,
    safe_save,
)

from ..oracle import Engine
from .tensor_checks import rng


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The CPU as the default device."""
    monkeypatch.setattr(Device, "_default", "CPU")
    yield


# ---- names -------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("unset", "w")

    def __init__(self, w: Tensor) -> None:
        self.w = w


class Derived(Slotted):
    def __init__(self, w: Tensor, extra: Tensor) -> None:
        super().__init__(w)
        self.extra = extra


@dataclass
class Data:
    first: Tensor
    rest: tuple[Tensor, ...]
    rate: float = 0.1


Pair = namedtuple("Pair", ["left", "right"])


def test_names_are_paths(oracle: Engine) -> None:
    t = [Tensor([float(i)]) for i in range(8)]
    model = {
        "data": Data(t[0], (t[1], t[2])),
        "slots": Derived(t[3], t[4]),
        "pair": Pair(left=t[5], right=None),
        "ordered": OrderedDict([(3, t[6])]),
        "nothing": ["text", 1, None, Tensor, dict, len],
        "deep": [[[t[7]]]],
    }
    found = get_state_dict(model, "model")
    assert list(found) == [
        "model.data.first", "model.data.rest.0", "model.data.rest.1", "model.slots.w", "model.slots.extra",
        "model.pair.left", "model.ordered.3", "model.deep.0.0.0",
    ]  # fmt: skip
    assert list(found.values()) == t


def test_a_tensor_shared_has_all_its_names_and_is_one_parameter(oracle: Engine) -> None:
    embedding = Tensor([1.0], requires_grad=True)
    model = {"inputs": embedding, "outputs": embedding, "fixed": Tensor([2.0])}
    assert list(get_state_dict(model)) == ["inputs", "outputs", "fixed"]
    assert get_parameters(model) == [embedding]


def test_objects_that_hold_each_other(oracle: Engine) -> None:
    first, second = {"w": Tensor([1.0])}, {"w": Tensor([2.0])}
    first["other"], second["other"] = second, first  # type: ignore[assignment]
    assert list(get_state_dict(first)) == ["w", "other.w"]


def test_a_captured_function_is_no_part_of_a_model(oracle: Engine) -> None:
    from tiny_core import jit

    class Model:
        def __init__(self) -> None:
            self.w = Tensor([1.0])
            self.step = jit(lambda: self.w + 1)

    assert list(get_state_dict(Model())) == ["w"]


def test_the_state_of_an_optimizer_can_be_saved(oracle: Engine, tmp_path: Path) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = nn.optim.Adam([w])
    w.grad = Tensor([0.5, 0.25])
    optimizer.step()
    safe_save(get_state_dict(optimizer), tmp_path / "adam")
    again = nn.optim.Adam([Tensor([0.0, 0.0], requires_grad=True)])
    with Loaded(tmp_path / "adam") as state:
        load_state_dict(again, state)
    for mine, theirs in zip(get_state_dict(again).values(), get_state_dict(optimizer).values(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


class Loaded:
    """The tensors of a file, read by the library's own reader, for tests without a device of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> dict[str, Tensor]:
        return {name: Tensor(a) for name, a in safetensors.numpy.load_file(self.path).items()}

    def __exit__(self, *_: object) -> None:
        pass


# ---- saving ------------------------------------------------------------------------------------------------

ARRAYS: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
    "bool": np.array([True, False, True]),
    **{
        name: np.array([[1, 2, 3], [4, 5, 250 if name.startswith("u") else -6]]).astype(name)
        for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
    },
    **{name: rng().standard_normal((3, 1, 5)).astype(name) for name in ("float16", "float32", "float64")},
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((3, 0), np.float32),
}


def test_what_is_saved_is_what_the_library_reads(tmp_path: Path) -> None:
    path = tmp_path / "all.safetensors"
    safe_save({name: Tensor(a) for name, a in ARRAYS.items()}, path, {"made": "by hand"})
    read = safetensors.numpy.load_file(path)
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape
        np.testing.assert_array_equal(read[name], array)
    assert safe_load_metadata(path).metadata == {"made": "by hand"}


def test_narrow_floats_are_saved(oracle: Engine, tmp_path: Path) -> None:
    values = [0.5, -2.0, 448.0]
    tensors = {
        d.name: Tensor(values).cast(d) for d in (dtypes.bfloat16, dtypes.float8_e4m3, dtypes.float8_e5m2)
    }
    safe_save(tensors, tmp_path / "narrow")
    header = safe_load_metadata(tmp_path / "narrow")
    content = (tmp_path / "narrow").read_bytes()
    for name, kind in (
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3", ml_dtypes.float8_e4m3fn),
        ("float8_e5m2", ml_dtypes.float8_e5m2),
    ):
        entry = header.tensors[name]
        assert entry.dtype.name == name and entry.shape == (3,)
        have = np.frombuffer(content, kind, 3, entry.offset)
        np.testing.assert_array_equal(have, np.array(values).astype(kind))
    with pytest.raises(DTypeError, match="odd is of float8_e4m3fnuz"):
        safe_save({"odd": Tensor(values).cast(dtypes.float8_e4m3fnuz)}, tmp_path / "x")


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights"
    safe_save({"w": Tensor([1.0])}, path)
    before = path.read_bytes()

    def half(tensors: object, name: str, metadata: object) -> None:
        Path(name).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.numpy, "save_file", half)
    with pytest.raises(KeyboardInterrupt):
        safe_save({"w": Tensor([2.0])}, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot write to"):
        safe_save({"w": Tensor([1.0])}, tmp_path / "file" / "weights")


# ---- mapping -----------------------------------------------------------------------------------------------


def test_a_file_is_mapped_and_copied_when_it_is_moved(tmp_path: Path) -> None:
    path = tmp_path / "all.safetensors"
    safetensors.numpy.save_file(ARRAYS, path)
    loaded = safe_load(path)
    assert loaded.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        tensor = loaded[name]
        assert (tensor.shape, tensor.device) == (array.shape, f"DISK:{path}")
        assert tensor.dtype.name == array.dtype.name
        np.testing.assert_array_equal(tensor.to("CPU").numpy(), array)
        np.testing.assert_array_equal(tensor.numpy(), array)
    moved = loaded["float32"].to("CPU")
    np.testing.assert_array_equal((moved + 1).numpy(), ARRAYS["float32"] + 1)


def odd_file(path: Path) -> None:
    """A file in which a float32 tensor begins at an odd place, which the format allows."""
    header = {
        "bytes": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "floats": {"dtype": "F32", "shape": [2, 2], "data_offsets": [3, 19]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"abc" + np.arange(4, dtype=np.float32).tobytes()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_offsets_need_no_alignment(tmp_path: Path) -> None:
    odd_file(tmp_path / "odd")
    loaded = safe_load(tmp_path / "odd")
    assert loaded["floats"].to("CPU").tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert loaded["bytes"].to("CPU").tolist() == [97, 98, 99]
    assert (loaded["floats"].to("CPU")[1] * 2).tolist() == [4.0, 6.0]


def test_nothing_is_read_before_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    safetensors.numpy.save_file({"w": np.zeros(1000, np.float32)}, path)
    tensor = safe_load(path)["w"]
    with open(path, "r+b") as file:  # in place: it is the same file
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(7).tobytes())
    assert tensor.to("CPU").tolist()[-1] == 7.0  # type: ignore[index]


def test_a_file_saved_again_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    safe_save({"w": Tensor([1.0, 2.0])}, path)
    old = safe_load(path)["w"]
    safe_save({"x": Tensor([9.0] * 5), "w": Tensor([3.0, 4.0, 5.0])}, path)
    new = safe_load(path)["w"]
    assert old.to("CPU").tolist() == [1.0, 2.0]
    assert new.to("CPU").tolist() == [3.0, 4.0, 5.0]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux")
def test_a_file_is_closed_with_the_last_tensor_of_it(tmp_path: Path) -> None:
    safe_save({"v": Tensor([1.0]), "w": Tensor([2.0])}, tmp_path / "weights")
    before = open_files()
    loaded = safe_load(tmp_path / "weights")
    assert open_files() > before
    w = loaded.pop("w")
    del loaded
    assert w.to("CPU").tolist() == [2.0]
    del w
    assert open_files() == before


def test_files_store_and_do_not_compute(tmp_path: Path) -> None:
    safe_save({"w": Tensor([1.0])}, tmp_path / "weights")
    w = safe_load(tmp_path / "weights")["w"]
    with pytest.raises(DeviceError, match="stores data and runs no kernels") as caught:
        (w + 1).realize()
    assert ".to(" in caught.value.hint
    with pytest.raises(DeviceError, match="tensors on"):
        w + Tensor([1.0])


# ---- files that are not what they should be ----------------------------------------------------------------


def whole() -> bytes:
    return safetensors.numpy.save({"a": np.arange(6, dtype=np.float32), "b": np.ones(3, np.uint8)})


def with_header(change: Callable[[dict[str, Any]], None]) -> bytes:
    """A file whose header says something else than it should."""
    content = whole()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def overlap(header: dict[str, Any]) -> None:
    begin, end = header["a"]["data_offsets"]
    header["b"]["data_offsets"] = [begin, begin + 3]
    header["a"]["data_offsets"] = [begin + 1, end + 1]


def test_a_file_is_truncated_at_any_place(tmp_path: Path) -> None:
    path, content = tmp_path / "cut", whole()
    path.write_bytes(content)
    assert list(safe_load(path)) == ["a", "b"]
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match="cut is not a whole safetensors file") as caught:
            safe_load(path)
        assert f"it has {size} bytes; it may be truncated" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        whole() + b"x",
        b"\xff" * 100,
        (10).to_bytes(8, "little") + b"not json!!",
        with_header(overlap),
        with_header(lambda h: h["a"].update(shape=[7])),
        with_header(lambda h: h["a"].update(shape=[-6])),
        with_header(lambda h: h["a"].update(data_offsets=[24, 0])),
        with_header(lambda h: h["b"].update(data_offsets=[24, 1 << 62])),
        with_header(lambda h: h["a"].update(dtype="F33")),
        with_header(lambda h: h["a"].pop("dtype")),
    ],
)
def test_a_file_is_corrupt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "corrupt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="corrupt is not a whole safetensors file"):
        safe_load(path)


def test_a_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="absent does not exist"):
        safe_load(tmp_path / "absent")
    with pytest.raises(DataError, match=r"cannot read|not a whole|does not exist"):
        safe_load(tmp_path)


def test_dtypes_that_are_not_ours(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"z": np.zeros(2, np.complex64)}, tmp_path / "complex")
    with pytest.raises(DataError, match="z is of C64"):
        safe_load(tmp_path / "complex")


# ---- loading into a model ----------------------------------------------------------------------------------


def test_a_network_is_saved_and_loaded_into_another(tmp_path: Path) -> None:
    def net() -> list[object]:
        return [nn.Conv2d(1, 2, 3), Tensor.relu, nn.BatchNorm2d(2), lambda x: x.flatten(1), nn.Linear(8, 2)]

    x = Tensor(rng().standard_normal((3, 1, 4, 4)).astype(np.float32))
    first, second = net(), net()
    with Tensor.train():
        x.sequential(first).realize()
    safe_save(get_state_dict(first), tmp_path / "net")
    loaded = load_state_dict(second, safe_load(tmp_path / "net"))
    assert len(loaded) == len(get_state_dict(second)) and all(t.is_realized for t in loaded)
    np.testing.assert_array_equal(x.sequential(second).numpy(), x.sequential(first).numpy())
    assert len(get_parameters(second)) == 6
    assert all(t.device == "CPU" for t in get_state_dict(second).values())


def test_who_holds_a_tensor_of_the_model_sees_what_was_loaded(oracle: Engine) -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    model, view = {"w": w}, w[1]
    load_state_dict(model, {"w": Tensor([3.0, 4.0])})
    assert model["w"] is w and w.is_param
    assert view.tolist() == 4.0


def test_floats_are_converted_to_what_the_model_has(oracle: Engine) -> None:
    model = {"w": Tensor([0.0, 0.0])}
    load_state_dict(model, {"w": Tensor(np.array([1.5, 2.5], np.float64))})
    assert model["w"].dtype is dtypes.float32 and model["w"].tolist() == [1.5, 2.5]


def test_names_must_be_those_of_the_model(oracle: Engine) -> None:
    model = {"weight": Tensor([1.0]), "bias": Tensor([2.0])}
    state = {"wieght": Tensor([3.0]), "bias": Tensor([4.0])}
    with pytest.raises(DataError, match="1 missing: weight; 1 not in the model: wieght") as caught:
        load_state_dict(model, state)
    assert "is wieght meant for weight?" in caught.value.hint and "strict=False" in caught.value.hint
    assert model["bias"].tolist() == [2.0]
    assert load_state_dict(model, state, strict=False) == [model["bias"]]
    assert (model["weight"].tolist(), model["bias"].tolist()) == ([1.0], [4.0])
    load_state_dict(model, {"net.weight": Tensor([5.0]), "net.bias": Tensor([6.0])}, prefix="net.")
    assert (model["weight"].tolist(), model["bias"].tolist()) == ([5.0], [6.0])


def test_many_names_are_shortened(oracle: Engine) -> None:
    with pytest.raises(DataError, match="12 missing: 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"):
        load_state_dict([Tensor([1.0]) for _ in range(12)], {})


def test_shapes_and_dtypes_must_fit_and_nothing_is_assigned_before(oracle: Engine) -> None:
    model = {"a": Tensor([1.0]), "b": Tensor([2.0]), "n": Tensor([3])}
    state = {"a": Tensor([9.0]), "b": Tensor([[9.0]]), "n": Tensor([9])}
    with pytest.raises(ShapeError, match=r"b: \[1, 1\] for \[1\]"):
        load_state_dict(model, state)
    with pytest.raises(DTypeError, match="n: float32 for int32"):
        load_state_dict(model, {**state, "b": Tensor([9.0]), "n": Tensor([9.0])})
    assert model["a"].tolist() == [1.0]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a mapped file cannot be truncated")
@pytest.mark.parametrize(
    "read",
    [lambda t: t.numpy(), lambda t: t.tolist(), lambda t: t.to("CPU").realize(), lambda t: t[-1].item()],
    ids=["numpy", "tolist", "to", "item"],
)
def test_a_file_that_is_truncated_after_it_was_loaded(
    read: Callable[[Tensor], object], tmp_path: Path
) -> None:
    """Touching pages that the file has lost would kill the process (SIGBUS)."""
    path = tmp_path / "w.safetensors"
    safe_save({"w": Tensor(np.arange(100_000, dtype=np.float32))}, path)
    loaded = safe_load(path)["w"]
    assert loaded[3].to("CPU").item() == 3
    os.truncate(path, 5000)
    with pytest.raises(DataError, match=r"had 400[0-9]* bytes when it was opened and has 5000 now"):
        read(loaded)


def test_files_are_no_memory_in_use(tmp_path: Path) -> None:
    safe_save({"w": Tensor(np.arange(100_000, dtype=np.float32))}, tmp_path / "w")
    before = GlobalCounters.mem_used
    loaded = safe_load(tmp_path / "w")["w"]
    written = Tensor(np.arange(50_000, dtype=np.float32)).to(f"DISK:{tmp_path}/copy").realize()
    assert GlobalCounters.mem_used - before < 100_000
    del loaded, written
