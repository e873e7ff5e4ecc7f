"""The demo as a program: what it leaves behind, and how it ends when something is wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.numpy

from tiny_core.nn.datasets import FASHION_MNIST_PACKAGE

DEMO = Path(__file__).parents[1] / "demo.py"
needs_data = pytest.mark.skipif(
    not Path(FASHION_MNIST_PACKAGE).is_dir(), reason="dataset-fashion-mnist is not installed"
)


def start(out: Path, *args: str, **environment: str) -> subprocess.Popen[str]:
    """Start the demo in a process group of its own, as a terminal does."""
    kept = {k: v for k, v in os.environ.items() if k not in ("DEV", "TINY_DEV", "TINY_DATA")}
    return subprocess.Popen(
        [sys.executable, str(DEMO), "--out", str(out), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, **environment},
        start_new_session=True,
    )


def run(out: Path, *args: str, **environment: str) -> tuple[int, str, str]:
    """Run the demo; returns exit code, output, errors."""
    with start(out, *args, **environment) as process:
        output, errors = process.communicate()
    return process.returncode, output, errors


@needs_data
def test_it_trains_draws_saves_and_loads(tmp_path: Path) -> None:
    code, output, errors = run(tmp_path, "--limit", "80", "--batch", "32", "--data", FASHION_MNIST_PACKAGE)
    assert code == 0, errors
    assert "Fashion-MNIST, 80 images, on CPU" in output and "seed 0" in output
    first, again = re.findall(r"test accuracy (0\.\d{4})", output)
    assert first == again
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fashion.png", "fashion.safetensors"]
    assert (tmp_path / "fashion.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    weights = safetensors.numpy.load_file(tmp_path / "fashion.safetensors")
    assert weights["layers.0.weight"].shape == (32, 1, 5, 5)
    assert weights["layers.4.num_batches_tracked"] == 3  # 80 images are two batches of 32 and one of 16


@needs_data
def test_ctrl_c_stops_it_and_leaves_nothing(tmp_path: Path) -> None:
    with start(tmp_path / "out", "--limit", "20000", "--data", FASHION_MNIST_PACKAGE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "20000 images" in process.stdout.readline()  # now it trains
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "demo: stopped; nothing half-written is left\n"
    assert not (tmp_path / "out").exists()


@needs_data
@pytest.mark.parametrize("said", ["images, on CPU", "epoch ", "test accuracy "])
def test_ctrl_c_at_any_time_leaves_whole_files_or_none(tmp_path: Path, said: str) -> None:
    """While the first step is compiled by workers, before the test, and while results are written."""
    out = tmp_path / "out"
    cache = {"TINY_CACHE_DIR": str(tmp_path / "cache")}
    with start(out, "--limit", "64", "--batch", "64", "--data", FASHION_MNIST_PACKAGE, **cache) as process:
        assert process.stdout is not None and process.stderr is not None
        assert any(said in line for line in process.stdout)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (130, "demo: stopped; nothing half-written is left\n")
    left = {p.name for p in out.iterdir()} if out.exists() else set[str]()
    assert left <= {"fashion.safetensors", "fashion.png"}
    if said != "test accuracy ":
        assert not left
    if "fashion.safetensors" in left:
        assert safetensors.numpy.load_file(out / "fashion.safetensors")
    if "fashion.png" in left:
        assert (out / "fashion.png").read_bytes().endswith(b"IEND\xaeB`\x82")
    aside = [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and len(p.name) != 64]
    assert not aside, "nor in the cache"


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("CPUU", "CPU"),
        ("CPU:NONSENSE", "NONSENSE"),
        ("CPU;;", "device is missing"),
        ("NULL", "NULL keeps no data"),
    ],
)
def test_a_wrong_device(tmp_path: Path, device: str, message: str) -> None:
    code, _, errors = run(tmp_path / "out", DEV=device)
    assert code == 2
    assert message in errors and "Traceback" not in errors
    assert not (tmp_path / "out").exists()


def test_missing_data_is_said_and_nothing_is_invented(tmp_path: Path) -> None:
    code, output, errors = run(tmp_path / "out", "--data", str(tmp_path / "nowhere"))
    assert code == 2
    assert errors.startswith(f"demo: no Fashion-MNIST in {tmp_path / 'nowhere'}\n") and "hint: " in errors
    assert "training" not in output and not (tmp_path / "out").exists()


def test_wrong_arguments(tmp_path: Path) -> None:
    code, _, errors = run(tmp_path, "--batch", "0")
    assert code == 2 and "--batch: invalid positive value: '0'" in errors
