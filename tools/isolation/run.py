"""Show that no installed plugin, however bad, changes what DEV=CPU does, and that each is a readable row in
`tiny doctor`.

Builds the wheels in `fixtures/` (and core's, unless --dist has it), installs core into a new virtual
environment, then installs each bad wheel in turn, and in the end all of them together; then the example, and
what `tiny plugins new` writes. Prints a table; exit code 1 if a row is not as it must be. Needs hatchling in
the Python that runs it; everything else happens in the new environment.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@dataclass(frozen=True, slots=True)
class Case:
    """A bad wheel.

    Args:
        name: folder in `fixtures`.
        also: wheels installed beside it.
        token: the row of `tiny doctor` to look at.
        mark: what that row must begin with, and
        says: words it must contain.
    """

    name: str
    token: str
    mark: str
    says: str
    also: tuple[str, ...] = ()


CASES = (
    Case("good", "GOOD", "OK", "nothing 1"),
    Case("import-error", "LOST", "FAIL", "libfoo.so.3"),
    Case("wrong-contract", "FUTURE", "FAIL", "needs runtime API 2.0"),
    Case("segfault", "CRASH", "FAIL", "SIGSEGV"),
    Case("duplicate", "GOOD", "FAIL", "claimed by tiny-fixture-duplicate and tiny-fixture-good", ("good",)),
    Case("slow-import", "SLOW", "WARN", "ms to load"),
    Case("no-manifest", "PLAIN", "OK", "no plugin.toml"),
)


class Environment:
    """A virtual environment with core in it."""

    def __init__(self, folder: Path, wheels: Sequence[Path], borrow: str) -> None:
        self.folder = folder
        venv.create(folder, with_pip=True)
        binaries = folder / ("Scripts" if os.name == "nt" else "bin")
        self.python = binaries / "python"
        if borrow:
            (self._site() / "borrowed.pth").write_text(borrow + "\n")
        self._pip("install", *(["--no-deps"] if borrow else []), *map(str, wheels))
        if not borrow:
            self._pip("install", "pytest")

    def install(self, wheels: Sequence[Path]) -> None:
        self._pip("install", "--no-deps", "--no-index", "--force-reinstall", *map(str, wheels))

    def uninstall(self, names: Sequence[str]) -> None:
        self._pip("uninstall", "--yes", *(f"tiny-fixture-{n}" for n in names))

    def check(self, dev: str) -> str:
        """What DEV=dev does: the line that `check_device.py` prints, or the error it ends with."""
        done = self._run("-P", str(HERE / "check_device.py"), dev=dev)
        return done.stdout.strip() if done.returncode == 0 else f"FAILED: {done.stderr.strip()}"

    def doctor(self) -> list[dict[str, str]]:
        """The rows of `tiny doctor --json`."""
        done = self._run("-P", "-m", "tiny_core.cli.main", "doctor", "--json", dev="CPU")
        try:
            rows: list[dict[str, str]] = json.loads(done.stdout)["rows"]
        except ValueError:
            sys.exit(f"tiny doctor did not survive: exit code {done.returncode}\n{done.stderr}")
        return rows

    def tiny(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `tiny` with these words."""
        return self._run("-P", "-m", "tiny_core.cli.main", *words, dev="")

    def tests(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a project's own tests, on what is installed."""
        return self._run("-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder), dev="CPU")

    def _site(self) -> Path:
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        return Path(self._run("-c", code, dev="").stdout.strip())

    def _pip(self, *words: str) -> None:
        subprocess.run([self.python, "-m", "pip", "--quiet", *words], check=True)

    def _run(self, *words: str, dev: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TINY_", "PYTHON"))}
        env = {**kept, "DEV": dev, "TINY_CACHE": "0"}
        command = [str(self.python), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=self.folder)


def main() -> int:
    """Run every case and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dist", type=Path, help="folder with wheels of core and renderers; default: build core's"
    )
    parser.add_argument(
        "--borrow", default="", metavar="SITE", help="take core's dependencies from this site-packages folder"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tiny-isolation-") as name:
        work = Path(name)
        ours = (
            sorted(arguments.dist.glob("tiny_*.whl"))
            if arguments.dist
            else _build(work / "core", ["packages/core"])
        )
        cores = [w for w in ours if w.name.startswith(("tiny_core-", "tiny_renderer_llvm-"))]
        folders = [str(HERE.relative_to(ROOT) / "fixtures" / c.name) for c in CASES]
        built = _build(work / "fixtures", folders)
        wheels = {c.name: _wheel(built, f"tiny_fixture_{c.name.replace('-', '_')}") for c in CASES}
        names = ", ".join(w.name for w in cores)
        print(f"built {len(wheels)} fixture wheels; making an environment with {names}")
        environment = Environment(work / "venv", cores, arguments.borrow)
        good = _table(environment, wheels)
        environment.install(_build(work / "example", ["examples/third_party_backend"]))
        example = environment.check("ACME")
        print(f"\nDEV=ACME, from the example's wheel: {example}")
        good &= example.startswith('{"device": "ACME"')
        return 0 if good and _new(environment, work) else 1


def _new(environment: Environment, work: Path) -> bool:
    """Write a backend, build and install its wheel, check it, compute on it, run its tests."""
    folder = work / "fresh-chip"
    made = environment.tiny("plugins", "new", "fresh", "--path", str(folder))
    if made.returncode:
        print(f"tiny plugins new failed: {made.stderr}")
        return False
    (wheel,) = _build(work / "new", [str(folder)])
    environment.install([wheel])
    good = True
    for what in (str(folder), str(wheel), "fresh-tiny"):
        report = json.loads(environment.tiny("plugins", "check", what, "--json").stdout)
        marks = [row["mark"] for row in report["rows"]]
        print(f"tiny plugins check {Path(what).name}: {marks.count('OK')} of {len(marks)} OK")
        good &= set(marks) == {"OK"}
    computed = environment.check("FRESH")
    tests = environment.tests(folder / "tests")
    print(f"DEV=FRESH, from the wheel of what `tiny plugins new` wrote: {computed}")
    print(f"its own tests: {tests.stdout.strip().splitlines()[-1:] or tests.stderr}")
    return good and computed.startswith('{"device": "FRESH"') and tests.returncode == 0


def _build(out: Path, folders: Sequence[str]) -> list[Path]:
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out)]
    sources = [str(ROOT / f) for f in folders]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, *sources], check=True)
    return sorted(out.glob("*.whl"))


def _wheel(wheels: Sequence[Path], name: str) -> Path:
    return next(w for w in wheels if w.name.startswith(f"{name}-"))


def _table(environment: Environment, wheels: dict[str, Path]) -> bool:
    """Install, examine and remove every wheel and print what is seen; returns whether it is as it must be."""
    before = environment.check("CPU")
    if before.startswith("FAILED"):
        print(f"DEV=CPU does not work without any plugin:\n{before}")
        return False
    print(f"DEV=CPU: {before}\n")
    lines = [("wheel", "DEV=CPU unchanged", "tiny doctor says", "as it must")]
    good = True
    for case in CASES:
        names = (case.name, *case.also)
        environment.install([wheels[n] for n in names])
        good &= _examine(environment, before, lines, case.name, [case])
        environment.uninstall(names)
    environment.install(list(wheels.values()))
    together = [c for c in CASES if c.name != "good"]  # GOOD is contested when all are there
    good &= _examine(environment, before, lines, "all together", together)
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    print(
        "\n".join(
            "  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
        )
    )
    return good


def _examine(
    environment: Environment,
    before: str,
    lines: list[tuple[str, str, str, str]],
    name: str,
    cases: Sequence[Case],
) -> bool:
    """Add a line per case for what is installed now; returns whether all is as it must be."""
    after = environment.check("CPU")
    same = after == before
    if not same:
        print(f"with {name}, DEV=CPU is\n{after}")
    rows = environment.doctor()
    cpu = any(r["token"] == "CPU" and r["source"] == "built in" and r["mark"] == "OK" for r in rows)
    good = same and cpu
    for case in cases:
        source = f"tiny-fixture-{case.name} 0.1.0"
        row = next((r for r in rows if r["source"] == source and r["token"] == case.token), None)
        words = "no row"
        if row is not None:
            advice = f" -> {row['next']}" if row["next"] else ""
            words = f"{row['mark']} {row['state']}: {row['text']}{advice}"
        fits = row is not None and row["mark"] == case.mark and case.says in words
        good &= fits
        title = name if len(cases) == 1 else f"{name}: {case.name}"
        lines.append(
            (title, "yes" if same else "NO", f"{case.token} {words}", "yes" if fits and cpu else "NO")
        )
    return good


if __name__ == "__main__":
    sys.exit(main())
