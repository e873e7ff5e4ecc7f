"""Weights by name: found in objects, saved as safetensors, loaded back.

The safetensors library writes files and validates them (https://huggingface.co/docs/safetensors: an 8-byte
little-endian length, a JSON header with dtype, shape and offsets of each tensor, and the data). Loading
maps the file; bytes are read when a tensor is moved to a device.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from tiny_core import dtypes
from tiny_core.dtypes import DType
from tiny_core.errors import DataError, DTypeError, ShapeError
from tiny_core.nn.aside import write_aside
from tiny_core.nn.mapped import MappedFile
from tiny_core.tensor.tensor import Tensor

_NAMES: Final = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "U16": dtypes.uint16, "I16": dtypes.int16,
    "U32": dtypes.uint32, "I32": dtypes.int32, "U64": dtypes.uint64, "I64": dtypes.int64,
    "F8_E4M3": dtypes.float8_e4m3, "F8_E5M2": dtypes.float8_e5m2,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
_MOST_SHOWN: Final = 8


# ---- names in objects --------------------------------------------------------------------------------------


def get_state_dict(obj: object, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors that an object holds, by path: attributes, items of lists, tuples and dicts, all the
    way down.

    Args:
        obj: an object, list, tuple or dict.
        prefix: what the names begin with.

    >>> from tiny_core import nn
    >>> list(get_state_dict({"layers": [nn.Linear(2, 3), nn.Linear(3, 1, bias=False)]}))
    ['layers.0.weight', 'layers.0.bias', 'layers.1.weight']
    """
    found: dict[str, Tensor] = {}
    _collect(obj, prefix.strip("."), found, set())
    return found


def _collect(obj: object, path: str, found: dict[str, Tensor], above: set[int]) -> None:
    if isinstance(obj, Tensor):
        found[path] = obj
        return
    parts = _parts(obj)
    if not parts or id(obj) in above:
        return
    above.add(id(obj))
    for name, value in parts:
        _collect(value, f"{path}.{name}" if path else str(name), found, above)
    above.remove(id(obj))


def _parts(obj: object) -> list[tuple[object, object]]:
    """What an object consists of, by name."""
    if isinstance(obj, Mapping):
        return list(obj.items())
    if isinstance(obj, (list, tuple)):
        names: Sequence[object] = getattr(obj, "_fields", range(len(obj)))
        return list(zip(names, obj, strict=True))
    if isinstance(obj, (type, ModuleType)) or hasattr(obj, "__wrapped__"):
        return []  # what stands around a function (jit) holds state of its own
    slots = [name for cls in type(obj).__mro__ for name in _slots(cls)]
    held = [(name, getattr(obj, name)) for name in slots if hasattr(obj, name)]
    return [*held, *getattr(obj, "__dict__", {}).items()]


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def get_parameters(obj: object) -> list[Tensor]:
    """Return the tensors of an object that ask for gradients, each once: what an optimizer is to change.

    >>> from tiny_core import nn
    >>> [p.shape for p in get_parameters([nn.Linear(2, 3), nn.BatchNorm(3)])]
    [(3, 2), (3,), (3,), (3,)]
    """
    return list({id(t): t for t in get_state_dict(obj).values() if t.is_param}.values())


def load_state_dict(
    model: object, state: Mapping[str, Tensor], strict: bool = True, prefix: str = ""
) -> list[Tensor]:
    """Assign tensors by name to those of a model, and realize them.

    Values are copied to the device of the tensor that they are assigned to. Floats are converted to its
    dtype; other dtypes must be equal.

    Args:
        model: an object that holds tensors.
        state: tensors by name, from `safe_load` or `get_state_dict`.
        strict: whether it must have all the model's names and no others.
        prefix: what the names of `state` begin with and the model's do not, e.g. "encoder.".

    Returns:
        the tensors that were assigned to.

    Raises:
        DataError: names are missing or left over.
        ShapeError: shapes differ; DTypeError: dtypes do. Nothing has been assigned then.

    >>> from tiny_core import Tensor, nn
    >>> model = nn.Linear(1, 1)
    >>> _ = load_state_dict(model, {"weight": Tensor([[2.0]]), "bias": Tensor([1.0])})
    >>> model(Tensor([3.0])).tolist()
    [7.0]
    """
    mine = {prefix + name: tensor for name, tensor in get_state_dict(model).items()}
    if strict and mine.keys() != state.keys():
        raise _other_names(mine, state)
    pairs = [(name, tensor, state[name]) for name, tensor in mine.items() if name in state]
    wrong = [f"{name}: {list(v.shape)} for {list(t.shape)}" for name, t, v in pairs if v.shape != t.shape]
    if wrong:
        raise ShapeError(
            f"load_state_dict: shapes differ: {_few(wrong)}", "the model was built with other sizes"
        )
    wrong = [
        f"{name}: {v.dtype.name} for {t.dtype.name}"
        for name, t, v in pairs
        if v.dtype is not t.dtype and not (v.dtype.is_float and t.dtype.is_float)
    ]
    if wrong:
        raise DTypeError(f"load_state_dict: dtypes differ: {_few(wrong)}", "cast them before loading")
    loaded = [tensor.assign(value.to(tensor.device).cast(tensor.dtype)) for _, tensor, value in pairs]
    if loaded:
        loaded[0].realize(*loaded[1:])
    return loaded


