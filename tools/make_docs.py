"""Write the parts of docs/ that are made from the code, between `<!-- made: NAME -->` and `<!-- /made -->`.

In: pages with such marks. Out: the same pages with what NAME stands for (see PARTS) between them. `--check`
compares instead, and fails where a page is out of date; `tools/tests/test_docs.py` does that.

A NAME `file: PATH` is a file of the repository, as a block of its content; `file: PATH lines A - B` the lines
from the first that begins with A to the next that begins with B, exclusive; `fields: CLASS` a dataclass.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
EXAMPLE = "examples/third_party_backend"
"""Its files are those of the folder `acme-tiny` that docs/write-a-backend.md makes."""
_PART = re.compile(r"(<!-- made: ([^>]+?) -->\n).*?(<!-- /made -->)", re.S)


# ---- settings and commands ---------------------------------------------------------------------------------


def settings_table() -> str:
    """Every setting."""
    from tiny_core.settings import declared

    rows = []
    for s in declared():
        name = f"`TINY_{s.name}`" + (f", `{s.alias}`" if s.alias else "")
        rows.append((name, f"`{s.default!r}`", "yes" if s.codegen else "", s.help))
    return table(("variable", "default", "in the key of cached kernels", "what it does"), rows)


def commands() -> str:
    """Every sub-command of `tiny` that is part of core, with its arguments."""
    from tiny_core.cli.main import COMMANDS

    parts = []
    for name in COMMANDS:
        module = import_module(f"tiny_core.cli.{name}")
        about = " ".join((module.__doc__ or "").partition("\n\n")[0].split())
        parser = argparse.ArgumentParser(prog=f"tiny {name}", description=about)
        module.add_arguments(parser)
        parts.append(f"## tiny {name}\n\n{about}\n\n{_parser(parser)}")
    return "\n\n".join(parts)


def _parser(parser: argparse.ArgumentParser) -> str:
    """A parser's usage and arguments, and those of its sub-commands."""
    positional: list[str] = []
    optional: list[str] = []
    rows: list[tuple[str, ...]] = []
    nested: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        if isinstance(action, argparse._SubParsersAction):
            helps = {a.dest: a.help or "" for a in action._choices_actions}
            for name, below in action.choices.items():
                assert isinstance(below, argparse.ArgumentParser)
                about = (helps.get(name) or below.description or "").strip()
                nested.append(f"### {below.prog}\n\n{about}\n\n{_parser(below)}")
            positional.append("{" + "|".join(action.choices) + "} …")
            continue
        value = _value(action)
        if action.option_strings:
            words = ", ".join(f"`{o} {value}`" if value else f"`{o}`" for o in action.option_strings)
            optional.append(f"[{action.option_strings[-1]}{' ' + value if value else ''}]")
        else:
            words = f"`{value}`"
            some = {"?": f"[{value}]", "*": f"[{value} …]", "+": f"{value} …"}
            positional.append(some.get(str(action.nargs), value))
        rows.append((words, action.help or ""))
    usage = f"```text\n{' '.join([parser.prog, *optional, *positional])}\n```"
    return "\n\n".join([usage, *([table(("argument", "what it is"), rows)] if rows else []), *nested])


def _value(action: argparse.Action) -> str:
    """How usage calls the value of an argument; "" where it takes none."""
    if action.nargs == 0:
        return ""
    if action.choices:
        return "|".join(map(str, action.choices))
    metavar = action.metavar if isinstance(action.metavar, str) else None
    return metavar or (action.dest.upper() if action.option_strings else action.dest)


# ---- the reference -----------------------------------------------------------------------------------------

_GROUPS = {
    "plugins": "What a plugin declares",
    "render.renderer": "Renderer and compiler",
    "render.resources": "Renderer and compiler",
    "render.capabilities": "Capabilities",
    "ir.matrix": "Capabilities",
    "render.signature": "Signature",
    "runtime": "Runtime and queues",
    "ir.uop": "The graph",
    "ir.ops": "The graph",
    "ir.payload": "The graph",
    "ir.text": "The graph",
    "ir.pattern": "Rewriting",
    "ir.rewrite": "Rewriting",
}
"""Heading of what a module of core gives to `tiny_core.api`."""


