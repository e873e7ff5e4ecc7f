"""Run the code blocks of a Markdown page, as a reader would: from top to bottom, in one folder.

In: a page. Out: what ran, or the block that failed. Guaranteed: every `python` and `sh` block of the page
ran, or the page says why it is not to run.

- Python blocks share one interpreter state: a later one sees the names of the earlier ones.
- `sh` blocks are run by a shell that stops at the first failure. `tiny`, `tiny-conform`, `python`, `pip` and
  `pytest` are those of a virtual environment made for the page, in which everything installed here is found.
- A `text` block that follows is what must be printed, to the letter, except that a line `…` stands for any
  lines, and `…` within a line for anything.
- A block whose fence says `title="PATH"` is the content of that file in the page's folder.
- A comment `<!-- not run: REASON -->` before a block says why it is only shown.

`python tools/docblocks.py [PAGE …]` runs pages and counts; without names, all of docs/.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FENCE = re.compile(
    r"(?P<skip><!-- not run: (?P<why>[^>]+) -->\n+)?"
    r"^(?P<indent> *)```(?P<kind>[\w+-]*)(?P<rest>[^\n]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.M | re.S,
)
_TITLE = re.compile(r'title="([^"]+)"')
_MARK = "\x1edocblock"
COMMANDS = {
    "tiny": "tiny_core.cli.main",
    "tiny-conform": "tiny_conformance",
    "pip": "pip",
    "pytest": "pytest",
}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code.

    Args:
        line: where it begins on its page.
        kind: language of its fence.
        code: what it says.
        output: what it must print; None for anything.
        path: file that it is the content of, or "".
        skip: why it is not run, or "".
    """

    line: int
    kind: str
    code: str
    output: str | None = None
    path: str = ""
    skip: str = ""


class BlockError(Exception):
    """A block did not do what its page says."""


def pages() -> list[Path]:
    """The pages of docs/."""
    return sorted((ROOT / "docs").rglob("*.md"))


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are run, written, or skipped, in order."""
    text = page.read_text()
    found: list[Block] = []
    end, open_ = 0, False  # whether the block before may be followed by its output
    for match in _FENCE.finditer(text):
        code = textwrap.dedent(match["code"])
        between, end = text[end : match.start()], match.end()
        title = _TITLE.search(match["rest"])
        if match["kind"] == "text" and title is None and open_ and not between.strip():
            last = found.pop()
            found.append(Block(last.line, last.kind, last.code, code, "", last.skip))
        open_ = title is None and match["kind"] in ("python", "sh")
        if title is None and not open_:
            continue
        line = text.count("\n", 0, match.start("kind")) + 1
        path = title[1] if title else ""
        found.append(Block(line, match["kind"], code, None, path, match["why"] or ""))
    return found


def run_page(page: Path) -> list[Block]:
    """Run the blocks of a page; returns those that ran or were written.

    Raises:
        BlockError: one fails, or prints something else than the page says.
    """
    todo = [block for block in blocks(page) if not block.skip]
    if not todo:
        return []
    with tempfile.TemporaryDirectory(prefix="tiny-docs-") as name:
        session = _Session(Path(name).resolve(), any(block.kind == "sh" for block in todo))
        try:
            for block in todo:
                wrong = session.run(block)
                if wrong:
                    raise BlockError(f"{page.relative_to(ROOT)}, line {block.line}: {wrong}")
        finally:
            session.close()
    return todo


def matches(pattern: str, printed: str) -> bool:
    """Whether `printed` is what a page says, where `…` stands for anything."""
    parts = []
    for line in pattern.strip("\n").split("\n"):
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            words = r"[^\n]*?".join(re.escape(word) for word in line.rstrip().split("…"))
            parts.append(words + r"[ ]*\n")
    return re.fullmatch("".join(parts), printed.strip("\n") + "\n") is not None


class _Session:
    """A page's folder, interpreter and shell."""

    def __init__(self, folder: Path, shell: bool) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TINY_") and k != "DEV"}
        self.env = {
            **kept,
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "110",
            "PYTHONUNBUFFERED": "1",
            "HOME": str(folder),
        }
        for name in ("TINY_CACHE_DIR", "XDG_CACHE_HOME"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        if "XDG_CACHE_HOME" not in self.env:  # keep what has been compiled before
            self.env["XDG_CACHE_HOME"] = os.path.join(os.path.expanduser("~"), ".cache")
        python = _environment(folder / "env") if shell else Path(sys.executable)
        if shell:
            self.env["PATH"] = f"{python.parent}{os.pathsep}{self.env['PATH']}"
            self.env["VIRTUAL_ENV"] = str(python.parent.parent)
            # packages are installed from what is here, as the machine may have no network
            self.env |= {
                "PIP_NO_INDEX": "1",
                "PIP_NO_BUILD_ISOLATION": "0",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            }
        self.python = python
        self._process: subprocess.Popen[str] | None = None

    def run(self, block: Block) -> str:
        """Run a block; returns what is wrong, or ""."""
        if block.path:
            file = self.folder / block.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.code)
            return ""
        code, printed = self._python(block.code) if block.kind == "python" else self._shell(block.code)
        if code:
            return f"failed ({code})\n{block.code}\n{printed}"
        if block.output is not None and not matches(block.output, printed):
            return f"printed\n{printed}\nand the page says\n{block.output}"
        return ""

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _shell(self, code: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-eu", "-c", code], cwd=self.folder, env=self.env, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _python(self, code: str) -> tuple[int, str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [str(self.python), "-c", _LOOP], cwd=self.folder, env=self.env, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(code) + "\n")
        process.stdin.flush()
        lines: list[str] = []
        for line in process.stdout:
            text, mark, status = line.partition(_MARK)
            lines.append(text)
            if mark:
                return int(status), "".join(lines)
        return process.wait() or 1, "".join(lines)  # it exited


# What a page's interpreter runs: blocks come in as lines of JSON; after each, a mark and whether it failed.
_LOOP = f"""
import json, linecache, sys, traceback
sys.argv, names = ["page"], {{"__name__": "__main__"}}
for count, line in enumerate(sys.stdin):
    code, failed = json.loads(line), 0
    name = f"<block {{count}}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        exec(compile(code, name, "exec"), names)
    except BaseException:
        traceback.print_exc()
        failed = 1
    sys.stderr.flush()
    print("{_MARK}", failed, flush=True)
"""


def _environment(folder: Path) -> Path:
    """Make a virtual environment in which all that is installed here is found too; returns its Python."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    python = binaries / "python"
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    lines = [f"import site; site.addsitedir({path!r})" for path in sorted(here)]
    (inside / "borrowed.pth").write_text("\n".join(lines) + "\n")
    for name, module in COMMANDS.items():
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec "{python}" -m {module} "$@"\n')
        script.chmod(0o755)
    return python


def main(names: list[str]) -> int:
    """Run pages and print how many blocks each has; returns the exit code."""
    total = skipped = 0
    failed: list[str] = []
    chosen = [Path(name).resolve() for name in names] or pages()
    for page in chosen:
        try:
            ran = run_page(page)
        except BlockError as error:
            failed.append(str(error))
            continue
        left = [block for block in blocks(page) if block.skip]
        total, skipped = total + len(ran), skipped + len(left)
        if ran or left:
            print(
                f"{len(ran):>4} {page.relative_to(ROOT)}" + (f" ({len(left)} not run)" if left else ""),
                flush=True,
            )
    print(f"{total} blocks ran on {len(chosen)} pages, {skipped} are only shown, {len(failed)} pages failed")
    print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
