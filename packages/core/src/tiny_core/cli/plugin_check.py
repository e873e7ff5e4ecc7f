"""`tiny plugins check`: the rows of a plugin's examination."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from tiny_core.cli import output
from tiny_core.plugins.check import examine
from tiny_core.plugins.subject import open_subject


def run(arguments: argparse.Namespace) -> int:
    """Check and report; returns 1 if a row says FAIL.

    JSON: `{"subject": {"form", "name", "version", "where"}, "rows": [row, …], "ok": bool}`; a row has the
    fields of `check.Row`: check, mark, text, next, detail.

    Raises:
        TargetError: there is nothing of that name.
        PluginError: it cannot be read at all.
    """
    with open_subject(arguments.what) as subject:
        rows = examine(subject, arguments.limit)
    failed = any(r.mark == "FAIL" for r in rows)
    if arguments.json:
        about = {k: getattr(subject, k) for k in ("form", "name", "version", "where")}
        output.as_json({"subject": about, "rows": [asdict(r) for r in rows], "ok": not failed})
        return int(failed)
    print(f"{subject.name} {subject.version}, {subject.form} {subject.where}\n")
    shown = [[r.mark, r.check, f"{r.text} -> {r.next}" if r.next else r.text] for r in rows]
    output.table(["", "check", "found / next step"], shown)
    for row in rows:
        if row.detail:
            print(f"\n{row.check}:\n{row.detail}")
    counts = {m: sum(r.mark == m for r in rows) for m in ("OK", "WARN", "FAIL")}
    print("\n" + ", ".join(f"{n} {m}" for m, n in counts.items() if n))
    return int(failed)
