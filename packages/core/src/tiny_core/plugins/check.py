"""`tiny plugins check`: whether a plugin is fit to be published, in rows.

In: a `Subject`. Out: `Row`s: what its files say (metadata, manifest, contract numbers, tokens, package
content), and what a few processes saw when they loaded it. Nothing of it is imported into this process, so a
plugin that crashes or hangs is a row like any other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tiny_core.plugins import discover, manifest, probe
from tiny_core.plugins.builtin import OFFICIAL
from tiny_core.plugins.catalog import catalog, mismatch
from tiny_core.plugins.discover import GROUPS, MANIFEST_GROUP, normalize
from tiny_core.plugins.manifest import BadManifest, Manifest
from tiny_core.plugins.subject import Subject

BUDGET_MS: Final = 20.0
SLOW_MS: Final = 250.0
Mark = Literal["OK", "WARN", "FAIL", "--"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the report.

    Args:
        check: what was looked at; one of a fixed set of names.
        mark: OK, WARN (works, but), FAIL (do not publish), or -- for what was not looked at.
        text: what was found.
        next: what to do about it.
        detail: a traceback, or what the plugin printed.
    """

    check: str
    mark: Mark
    text: str
    next: str = ""
    detail: str = ""


def examine(subject: Subject, limit_s: float) -> list[Row]:
    """Return all rows of a subject; `limit_s` is the time that each process may take."""
    described = _manifest_of(subject)
    rows = [_entry_points(subject), _manifest(subject, described)]
    if isinstance(described, Manifest):
        rows += [_contracts(subject, described), _offers(subject, described)]
    rows += [_tokens(subject), *_package(subject)]
    if any(r.mark == "FAIL" for r in rows if r.check in ("entry points", "contracts")) or (
        isinstance(described, BadManifest)
    ):
        return [*rows, Row("load", "--", "not tried: what is above stands in the way")]
    return [*rows, *_trials(subject, limit_s)]


# ---- what the files say ------------------------------------------------------------------------------------


def _entry_points(subject: Subject) -> Row:
    """They are in our groups, and their modules and files are there."""
    offers = [p for p in subject.points if p[0] in GROUPS]
    if not offers:
        groups = ", ".join(GROUPS)
        return Row("entry points", "FAIL", "none in a group of tiny", f"groups: {groups}")
    missing = [f"{g}: {n} = {v}" for g, n, v in subject.points if not _has(subject, g, v)]
    if missing:
        text = f"name nothing: {'; '.join(missing)}"
        return Row("entry points", "FAIL", text, "the module on the right must be in the package")
    lower = [n for g, n, _ in offers if GROUPS[g] != "command" and n != n.upper()]
    if lower:
        return Row("entry points", "WARN", f"{', '.join(lower)} is used in upper case", "write it so")
    return Row("entry points", "OK", ", ".join(f"{GROUPS[g]} {n}" for g, n, _ in offers))


def _has(subject: Subject, group: str, value: str) -> bool:
    module, _, rest = value.partition(":")
    path = module.replace(".", "/")
    if group == MANIFEST_GROUP:
        return bool(rest)  # whether the file is there is the manifest's row
    return f"{path}.py" in subject.files or f"{path}/__init__.py" in subject.files


def _manifest_of(subject: Subject) -> Manifest | BadManifest | None:
    value = next((v for g, _, v in subject.points if g == MANIFEST_GROUP), None)
    if value is None:
        return None
    before = list(sys.path)
    sys.path[:0] = subject.roots
    try:
        import importlib

        importlib.invalidate_caches()
        return manifest.read(value)
    finally:
        sys.path[:] = before


def _manifest(subject: Subject, described: Manifest | BadManifest | None) -> Row:
    if described is None:
        text = "none: the plugin is never chosen, and imported before its contracts are known"
        return Row("manifest", "WARN", text, f'add plugin.toml, and an entry point in "{MANIFEST_GROUP}"')
    if isinstance(described, BadManifest):
        upgrade = "pip install -U tiny-core" if described.newer else "see docs/write-a-backend.md"
        return Row("manifest", "FAIL", f"{described.where}: {described.why}", upgrade)
    value = next(v for g, _, v in subject.points if g == MANIFEST_GROUP)
    path = value.replace(".", "/", value.partition(":")[0].count(".")).replace(":", "/")
    if path not in subject.files:
        return Row("manifest", "FAIL", f"{path} is not in the wheel", "list it as package data")
    if described.notes:
        return Row("manifest", "WARN", "; ".join(described.notes), "is it a typing mistake?")
    return Row("manifest", "OK", f"{path}: {described.name}, {described.maturity}")


