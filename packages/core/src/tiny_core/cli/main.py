"""The `tiny` command: finds the sub-command and runs it.

In: the words of the command line. Out: an exit code: 0, 1 for a failure, 2 for wrong usage or a wrong target.
Each sub-command is a module with `add_arguments` and `run`, imported when it is asked for; sub-commands of
plugins (entry-point group `tiny.commands`) are loaded only then, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tiny_core.errors import PluginError, SettingError, TargetError, TinyError

if TYPE_CHECKING:
    from tiny_core.plugins.catalog import Entry

COMMANDS: Final = {
    "devices": "what DEV can name, and which one is used",
    "plugins": "list, show, check and make plugins: `tiny plugins list|show|check|new`",
    "doctor": "try every plugin in a process of its own and say what to do",
    "settings": "environment variables, their values and what they do",
    "trace": "run a script and show the kernels it launches: `tiny trace SCRIPT.py [-- WORDS]`",
    "cache": "the persistent kernel cache: `tiny cache info`, `tiny cache clear`",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run `tiny` with these words (default: those of the process) and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except TinyError as error:
        print(f"tiny: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return 2 if isinstance(error, (TargetError, SettingError)) else 1
    except BrokenPipeError:  # `tiny … | head`
        sys.stderr.close()
        return 1


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        _help()
        return 0 if words else 2
    if words[0] in ("--version", "-V"):
        return _version(words[1:])
    name, rest = words[0], words[1:]
    if name in COMMANDS:
        import argparse

        module = import_module(f"tiny_core.cli.{name}")
        about = (module.__doc__ or "").partition("\n\n")[0]
        parser = argparse.ArgumentParser(prog=f"tiny {name}", description=about)
        module.add_arguments(parser)
        given = argparse.Namespace()
        if getattr(module, "TAKES_WORDS", False):  # argparse would take them for arguments of its own
            end = rest.index("--") if "--" in rest else len(rest)
            rest, given.words = rest[:end], rest[end + 1 :]
        try:
            arguments = parser.parse_args(rest, given)
        except SystemExit as stop:  # argparse has printed what is wrong, or the help that was asked for
            return stop.code if isinstance(stop.code, int) else 2
        code: int = module.run(arguments)
        return code
    return _external(name, rest)


def _external(name: str, rest: list[str]) -> int:
    """Run a sub-command of a plugin: `module:function`, or what the hook `tiny_commands` of a module says."""
    from tiny_core.plugins.catalog import REFUSED, catalog
    from tiny_core.plugins.loader import load, load_name, refusal
    from tiny_core.plugins.specs import CommandSpec
    from tiny_core.plugins.target import did_you_mean

    table = catalog()
    entry = table.find("command", name)
    if entry is None:
        known = (*COMMANDS, *table.tokens("command"))
        print(f"tiny: there is no command {name!r}", file=sys.stderr)
        hint = did_you_mean(name, known, f"commands: {', '.join(known)}")
        print(f"  hint: {hint}", file=sys.stderr)
        return 2
    status = table.status(entry)
    if status.state in REFUSED:
        raise refusal(entry, status.state, status.why, status.hint)
    path = entry.value
    if ":" not in path:
        spec = load(entry)
        assert isinstance(spec, CommandSpec)
        path = spec.main
    function = load_name(path, f"command {name} ({entry.plugin})")
    if not callable(function):
        raise PluginError(f"command {name} ({entry.plugin}): {path} is not a function", "tell its author")
    code = function(rest)
    return code if isinstance(code, int) else 0


def _version(rest: list[str]) -> int:
    from tiny_core import __version__

    if rest not in ([], ["-v"], ["--verbose"]):
        print("usage: tiny --version [-v]", file=sys.stderr)
        return 2
    print(f"tiny-core {__version__}")
    if rest:
        from tiny_core.plugins.catalog import catalog

        for plugin in catalog().plugins:
            if plugin.origin == "installed":
                print(f"{plugin.name} {plugin.version} at {plugin.path}")
    return 0


def _help() -> None:
    print("usage: tiny COMMAND …\n       tiny --version [-v]\n\ncommands:")
    rows = list(COMMANDS.items()) + [(entry.token, _about(entry)) for entry in _commands()]
    width = max(len(name) for name, _ in rows)
    for name, about in rows:
        print(f"  {name:<{width}}  {about}")


def _commands() -> list[Entry]:
    from tiny_core.plugins.catalog import REFUSED, catalog

    table = catalog()
    return [e for e in table.entries("command") if table.status(e).state not in REFUSED]


def _about(entry: Entry) -> str:
    text = entry.offer.help if entry.offer is not None else ""
    return f"{text} ({entry.plugin})" if text else f"of {entry.plugin}"


if __name__ == "__main__":
    sys.exit(main())
