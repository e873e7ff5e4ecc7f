"""The harness of the benchmarks: turns, ratios, budgets, JSON, contestants. No benchmark runs here."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.bench import cli, elementwise, kernel_table, matmul
from tools.bench.contestants import Contestant, ContestantError, environment
from tools.bench.measure import interleave, ratios, spread
from tools.bench.result import Budget, Line, Result


def test_contestants_take_turns_with_a_rest_before_each_and_alternate_who_is_first() -> None:
    log: list[str] = []
    naps: list[float] = []

    def turn(name: str, figure: float) -> float:
        log.append(name)
        return figure

    contestants = {"a": lambda: turn("a", 1), "b": lambda: turn("b", 2)}
    seen = interleave(contestants, rounds=3, pause=0.25, sleep=naps.append)
    assert "".join(log) == "abbaab"
    assert naps == [0.25] * 6
    assert seen == {"a": [1, 1, 1], "b": [2, 2, 2]}


def test_the_median_of_ratios_sees_through_contended_phases() -> None:
    """Ours takes 2, the peer 1; a phase in which all is slower hits whole rounds, and ours more of them than
    the peer's median notices."""
    slow = [1, 1, 5, 5, 5, 1, 9]
    ours, peers = [2.0 * s for s in slow], [1.0 * s for s in slow]
    assert spread(ratios(ours, peers)).median == 2
    # one round disturbed between its two turns moves the median of the ratios of nine by nothing
    assert spread(ratios([*ours, 20.0, 2.0], [*peers, 1.0, 1.0])).median == 2


def test_ratios_need_the_same_rounds() -> None:
    with pytest.raises(ValueError):
        ratios([1, 2], [1])


@pytest.mark.parametrize(
    "values", [[3.0], [1.0, 2.0], [4.0, 1.0, 3.0, 2.0], [5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 7.0]]
)
def test_quartiles_are_those_of_the_standard_library(values: list[float]) -> None:
    got = spread(values)
    assert got.median == statistics.median(values)
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        assert (got.low, got.high) == (low, high)
    else:
        assert (got.low, got.high) == (values[0], values[0])


@pytest.mark.parametrize(
    ("budget", "value", "met"),
    [
        (Budget(100, 40), 100, True),
        (Budget(100, 40), 101, False),
        (Budget(0.4, 1.0, "ratio", more=True), 0.4, True),
        (Budget(0.4, 1.0, "ratio", more=True), 0.39, False),
        (Budget(None, 40), 1000, None),
    ],
)
def test_a_budget_is_a_bound_from_above_or_below(budget: Budget, value: float, met: bool | None) -> None:
    assert budget.met(value, budget.first) is met


def test_a_line_judges_the_ratio_or_our_own_figure() -> None:
    rate = Line(
        "product", "GFLOPS", [50, 60, 70], "numpy", [100, 100, 100], Budget(0.4, 1.0, "ratio", more=True)
    )
    assert (rate.judged, rate.met) == (0.6, True)
    start = Line("import", "ms", [150, 90, 160], "numpy", [300, 300, 300], Budget(100, 40))
    assert (start.judged, start.met) == (150, False)
    assert Line("objects", "s", [1.0]).met is None


def test_json_has_figures_ratio_spread_and_budget() -> None:
    rate = Line(
        "product", "GFLOPS", [50, 60, 70], "numpy", [100, 100, 100], Budget(0.4, 1.0, "ratio", more=True)
    )
    late = Line(
        "other", "GFLOPS", [10, 10, 10], "numpy", [100, 100, 100], Budget(0.4, None, "ratio", more=True)
    )
    got = Result("matmul", [rate, late]).json()
    assert json.loads(json.dumps(got)) == got
    assert (got["name"], got["ours"], got["peer"], got["peer_name"]) == ("matmul", 60, 100, "numpy")
    assert (got["ratio"], got["spread"], got["rounds"]) == (0.6, [0.55, 0.65], 3)
    assert got["budget"] == {"of": "ratio", "better": "more", "first": 0.4, "goal": 1.0}
    assert got["goal_met"] is False
    assert got["met"] is False, "one line misses its budget"
    assert rate.json()["met"] is True


def test_without_a_peer_there_is_no_ratio_and_the_spread_is_of_our_figures() -> None:
    got = Line("to text", "s", [2.0, 4.0, 3.0], budget=Budget(8, 2)).json()
    assert (got["peer"], got["ratio"], got["spread"], got["met"], got["goal_met"]) == (
        None,
        None,
        [2.5, 3.5],
        True,
        False,
    )


