"""Selection: what DEV and device strings lead to, and what is chosen where nothing is said."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_core.api import Arch, Renderer, Runtime
from tiny_core.errors import DeviceError, PluginError, TargetError
from tiny_core.plugins import opening
from tiny_core.plugins.catalog import PluginWarning
from tiny_core.plugins.select import default_device, forget, open_device, select
from tiny_core.plugins.target import Target
from tiny_core.settings import Context

Install = Callable[..., Path]
PREFERENCE = '"PTX", "ACME"'
SPECS = """
from tiny_core.api import RendererSpec, RuntimeSpec
def tiny_runtimes():
    return (RuntimeSpec("ACME", open="acme_thing.runtime:Device", ifaces=("PCI", "MOCK"),
                        renderers=("PTX", "ACME"), options=(("waves", "how many"),)),)
def tiny_renderers():
    return (RendererSpec("ACME", make="acme_thing.render:Source", archs=("a100", "a200"),
                         options=(("style", "how"),)),)
"""


def hint(text: str) -> str:
    """The hint of the TargetError that DEV=text gives."""
    with Context(DEV=text), pytest.raises(TargetError) as caught:
        select()
    assert "^" in caught.value.message
    return caught.value.hint


# ---- what is named -----------------------------------------------------------------------------------------


def test_the_first_target_of_dev_is_the_default_and_configures_it(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": SPECS})
    install("other-plugin", "OTHER")
    with Context(DEV="MOCK:4,5+ACME:ACME:a200,fast,-slow,waves=2;OTHER"):
        assert default_device() == "ACME"
        got = select()
        assert (got.name, got.index, got.arch) == ("ACME", 4, Arch("a200", (("fast", True), ("slow", False))))
        assert got.runtime_options == (("waves", "2"),)
        assert select("ACME:1").index == 5
        assert select("ACME:1").name == "ACME:1"
        with pytest.raises(DeviceError, match="shows 2 of them"):
            select("ACME:2")
        assert select("OTHER").runtime.device == "OTHER"


def test_a_target_ignores_dev(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": SPECS})
    with Context(DEV="ACME::a100"):
        assert select(Target.parse("ACME::a200")).arch.name == "a200"


@pytest.mark.parametrize(
    ("dev", "says"),
    [
        ("ACNE", "did you mean ACME?"),
        ("AMDD", "did you mean AMD"),
        ("AMD", "pip install tiny-runtime-amd"),
        ("NOSUCH", "devices: ACME, "),
        ("PCIE+ACME", "did you mean PCI?"),
        ("ACME:ACNE", "did you mean ACME?"),
        ("ACME:HIPX", "ACME runs PTX, ACME"),
        ("ACME:PTX", "pip install tiny-renderer-ptx"),
        ("ACME:ACME:a300", "did you mean a200 or a100?"),
        ("ACME,wave=2", "did you mean waves?"),
        ("ACME,x=2", "waves (how many)"),
    ],
)
def test_what_does_not_exist_is_an_error_with_a_way_out(install: Install, dev: str, says: str) -> None:
    install("acme-thing", "ACME", {"plugin.py": SPECS})
    assert says in hint(dev)


def test_an_unknown_device_of_a_tensor(install: Install) -> None:
    install("acme-thing", "ACME")
    with pytest.raises(DeviceError) as caught:
        select("ACNE:1")
    assert "ACME" in caught.value.hint


def test_a_named_device_that_fails_is_an_error_and_nothing_else_is_used(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": "raise OSError('no firmware')"})
    install("other-plugin", "OTHER", detect="/")
    with Context(DEV="ACME"), pytest.raises(PluginError, match="no firmware"):
        select()


def test_dev_loads_what_it_names_and_nothing_else(install: Install) -> None:
    install("acme-thing", "ACME", detect="/", priority=9)
    install("other-plugin", "OTHER", detect="/", priority=99)
    with Context(DEV="ACME"):
        open_device(default_device())
    assert "acme_thing.plugin" in sys.modules
    assert "other_plugin" not in sys.modules


# ---- what is chosen ----------------------------------------------------------------------------------------


def test_the_detected_device_of_highest_priority_is_chosen(install: Install) -> None:
    install("acme-thing", "ACME", detect="/", priority=10)
    install("better-plugin", "BETTER", detect="/", priority=20)
    install("absent-plugin", "ABSENT", detect="/no/such/path", priority=30)
    assert default_device() == "BETTER"


def test_nothing_detected_means_cpu(install: Install) -> None:
    install("acme-thing", "ACME", priority=10)
    assert default_device() == "CPU"


def test_a_plugin_without_manifest_is_never_chosen(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.toml": None})
    assert default_device() == "CPU"


def test_a_mock_is_never_chosen(install: Install) -> None:
    folder = install("acme-thing", "ACME", detect="/")
    toml = (
        (folder / "plugin.toml").read_text().replace('device = "ACME"', 'device = "ACME"\nifaces = ["MOCK"]')
    )
    (folder / "plugin.toml").write_text(toml)
    assert default_device() == "CPU"


REFUSING = 'raise DeviceError("permission denied", "join the group")'
CLOSED = """
from tiny_core.api import DeviceError, Runtime
class Device(Runtime):
    def __init__(self, *args): raise DeviceError("permission denied", "join the group")
    def allocate(self, nbytes): return 0
    def free(self, handle, nbytes): pass
    def copy_in(self, dest, source): pass
    def copy_out(self, dest, source): pass
    def load(self, compiled): return compiled
    def launch(self, program, buffers, scalars, grid): pass
