"""The catalog: states, contract numbers, clashing claims, TINY_PLUGINS, and specs added in code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tiny_core.api import RuntimeSpec
from tiny_core.errors import PluginError
from tiny_core.plugins import loader, registry
from tiny_core.plugins.catalog import Entry, PluginWarning, State, catalog
from tiny_core.settings import Context

Install = Callable[..., Path]
TOML = """
manifest = {version}
name = "x"
[api]
runtime = "{api}"
renderer = "1.0"
[[runtime]]
device = "{device}"
[[renderer]]
name = "ACME"
"""


def entry(token: str, plugin: str = "") -> Entry:
    """The only runtime entry with that token (of that plugin)."""
    (found,) = [e for e in catalog().claims("runtime", token) if plugin in ("", e.plugin.name)]
    return found


def toml(version: str = "1", api: str = "1.0", device: str = "ACME") -> dict[str, str]:
    return {"plugin.toml": TOML.format(version=version, api=api, device=device)}


def test_states_from_found_to_loaded(install: Install) -> None:
    install("acme-thing", "ACME")
    row = entry("ACME")
    assert catalog().status(row).state is State.FOUND
    assert registry.runtime("acme").device == "ACME"
    assert catalog().status(row).state is State.LOADED
    assert [e.state for e in row.plugin.entries] == [State.LOADED, State.LOADED]


def test_provenance_is_kept(install: Install) -> None:
    folder = install("acme-thing", "ACME", version="3.1")
    plugin = entry("ACME").plugin
    assert (plugin.name, plugin.version, plugin.editable) == ("acme-thing", "3.1", False)
    assert plugin.path == str(folder.parent / "acme_thing-3.1.dist-info")


@pytest.mark.parametrize(
    ("api", "why", "hint"),
    [
        ("2.0", "needs runtime API 2.0", "pip install -U tiny-core"),
        ("1.9", "needs runtime API 1.9", "pip install -U tiny-core"),
        ("0.4", "needs runtime API 0.4", "pip install -U acme-thing"),
    ],
)
def test_contract_numbers_are_checked_before_import(install: Install, api: str, why: str, hint: str) -> None:
    install("acme-thing", "ACME", {**toml(api=api), "plugin.py": "raise SystemExit('imported')"})
    status = catalog().status(entry("ACME"))
    assert status.state is State.INCOMPATIBLE
    assert why in status.why
    assert status.hint == hint
    with pytest.raises(PluginError, match=why):
        registry.runtime("ACME")


def test_contract_numbers_of_loaded_specs_are_checked_too(install: Install) -> None:
    text = (
        "from tiny_core.api import RuntimeSpec, hookimpl\n"
        "@hookimpl\n"
        "def tiny_runtimes(): return (RuntimeSpec('ACME', open='x:Y', api=(7, 0)),)\n"
    )
    install(
        "acme-thing",
        "ACME",
        {"plugin.py": text, "plugin.toml": None},
        points="[tiny.runtimes]\nACME = acme_thing.plugin",
    )
    with pytest.raises(PluginError, match=r"needs runtime API 7\.0"):
        registry.runtime("ACME")
    assert entry("ACME").state is State.INCOMPATIBLE


@pytest.mark.parametrize(
    ("files", "state", "why"),
    [
        (toml(version="9"), State.INCOMPATIBLE, "manifest version 9"),
        ({"plugin.toml": "nonsense ["}, State.BROKEN, "not valid TOML"),
        (toml(device="OTHER"), State.BROKEN, "does not declare runtime ACME"),
    ],
)
def test_a_bad_manifest_is_a_row(install: Install, files: dict[str, str], state: State, why: str) -> None:
    install("acme-thing", "ACME", files)
    status = catalog().status(entry("ACME"))
    assert status.state is state
    assert why in status.why


def test_two_claims_are_an_error_that_names_both_and_the_switch(install: Install) -> None:
    install("acme-one", "ACME")
    install("acme-two", "ACME")
    with pytest.raises(PluginError) as caught:
        registry.runtime("ACME")
    assert "acme-one and acme-two" in caught.value.message
    assert "TINY_PLUGINS=-acme-one or TINY_PLUGINS=-acme-two" in caught.value.hint
    with Context(PLUGINS="-acme-one"):
        assert registry.runtime("ACME").open == "acme_two.runtime:Device"


def test_a_claim_that_cannot_work_does_not_count(install: Install) -> None:
    install("acme-one", "ACME")
    install("acme-two", "ACME", toml(api="9.0"))
    assert registry.runtime("ACME").open == "acme_one.runtime:Device"


def test_a_built_in_token_cannot_be_taken(install: Install) -> None:
    install("acme-thing", "CPU")
    assert catalog().status(entry("CPU", "acme-thing")).state is State.BROKEN
    found = catalog().find("runtime", "CPU")
    assert found is not None
    assert found.plugin.origin == "built in"


def test_our_own_wheels_keep_their_tokens(install: Install) -> None:
    install("tiny-runtime-nv", "NV")
    install("acme-thing", "NV")
    assert registry.runtime("NV").open == "tiny_runtime_nv.runtime:Device"
    assert catalog().status(entry("NV", "acme-thing")).state is State.DISABLED
    with Context(PLUGINS="-tiny-runtime-nv"):
        assert registry.runtime("NV").open == "acme_thing.runtime:Device"


@pytest.mark.parametrize("value", ["none", "other-plugin", "-acme-thing", "-ACME", "-acme_thing"])
def test_tiny_plugins_disables_before_import(install: Install, value: str) -> None:
    install("acme-thing", "ACME", {"plugin.py": "raise SystemExit('imported')"})
    install("other-plugin", "OTHER")
    with Context(PLUGINS=value):
        assert catalog().status(entry("ACME")).state is State.DISABLED
        with pytest.raises(PluginError, match="TINY_PLUGINS"):
            registry.runtime("ACME")


@pytest.mark.parametrize("value", ["acme-thing", "acme", "Acme_Thing", "-other-plugin", ""])
def test_tiny_plugins_allows(install: Install, value: str) -> None:
    install("acme-thing", "ACME")
    install("other-plugin", "OTHER")
    with Context(PLUGINS=value):
        assert registry.runtime("ACME").device == "ACME"


def test_an_unknown_name_in_tiny_plugins_warns_once_with_a_close_match(install: Install) -> None:
    install("acme-thing", "ACME")
    with Context(PLUGINS="-acme-think"), pytest.warns(PluginWarning, match="acme-thing") as caught:
        catalog().status(entry("ACME"))
        catalog().status(entry("ACME"))
    assert len(caught) == 1


def test_built_ins_cannot_be_disabled(install: Install) -> None:
    install("acme-thing", "ACME")
    with Context(PLUGINS="-cpu"), pytest.warns(PluginWarning, match="built in"):
        catalog().status(entry("ACME"))
        assert catalog().status(entry("CPU")).state is not State.DISABLED


def test_specs_added_in_code(install: Install) -> None:
    install("acme-thing", "ACME")
    spec = RuntimeSpec("MINE", open="nowhere:Nothing")
    registry.add(spec)
    assert registry.runtime("MINE") is spec
    with pytest.raises(PluginError, match=r"already offered \(in code"):
        registry.add(RuntimeSpec("MINE", open="else:Where"))
    with pytest.raises(PluginError, match=r"already offered \(acme-thing 0\.1"):
        registry.add(RuntimeSpec("ACME", open="else:Where"))
    with pytest.raises(PluginError, match=r"needs runtime API 9\.0"):
        registry.add(RuntimeSpec("NEXT", open="else:Where", api=(9, 0)))
    registry.remove(spec)
    assert "MINE" not in registry.device_names()


def test_disabled_plugins_do_not_block_specs_added_in_code(install: Install) -> None:
    install("acme-thing", "ACME")
    spec = RuntimeSpec("ACME", open="nowhere:Nothing")
    with Context(PLUGINS="none"):
        registry.add(spec)
        assert registry.runtime("ACME") is spec


def test_the_built_in_table_says_what_the_modules_say() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for row in catalog().entries():
            if row.plugin.origin == "built in":
                spec = loader.load(row)
                offer = row.offer
                assert offer is not None
                assert offer.profile == (spec.profile if isinstance(spec, RuntimeSpec) else "minimal")
