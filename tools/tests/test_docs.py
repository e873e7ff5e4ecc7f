"""The documentation is true: its code runs, its tables are the code's, and it names all that is public."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiny_core
from tiny_core import api, dtypes, nn
from tiny_core.codegen.decompose import decompose
from tiny_core.errors import SpecError
from tiny_core.ir import payload
from tiny_core.ir.algebra import simplify
from tiny_core.ir.ops import BINARY, COMPARE, UNARY, Ops
from tiny_core.ir.spec import check
from tiny_core.ir.uop import UOp
from tiny_core.plugins import new
from tools import docblocks, make_docs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = docblocks.pages()
WITH_BLOCKS = [page for page in PAGES if docblocks.blocks(page)]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=[str(p.relative_to(ROOT)) for p in WITH_BLOCKS])
def test_the_blocks_of_a_page_run_and_print_what_it_says(page: Path) -> None:
    ran = docblocks.run_page(page)
    assert len(ran) == sum(not block.skip for block in docblocks.blocks(page))


def test_every_page_of_the_guide_has_code_that_runs() -> None:
    for page in (DOCS / "guide").glob("*.md"):
        assert any(not b.skip and b.output is not None for b in docblocks.blocks(page)), page


def test_what_is_made_from_the_code_is_up_to_date() -> None:
    env = {**os.environ, "DEV": "PYTHON", "CI": "1"}  # what somebody has set does not show
    command = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stale_table_is_noticed() -> None:
    page = (DOCS / "settings.md").read_text()
    assert make_docs.made(page.replace("TINY_SPEC", "TINY_SPECS")) != page.replace("TINY_SPEC", "TINY_SPECS")


# ---- the runner itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "printed"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```sh\nfalse\necho on\n```\n", "failed"),
        ('```text title="a/b.txt"\nx\n```\n\n```sh\ncat a/b.txt\n```\n\n```text\ny\n```\n', "printed"),
        ("```python\nimport os; os._exit(3)\n```\n", "failed"),
    ],
)
def test_a_page_that_is_wrong_fails(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docblocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(docblocks.BlockError, match=says):
        docblocks.run_page(page)


def test_blocks_share_names_files_and_order(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '```python title="twice.py"\ndef twice(x):\n    return 2 * x\n```\n\n'
        "```python\nimport sys; sys.path.insert(0, '.')\nfrom twice import twice\n```\n\n"
        "<!-- not run: it would fail -->\n```python\n1 / 0\n```\n\n"
        "```python\nprint('got', twice(21), id(0))\n```\n\n```text\ngot 42 …\n```\n"
    )
    assert [block.line for block in docblocks.run_page(page)] == [1, 6, 16]
    assert [block.skip for block in docblocks.blocks(page) if block.skip] == ["it would fail"]


@pytest.mark.parametrize(
    ("pattern", "printed", "equal"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\n", "a\n", True),
        ("x … z\n", "x y y z\n", True),
        ("x … z\n", "x y\nz\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_an_ellipsis_stands_for_anything(pattern: str, printed: str, equal: bool) -> None:
    assert docblocks.matches(pattern, printed) is equal


# ---- writing a backend -------------------------------------------------------------------------------------

GUIDE = DOCS / "write-a-backend.md"
EXAMPLE = ROOT / "examples" / "third_party_backend"


def test_the_example_is_what_the_generator_and_the_guide_give() -> None:
    """Its files are those that the page shows, and its test writes and runs, and the generator's."""
    shown = {b.path.removeprefix("acme-tiny/"): b.code for b in docblocks.blocks(GUIDE) if b.path}
    made = {path: data.decode() for path, data in new.content(new.names("acme")).items()}
    have = {
        str(file.relative_to(EXAMPLE)): file.read_text()
        for file in EXAMPLE.rglob("*")
        if file.is_file() and not {"__pycache__", ".pytest_cache", "steps"} & set(file.parts)
    }
    del have["conftest.py"]  # for who runs the tests without having installed the wheel
    assert set(have) == set(shown) | set(made)
    for path, text in have.items():
        if path != "README.md":  # the generator's says how to go on, the example's what it is an example of
            assert re.sub(r"20\d\d", "", shown.get(path, made.get(path, ""))) == re.sub(
                r"20\d\d", "", text
            ), path


