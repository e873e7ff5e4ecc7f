"""Every check of this repository, one session each: `nox -l` is the contributor's manual.

Sessions that only read the tree run in the environment they are called from (`tools/dev.py test` makes one
with all that is needed); `wheels` and `isolation` make clean ones of their own.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
PACKAGES = ("core", "renderer-llvm", "conformance")
LONGEST_FILE = 600
LONG_FILES: dict[str, str] = {}  # path: why it is longer
CORE_WHEEL_MB = 1.0
SITE = ("mkdocs-material>=9.7,<10", "mkdocstrings-python>=2,<3", "ruff")
TARGETS = ("CPU:LLVM", "CPU:C", "PYTHON", "PYTHON:LLVM:gfx1100", "NULL:LLVM:gfx1100")

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "layers", "tests"]


def results(name: str) -> list[str]:
    """Where a pytest run leaves its counts for `tools/dev.py`."""
    folder = os.environ.get("TEST_RESULTS")
    return [f"--junitxml={folder}/{name}.xml"] if folder else []


def project(name: str) -> dict[str, object]:
    text = (ROOT / "packages" / name / "pyproject.toml").read_text()
    made: dict[str, object] = tomllib.loads(text)["project"]
    return made


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format; no source file is longer than it should be."""
    session.run("python", "-m", "ruff", "check", ".", external=True)
    session.run("python", "-m", "ruff", "format", "--check", ".", external=True)
    for file in sorted(ROOT.glob("packages/*/src/**/*.py")):
        lines = file.read_text().count("\n")
        path = str(file.relative_to(ROOT))
        if lines > LONGEST_FILE and path not in LONG_FILES:
            session.error(f"{path} has {lines} lines: split it by idea, or give the reason in LONG_FILES")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over all packages and tools."""
    sources = [f"packages/{p}/src" for p in PACKAGES]
    session.run("python", "-m", "mypy", *sources, external=True)
    session.run("python", "-m", "mypy", "tools", "noxfile.py", external=True)
    example = {"MYPYPATH": "examples/third_party_backend/src"}
    session.run("python", "-m", "mypy", "-p", "acme_tiny", external=True, env=example)


@nox.session
def layers(session: nox.Session) -> None:
    """import-linter: layers of core, plugins import tiny_core.api only, core imports no plugin."""
    session.run("lint-imports", ".importlinter", external=True)


@nox.session
def tests(session: nox.Session) -> None:
    """pytest over all packages, the example and tools; words after -- go to it."""
    command = ["python", "-m", "pytest", "-n", "2", *results("tests"), *session.posargs]
    session.run(*command, external=True, env={"OMP_NUM_THREADS": "1"})


@nox.session
def conform(session: nox.Session) -> None:
    """The conformance kit on each target of ours, or on those named after --."""
    broken = []
    for target in session.posargs or TARGETS:
        name = f"conform-{re.sub(r'[^a-z0-9]+', '-', target.lower())}"
        command = ["python", "-m", "tiny_conformance", target, "-n", "2", "--tb", "short", *results(name)]
        try:
            session.run(*command, external=True, env={"OMP_NUM_THREADS": "1"})
        except CommandFailed:  # go on: what the other targets say is wanted too
            broken.append(target)
    if broken:
        session.error(f"failed on {', '.join(broken)}")


@nox.session
def build(session: nox.Session) -> None:
    """Wheels and sdists of all packages into dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    for name in PACKAGES:
        session.run(
            "python", "-m", "build", "--no-isolation", "--outdir", str(DIST), f"packages/{name}",
            external=True, silent=True,
        )  # fmt: skip
    session.log(f"{len(list(DIST.iterdir()))} files in dist/")


@nox.session
def check_dist(session: nox.Session) -> None:
    """What is in dist/: metadata, typing marker, manifests, entry points, versions, size."""
    files = sorted(DIST.glob("*"))
    session.run("python", "-m", "twine", "check", "--strict", *map(str, files), external=True)
    versions = {str(project(name)["version"]) for name in PACKAGES}
    if len(versions) != 1:
        session.error(f"versions differ: {versions}")
    for wheel in DIST.glob("*.whl"):
        check_wheel(session, wheel)


