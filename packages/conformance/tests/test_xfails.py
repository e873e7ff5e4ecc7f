"""Expected failures: strict, with reasons, and never an excuse for wrong results of a stable plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiny_conformance import xfails
from tiny_conformance.xfails import BadXfails, Xfail

from .kit_runs import conform, some

ROW = '[[xfail]]\ntest = "{test}"\nreason = "the chip has no NaN"\nlink = "https://example.org/1"\n'
MAX = "ops/test_kernels.py::test_op[max-float32]"
ADD = "ops/test_kernels.py::test_op[add-float32]"
WRONG = 'kind = "wrong result"\n'


def file(folder: Path, *rows: str) -> str:
    path = folder / "xfails.toml"
    path.write_text("".join(rows))
    return str(path)


def test_what_is_expected_to_fail_is_no_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    path = file(tmp_path, ROW.format(test=MAX) + WRONG)
    words = ("--xfails", path, "--json", str(report))
    done = some(tmp_path, MAX, ADD, *words, mistake="maximum loses NaN")
    assert done.returncode == 0, done.stdout
    assert "1 failed as expected: the chip has no NaN (https://example.org/1)" in done.stdout
    found = json.loads(report.read_text())
    assert found["counts"] == {"passed": 1, "xfailed": 1}
    assert found["matrix"]["max"] == {"float32": "xfailed"}
    (row,) = found["xfails"]
    assert row["cases"] == 1
    assert row["link"] == "https://example.org/1"


def test_an_xfail_that_passes_is_a_failure(tmp_path: Path) -> None:
    done = some(tmp_path, ADD, "--xfails", file(tmp_path, ROW.format(test=ADD)))
    assert done.returncode == 1, done.stdout
    assert "XPASS(strict)" in done.stdout


def test_an_error_may_be_expected_and_a_wrong_result_is_none(tmp_path: Path) -> None:
    path = file(tmp_path, ROW.format(test="*"))
    done = some(tmp_path, MAX, "--xfails", path, mistake="maximum loses NaN")
    assert done.returncode == 1, done.stdout
    test = "runtime/test_errors.py::test_a_program_that_is_none_is_refused"
    done = some(tmp_path, test, "--xfails", path, mistake="untyped error")
    assert done.returncode == 0, done.stdout


def test_an_xfail_of_no_test_is_a_failure_of_a_whole_run(tmp_path: Path) -> None:
    path = file(tmp_path, ROW.format(test="ops/test_nothing.py::test_at_all"))
    done = some(tmp_path, ADD, "--xfails", path)
    assert done.returncode == 1
    assert "names no test: remove it" in done.stdout
    assert some(tmp_path, ADD, "--xfails", path, "-k", "add").returncode == 0


def test_a_stable_plugin_may_not_lie() -> None:
    wrong = Xfail("*", "r", "l", "wrong result")
    assert xfails.forbidden(wrong, 2, "stable")
    assert xfails.forbidden(wrong, 4, "stable")
    assert not xfails.forbidden(wrong, 1, "stable")
    assert not xfails.forbidden(wrong, 2, "provisional")
    assert not xfails.forbidden(Xfail("*", "r", "l", "error"), 2, "stable")


def test_patterns() -> None:
    assert Xfail(MAX, "r", "l").matches(MAX)
    assert Xfail("ops/test_kernels.py::test_op[max-*]", "r", "l").matches(MAX)
    assert not Xfail("ops/test_kernels.py::test_op[max-*]", "r", "l").matches(ADD)
    assert Xfail("*bfloat16*", "r", "l").matches("ops/test_cast.py::test_cast[bfloat16-int8]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[xfail]]\ntest = 'a'\nreason = 'b'\n", "no link"),
        ("[[xfail]]\ntest = 'a'\nlink = 'b'\n", "no reason"),
        ("[[xfail]]\ntest = 'a'\nreason = ''\nlink = 'b'\n", "not empty"),
        ("[[xfail]]\ntest = 'a'\nreason = 'b'\nlink = 'c'\nstrict = 'no'\n", "unknown key strict"),
        ("[[xfail]]\ntest = 'a'\nreason = 'b'\nlink = 'c'\nkind = 'flaky'\n", "neither 'error' nor"),
        ("skip = 1\n", "nothing else"),
        ("[[xfail]\n", "xfails.toml"),
    ],
)
def test_a_bad_file_says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadXfails, match=said):
        xfails.read(Path(file(tmp_path, text)))


def test_a_bad_file_is_wrong_usage(tmp_path: Path) -> None:
    done = conform(tmp_path, "PYTHON", "--xfails", file(tmp_path, "[[xfail]]\n"), "-k", "test_every_tail")
    assert done.returncode == 4
    assert "no test" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
