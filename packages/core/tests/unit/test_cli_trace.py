"""`tiny trace SCRIPT.py`: which kernels a script launches, where they come from, and what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tiny_core.cli.main import main

pytestmark = pytest.mark.filterwarnings("error")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int

    @property
    def kernels(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.out)["kernels"]
        return found


Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scripts are."""
    return tmp_path_factory.mktemp("scripts")


@pytest.fixture(scope="module")
def trace(folder: Path) -> Run:
    """A function that writes a script and runs `tiny trace` on it, with these words; what has run before is
    not run again."""
    known: dict[tuple[str, ...], Ran] = {}

    def run(script: str, *words: str, dev: str = "PYTHON", **settings: str) -> Ran:
        key = (script, dev, *words)
        if settings or key not in known:
            (folder / "script.py").write_text(textwrap.dedent(script))
            env = {k: v for k, v in os.environ.items() if not k.startswith("TINY_")}
            env |= {"DEV": dev, "TINY_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1", **settings}
            line = [sys.executable, "-m", "tiny_core.cli.main", "trace", "script.py", *words]
            done = subprocess.run(line, env=env, cwd=folder, capture_output=True, text=True, check=False)
            known[key] = Ran(done.stdout, done.stderr, done.returncode)
        return known[key]

    return run


def lines(kernel: dict[str, Any]) -> set[tuple[int, int | None]]:
    """The lines of a kernel: number, and that of the line that asked for the gradient."""
    return {(at["line"], (at["gradient_at"] or {"line": None})["line"]) for at in kernel["lines"]}


# ---- where kernels come from -------------------------------------------------------------------------------

FUSED = """\
from tiny_core import Tensor
a = Tensor([[1.0] * 64] * 64)
b = Tensor([[2.0] * 64] * 64)
def act(x):
    return x.relu() + 1
y = a @ b
z = act(y)
z.realize()
rows = z.softmax(1)
rows.sum(0).realize()
"""


def test_a_kernel_has_the_lines_of_all_that_was_fused_into_it(trace: Run) -> None:
    product, rows = trace(FUSED, "--stage", "kernel", "--json").kernels
    assert lines(product) == {(6, None), (5, None)}, "matmul, relu and the addition"
    assert lines(rows) == {(9, None), (10, None)}, "softmax and the sum of its rows"
    assert [at["text"] for at in product["lines"]] == ["return x.relu() + 1", "y = a @ b"]
    assert product["flops"] >= 2 * 64**3 and product["bytes"] == 3 * 64 * 64 * 4
    assert product["id"] != rows["id"] and [k["number"] for k in (product, rows)] == [1, 2]


def test_gradients_have_the_line_of_their_operation_and_the_line_that_asked(trace: Run) -> None:
    script = """\
    from tiny_core import Tensor
    x = Tensor([[float(i * j % 5) for i in range(64)] for j in range(64)])
    w = Tensor([[0.01] * 64] * 64, requires_grad=True)
    h = x @ w
    r = h.tanh().realize()
    loss = (r * r).sum()
    loss.backward()
    w.grad.realize()
    w.assign(w - w.grad.detach()).realize()
    """
    kernels = trace(script, "--json").kernels
    forward = [k for k in kernels if any(asked is None for _, asked in lines(k))]
    backward = [k for k in kernels if any(asked is not None for _, asked in lines(k))]
    assert {n for k in forward for n, _ in lines(k)} >= {4, 5, 9}
    asked = {pair for k in backward for pair in lines(k)}
    # the product's gradient is asked for through a value that was realized before
    assert {(4, 7), (5, 7), (6, 7)} <= asked
    assert {a for _, a in asked} <= {7, None}
    assert lines(kernels[-1]) == {(9, None)}, "the assignment reads a gradient that is there"


def test_what_the_library_does_for_a_line_is_that_line_s(trace: Run) -> None:
    """Random numbers and their counter, optimizers, and both parts of a reduction that is cut in two."""
    script = """\
    from tiny_core import Tensor, nn
    Tensor.manual_seed(1)
    x = Tensor.rand(1 << 19).realize()
    total = x.sum().realize()
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = nn.optim.Adam([w])
    (w * 2).sum().backward()
    optimizer.step()
    """
    kernels = trace(script, "--json", dev="CPU:C").kernels
    assert all(k["lines"] for k in kernels), "none comes from nowhere"
    by_line = {n: [k for k in kernels if (n, None) in lines(k)] for n in (3, 4, 8)}
    assert len(by_line[3]) == 2 and len(by_line[4]) == 2 and by_line[8]
    assert all(lines(k) == {(4, None)} for k in by_line[4])