def check_wheel(session: nox.Session, wheel: Path) -> None:
    """Fail if a wheel lacks something that it promises."""
    megabytes = wheel.stat().st_size / 1e6
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        package = next(n.split("/")[0] for n in names if n.endswith("/__init__.py"))
        entry_points = next((n for n in names if n.endswith("entry_points.txt")), None)
        text = archive.read(entry_points).decode() if entry_points else ""
        if (
            re.search(r"^\[tiny\.(runtimes|renderers|kernels|commands)\]", text, re.M)
            and "[tiny.manifest]" not in text
        ):
            session.error(f"{wheel.name} offers a plugin and has no manifest")
    session.log(f"{wheel.name}: {len(names)} files, {megabytes:.2f} MB")
    if f"{package}/py.typed" not in names:
        session.error(f"{wheel.name} has no py.typed")
    if package == "tiny_core" and megabytes > CORE_WHEEL_MB:
        session.error(f"{wheel.name} has {megabytes:.2f} MB")
    for target in re.findall(r"^[\w.-]+ *= *([\w.:-]+)$", text, re.M):
        module, _, rest = target.partition(":")
        path = module.replace(".", "/")
        found = {f"{path}.py", f"{path}/__init__.py"} & names
        if not found or (rest.endswith(".toml") and f"{path}/{rest}" not in names):
            session.error(f"{wheel.name}: entry point {target} names nothing in the wheel")


@nox.session(venv_backend="venv")
def wheels(session: nox.Session) -> None:
    """Install only from dist/ into a clean environment: core alone, which computes through a C compiler; then
    all, where tests copied outside the tree are run."""
    if not DIST.exists():
        session.error("run the build session first")
    program = "from tiny_core import Tensor; assert (Tensor([1., 2]) + 1).tolist() == [2, 3]"
    session.install(*map(str, DIST.glob("tiny_core-*.whl")))
    for device in ("CPU", "PYTHON"):
        session.run("python", "-c", program, env={"DEV": device})
    said = session.run("tiny", "doctor", "CPU", silent=True)
    if "  C, " not in str(said):
        session.error(f"CPU without renderer-llvm is not rendered as C:\n{said}")
    session.install("pytest", "hypothesis", *map(str, sorted(DIST.glob("*.whl"))))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tests"
        shutil.copytree(ROOT / "packages" / "core" / "tests", copy)
        session.chdir(folder)
        command = [
            "python", "-P", "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider",
            "tests/unit/test_target.py", "tests/unit/test_plugins_select.py",
            "tests/unit/test_tensor_import.py", "tests/ir/test_text.py", "tests/ir/test_rewrite.py",
            *results("wheels"),
        ]  # fmt: skip
        session.run(*command)
        some = "test_every_tail or test_statistics or test_convolution or test_product"
        conform = ["tiny-conform", "CPU", "-k", some, "-p", "no:cacheprovider", *results("wheels-conform")]
        session.run(*conform, env={"OMP_NUM_THREADS": "1"})
        session.run("tiny", "--version", "-v")
        session.run("tiny", "devices")
        session.run("python", "-c", program)


@nox.session
def isolation(session: nox.Session) -> None:
    """Bad plugins, really built and installed: none changes what DEV=CPU does; the example backend works."""
    session.run("python", "tools/isolation/run.py", "--dist", str(DIST), external=True)


@nox.session(venv_backend="venv")
def docs(session: nox.Session) -> None:
    """The documentation site into out/site: no warnings, no missing page, nothing loaded from elsewhere."""
    session.install(*SITE)
    session.run("mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})
    pages = sorted((ROOT / "out" / "site").rglob("*.html"))
    for page in pages:
        found = re.search(
            r"""(?:src|href)=["'](https?:[^"']+\.(?:js|css|woff2?|png|svg))""", page.read_text()
        )
        if found:
            session.error(f"{page.name} loads {found[1]}")
    session.log(f"{len(pages)} pages in out/site")


@nox.session
def bench(session: nox.Session) -> None:
    """Benchmarks against their peers: names, and --json FILE."""
    session.run("python", "tools/bench", *session.posargs, external=True)


@nox.session
def demo(session: nox.Session) -> None:
    """The main job at full size."""
    session.run("python", "tools/demo.py", *session.posargs, external=True)


@nox.session
def replay(session: nox.Session) -> None:
    """Process replay: the kernels that a set of programs generates; `-- REVISION` compares with that one."""
    now = kernels(session, ROOT)
    session.log(f"kernels {hashlib.sha256(now.encode()).hexdigest()[:16]}")
    if not session.posargs:
        return
    revision = session.posargs[0]
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "base.tar"
        session.run("git", "archive", "--output", str(archive), revision, "packages", external=True)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        before = kernels(session, Path(folder))
    changed = list(
        difflib.unified_diff(before.splitlines(), now.splitlines(), revision, "now", lineterm="", n=9)
    )
    if changed:
        print("\n".join(changed[:200]))
        session.error(f"kernels differ from those of {revision}")
    session.log(f"equal to those of {revision}")


def kernels(session: nox.Session, root: Path) -> str:
    """The text of the kernels that the packages below `root` generate."""
    path = os.pathsep.join(str(root / "packages" / p / "src") for p in PACKAGES)
    env = {"PYTHONPATH": path}
    return str(session.run("python", "tools/replay.py", external=True, silent=True, log=False, env=env))