def test_the_guide_says_what_every_capability_changes() -> None:
    text = GUIDE.read_text()
    table = text[text.index("| field | what depends on it |") : text.index("### The least")]
    for field in dataclasses.fields(api.Capabilities):
        assert f"`{field.name}`" in table, field.name


def test_the_guide_has_the_payload_of_every_op_of_linear_lists() -> None:
    text = GUIDE.read_text()
    table = text[text.index("### Payloads") : text.index("### Memory")]
    ops = text[text.index("<!-- made: linear ops -->") : text.index("### Payloads")]
    named = set(re.findall(r"[Pp]ayload (\w+)", ops))
    assert len(named) > 8
    for name in named:
        assert f"`{name}`" in table, name


def least() -> api.Capabilities:
    """What the guide says is the least that a target must have."""
    (code,) = [b.code for b in docblocks.blocks(GUIDE) if "LEAST = {" in b.code]
    names: dict[str, object] = {"dtypes": api.dtypes, "Ops": api.Ops}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, names)
    found = names["least"]
    assert isinstance(found, api.Capabilities)
    return found


DTYPES = (dtypes.bool_, *dtypes.ints, dtypes.float16, dtypes.bfloat16, dtypes.float32)


def kernels_of(dtype: dtypes.DType) -> Iterator[UOp]:
    """A kernel for each element-wise operation on a dtype."""
    i = UOp(Ops.SPECIAL, dtypes.int32, (UOp.const(4, dtypes.int32),), payload.Special("group", 0))
    x, y, z = (UOp.param(n, dtype, 4).load(i) for n in (1, 2, 3))
    choice = UOp.param(4, dtypes.bool_, 4).load(i)
    made = [UOp(op, dtype, (x,)) for op in UNARY]
    made += [UOp(op, dtypes.bool_ if op in COMPARE else dtype, (x, y)) for op in BINARY]
    made += [UOp(Ops.WHERE, dtype, (choice, x, y)), UOp(Ops.MULACC, dtype, (x, y, z))]
    made += [UOp(Ops.CAST, to, (x,)) for to in DTYPES if to is not dtype]
    same = [to for to in DTYPES if to.bits == dtype.bits and dtypes.bool_ not in (to, dtype)]
    made += [UOp(Ops.BITCAST, to, (x,)) for to in same if to is not dtype]
    for node in made:
        kernel = UOp.sink(UOp.param(0, node.dtype, 4, "w").store(i, node))
        try:
            check(kernel, "committed")
        except SpecError:
            continue  # there is no such operation on the dtype
        yield kernel


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_the_least_target_has_everything(dtype: dtypes.DType) -> None:
    target, count = least(), 0
    for kernel in kernels_of(dtype):
        check(decompose(simplify(decompose(kernel, target)), target), "decomposed", target)
        count += 1
    assert count > 20


# ---- the reference -----------------------------------------------------------------------------------------


def documented(page: str) -> set[str]:
    return set(re.findall(r"^::: ([\w.]+)", (DOCS / "api" / page).read_text(), re.M))


def test_every_name_of_tiny_core_is_in_the_reference() -> None:
    names = documented("core.md") | documented("tensor.md")
    text = (DOCS / "api" / "core.md").read_text()
    for name in tiny_core._NAMES:
        assert any(entry.endswith(f".{name}") for entry in names) or f"`{name}`" in text, name
    for module in tiny_core._MODULES.values():
        assert module in names or (DOCS / "api" / f"{module.rpartition('.')[2]}.md").exists(), module


def test_every_name_of_nn_is_in_the_reference() -> None:
    entries = documented("nn.md")
    public = [v for k, v in vars(nn).items() if not k.startswith("_") and isinstance(v, type)]
    for module in (nn.optim, nn.state, nn.datasets):
        own = [v for k, v in vars(module).items() if not k.startswith("_") and callable(v)]
        public += [v for v in own if v.__module__ == module.__name__ and v.__doc__]
    assert len(public) > 15
    text = (DOCS / "api" / "nn.md").read_text()
    for value in public:
        assert f"{value.__module__}.{value.__name__}" in entries or f"`{value.__name__}`" in text, value