def test_lines_of_modules_beside_the_script(trace: Run, folder: Path) -> None:
    (folder / "layers.py").write_text("def double(x):\n\n    return x * 2\n")
    script = """\
    import layers, sys
    from tiny_core import Tensor
    assert __name__ == "__main__" and sys.argv[1:] == ["--json", "3"], sys.argv
    import pickle
    class Thing: pass
    pickle.dumps(Thing())
    (layers.double(Tensor([1.0, 2.0])) + 1).realize()
    """
    ran = trace(script, "--json", "--", "--json", "3")
    (kernel,) = ran.kernels
    assert ran.code == 0, ran.err
    assert [(Path(at["file"]).name, at["line"]) for at in kernel["lines"]] == [
        ("layers.py", 3),
        ("script.py", 7),
    ]


def test_one_node_made_by_two_lines_has_both(trace: Run) -> None:
    script = """\
    from tiny_core import Tensor
    x = Tensor([1.0, 2.0, 3.0])
    a = x + 1
    b = x + 1
    Tensor.realize(a, b)
    """
    kernels = trace(script, "--json").kernels
    assert {n for k in kernels for n, _ in lines(k)} == {3, 4}


# ---- how often, where, how long ----------------------------------------------------------------------------


def test_replays_are_launches_of_the_kernels_that_were_captured(trace: Run) -> None:
    script = """\
    from tiny_core import Tensor, jit
    x = Tensor([1.0, 2.0, 3.0, 4.0])
    @jit
    def f(x):
        return (x * 3).sum()
    for _ in range(7):
        f(x)
    """
    (kernel,) = trace(script, "--json").kernels
    assert kernel["launches"] == 7 and kernel["seconds"] > 0
    assert [(at["line"], at["launches"]) for at in kernel["lines"]] == [(5, 7)]
    assert kernel["gflops_per_second"] == pytest.approx(kernel["flops"] * 7e-9 / kernel["seconds"])


def test_a_kernel_that_two_places_share_is_one_with_the_launches_of_each(trace: Run) -> None:
    script = """\
    from tiny_core import Tensor
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    for _ in range(3):
        (x * 2).realize()
    (y * 2).realize()
    """
    (kernel,) = trace(script, "--json").kernels
    assert kernel["launches"] == 4
    assert {at["line"]: at["launches"] for at in kernel["lines"]} == {4: 3, 5: 1}


def test_devices_copies_and_threads(trace: Run) -> None:
    script = """\
    import threading
    from tiny_core import Tensor
    def work():
        (Tensor([1.0] * 5, device="CPU") + 1).realize()
    x = (Tensor([1.0] * 4, device="PYTHON") * 3).realize()
    y = (x.to("NULL") * 2).realize()
    threading.Thread(target=work).start()
    """
    ran = trace(script, "--json", dev="PYTHON;CPU:C;NULL:C:x86_64")
    by_device = {k["device"]: k for k in ran.kernels}
    assert set(by_device) == {"PYTHON", "NULL", "CPU"}
    assert by_device["NULL"]["seconds"] is None and by_device["NULL"]["gflops_per_second"] is None
    assert lines(by_device["CPU"]) == {(4, None)}, "the thread was waited for"
    (copy,) = json.loads(ran.out)["copies"]
    assert (copy["from"], copy["to"], copy["count"], copy["bytes"]) == ("PYTHON", "NULL", 1, 16)


def test_a_forked_child_leaves_the_trace_to_its_parent(trace: Run) -> None:
    script = """\
    import os
    from tiny_core import Tensor
    (Tensor([1.0, 2.0]) * 3).realize()
    if (child := os.fork()):
        os.waitpid(child, 0)
    """
    assert len(trace(script, "--json").kernels) == 1


