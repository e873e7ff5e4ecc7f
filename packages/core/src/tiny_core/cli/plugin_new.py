"""`tiny plugins new`: write the source of a backend, and say what to do with it."""

from __future__ import annotations

import argparse
from pathlib import Path

from tiny_core.cli import output
from tiny_core.plugins import new


def run(arguments: argparse.Namespace) -> int:
    """Write it; returns the exit code.

    JSON: `{"folder", "name", "token", "distribution", "package", "files": [path, …]}`.

    Raises:
        TargetError: the name is no name.
        PluginError: it is taken, or the folder cannot be written.
    """
    names = new.names(arguments.name)
    new.check_free(names)
    folder = Path(arguments.path or names.distribution)
    files = new.write(names, folder)
    if arguments.json:
        output.as_json(
            {
                "folder": str(folder.absolute()),
                "name": names.name,
                "token": names.token,
                "distribution": names.distribution,
                "package": names.package,
                "files": list(files),
            }
        )
        return 0
    print(f"wrote {len(files)} files into {folder}:")
    print("\n".join(f"  {file}" for file in files))
    print(f'\nnext: cd {folder}; pip install -e ".[test]"; tiny plugins check .; pytest')
    print(f"then: DEV={names.token} is a device, and README.md says which file is what")
    return 0
