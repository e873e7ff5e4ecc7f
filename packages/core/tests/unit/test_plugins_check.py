"""`tiny plugins check`: a good plugin has no findings, and each fault is found under its name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiny_core.cli.main import main
from tiny_core.plugins import new

Install = Callable[..., Path]
Capture = pytest.CaptureFixture[str]
Rows = dict[str, dict[str, str]]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEV", "TINY_DEV", "TINY_PLUGINS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new backend."""
    folder = tmp_path / "project"
    new.write(new.names("acme-k9"), folder)
    return folder


def check(capsys: Capture, what: Path | str, *words: str) -> tuple[int, Rows]:
    code = main(["plugins", "check", str(what), "--json", *words])
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (code == 0)
    rows: Rows = {}
    for row in found["rows"]:
        if row["check"] not in rows or row["mark"] == "FAIL":
            rows[row["check"]] = row
    return code, rows


def change(file: Path, old: str, text: str) -> None:
    before = file.read_text()
    assert old in before
    file.write_text(before.replace(old, text))


def package(project: Path) -> Path:
    return project / "src" / "acme_k9_tiny"


def test_a_new_backend_has_no_findings(project: Path, capsys: Capture) -> None:
    code, rows = check(capsys, project)
    assert code == 0
    assert {r["mark"] for r in rows.values()} == {"OK"}
    assert set(rows) == {
        "entry points", "manifest", "contracts", "offers", "tokens", "package", "typing", "licence", "load",
        "load budget", "imports", "side effects", "hooks", "specs", "classes", "open", "again", "fork",
    }  # fmt: skip


def test_the_table_names_the_next_step(project: Path, capsys: Capture) -> None:
    (package(project) / "py.typed").unlink()
    assert main(["plugins", "check", str(project)]) == 0
    out = capsys.readouterr().out
    assert "acme-k9-tiny 0.1.0, source folder" in out
    assert "-> add that empty file" in out
    assert "1 WARN" in out


HOOK, FROM = "@hookimpl\ndef tiny_runtimes", "from tiny_core.api"
THREAD = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
COUNT = "    global N\n    N = globals().get('N', 0) + 1\n"
MOCK = (
    "from tiny_core.api import MockSpec\n\ndef tiny_mock_interfaces():\n"
    "    return (MockSpec('ACME_K9', {!r}, {!r}),)"
)
HINT = "from tiny_core.api import HintSpec\n\ndef tiny_error_hints():\n    return (HintSpec('CPU', 'a:b'),)"


@dataclass(frozen=True)
class Fault:
    """A change to a good plugin, and the row that must say so."""

    what: str
    file: str
    old: str
    text: str
    row: str
    says: str


def before(what: str, at: str, text: str, row: str, says: str) -> Fault:
    """Code put into plugin.py before what is there."""
    return Fault(what, "plugin.py", at, f"{text}\n\n{at}", row, says)


