"""A short, seeded stretch of the two fuzzers.

Random graphs give what the numpy oracle gives; random kernel options give the same result or are refused. Run
the modules themselves for longer stretches.
"""

from __future__ import annotations

import pytest

from .. import fuzz_options, fuzz_schedule


@pytest.mark.parametrize("seed", range(40))
def test_a_random_graph_gives_what_the_oracle_gives(seed: int) -> None:
    assert fuzz_schedule.once(seed, ["CPU", "PYTHON"]) == ""


@pytest.mark.parametrize("seed", range(60))
def test_random_options_keep_the_result_or_are_refused(seed: int) -> None:
    _, found = fuzz_options.once(seed, "PYTHON")
    assert found == "" or found.startswith("refused")
