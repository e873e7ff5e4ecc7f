"""The plugins behind the target: what `tiny plugins check` finds, and the profile that is promised."""

from __future__ import annotations

import json
from functools import lru_cache

import pytest

from tiny_conformance import offers
from tiny_conformance.plugin import Warn
from tiny_conformance.target import PROFILES, Target

CHECKS = (
    "entry points", "manifest", "contracts", "offers", "tokens", "package", "typing", "licence", "load",
    "load budget", "imports", "side effects", "hooks", "specs", "classes", "open", "again", "fork",
)  # fmt: skip
"""Rows of `tiny plugins check`. A row with another name is looked at by the last test."""


@lru_cache(maxsize=4)
def examined(plugin: str) -> dict[str, dict[str, str]]:
    """The rows of a plugin, by the check's name."""
    done = offers.tiny("plugins", "check", plugin, "--json")
    try:
        rows = json.loads(done.stdout)["rows"]
    except (ValueError, KeyError):
        raise AssertionError(f"tiny plugins check {plugin}: {done.stdout}{done.stderr}") from None
    return {row["check"]: row for row in rows}


def external(target: Target) -> list[offers.Offer]:
    """The offers of installed plugins, one for each plugin."""
    found = {o.plugin: o for o in offers.serving(target) if not o.built_in}
    if not found:
        pytest.skip("the target is built into core")
    return list(found.values())


def look(row: dict[str, str], plugin: str, warn: Warn) -> None:
    """Fail, or warn, as a row says."""
    said = f"{plugin}: {row['check']}: {row['text']}" + (f" -> {row['next']}" if row["next"] else "")
    assert row["mark"] != "FAIL", f"{said}\n{row['detail']}"
    if row["mark"] == "WARN":
        warn(said)


@pytest.mark.parametrize("name", CHECKS)
def test_check(name: str, target: Target, warn: Warn) -> None:
    looked = False
    for offer in external(target):
        row = examined(offer.plugin).get(name)
        if row is not None and row["mark"] != "--":
            looked = True
            look(row, offer.plugin, warn)
    if not looked:
        pytest.skip("not looked at here")


def test_other_checks(target: Target, warn: Warn) -> None:
    for offer in external(target):
        for row in examined(offer.plugin).values():
            if row["check"] not in CHECKS:
                look(row, offer.plugin, warn)


def test_the_target_is_listed(target: Target) -> None:
    tokens = {(o.kind, o.token) for o in offers.listed()}
    assert ("runtime", target.device.partition(":")[0]) in tokens
    if target.renderer:
        assert ("renderer", target.renderer) in tokens or target.renderer == "NONE"


def test_the_profile_is_kept(target: Target) -> None:
    profile = offers.profile(target)
    assert profile in PROFILES, f"profile {profile!r} is none of {', '.join(PROFILES)}"
    lacking = PROFILES[profile] - target.capabilities
    if not target.stores:  # nothing that depends on data can be promised by what keeps none
        lacking -= {"stores"}
    assert not lacking, f"profile {profile} requires {', '.join(sorted(lacking))}, not declared"


def test_what_is_opened_is_what_the_spec_says(target: Target) -> None:
    for offer in offers.serving(target):
        if offer.kind == "runtime":
            spec = offers.runtime_spec(offer)
            accepted = set(spec.renderers)
            assert not target.renderer or "*" in accepted or target.renderer in accepted
        else:
            archs = offers.renderer_spec(offer).archs
            assert not archs or target.arch in archs, f"{target.arch} is none of {', '.join(archs)}"