def _contracts(subject: Subject, described: Manifest) -> Row:
    for offer in described.offers:
        why, hint = mismatch(offer.kind, described.api, subject.name)
        if why:
            return Row("contracts", "FAIL", f"{offer.kind} {offer.token} {why}", hint)
    said = ", ".join(f"{k} {a}.{b}" for k, (a, b) in described.api)
    return Row("contracts", "OK", said or "none needed")


def _offers(subject: Subject, described: Manifest) -> Row:
    """Entry points and manifest name the same things."""
    named = {
        (GROUPS[g], n if GROUPS[g] == "command" else n.upper()) for g, n, _ in subject.points if g in GROUPS
    }
    said = {(o.kind, o.token) for o in described.offers}
    wrong = [f"no entry point for {k} {t} of plugin.toml" for k, t in sorted(said - named)]
    wrong += [f"plugin.toml does not declare {k} {t}" for k, t in sorted(named - said)]
    if wrong:
        return Row("offers", "FAIL", "; ".join(wrong), "name each in pyproject.toml and in plugin.toml")
    return Row("offers", "OK", f"{len(named)} in entry points and in plugin.toml alike")


def _tokens(subject: Subject) -> Row:
    """Nobody else offers them: not core, not a wheel of ours, not what is installed here."""
    own = normalize(subject.name)
    for group, name, _ in subject.points:
        if group not in GROUPS:
            continue
        kind = GROUPS[group]
        token = name if kind == "command" else name.upper()
        owner = OFFICIAL.get((kind, token))
        if owner is not None and normalize(owner) != own:
            return Row("tokens", "FAIL", f"{kind} {token} belongs to {owner}", "choose another")
        for entry in catalog().claims(kind, token):
            if normalize(entry.plugin.name) != own:
                mark: Mark = "FAIL" if entry.plugin.origin == "built in" else "WARN"
                return Row(
                    "tokens", mark, f"{kind} {token} is also offered by {entry.plugin}", "choose another"
                )
    return Row("tokens", "OK", "nobody else here offers them")


def _package(subject: Subject) -> Iterator[Row]:
    """What the wheel holds, or will hold."""
    top = subject.package
    if subject.build:
        yield Row("package", "FAIL", "; ".join(subject.build), "correct it: the wheel would be empty")
    elif top and not any(f.startswith(f"{top}/") for f in subject.files):
        yield Row("package", "FAIL", f"there is no package {top}", "put it into src/")
    else:
        stray = [f for f in subject.files if f.startswith("tests/") and subject.form == "wheel"]
        text = f"{len([f for f in subject.files if f.startswith(f'{top}/')])} files in {top}"
        hint = "list packages in the build configuration" if stray else ""
        yield Row(
            "package", "WARN" if stray else "OK", text + (", and tests/ beside it" if stray else ""), hint
        )
    if f"{top}/py.typed" in subject.files:
        yield Row("typing", "OK", f"{top}/py.typed")
    else:
        yield Row("typing", "WARN", f"no {top}/py.typed: its types are not seen", "add that empty file")
    if subject.licence:
        yield Row("licence", "OK", subject.licence)
    else:
        yield Row(
            "licence", "WARN", "none: nobody may use it", "add LICENSE, and `license` in pyproject.toml"
        )


# ---- what happens when it is loaded ------------------------------------------------------------------------

_TRIALS: Final = ("load", "open", "again", "fork")


def _trials(subject: Subject, limit_s: float) -> Iterator[Row]:
    """Each in a process of its own; where loading fails the others would say the same."""
    for trial in _TRIALS:
        answer = probe.ask(
            "tiny_core.plugins.trial",
            {
                "path": [*subject.roots, *sys.path],
                "trial": trial,
                "plugin": subject.name,
                "package": subject.package,
                "points": [p for p in subject.points if p[0] in GROUPS],
            },
            {"TINY_PLUGINS": discover.normalize(subject.name), "TINY_DEV": "", "DEV": "CPU"},
            limit_s,
        )
        if answer.value is None:
            hint = "nothing of the machine may be touched at load" if trial == "load" else ""
            yield Row(trial, "FAIL", answer.why, hint, answer.output)
            if trial == "load":
                return
            continue
        rows = answer.value["rows"]
        assert isinstance(rows, list)
        made = [
            Row(**{**r, "detail": r.get("detail") or (answer.output if r["mark"] == "FAIL" else "")})
            for r in rows
        ]
        yield from made
        if trial == "load" and any(r.mark == "FAIL" and r.check in ("load", "hooks") for r in made):
            return
