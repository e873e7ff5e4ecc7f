#!/usr/bin/env python3
"""Set up this clone and do its jobs: `demo`, `test`, `bench`, `shell`. Standard library only.

Each job has a virtual environment of its own in the clone, made at first use and again when what it installs
changes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("core", "renderer-llvm", "conformance")
TOOLS = (
    "build", "editables", "hatchling", "hypothesis", "import-linter", "matplotlib", "mpmath", "mypy", "nox",
    "pytest", "pytest-xdist", "ruff", "torch==2.13.0", "twine", "z3-solver",
)  # fmt: skip
EXTRAS = {
    "demo": ("hatchling", "editables", "matplotlib"),
    "test": TOOLS,
    "bench": ("hatchling", "editables", "torch==2.13.0"),
}
SESSIONS = (
    "lint",
    "types",
    "layers",
    "tests",
    "conform",
    "docs",
    "build",
    "check_dist",
    "wheels",
    "isolation",
)
DATA = Path("/usr/share/datasets/fashion-mnist")


def main() -> int:
    """Parse the command line and run one job; returns its exit code."""
    parser = argparse.ArgumentParser(prog="dev.py", description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)
    jobs.add_parser("demo", help="train a network on Fashion-MNIST (other options go to tools/demo.py)")
    test = jobs.add_parser("test", help="run every check")
    test.add_argument("sessions", nargs="*", help=f"nox sessions; default: {' '.join(SESSIONS)}")
    jobs.add_parser("bench", help="run benchmarks: names, and --json FILE")
    jobs.add_parser("shell", help="a Python prompt with tiny installed")
    args, rest = parser.parse_known_args()
    if args.job == "shell" and rest:
        parser.error(f"unknown arguments {rest}")
    try:
        if args.job == "demo":
            fetch_data()
            return call(python("demo"), "tools/demo.py", *rest)
        if args.job == "bench":
            return call(python("bench"), "tools/bench", *rest)
        if args.job == "shell":
            return call(python("demo"))
        return check(args.sessions or list(SESSIONS), rest)
    except subprocess.CalledProcessError as error:
        say(f"failed: {' '.join(map(str, error.cmd))}")
        return error.returncode or 1


def say(text: str) -> None:
    print(f"[dev] {text}", flush=True)


def call(*command: str | Path) -> int:
    """Run a command in the clone and return its exit code."""
    return subprocess.run([str(c) for c in command], cwd=ROOT, check=False).returncode


def requirements(job: str) -> list[str]:
    """What a job installs from the registry: its tools and what our packages depend on."""
    wanted = set(EXTRAS[job])
    for name in PACKAGES:
        project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
        wanted.update(d for d in project["dependencies"] if not d.startswith("tiny-"))
    return sorted(wanted)


def python(job: str) -> Path:
    """Return the Python of a job's environment, made or renewed if need be."""
    folder = ROOT / f".venv-{job}"
    executable = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = requirements(job)
    local = [str(ROOT / "packages" / p) for p in PACKAGES]
    manifests = [(Path(p) / "pyproject.toml").read_text() for p in local]
    stamp = hashlib.sha256("\n".join([sys.version, *wanted, *manifests]).encode()).hexdigest()
    mark = folder / "stamp"
    if executable.exists() and mark.exists() and mark.read_text() == stamp:
        return executable
    start = time.monotonic()
    say(f"making {folder.name}: {len(wanted)} packages and ours")
    venv.EnvBuilder(with_pip=True, clear=True, symlinks=os.name != "nt").create(folder)
    pip = [str(executable), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)
    editable = [word for path in local for word in ("--editable", path)]
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", *editable], check=True)
    mark.write_text(stamp)
    say(f"ready in {time.monotonic() - start:.0f} s")
    return executable


def fetch_data() -> None:
    """Install Debian's package of the data set where that is possible; the demo knows other ways."""
    if DATA.exists() or os.environ.get("TINY_DATA") or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    say("installing Debian's package dataset-fashion-mnist")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", "dataset-fashion-mnist"]):
        if subprocess.run(command, check=False, **quiet).returncode:  # type: ignore[call-overload]  # two flags
            say(f"{' '.join(command)} failed; going on without it")
            return


def check(sessions: list[str], rest: list[str]) -> int:
    """Run nox sessions in the test environment; the last line counts the tests and checks of all of them."""
    fetch_data()
    executable = python("test")
    results = ROOT / "out" / "results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    environment = {**os.environ, "PATH": f"{executable.parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {
        "OMP_NUM_THREADS": "1",
        "TEST_RESULTS": str(results),
        "VIRTUAL_ENV": str(executable.parent.parent),
    }
    failed: list[str] = []
    for name in sessions:
        start = time.monotonic()
        say(f"session {name}")
        command = [str(executable), "-m", "nox", "--session", name, *(["--", *rest] if rest else [])]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            failed.append(name)
        say(f"session {name}: {'FAILED' if name in failed else 'passed'} in {time.monotonic() - start:.0f} s")
    passed, broken, skipped = count(results)
    # a session that runs no tests is one check
    single = [name for name in sessions if not any(results.glob(f"{name}*.xml"))]
    passed += sum(name not in failed for name in single)
    broken += sum(name in failed for name in single)
    if failed:
        say(f"failed sessions: {', '.join(failed)}")
        broken = max(broken, 1)
    print(f"{passed} passed, {broken} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


def count(results: Path) -> tuple[int, int, int]:
    """Add up the JUnit files that the sessions left: passed, failed, skipped."""
    passed = failed = skipped = 0
    for file in results.glob("*.xml"):
        for suite in ElementTree.parse(file).iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            out = int(suite.get("skipped", 0))
            passed += int(suite.get("tests", 0)) - bad - out
            failed, skipped = failed + bad, skipped + out
    return passed, failed, skipped


if __name__ == "__main__":
    sys.exit(main())