def tensor_layers() -> str:
    """The classes that Tensor consists of, each under what its docstring says first."""
    from tiny_core import Tensor

    parts = []
    for cls in reversed(Tensor.__mro__[1:-1]):
        head = re.split(r"[.;] |\.$", (cls.__doc__ or "").splitlines()[0])[0]
        parts.append(
            f"## {head}\n\n::: {cls.__module__}.{cls.__qualname__}\n"
            "    options: {show_root_heading: false, show_root_toc_entry: false, heading_level: 2}"
        )
    return "\n\n".join(parts)


def api_names() -> str:
    """What `tiny_core.api` exports, by what it is for."""
    from tiny_core.api import _WHERE

    groups: dict[str, list[str]] = {title: [] for title in _GROUPS.values()}
    for name, where in _WHERE.items():
        module = where.rstrip(":")
        short = module.removeprefix("tiny_core.")
        title = _GROUPS.get(short) or _GROUPS.get(short.split(".")[0], "")
        if short in ("errors", "dtypes", "ir.ops"):  # they have places of their own
            continue
        path = module if where.endswith(":") else f"{module}.{name}"
        groups.setdefault(title or "More", []).append(f"::: {path}\n    options: {{heading_level: 3}}")
    return "\n\n".join(f"## {title}\n\n" + "\n\n".join(names) for title, names in groups.items())


# ---- the linear contract -----------------------------------------------------------------------------------

_STAGES = {"t": "tensor", "k": "kernel", "o": "loops", "l": "linear"}
_PLAIN = {
    "SUB": "x-y; wraps for integers",
    **dict.fromkeys(("AND", "OR", "XOR"), "bitwise; logical for bool"),
}
"""What needs no comment beside the name in ir/ops.py."""


def ops_of_linear() -> str:
    """The ops that a renderer may meet, from the sentences in ir/ops.py and the set in the specification."""
    from tiny_core.ir.ops import Ops
    from tiny_core.ir.spec_linear import LINEAR

    rows = []
    for op in Ops:
        if op in LINEAR.rules:
            parts = [text for letters, text in _parts(op.name) if not letters or "l" in letters]
            rows.append((f"`{op.name}`", f"`{op.value}`", "; ".join(parts)))
    return table(("op", "in text", "what it is"), rows)


def all_ops() -> str:
    """Every op, with the stages it lives in."""
    rows = []
    for name in _sentences():
        parts = _parts(name)
        letters = dict.fromkeys("".join(letters for letters, _ in parts))
        where = [_STAGES[x] for x in _STAGES if x in letters] or ["all"]
        said = [
            text if i == 0 else f"in {', '.join(_STAGES[x] for x in letters)}: {text}" if letters else text
            for i, (letters, text) in enumerate(parts)
        ]
        rows.append((f"`{name}`", ", ".join(where), "; ".join(said)))
    return table(("op", "stages", "what it is"), rows)


def _parts(name: str) -> list[tuple[str, str]]:
    """What is said of an op, cut where it is said of other stages; each part with its stages' letters."""
    parts: list[tuple[str, str]] = []
    for piece in re.split(r"; (?=\[[tkol ]+\])", _sentences()[name] or _PLAIN.get(name, "")):
        marked = re.match(r"\[([tkol ]+)\]\s*(.*)", piece)
        parts.append((marked[1].replace(" ", ""), marked[2]) if marked else ("", piece))
    return parts


def _sentences() -> dict[str, str]:
    """The comment beside each member of Ops."""
    from tiny_core.ir import ops

    said: dict[str, str] = {}
    name = ""
    for line in inspect.getsource(ops.Ops).splitlines():
        member = re.match(r"    ([A-Z0-9_]+) = ", line)
        name = member[1] if member else name
        comment = re.search(r"#\s*(.*)$", line)
        if name and comment and name not in said and (member or line.startswith("        ")):
            said[name] = comment[1]
        elif member:
            said.setdefault(name, "") if comment else None
    return {op: said.get(op, "") for op in ops.Ops.__members__}


