"""jit: what a replay computes, what it leaves behind, and whose memory that is. References are plain Python
or numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from tiny_core.engine.report import GlobalCounters
from tiny_core.errors import JitError
from tiny_core.settings import Context
from tiny_core.tensor.capture import TinyJit, jit
from tiny_core.tensor.tensor import Tensor


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with Context(DEV="PYTHON"):
        yield


def _tensor(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def test_replays_compute_on_the_arguments_of_each_call() -> None:
    calls = []

    @jit
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        calls.append(1)
        return (x * y).sum(), x + y

    for i in range(4):
        total, both = f(_tensor(i, 2), _tensor(3, i))
        assert total.item() == 5 * i
        assert both.tolist() == [i + 3, 2 + i]
    assert len(calls) == 1 and TinyJit is jit


def test_results_are_fresh_at_each_call() -> None:
    f = jit(lambda x: x * 2)
    kept = [f(_tensor(i)) for i in range(5)]
    assert [t.item() for t in kept] == [0, 2, 4, 6, 8]


def test_a_replay_launches_the_recorded_kernels_and_schedules_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = jit(lambda x: ((x + 1).sum() * x).sum())
    x = _tensor(1, 2, 3)
    GlobalCounters.reset()
    f(x).item()
    kernels = GlobalCounters.kernel_count
    monkeypatch.setattr("tiny_core.schedule.scheduler.schedule", lambda *a: pytest.fail("scheduled"))
    f(x)
    assert GlobalCounters.kernel_count == 2 * kernels > 0


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class Batch:
    x: Tensor
    scale: float


def test_arguments_and_results_may_be_nested() -> None:
    @jit
    def f(batch: Batch, pairs: dict[str, list[Pair]]) -> dict[str, object]:
        pair = pairs["a"][0]
        return {"pair": Pair(pair.second, pair.first * batch.scale), "rest": [batch.x.sum(), None, "text"]}

    for i in range(3):
        result = f(Batch(_tensor(i, 1), 3.0), {"a": [Pair(_tensor(i), _tensor(7))]})
        pair, rest = result["pair"], result["rest"]
        assert isinstance(pair, Pair) and isinstance(rest, list)
        assert pair.first.item() == 7 and pair.second.item() == 3 * i
        assert rest[0].item() == i + 1 and rest[1:] == [None, "text"]


def test_an_argument_that_is_returned_is_itself() -> None:
    f = jit(lambda x, y: (y, x.reshape(2, 2), x + y))
    for i in range(3):
        x, y = _tensor(i, 1, 2, 3), _tensor(1, 1, 1, 1)
        again, square, _ = f(x, y)
        assert again is y
        x.assign(x + 1)
        assert square.tolist() == [[i + 1, 2], [3, 4]], "a view of an argument aliases it"


def test_a_view_of_a_result_shares_its_memory() -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        y.realize()
        return y, y.reshape(2, 2)

    captured = jit(f)
    for _ in range(3):
        flat, square = captured(_tensor(1, 2, 3, 4))
        flat.assign(flat + 1)
        assert square.tolist() == [[3, 5], [7, 9]]


# ---- tensors reached otherwise -----------------------------------------------------------------------------


def test_a_closure_is_read_anew_at_each_replay() -> None:
    w = _tensor(1, 2)
    f = jit(lambda x: (x * w).sum())
    assert [f(_tensor(1, 1)).item() for _ in range(2)] == [3, 3]
    w.assign(w * 10)
    assert f(_tensor(1, 1)).item() == 30
    w = _tensor(5, 5)  # the cell holds another tensor now
    assert f(_tensor(1, 1)).item() == 10


class Model:
    def __init__(self) -> None:
        self.layers = [{"w": _tensor(1, 2)}, {"w": _tensor(3, 4)}]
        self.hidden = _tensor(0, 0)
        self.seen: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x * layer["w"]
        return x

    @jit
    def remember(self, x: Tensor) -> Tensor:
        self.hidden = self.hidden * 0.5 + x
        return self.hidden.sum()


def test_weights_are_read_through_the_objects_that_hold_them() -> None:
    model = Model()
    f = jit(lambda x: model(x).sum())
    assert [f(_tensor(1, 1)).item() for _ in range(2)] == [11, 11]
    model.layers[1]["w"] = _tensor(10, 10)
    assert f(_tensor(1, 1)).item() == 30
    model.layers[0]["w"].assign(model.layers[0]["w"] + 1)
    assert f(_tensor(1, 1)).item() == 50


def test_what_a_call_leaves_in_an_object_is_renewed_and_read_by_the_next() -> None:
    model, expected = Model(), np.zeros(2, np.float32)
    for i in range(6):
        total = model.remember(_tensor(i, 1))
        expected = expected * np.float32(0.5) + np.array([i, 1], np.float32)
        assert model.hidden.tolist() == expected.tolist()
        assert total.item() == expected.sum()


def test_each_instance_of_a_captured_method_has_its_own_state() -> None:
    one, two = Model(), Model()
    for _ in range(3):
        one.remember(_tensor(1, 0))
        two.remember(_tensor(0, 1))
    assert one.hidden.tolist() == [1.75, 0] and two.hidden.tolist() == [0, 1.75]


def test_results_left_behind_stay_what_they_were() -> None:
    model = Model()

    @jit
    def f(x: Tensor) -> None:
        model.seen = x * 2

    kept = []
    for i in range(5):
        f(_tensor(i))
        assert model.seen is not None
        kept.append(model.seen)
    assert [t.item() for t in kept] == [0, 2, 4, 6, 8]


def test_state_made_at_the_first_use_goes_on() -> None:
    state: dict[str, Tensor] = {}

    @jit
    def f(x: Tensor) -> Tensor:
        if "mean" not in state:
            state["mean"] = x * 0
        state["mean"].assign(state["mean"] * 0.5 + x)
        return state["mean"] + 0

    value = 0.0
    for i in range(6):
        value = value * 0.5 + i
        assert f(_tensor(i)).item() == value
        assert state["mean"].item() == value


# ---- assignments -------------------------------------------------------------------------------------------


def test_assignments_are_performed_at_each_replay() -> None:
    w, count = _tensor(1, 2), Tensor(0)

    @jit
    def step(g: Tensor) -> None:
        w.assign(w - g)
        count.assign(count + 1)

    for i in range(1, 5):
        step(_tensor(1, 1))
        assert w.tolist() == [1 - i, 2 - i]
        assert count.item() == i


def test_what_was_computed_before_keeps_its_value() -> None:
    w = _tensor(1, 2)

    @jit
    def step() -> None:
        w.assign(w + 1)

    for i in range(4):
        before = w * 10  # not computed yet
        step()
        assert before.tolist() == [10 * (1 + i), 10 * (2 + i)]
        assert w.tolist() == [2 + i, 3 + i]


def test_arrays_read_from_a_tensor_do_not_change_when_a_replay_assigns() -> None:
    w = _tensor(1)

    @jit
    def step() -> None:
        w.assign(w + 1)

    arrays = []
    for _ in range(4):
        arrays.append(w.numpy())
        step()
    assert [float(a[0]) for a in arrays] == [1, 2, 3, 4]


def test_an_argument_can_be_assigned_to() -> None:
    @jit
    def double(x: Tensor) -> None:
        x.assign(x * 2)

    for i in range(4):
        x = _tensor(i, 1)
        double(x)
        assert x.tolist() == [2 * i, 2]


def test_an_argument_that_is_part_of_a_tensor_can_be_assigned_to() -> None:
    @jit
    def double(x: Tensor) -> None:
        x.assign(x * 2)

    whole = Tensor(np.arange(128, dtype=np.float32))
    whole.realize()
    expected = np.arange(128, dtype=np.float32)
    for i in range(0, 128, 32):
        double(whole[i : i + 32])
        expected[i : i + 32] *= 2
        assert whole.tolist() == expected.tolist()


# ---- arguments that are parts ------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [32, 3, 1])
def test_one_recording_serves_all_batches_of_a_data_set(step: int) -> None:
    data = Tensor(np.arange(96, dtype=np.float32)).realize()
    f = jit(lambda x: (x * 2).sum())
    for i in range(0, 96, step):
        assert f(data[i : i + step]).item() == 2 * sum(range(i, i + step))
    # alignment of the start is part of what is recorded: at 4, 8, 16, 32, 64 bytes and more
    assert len(f.recordings) <= {32: 1, 3: 6, 1: 6}[step]


def test_views_that_are_not_contiguous_are_arguments_too() -> None:
    data = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4)).realize()
    f = jit(lambda x: x * 2 + 1)
    for _ in range(2):
        assert f(data.permute(1, 0)).tolist() == (np.arange(16).reshape(4, 4).T * 2 + 1).tolist()
        assert f(data[:, 1:3]).tolist() == (np.arange(16).reshape(4, 4)[:, 1:3] * 2 + 1).tolist()
        assert f(data[:, 2:4]).tolist() == (np.arange(16).reshape(4, 4)[:, 2:4] * 2 + 1).tolist()


def test_a_part_that_is_kept_is_seen_by_the_object_that_keeps_it() -> None:
    model = Model()

    @jit
    def f(x: Tensor) -> Tensor:
        model.seen = x
        return x + 1

    data = Tensor(np.arange(8, dtype=np.float32)).realize()
    for i in range(4):
        assert f(data[i : i + 2]).tolist() == [i + 1, i + 2]
        assert model.seen is not None and model.seen.tolist() == [i, i + 1]


def test_parts_that_overlap_what_is_assigned_are_told_apart() -> None:
    @jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.assign(x + 100)
        return y * 1

    data = np.arange(256, dtype=np.float32)
    whole = Tensor(data.copy()).realize()
    for a, b in ((0, 128), (0, 128), (0, 32), (0, 0), (0, 128), (32, 0)):
        got = f(whole[a : a + 64], whole[b : b + 64]).numpy()
        data[a : a + 64] += 100
        assert got.tolist() == data[b : b + 64].tolist()
        assert whole.tolist() == data.tolist()


# ---- aliasing ----------------------------------------------------------------------------------------------


def test_arguments_that_are_one_tensor_are_told_apart_from_two() -> None:
    @jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.assign(x + 1)
        return x + y

    for i in range(3):
        one = _tensor(i)
        assert f(one, one).item() == 2 * (i + 1)
        assert f(_tensor(i), _tensor(5)).item() == i + 6


def test_a_weight_passed_as_an_argument_is_one_tensor_with_itself() -> None:
    w = _tensor(3)

    @jit
    def f(x: Tensor) -> Tensor:
        w.assign(w + 1)
        return x * w

    assert [f(_tensor(2)).item() for _ in range(3)] == [8, 10, 12]
    assert f(w).item() == 49
    assert f(w).item() == 64
    assert f(_tensor(2)).item() == 18


# ---- donation ----------------------------------------------------------------------------------------------


def test_a_donated_argument_lends_its_memory_to_a_result() -> None:
    @jit(donate=["x"])
    def f(x: Tensor) -> Tensor:
        return ((x * 2).sum() + x.sum()).expand(4) * 1

    for i in range(3):
        x = _tensor(i, 1, 2, 3).realize()
        y = f(x)
        assert y.tolist() == [3 * (i + 6)] * 4
        with pytest.raises(JitError, match="given away"):
            x.tolist()


def test_donating_by_a_wrong_name_is_an_error() -> None:
    with pytest.raises(JitError, match="no such parameter"):
        jit(donate=["z"])(lambda x: x)


# ---- what cannot be captured -------------------------------------------------------------------------------


def test_reading_data_during_capture_is_an_error() -> None:
    f = jit(lambda x: x + 1 if x.sum().item() > 0 else x)
    with pytest.raises(JitError, match="data is read"):
        f(_tensor(1))
    assert (_tensor(1) + 1).item() == 2, "and nothing stays captured"


def test_a_captured_function_may_call_another() -> None:
    inner = jit(lambda x: x * 3)
    outer = jit(lambda x: inner(x) + inner(x + 1))
    for i in range(3):
        assert outer(_tensor(i)).item() == 6 * i + 3
        assert inner(_tensor(i)).item() == 3 * i


def test_host_data_made_in_the_function_is_part_of_the_recording() -> None:
    @jit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        table = _tensor(10, 20)
        table.assign(table + x)
        return table, _tensor(1, 2)

    for i in range(4):
        table, fresh = f(_tensor(i, 0))
        assert table.tolist() == [10 + i, 20]
        assert fresh.tolist() == [1, 2]
        fresh.assign(fresh * 0)


def test_parts_of_a_tensor_that_the_function_reaches_itself() -> None:
    data = np.arange(128, dtype=np.float32)
    whole = Tensor(data.copy()).realize()

    @jit
    def read(x: Tensor) -> Tensor:
        return (x * 2).sum() + whole.sum() * 0

    @jit
    def write(x: Tensor) -> Tensor:
        whole.assign(whole + 1)
        return x * 1

    for i in (0, 32, 64, 96):
        assert read(whole[i : i + 32]).item() == 2 * data[i : i + 32].sum()
    assert len(read.recordings) == 1
    for i in (0, 32, 0, 32):
        data += 1
        assert write(whole[i : i + 32]).tolist() == data[i : i + 32].tolist()