"""


def test_a_detected_device_that_does_not_open_is_one_warning_and_then_the_next(install: Install) -> None:
    install("acme-thing", "ACME", {"runtime.py": CLOSED}, detect="/", priority=20)
    install("other-plugin", "OTHER", detect="/", priority=10)
    with pytest.warns(PluginWarning, match="permission denied; see `tiny doctor ACME`") as caught:
        assert default_device() == "OTHER"
        assert default_device() == "OTHER"
    assert len(caught) == 1


def test_under_strict_it_is_an_error(install: Install) -> None:
    install("acme-thing", "ACME", {"runtime.py": CLOSED}, detect="/")
    with Context(STRICT=1), pytest.raises(DeviceError, match="permission denied"):
        default_device()


def test_a_broken_detected_plugin_is_a_warning_too(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": "import nothing_of_that_name"}, detect="/")
    with pytest.warns(PluginWarning, match="nothing_of_that_name"):
        assert default_device() == "CPU"


def test_a_device_opened_to_see_is_the_one_that_is_used(install: Install) -> None:
    counting = "opened = []\n" + CLOSED.replace(REFUSING, "opened.append(self)")
    install("acme-thing", "ACME", {"runtime.py": counting}, detect="/")
    runtime = opening.open_runtime(default_device())
    assert sys.modules["acme_thing.runtime"].opened == [runtime]


# ---- renderers ---------------------------------------------------------------------------------------------


def test_the_first_preferred_renderer_that_is_there_is_used(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": SPECS})
    renderer = select("ACME").renderer
    assert renderer is not None
    assert renderer.name == "ACME"


def test_a_token_of_our_wheels_is_not_served_unasked_by_others(install: Install) -> None:
    install("acme-thing", "ACME", {"plugin.py": SPECS})
    install("evil-plugin", "PTX", {"plugin.py": "raise SystemExit"})
    renderer = select("ACME").renderer
    assert renderer is not None
    assert renderer.name == "ACME"
    assert "evil_plugin" not in sys.modules


def test_a_broken_preferred_renderer_is_a_warning_and_then_the_next(install: Install) -> None:
    specs = SPECS.replace(PREFERENCE, '"BROKEN", "ACME"')
    install("acme-thing", "ACME", {"plugin.py": specs})
    install("broken-plugin", "BROKEN", {"plugin.py": "raise OSError('libx')"})
    with pytest.warns(PluginWarning, match="libx"):
        renderer = select("ACME").renderer
    assert renderer is not None
    assert renderer.name == "ACME"
    with Context(STRICT=1), pytest.raises(PluginError, match="libx"):
        select("ACME")


def test_no_renderer_at_all_names_every_way_out(install: Install) -> None:
    specs = SPECS.replace(PREFERENCE, '"PTX", "FOREIGN"')
    install("acme-thing", "ACME", {"plugin.py": specs})
    with pytest.raises(DeviceError) as caught:
        select("ACME")
    assert "PTX is not installed; FOREIGN is not installed" in caught.value.message
    assert "pip install tiny-renderer-ptx, or " in caught.value.hint


# ---- opening -----------------------------------------------------------------------------------------------


def test_open_device_gives_the_runtime_and_the_renderer(install: Install) -> None:
    install("acme-thing", "ACME")
    runtime, renderer = open_device("ACME:1")
    assert isinstance(runtime, Runtime)
    assert runtime.index == 1
    assert isinstance(renderer, Renderer)
    with pytest.raises(DeviceError, match="there is no ACME:2"):
        open_device("ACME:2")


def test_options_of_a_renderer_are_its_second_argument(install: Install) -> None:
    render = """
