"""The kit notices every wrong backend, for the right reason, and passes the right ones.

The table: a mistake, the test that catches it, and what that test has to say.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import wrong_backends
from .kit_runs import some

CAUGHT: dict[str, tuple[str, str]] = {
    "truncated copy": (
        "runtime/test_copy.py::test_to_the_host_touches_only_its_place[4096]", "Mismatched elements: 1 / 4096"
    ),
    "overrun copy": ("runtime/test_copy.py::test_there_and_back[4096]", "the copy goes beyond its end"),
    "stale view": (
        "runtime/test_memory.py::test_a_view_is_the_memory_and_no_copy[64]", "Mismatched elements"
    ),
    "shifted view": (
        "runtime/test_memory.py::test_a_view_is_the_memory_and_no_copy[100]", "Mismatched elements"
    ),
    "leak": ("runtime/test_memory.py::test_what_is_freed_can_be_had_again", "freed memory is not given back"),
    "untyped error": ("runtime/test_errors.py::test_a_program_that_is_none_is_refused", "UnicodeDecodeError"),
    "lost launch": ("runtime/test_queue.py::test_the_same_submission_many_times", "Mismatched elements: 259"),
    "lost write": ("ops/test_movement.py::test_every_tail[17]", "1 of 17 differ"),
    "dropped sync": ("runtime/test_queue.py::test_synchronize_waits_for_everything", "Mismatched elements"),
    "reordered queue": (
        "runtime/test_queue.py::test_a_copy_waits_for_a_launch_and_a_launch_for_a_copy", "Mismatched elements"
    ),
    "frozen table": (
        "runtime/test_queue.py::test_a_queue_is_submitted_again_with_another_table", "Mismatched elements"
    ),
    "inclusive less": ("ops/test_kernels.py::test_op[cmplt-float32]", "got np.True_, expected np.False_"),
    "wrong rounding of division": ("ops/test_kernels.py::test_op[div-float32]", "differ"),
    "wrong rounding of conversions": ("ops/test_cast.py::test_cast[float32-float16]", "differ"),
    "maximum loses NaN": ("ops/test_kernels.py::test_op[max-float32]", "expected np.float32(nan)"),
    "ignored gate": ("ops/test_movement.py::test_move[float32-pad]", "expected np.float32(0.0)"),
    "dropped barrier": ("runtime/test_groups.py::test_items_combine_their_parts[16]", "no barrier between"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", list(CAUGHT))
def test_a_wrong_backend_is_caught(mistake: str, tmp_path: Path) -> None:
    test, reason = CAUGHT[mistake]
    done = some(tmp_path, test, mistake=mistake)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout, done.stdout
    assert reason in done.stdout, done.stdout


@pytest.mark.parametrize("kind", ["none", "deferred", "groups"])
def test_a_right_backend_passes_all_of_that(kind: str, tmp_path: Path) -> None:
    tests = sorted({test for test, _ in CAUGHT.values()})
    done = some(tmp_path, *tests, mistake=kind)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = 0 if kind == "groups" else 1  # of groups
    assert f"{len(tests) - skipped} passed" in done.stdout, done.stdout


def test_the_table_is_whole() -> None:
    assert set(CAUGHT) == set(wrong_backends.WRONG)
