"""Make `examples/third_party_backend`: what `tiny plugins new acme` writes, and the steps in `steps`.

In: the template in core, and the diffs, applied in the order of their names. Out: the example's files, but
README.md and `steps`, which are its own. `--check` compares instead of writing, and exits with 1 where they
differ.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tiny_core.plugins import new

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "third_party_backend"
STEPS = EXAMPLE / "steps"
OWN = frozenset({"README.md"})
_YEAR = re.compile(rb"(?<=Copyright \(c\) )\d+")


def make(folder: Path) -> dict[str, bytes]:
    """Write the example into a new folder, and return its files.

    Raises:
        subprocess.CalledProcessError: a step does not apply.
    """
    new.write(new.names("acme"), folder)
    for step in sorted(STEPS.glob("*.diff")):
        command = ["git", "apply", "--whitespace=nowarn", str(step)]
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}  # in no repository
        subprocess.run(command, cwd=folder, check=True, env=env)
    files = (f for f in sorted(folder.rglob("*")) if f.is_file())
    made = {f.relative_to(folder).as_posix(): f.read_bytes() for f in files}
    return {path: data for path, data in made.items() if path not in OWN}


def main() -> int:
    """Write, or compare; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name) / "acme")
    wrong = [path for path, data in made.items() if not _same(EXAMPLE / path, data)]
    if arguments.check:
        print("\n".join(f"differs: {path}" for path in wrong) or "as the steps make it")
        return int(bool(wrong))
    for path in wrong:
        target = EXAMPLE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(made[path])
        print(f"wrote {path}")
    return 0


def _same(file: Path, data: bytes) -> bool:
    """Whether a file holds `data`; the year of a licence is the one it was made in."""
    return file.exists() and _YEAR.sub(b"", file.read_bytes()) == _YEAR.sub(b"", data)


if __name__ == "__main__":
    assert shutil.which("git"), "steps are applied by git"
    sys.exit(main())