PROJECT, TOML, CODE = "pyproject.toml", "plugin.toml", "plugin.py"
RENDERER = '[[renderer]]\nname = "ACME_K9"'
COPY = '        self._at(dest)[: source.nbytes] = source.cast("B")'
FAULTS = [
    Fault("an absent module", PROJECT, 'tiny.plugin"', 'tiny.absent"', "entry points", "name nothing"),
    Fault("no entry points", PROJECT, "tiny.r", "other.r", "entry points", "none in a group"),
    Fault("no TOML", TOML, "manifest = 1", "manifest =", "manifest", "not valid TOML"),
    Fault("from the future", TOML, "manifest = 1", "manifest = 2", "manifest", "manifest version 2"),
    Fault("contract", TOML, 'runtime = "1.', 'runtime = "2.', "contracts", "needs runtime API 2."),
    Fault("an offer alone", TOML, RENDERER, RENDERER.replace("K9", "K8"), "offers", "ACME_K8"),
    Fault("an absent package", PROJECT, '["src/acme_k9_tiny"]', '["src/acme"]', "package", "does not exist"),
    before("an import error", HOOK, "import no_such_module", "load", "no_such_module"),
    before("an exit", HOOK, "raise SystemExit(3)", "load", "SystemExit"),
    before("a crash", HOOK, "import ctypes\nctypes.string_at(0)", "load", "SIGSEGV"),
    before("a hang", HOOK, "import threading\nthreading.Event().wait()", "load", "within 2 s"),
    before("numpy", FROM, "import numpy", "imports", "numpy"),
    before(
        "a library", FROM, "import ctypes\ntry:\n    ctypes.CDLL('libfoo.so.3')\nexcept OSError: pass",
        "side effects", "opens the library libfoo.so.3",
    ),
    before("a process", FROM, "import subprocess\nsubprocess.run(['true'])", "side effects", "process true"),
    before("a thread", FROM, f"import threading\n{THREAD}", "side effects", "starts a thread"),
    Fault("an argument", CODE, "tiny_runtimes()", "tiny_runtimes(config)", "hooks", "config"),
    Fault("an unknown hook", CODE, "tiny_renderers()", "tiny_renderer()", "hooks", "mean tiny_renderers"),
    Fault("no specs", CODE, "return (Rend", "return [1] or (Rend", "hooks", "must return a tuple"),
    Fault("more than the manifest", CODE, '("acme_k91",)', '("acme_k91", "k10")', "specs", "archs"),
    Fault("an absent class", CODE, "AcmeK9Runtime", "AcmeK9Runtim", "classes", "AcmeK9Runtim"),
    Fault("an error", "runtime.py", "  if index:", "  1 // 0\n        if index:", "open", "ZeroDiv"),
    Fault("memory that forgets", "runtime.py", COPY, "        pass", "fork", "does not hold"),
    Fault(
        "other specs each time", CODE, "    return (RuntimeSpec(",
        f"{COUNT}    from functools import partial\n    return (partial(RuntimeSpec, api=(1, N % 2))(",
        "again", "then",
    ),
    before("a hint for another's device", HOOK, HINT, "hooks", "is for CPU"),
    before("a mock by another name", HOOK, MOCK.format("SIM", "a:b"), "hooks", "begins with MOCK"),
    before(
        "a mock not in the manifest", HOOK, MOCK.format("MOCK", "acme_k9_tiny.runtime:AcmeK9Runtime"),
        "specs", "MOCK",
    ),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=[f.what for f in FAULTS])
def test_each_fault_is_found(project: Path, capsys: Capture, fault: Fault) -> None:
    change((project if fault.file == PROJECT else package(project)) / fault.file, fault.old, fault.text)
    code, rows = check(capsys, project, "--limit", "2" if "wait()\n" in fault.text else "30")
    assert code == 1
    assert rows[fault.row]["mark"] == "FAIL", rows
    assert fault.says in rows[fault.row]["text"] + rows[fault.row]["next"]


@pytest.mark.parametrize(
    ("file", "row"),
    [("src/acme_k9_tiny/py.typed", "typing"), ("LICENSE", "licence")],
)
def test_what_should_be_in_the_wheel(project: Path, capsys: Capture, file: str, row: str) -> None:
    (project / file).unlink()
    code, rows = check(capsys, project)
    assert (code, rows[row]["mark"]) == (0, "WARN")


def test_a_manifest_that_is_not_in_the_package(project: Path, capsys: Capture) -> None:
    (package(project) / "plugin.toml").unlink()
    code, rows = check(capsys, project)
    assert code == 1
    assert "cannot be read" in rows["manifest"]["text"]
    assert rows["load"]["mark"] == "--"


def test_without_a_manifest(project: Path, capsys: Capture) -> None:
    change(
        project / "pyproject.toml",
        '[project.entry-points."tiny.manifest"]\nacme-k9 = "acme_k9_tiny:plugin.toml"',
        "",
    )
    code, rows = check(capsys, project)
    assert (code, rows["manifest"]["mark"]) == (0, "WARN")
    assert rows["open"]["mark"] == "OK"


def test_private_modules_of_core(project: Path, capsys: Capture) -> None:
    change(
        package(project) / "plugin.py",
        "from tiny_core.api import",
        "import tiny_core.nn.optim\nfrom tiny_core.api import",
    )
    _, rows = check(capsys, project)
    assert rows["imports"]["mark"] in ("WARN", "FAIL")
    assert "tiny_core.nn" in rows["imports"]["text"] or "numpy" in rows["imports"]["text"]


