"""jit: which calls share a recording, which do not, and what the check of replays finds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from tiny_core import dtypes
from tiny_core.engine.reach import find, global_names, plain_values
from tiny_core.errors import JitError
from tiny_core.settings import Context
from tiny_core.tensor.capture import jit
from tiny_core.tensor.tensor import Tensor


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with Context(DEV="PYTHON"):
        yield


def _tensor(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


SCALE = 2.0
step = 0


def test_shapes_and_dtypes_are_recorded_apart() -> None:
    f = jit(lambda x: x + x)
    for _ in range(2):
        assert f(_tensor(1, 2)).tolist() == [2, 4]
        assert f(_tensor(1, 2, 3)).tolist() == [2, 4, 6]
        assert f(Tensor([1, 2])).tolist() == [2, 4]
        assert f(Tensor([1, 2])).dtype is dtypes.int32
        assert f(_tensor(1, 2).reshape(1, 2)).tolist() == [[2, 4]]
    assert len(f.recordings) == 4


def test_other_arguments_count_by_type_and_value() -> None:
    f = jit(lambda x, n, **k: x * n + k["add"])
    for n in (1, 2, 1.5, True, 1, 2):
        assert f(_tensor(4), n, add=1).item() == 4 * n + 1
    assert f(_tensor(4), 1, add=3).item() == 7
    assert len(f.recordings) == 5


def test_objects_count_by_equality() -> None:
    class Config:
        scale = 3.0

    one, two = Config(), Config()
    two.scale = 5.0
    f = jit(lambda x, config: x * config.scale)
    for _ in range(2):
        assert f(_tensor(2), one).item() == 6
        assert f(_tensor(2), two).item() == 10
    assert len(f.recordings) == 2


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(JitError, match=r"ndarray.*cannot be compared"):
        jit(lambda x: x)(np.zeros(2))


def test_numbers_in_cells_defaults_and_named_globals_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 3

    def function(x: Tensor, plus: float = 1.0) -> Tensor:
        return x * factor * SCALE + plus

    f = jit(function)
    assert [f(_tensor(1)).item() for _ in range(2)] == [7, 7]
    factor = 4
    assert f(_tensor(1)).item() == 9
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    assert f(_tensor(1)).item() == 5
    function.__defaults__ = (10.0,)
    assert f(_tensor(1)).item() == 14


def test_a_global_that_is_only_an_attributes_name_is_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    class Optimizer:
        def step(self, x: Tensor) -> Tensor:
            return x + 1

    optimizer = Optimizer()
    f = jit(lambda x: optimizer.step(x) + 0)
    for i in range(4):
        monkeypatch.setitem(globals(), "step", i)
        f(_tensor(1))
    assert len(f.recordings) == 1


def test_settings_that_change_kernels_are_guarded() -> None:
    f = jit(lambda x: x + 1)
    f(_tensor(1))
    with Context(OPTIMIZE=0):
        f(_tensor(1))
    with Context(TRAINING=1):
        f(_tensor(1))
    with Context(DEBUG=1):
        f(_tensor(1))
    assert len(f.recordings) == 3


def test_many_signatures_are_bounded_and_warned_about() -> None:
    f = jit(lambda x, n: x + n)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(34):
            assert f(_tensor(1), n).item() == 1 + n
    assert len(f.recordings) == 32
    assert "pass what changes at each call as a tensor" in str(caught[0].message)


def test_a_weight_of_another_shape_is_recorded_anew() -> None:
    weights = {"w": _tensor(2)}
    f = jit(lambda x: (x * weights["w"]).sum())
    assert [f(_tensor(3)).item() for _ in range(2)] == [6, 6]
    weights["w"] = _tensor(1, 2, 3)
    assert [f(_tensor(3)).item() for _ in range(2)] == [18, 18]
    weights["w"] = Tensor(np.array([[1, 2], [3, 4]], np.float32)).permute(1, 0)[0]
    assert [f(_tensor(3)).item() for _ in range(2)] == [12, 12]
    del weights["w"]
    with pytest.raises(KeyError):
        f(_tensor(3))


def test_a_weight_without_storage_is_part_of_the_kernels_and_guarded() -> None:
    weights = {"w": Tensor(2.0)}
    f = jit(lambda x: x * weights["w"])
    assert [f(_tensor(3)).item() for _ in range(2)] == [6, 6]
    weights["w"] = Tensor(4.0)
    assert f(_tensor(3)).item() == 12


def test_two_weights_that_become_one_are_noticed() -> None:
    weights = [_tensor(1), _tensor(2)]

    @jit
    def f() -> Tensor:
        weights[0].assign(weights[0] + 1)
        return weights[0] * 10 + weights[1]

    assert [f().item() for _ in range(2)] == [22, 32]
    weights[1] = weights[0]
    assert f().item() == 44


# ---- TINY_JIT_CHECK ----------------------------------------------------------------------------------------


def test_the_check_passes_where_replay_is_right_and_state_goes_on() -> None:
    w = _tensor(1)

    @jit
    def f(x: Tensor) -> Tensor:
        w.assign(w * 2 + x)
        return w + 0

    value = 1.0
    with Context(JIT_CHECK=2):
        for i in range(6):
            value = value * 2 + i
            assert f(_tensor(i)).item() == value


def test_the_check_finds_what_is_not_guarded() -> None:
    class Optimizer:
        rate = 1.0

    optimizer = Optimizer()
    f = jit(lambda x: x * optimizer.rate)
    with Context(JIT_CHECK=1):
        f(_tensor(1))
        f(_tensor(1))
        optimizer.rate = 2.0
        with pytest.raises(JitError, match="result 0 differs by 1"):
            f(_tensor(1))


def test_the_check_compares_assigned_storage() -> None:
    w = _tensor(1)
    calls: list[int] = []

    @jit
    def f() -> None:
        calls.append(1)
        w.assign(w + len(calls))

    with Context(JIT_CHECK=1):
        f()
        with pytest.raises(JitError, match="assigned storage"):
            f()


# ---- what is looked at -------------------------------------------------------------------------------------


def test_plain_values_keep_types_apart() -> None:
    def make(value: object) -> object:
        return lambda: value

    values = [1, 1.0, True, "1", None, (1, 2), (1, 2.0), float("nan"), [1], object()]
    found = [plain_values(make(v)) for v in values]  # type: ignore[arg-type]
    assert len(set(found[:7])) == 7
    assert plain_values(make(float("nan"))) == found[7]  # type: ignore[arg-type]
    assert found[8] == found[9] == (None,)


def test_names_in_nested_functions_count() -> None:
    def outer() -> object:
        return lambda: SCALE

    assert "SCALE" in global_names(outer.__code__)


def test_paths_lead_through_containers_closures_and_slots() -> None:
    class Slotted:
        __slots__ = ("inner",)
        inner: object

    leaf = bytearray(b"leaf")
    slotted = Slotted()
    slotted.inner = {"k": [leaf]}
    found = find([lambda: slotted], lambda v: isinstance(v, bytearray))
    ((value, path),) = found.objects.values()
    assert value is leaf
    assert path[-3:] == (("attribute", "inner"), ("item", "k"), ("item", 0))


def test_contiguous_parts_are_recognised_as_the_scheduler_does() -> None:
    from tiny_core.engine.capture import take_apart
    from tiny_core.engine.inputs import _begin
    from tiny_core.schedule.scheduler import view

    rng, data = np.random.default_rng(1), Tensor(np.zeros((4, 3, 5), np.float32)).realize()
    seen = set()
    for _ in range(300):
        shown = data
        for _ in range(2):
            begins = [int(rng.integers(0, n)) for n in shown.shape]
            pick = [
                (b, int(rng.integers(b + 1, n + 1))) if rng.random() < 0.5 else (0, n)
                for b, n in zip(begins, shown.shape, strict=True)
            ]
            shown = shown[tuple(slice(*q) for q in pick)]
        chain, base = take_apart(shown.uop)
        arg = view(shown.uop)
        seen.add(arg is None)
        assert _begin(chain, base) == (None if arg is None else arg.offset)
    assert seen == {True, False}


@pytest.mark.parametrize("given", [False, True], ids=["closed over", "passed"])
def test_attributes_of_objects_are_read_when_recorded_and_the_check_finds_the_difference(given: bool) -> None:
    class Model:
        scale = 1.0

    model = Model()
    f = jit((lambda x, m: x * m.scale) if given else (lambda x: x * model.scale))
    rest = (model,) if given else ()
    for _ in range(3):
        assert f(_tensor(1), *rest).item() == 1
    model.scale = 3.0
    assert f(_tensor(1), *rest).item() == 1  # as the help of jit says
    with Context(JIT_CHECK=1), pytest.raises(JitError, match="differs by 2") as caught:
        f(_tensor(1), *rest)
    assert "help of jit" in caught.value.hint