from tiny_core.api import Renderer
class Source(Renderer):
    def __init__(self, arch, options): self.arch, self.options = arch, options
    def render(self, linear, signature): return ""
    def compiler(self): raise NotImplementedError
"""
    install("acme-thing", "ACME", {"plugin.py": SPECS, "render.py": render})
    renderer = opening.make_renderer(select(Target.parse("ACME:ACME,style=new,waves=1")))
    assert renderer.options == {"style": "new"}  # type: ignore[attr-defined]  # the class above


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        ("", "has no 'Device'"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("Device = 3", "not a subclass of Runtime"),
        ("class Device: pass", "not a subclass of Runtime"),
    ],
)
def test_import_strings_that_lead_nowhere(install: Install, runtime: str, why: str) -> None:
    install("acme-thing", "ACME", {"runtime.py": runtime})
    with pytest.raises(PluginError, match=why):
        opening.open_runtime("ACME")


def test_any_exception_of_a_constructor_is_a_device_error(install: Install) -> None:
    code = CLOSED.replace(REFUSING, "1 // 0")
    install("acme-thing", "ACME", {"runtime.py": code})
    with pytest.raises(DeviceError, match="ZeroDivisionError"):
        opening.open_runtime("ACME")


def test_a_path_reaches_the_storage_device(install: Install) -> None:
    folder = install("acme-thing", "ACME")
    edits = {
        "plugin.py": ('renderers=("ACME",)', 'profile="storage"'),
        "plugin.toml": ("priority = 0", 'profile = "storage"'),
    }
    for file, (old, new) in edits.items():
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))
    runtime, renderer = open_device("ACME:/some/file:x")
    assert runtime.options == {"path": "/some/file:x"}
    assert renderer is None


def test_the_built_in_cpu_needs_a_renderer_and_says_how_to_get_one(tmp_path: Path) -> None:
    code = (
        "from tiny_core.plugins.select import select\n"
        "from tiny_core.errors import DeviceError\n"
        "try: select('CPU')\n"
        "except DeviceError as e: print(e)"
    )
    env = {**os.environ, "PATH": str(tmp_path), "TINY_PLUGINS": "none", "DEV": "", "TINY_DEV": ""}
    env.pop("CC", None)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert "LLVM" in done.stdout
    assert "gcc" in done.stdout


def test_what_was_opened_to_choose_is_closed_if_nobody_wants_it(install: Install) -> None:
    install("acme-thing", "ACME", detect="/")
    assert default_device() == "ACME"
    forget()
    assert not opening._parked


def test_nothing_warns_when_all_is_well(install: Install) -> None:
    install("acme-thing", "ACME", detect="/")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert default_device() == "ACME"