# ---- stages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "signs"),
    [
        ("schedule", ["CPU kernel writes %", "reads %", "border add [64, 64]: contraction"]),
        ("kernel", ['range.reduce 64 "r0', "sink "]),
        ("linear", ['linear "r_64_64_r64" options=[', "range.loop"]),
        ("source", ["void r_64_64_r64("]),
        ("asm", ["<r_64_64_r64>:", "ret"]),
    ],
)
def test_a_stage_of_one_kernel(trace: Run, stage: str, signs: list[str]) -> None:
    script = FUSED.replace("z.realize()", "(z @ b).realize()")
    text = trace(script, "--stage", stage, "--kernel", "1", dev="CPU:C").out
    assert text.startswith("# 1 r_64_64_r64 on CPU: 2 launches, "), text
    for sign in signs:
        assert sign in text, sign


def test_the_kernel_stage_is_text_that_can_be_read_back(trace: Run) -> None:
    from tiny_core.ir.spec import check
    from tiny_core.ir.text import parse

    for kernel in trace(FUSED, "--stage", "kernel", "--json").kernels:
        check(parse(kernel["text"]), "kernel")


def test_what_the_cache_knows_is_shown_as_if_it_had_been_compiled(trace: Run, tmp_path: Path) -> None:
    settings = {"TINY_DEBUG": "1", "TINY_CACHE_DIR": str(tmp_path)}
    first = trace(FUSED, "--stage", "source", "--json", dev="CPU:C", **settings)
    again = trace(FUSED, "--stage", "source", "--json", dev="CPU:C", **settings)
    assert "compiled 0 in" in again.err and "compiled 0 in" not in first.err
    varying = {"seconds", "gflops_per_second", "gbytes_per_second"}
    strip = [
        [{k: v for k, v in kernel.items() if k not in varying} for kernel in r.kernels]
        for r in (first, again)
    ]
    assert strip[0] == strip[1] and strip[0][0]["text"]


def test_linear_text_is_that_of_the_settings_of_the_time(trace: Run) -> None:
    script = """\
    from tiny_core import Context, Tensor
    x = Tensor([[1.0] * 64] * 64).realize()
    with Context(OPTIMIZE=0):
        (x @ x).realize()
    (x @ x).realize()
    """
    plain, tiled = trace(script, "--stage", "linear", "--json", dev="CPU:C").kernels
    assert plain["options"] == [] and tiled["options"]
    assert "lanes=" not in plain["text"] and "lanes=" in tiled["text"]
    assert plain["id"] != tiled["id"]


def test_assembly_and_resources_of_a_gpu_that_is_not_there(trace: Run) -> None:
    pytest.importorskip("tiny_renderer_llvm")
    ran = trace(FUSED, "--stage", "asm", "--json", dev="NULL:LLVM:gfx1100")
    kernel = ran.kernels[0]
    assert "s_endpgm" in kernel["text"] and kernel["arch"] == "gfx1100"
    assert kernel["resources"]["registers"]["vgpr"] > 0 and kernel["resources"]["most"] > 0
    assert "vgpr" in trace(FUSED, "--kernel", "1", dev="NULL:LLVM:gfx1100").out


def test_a_device_without_assembly_among_others_says_so_in_its_place(trace: Run) -> None:
    script = """\
    from tiny_core import Tensor
    (Tensor([1.0, 2.0], device="PYTHON") + 1).realize()
    (Tensor([1.0, 2.0], device="CPU") + 1).realize()
    """
    ran = trace(script, "--stage", "asm", dev="PYTHON;CPU:C")
    assert "(e_2 has no assembly: PYTHON interprets the linear kernel)" in ran.out and "<e_2>:" in ran.out
    assert [
        k["text"] is None for k in trace(script, "--stage", "asm", "--json", dev="PYTHON;CPU:C").kernels
    ] == [
        True,
        False,
    ]


# ---- how a script ends, and what is printed ----------------------------------------------------------------

ENDS = """\
import subprocess, sys
from tiny_core import Tensor
print("hello")
subprocess.run([sys.executable, "-c", "print('child')"])
(Tensor([1.0, 2.0]) + 1).realize()
def fail():
    {end}
fail()
"""


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('so long')", 1, "so long\n"),
        ("1 / 0", 1, "in fail\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("Tensor([1.0]) + Tensor([1.0, 2.0, 3.0])[:2].reshape(3)", 1, "tiny_core.errors.ShapeError: "),
    ],
)
def test_the_end_of_the_script_is_the_end_of_the_command(trace: Run, end: str, code: int, said: str) -> None:
    ran = trace(ENDS.format(end=end), "--json")
    assert ran.code == code and json.loads(ran.out)["exit_code"] == code
    assert len(ran.kernels) == 1, "what ran before is traced"
    assert "hello" in ran.err and "child" in ran.err, "standard output is the trace's alone"
    assert said in ran.err
    if "Traceback" in ran.err:
        frames = [line for line in ran.err.splitlines() if line.startswith("  File ")]
        assert frames[0].endswith('script.py", line 8, in <module>'), "it begins with the script"
    assert "cli/script.py" not in ran.err


