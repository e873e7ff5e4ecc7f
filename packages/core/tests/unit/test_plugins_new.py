"""`tiny plugins new`: what it writes works, and what it refuses leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tiny_core
from tiny_core.cli.main import main
from tiny_core.errors import PluginError, TargetError
from tiny_core.plugins import new
from tiny_core.plugins.manifest import Manifest, parse
from tiny_core.plugins.specs import IR_API, RENDERER_API, RUNTIME_API

Install = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


def made(tmp_path: Path, name: str = "acme-k9") -> Path:
    """A new backend in a folder of its own."""
    folder = tmp_path / "project"
    names = new.names(name)
    new.check_free(names)
    new.write(names, folder)
    return folder


def metadata(project: Path, site: Path) -> None:
    """Write what pip would for a project installed in editable mode."""
    import tomllib

    described = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    info = site / f"{described['name'].replace('-', '_')}-{described['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {described['name']}\nVersion: {described['version']}\n")
    groups = described["entry-points"].items()
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for g, named in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))


def python(project: Path, site: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the project is installed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TINY_", "DEV", "PYTEST_"))}
    path = os.pathsep.join([str(site), str(project / "src")])
    full = {**kept, "PYTHONPATH": path, "TINY_CACHE": "0", "OMP_NUM_THREADS": "1", **env}
    return subprocess.run(
        [sys.executable, *words], env=full, cwd=project, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("name", "token", "distribution", "package", "stem"),
    [
        ("acme", "ACME", "acme-tiny", "acme_tiny", "Acme"),
        ("Acme.K1", "ACME_K1", "acme-k1-tiny", "acme_k1_tiny", "AcmeK1"),
        ("x_2b", "X_2B", "x-2b-tiny", "x_2b_tiny", "X2b"),
    ],
)
def test_spellings(name: str, token: str, distribution: str, package: str, stem: str) -> None:
    made = new.names(name)
    assert (made.token, made.distribution, made.package, made.stem) == (token, distribution, package, stem)


@pytest.mark.parametrize("name", ["", "1st", "a b", "a--b", "-a", "a-", "ä", "a/b", "../a", "a" * 41])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(TargetError, match="cannot be the name"):
        new.names(name)


@pytest.mark.parametrize("name", ["acme-tiny", "tiny-acme", "tiny-runtime-acme"])
def test_a_wheel_is_not_a_device(name: str) -> None:
    with pytest.raises(TargetError, match="tiny plugins new acme"):
        new.names(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cpu", "built in"),
        ("amd", "tiny-runtime-amd"),
        ("llvm", "tiny-renderer-llvm"),
        ("mock1", "mock"),
        ("none", "word"),
    ],
)
def test_names_that_are_taken(name: str, why: str) -> None:
    with pytest.raises(PluginError, match=why):
        new.check_free(new.names(name))


def test_names_that_are_taken_here(install: Install) -> None:
    install("acme-tiny", "OTHER")
    install("some-thing", "ACMED")
    with pytest.raises(PluginError, match=r"acme-tiny 0\.1 is already installed"):
        new.check_free(new.names("acme"))
    with pytest.raises(PluginError, match="offered"):
        new.check_free(new.names("acmed"))


def test_every_placeholder_is_replaced(tmp_path: Path) -> None:
    folder = made(tmp_path)
    files = [f for f in folder.rglob("*") if f.is_file()]
    assert len(files) > 10
    for file in files:
        text = file.read_text()
        assert "newchip" not in (text + str(file.relative_to(folder))).lower(), file
        assert "@CORE@" not in text, file
        assert not [w for w in ("_API@", "@YEAR@") if w in text], file
    assert (folder / ".gitignore").exists()
    assert (folder / ".github" / "workflows" / "test.yml").exists()


def test_its_contracts_are_those_of_this_core(tmp_path: Path) -> None:
    folder = made(tmp_path)
    file = folder / "src" / "acme_k9_tiny" / "plugin.toml"
    described = parse(file.read_bytes(), str(file))
    assert isinstance(described, Manifest)
    assert described.notes == ()
    assert dict(described.api) == {"runtime": RUNTIME_API, "renderer": RENDERER_API, "ir": IR_API}
    core = ".".join(tiny_core.__version__.split(".")[:2])
    assert f'"tiny-core>={core}"' in (folder / "pyproject.toml").read_text()


def test_nothing_is_overwritten(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    assert main(["plugins", "new", "acme-k9", "--path", str(folder)]) == 1
    assert "nothing is overwritten" in capsys.readouterr().err
    assert [f.name for f in folder.iterdir()] == ["mine"]
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert main(["plugins", "new", "acme-k9", "--path", str(tmp_path / "link")]) == 1
    assert main(["plugins", "new", "acme-k9", "--path", str(tmp_path / "no" / "such")]) == 1
    assert main(["plugins", "new", "a b"]) == 2


def test_an_error_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    write = Path.write_bytes

    def fail(self: Path, data: bytes) -> int:
        written.append(self)
        if len(written) == 5:
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(PluginError, match="No space left"):
        made(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_json(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "x"
    assert main(["plugins", "new", "Acme_K9", "--path", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["token"] == "ACME_K9"
    assert said["folder"] == str(folder)
    assert sorted(said["files"]) == sorted(
        f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()
    )


def test_it_is_formatted_and_without_findings(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    folder = made(tmp_path, "newer")
    rules = ["--select", "E,F,W,UP,B,C4,SIM,RET", "--line-length", "110"]
    for words in (["check", *rules], ["format", "--check", "--line-length", "110"]):
        done = python(folder, tmp_path, "-m", "ruff", *words, "--no-cache", ".")
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_computes_passes_its_tests_and_the_check(tmp_path: Path) -> None:
    folder, site = made(tmp_path), tmp_path / "site"
    metadata(folder, site)
    code = "from tiny_core import Tensor; a = Tensor([[1., -2.], [3., 4.]]); "
    code += "print(a.device, (a @ a).relu().tolist(), a.sum(1).tolist())"
    done = python(folder, site, "-c", code, DEV="ACME_K9")
    assert done.stdout == "ACME_K9 [[0.0, 0.0], [15.0, 10.0]] [-1.0, 7.0]\n", done.stderr
    own = python(folder, site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert own.returncode == 0, own.stdout
    assert "passed" in own.stdout
    checked = python(folder, site, "-m", "tiny_core.cli.main", "plugins", "check", ".", "--json")
    rows = json.loads(checked.stdout)["rows"]
    assert [r for r in rows if r["mark"] != "OK"] == []
    few = ("test_exact and add and float32", "-q", "-p", "no:cacheprovider")
    kit = python(folder, site, "-m", "tiny_conformance", "ACME_K9", "-k", *few)
    assert kit.returncode == 0 or "No module named tiny_conformance" in kit.stderr, kit.stdout