def _other_names(mine: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> DataError:
    import difflib

    missing, extra = [n for n in mine if n not in state], [n for n in state if n not in mine]
    parts = [f"{len(missing)} missing: {_few(missing)}"] * bool(missing)
    parts += [f"{len(extra)} not in the model: {_few(extra)}"] * bool(extra)
    close = difflib.get_close_matches(missing[0], extra, n=1) if missing else []
    hint = f"is {close[0]} meant for {missing[0]}? " if close else ""
    return DataError(
        f"load_state_dict: names differ: {'; '.join(parts)}",
        hint + "strict=False loads what has the same name; prefix= is taken off the names",
    )


def _few(items: Sequence[str]) -> str:
    more = len(items) - _MOST_SHOWN
    return ", ".join(items[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


# ---- safetensors -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor in a safetensors file: dtype, shape, and byte offset into the file."""

    dtype: DType
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class SafetensorsHeader:
    """What a safetensors file says of itself: its tensors by name, the author's notes, its size in bytes."""

    tensors: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]
    nbytes: int


def safe_save(
    tensors: Mapping[str, Tensor], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Save tensors as a safetensors file. The file appears when it is whole; whatever happens before leaves
    an earlier one as it was.

    Args:
        tensors: by name, from `get_state_dict` or elsewhere; they are realized.
        path: of the file.
        metadata: notes to keep in it.

    Raises:
        DTypeError: a dtype that the format does not have.
        DataError: the file cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    have = set(_NAMES.values())
    for name, tensor in tensors.items():
        if tensor.dtype not in have:
            raise DTypeError(
                f"safe_save: {name} is of {tensor.dtype.name}", "safetensors has no such dtype; cast it"
            )
    target = os.fspath(path)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    with write_aside(target) as aside:
        try:
            save_file(arrays, aside, dict(metadata) if metadata else None)
        except (SafetensorError, OSError) as error:
            raise DataError(f"cannot write {target}: {error}") from error


def safe_load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Map a safetensors file: tensors by name on `DISK:/path`, which are read when they are moved to another
    device.

    Raises:
        DataError: the file is missing, truncated, or not a valid safetensors file.

    >>> import os, tempfile
    >>> from tiny_core import Tensor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     safe_save({"w": Tensor([1.0, 2.0])}, path)
    ...     safe_load(path)["w"].to("CPU").tolist()
    [1.0, 2.0]
    """
    header = safe_load_metadata(path)
    file = MappedFile(os.fspath(path), header.nbytes)
    return {name: file.tensor(e.offset, e.dtype, e.shape) for name, e in header.tensors.items()}


def safe_load_metadata(path: str | os.PathLike[str]) -> SafetensorsHeader:
    """Read the header of a safetensors file; raises as `safe_load`."""
    name = os.fspath(path)
    _validate(name)
    with open(name, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        listed = json.loads(file.read(length))
        nbytes = os.fstat(file.fileno()).st_size
    metadata = listed.pop("__metadata__", {})
    entries = {}
    for key, entry in sorted(listed.items(), key=lambda item: item[1]["data_offsets"]):
        dtype = _NAMES.get(entry["dtype"])
        if dtype is None:
            raise DataError(f"{name}: {key} is of {entry['dtype']}", "there is no such dtype here")
        entries[key] = TensorEntry(dtype, tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
    return SafetensorsHeader(entries, metadata, nbytes)


def _validate(path: str) -> None:
    """Have the library check sizes, offsets and the header; raises DataError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            pass
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise DataError(
            f"{path} is not a whole safetensors file: {error}",
            f"it has {os.path.getsize(path)} bytes; it may be truncated: get or save it again",
        ) from error