def test_the_load_budget(project: Path, capsys: Capture) -> None:
    slow = "import time\nuntil = time.perf_counter() + 0.3\nwhile time.perf_counter() < until: pass\n"
    change(package(project) / "plugin.py", "from tiny_core.api import", slow + "from tiny_core.api import")
    code, rows = check(capsys, project)
    assert (code, rows["load budget"]["mark"]) == (1, "FAIL")


def test_a_device_that_is_not_on_this_machine(project: Path, capsys: Capture) -> None:
    change(
        package(project) / "runtime.py",
        "        if index:\n",
        "        if not index:\n            raise DeviceError('no board', 'plug it in')\n        if index:\n",
    )
    code, rows = check(capsys, project)
    assert code == 0
    assert (rows["open"]["mark"], rows["open"]["next"]) == ("WARN", "plug it in")
    assert rows["fork"]["mark"] == "--"


def test_a_token_of_somebody_else(tmp_path: Path, install: Install, capsys: Capture) -> None:
    folder = tmp_path / "mine"
    new.write(new.names("acmed"), folder)
    install("other-thing", "ACMED")
    code, rows = check(capsys, folder)
    assert (code, rows["tokens"]["mark"]) == (0, "WARN")
    assert "other-thing 0.1" in rows["tokens"]["text"]
    assert rows["open"]["mark"] == "OK"


def wheel(project: Path, file: Path, leave_out: str = "") -> Path:
    """Pack a project as a wheel is packed."""
    points = (
        "[tiny.runtimes]\nACME_K9 = acme_k9_tiny.plugin\n[tiny.renderers]\nACME_K9 = acme_k9_tiny.plugin\n"
    )
    points += "[tiny.manifest]\nacme-k9 = acme_k9_tiny:plugin.toml\n"
    info = "acme_k9_tiny-0.1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        for each in package(project).iterdir():
            if each.is_file() and each.name != leave_out:
                archive.write(each, f"acme_k9_tiny/{each.name}")
        header = "Metadata-Version: 2.4\nName: acme-k9-tiny\nVersion: 0.1.0\nLicense-Expression: MIT\n"
        archive.writestr(f"{info}/METADATA", header)
        archive.writestr(f"{info}/entry_points.txt", points)
        archive.write(project / "LICENSE", f"{info}/licenses/LICENSE")
    return file


def test_a_wheel(project: Path, tmp_path: Path, capsys: Capture) -> None:
    code, rows = check(capsys, wheel(project, tmp_path / "a.whl"))
    assert code == 0
    assert {r["mark"] for r in rows.values()} == {"OK"}
    assert rows["licence"]["text"] == "MIT (LICENSE)"


def test_a_wheel_without_its_manifest(project: Path, tmp_path: Path, capsys: Capture) -> None:
    code, rows = check(capsys, wheel(project, tmp_path / "a.whl", leave_out="plugin.toml"))
    assert (code, rows["manifest"]["mark"]) == (1, "FAIL")


def test_what_is_no_plugin(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.whl").write_text("no zip")
    assert main(["plugins", "check", str(tmp_path / "a.whl")]) == 1
    assert "is not a wheel" in capsys.readouterr().err
    assert main(["plugins", "check", str(tmp_path)]) == 1
    assert "pyproject.toml" in capsys.readouterr().err
    assert main(["plugins", "check", "no-such-thing"]) == 2
    assert main(["plugins", "check", "cpu"]) == 2


def test_an_installed_plugin_by_name_or_token(install: Install, capsys: Capture) -> None:
    install("acme-thing", "ACME")  # its device's memory forgets
    for name in ("acme-thing", "ACME"):
        code, rows = check(capsys, name)
        assert (code, rows["fork"]["mark"]) == (1, "FAIL")
        assert rows["load"]["mark"] == rows["open"]["mark"] == "OK"
        assert rows["licence"]["mark"] == "WARN"