def test_text_says_what_is_missed() -> None:
    text = Line(
        "product", "GFLOPS", [50, 50], "numpy", [100, 100], Budget(0.4, 1.0, "ratio", more=True)
    ).text()
    assert (
        "budget ratio ≥ 0.4: met" in text
        and "goal ratio ≥ 1: MISSED" in text
        and "ratio 0.5 (0.5 … 0.5)" in text
    )


def test_contestants_see_no_setting_that_hinders_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TINY_DEBUG", "2")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    env = environment(TINY_CACHE="0")
    assert "OPENBLAS_CORETYPE" not in env and "TINY_DEBUG" not in env and "PYTHONDONTWRITEBYTECODE" not in env
    assert (env["OMP_NUM_THREADS"], env["OPENBLAS_NUM_THREADS"], env["TINY_CACHE"]) == ("2", "2", "0")


def test_a_contestant_is_a_process_that_runs_rounds(tmp_path: Path) -> None:
    with Contestant("self_test", "count", {"step": 3}) as counter:
        assert counter.notes == {"step": 3}
        assert [counter.round(), counter.round()] == [3, 6]


@pytest.mark.parametrize("name", ["fails_in_setup", "exits_in_a_round"])
def test_a_contestant_that_ends_is_an_error_that_names_it(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ContestantError, match=rf"self_test\.{name} has ended with [13]"):
        Contestant("self_test", name).round()
    capfd.readouterr()


def test_drawn_shapes_follow_the_seed() -> None:
    assert matmul.drawn(7) == matmul.drawn(7)
    assert matmul.drawn(7) != matmul.drawn(8)
    assert all(200 <= size <= 1800 for seed in range(50) for shape in matmul.drawn(seed) for size in shape)


def test_arrays_of_the_bandwidth_benchmark_are_larger_than_caches() -> None:
    assert elementwise.NBYTES >= 256_000_000


@pytest.mark.parametrize("args", [[], ["matmul", "nothing"], ["--seed", "x", "matmul"]])
def test_a_command_that_is_not_understood_ends_with_2(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(args)
    assert ended.value.code == 2
    assert "bench" in capsys.readouterr().err


def test_every_benchmark_has_a_module_that_runs() -> None:
    folder = Path(cli.__file__).parent
    assert set(cli.BENCHMARKS) == {
        *("import", "first_kernel", "compile_convnet", "matmul", "convnet_step", "elementwise", "replay")
    }
    for module in cli.BENCHMARKS.values():
        assert "def run(seed: int) -> Result:" in (folder / f"{module}.py").read_text()


def test_results_are_written_after_each_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    class Module:
        @staticmethod
        def run(seed: int) -> Result:
            if ran:
                raise KeyboardInterrupt
            ran.append(seed)
            return Result("import", [Line("x", "ms", [1.0], budget=Budget(2, 1))])

    monkeypatch.setattr("importlib.import_module", lambda name: Module)
    file = tmp_path / "out.json"
    with pytest.raises(KeyboardInterrupt):
        cli.main(["import", "replay", "--json", str(file), "--seed", "5"])
    written = json.loads(file.read_text())
    assert ran == [5] and written["seed"] == 5 and "seed 5" in capsys.readouterr().out
    assert [(r["name"], r["ours"], r["met"]) for r in written["results"]] == [("import", 1.0, True)]


DEBUG = """\
r_8_r4: tile(r0, n=4) map(r0.1, how=vector)
CPU         1  r_8_r4                              99 ms      1.00 GFLOPS     0.50 GB/s  in use 1 MB
replay
CPU         2  r_8_r4                              2.5 ms      4.00 GFLOPS     2.00 GB/s  in use 1 MB
CPU         3  e_16                                500 µs      0.00 GFLOPS     1.00 GB/s  in use 1 MB
replay
CPU         4  r_8_r4                              3.5 ms      2.00 GFLOPS     1.00 GB/s  in use 1 MB
CPU         5  e_16                                500 µs      0.00 GFLOPS     1.00 GB/s  in use 1 MB
"""


def test_the_kernel_table_sorts_replayed_kernels_by_their_median() -> None:
    head, _, first, second = kernel_table.table(DEBUG.splitlines()).splitlines()
    assert head == "2 kernels, 3.5 ms"
    assert first.split() == [
        *("3.000", "85.7%", "3.00", "1.50", "1", "r_8_r4:"),
        *("tile(r0,", "n=4)", "map(r0.1,", "how=vector)"),
    ]
    assert second.split() == ["0.500", "14.3%", "0.00", "1.00", "2", "e_16:"]