def test_a_script_that_does_not_compile(trace: Run) -> None:
    ran = trace("def (:\n")
    assert ran.code == 1 and "SyntaxError" in ran.err and ran.out == "no kernels were launched\n"


def test_of_a_batch_that_fails_what_was_begun_is_traced(trace: Run) -> None:
    script = """\
    from tiny_core import Tensor
    from tiny_core.devices.python.runtime import PythonRuntime
    launch, count = PythonRuntime.launch, iter(range(9))
    def second_fails(self, *args):
        if next(count):
            raise RuntimeError("device lost")
        launch(self, *args)
    PythonRuntime.launch = second_fails
    a = (Tensor([1.0, 2.0]) + 1).contiguous()
    b = (a.reshape(2, 1).expand(2, 3) * 3).contiguous()
    (b.sum(0) + 5).realize()
    """
    ran = trace(script, "--json")
    assert ran.code == 1 and "device lost" in ran.err
    assert [k["launches"] for k in ran.kernels] == [1, 1], "the third was never begun"


def test_the_table_says_it_all_in_few_lines(trace: Run) -> None:
    ran = trace(FUSED, dev="CPU:C")
    head, *rest = ran.out.splitlines()
    assert head.split() == ["#", "kernel", "device", "launches", "time", "flops", "bytes", "rates"]
    rows = [line.split() for line in rest if line[0].isdigit()]
    assert rows[0][:4] == ["1", "r_64_64_r64", "CPU", "1"] and rows[0][-1] == "GB/s"
    assert "    script.py:5, 6" in rest
    assert rest[-1].startswith("2 kernels, 2 launches, ") and "\x1b" not in ran.out


def test_a_kernel_in_detail(trace: Run) -> None:
    out = trace(FUSED, "--kernel", "1", dev="CPU:C").out
    assert "script.py:6 (1 launch)  y = a @ b" in out
    assert "options   " in out and 'how="vector"' in out


def test_debug_output_is_the_same_as_without_a_trace(trace: Run) -> None:
    ran = trace(
        "from tiny_core import Tensor\n(Tensor([1.0, 2.0]) + 1).realize()\n", "--json", TINY_DEBUG="2"
    )
    kernel, summary = ran.err.splitlines()
    assert kernel.startswith("PYTHON      1  e_2 ") and summary.startswith("realized 1 kernels of 1 steps")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--kernel", "9"], "tiny: no kernel 9: there are 2\n  hint: "),
        (["--kernel", "0"], "tiny: no kernel 0: there are 2\n  hint: "),
        (["--stage", "asm"], "has no assembly: PYTHON interprets the linear kernel\n  hint: "),
    ],
)
def test_what_is_not_there_is_an_error_with_a_hint(trace: Run, words: list[str], says: str) -> None:
    ran = trace(FUSED, *words)
    assert ran.code == 1 and says in ran.err and not ran.out
    failing = trace(FUSED + "raise ValueError('mine')\n", *words)
    assert failing.code == 1 and says in failing.err and failing.err.endswith("ValueError: mine\n")


def test_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    assert main(["trace", "trian.py"]) == 1
    assert "hint: did you mean train.py?" in capsys.readouterr().err
    assert main(["trace", "."]) == 1
    assert "is a folder" in capsys.readouterr().err
    assert main(["trace", "train.py", "--stage", "sauce"]) == 2
    assert main(["trace", "train.py", "words"]) == 2
    assert main(["trace"]) == 2


def test_nothing_is_noted_without_a_trace() -> None:
    from tiny_core import Tensor
    from tiny_core.engine.tracing import active
    from tiny_core.tensor.lines import notes, origins

    x = Tensor([1.0, 2.0]) + 1
    assert active() is None and not notes.on and not any(origins([x.uop]).values())