def fields_of(path: str) -> str:
    """The fields of a dataclass, from its docstring: name, type, default, and what it says."""
    module, _, name = path.rpartition(".")
    cls = getattr(import_module(module), name)
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    typed = {
        f.target.id: (ast.unparse(f.annotation), "" if f.value is None else ast.unparse(f.value))
        for f in tree.body
        if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)
    }
    rows = []
    for field, about in _arguments(inspect.getdoc(cls) or ""):
        kind, default = typed[field]
        default = re.sub(r"field\(.*", "…", default)
        rows.append((f"`{field}`", f"`{kind}`", f"`{default}`" if default else "", about))
    return table(("field", "type", "default", "what it is"), rows)


def _arguments(doc: str) -> list[tuple[str, str]]:
    """The entries of a docstring's Args."""
    found: list[tuple[str, str]] = []
    inside = False
    for line in doc.splitlines():
        if re.match(r"(Args|Attributes):$", line):
            inside = True
        elif inside and re.match(r"    \w[\w, ]*: ", line):
            names, _, about = line.strip().partition(": ")
            found += [(name.strip(), about) for name in names.split(",")]
        elif inside and line.startswith("        ") and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif line.strip():
            inside = False
    return found


def commands_of_queues() -> str:
    """The commands of a queue, from their docstrings."""
    from typing import get_args

    from tiny_core.runtime import queue

    rows = []
    for cls in get_args(queue.Command):
        fields = ", ".join(cls.__dataclass_fields__)
        rows.append((f"`{cls.__name__}({fields})`", " ".join((inspect.getdoc(cls) or "").split())))
    return table(("command", "what it does"), rows)


def contracts() -> str:
    """The contract numbers that this core offers."""
    from tiny_core.plugins import specs

    kinds = ("runtime", "renderer", "kernels", "ir")
    rows = [(f"`{k}`", "`{}.{}`".format(*getattr(specs, f"{k.upper()}_API"))) for k in kinds]
    return table(("contract", "this core's number"), rows)


def included(what: str) -> str:
    """A file of the repository, or some of its lines, as a block."""
    path, _, some = what.partition(" lines ")
    text = (ROOT / path).read_text()
    if some:
        first, _, last = some.partition(" - ")
        lines = text.splitlines(keepends=True)
        begin = next(i for i, line in enumerate(lines) if line.startswith(first))
        end = next((i for i in range(begin + 1, len(lines)) if lines[i].startswith(last)), len(lines))
        text = "".join(lines[begin:end]).rstrip() + "\n"
    kind = {".py": "python", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml"}.get(Path(path).suffix, "text")
    if some:  # a part is shown, not run
        return f"```{'py' if kind == 'python' else kind}\n{text}```"
    return f'```{kind} title="{path.replace(EXAMPLE, "acme-tiny")}"\n{text}```'


# ---- pages -------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "commands": commands,
    "tensor": tensor_layers,
    "api": api_names,
    "ops": all_ops,
    "linear ops": ops_of_linear,
    "queue commands": commands_of_queues,
    "contracts": contracts,
}
TAKING: dict[str, Callable[[str], str]] = {"fields": fields_of, "file": included}


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [heads, ("---",) * len(heads), *(tuple(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Text as a cell: bars would end it, and dialects disagree on how to write one within code."""
    parts = text.split("`")
    for i, part in enumerate(parts):
        code = i % 2
        parts[i] = (
            re.sub(r" ?\| ?", " or ", part)
            if code
            else part.replace("|", "&#124;").replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*")
        )
    return "`".join(parts)


def made(page: str) -> str:
    """The page with its parts made anew."""

    def part(match: re.Match[str]) -> str:
        name = match[2]
        kind, colon, what = name.partition(": ")
        text = TAKING[kind](what) if colon else PARTS[name]()
        return f"{match[1]}{text}\n{match[3]}"

    return _PART.sub(part, page)


def main() -> int:
    """Write the pages, or compare them; returns 1 where one is out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    old = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        new = made(text)
        if new != text:
            old.append(str(page.relative_to(ROOT)))
            if not arguments.check:
                page.write_text(new)
    if old:
        print(f"{'out of date' if arguments.check else 'written'}: {', '.join(old)}")
    if old and arguments.check:
        print("run python tools/make_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    for name in ("CI", "DEV", *[n for n in os.environ if n.startswith("TINY_")]):
        os.environ.pop(name, None)  # defaults are those of a user who has set nothing
    sys.exit(main())
