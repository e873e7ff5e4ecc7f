"""`python tools/bench`: puts the repository on the path, so that the folder is a package, and runs the
command line."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bench.cli import main  # noqa: E402 - the path comes first

sys.exit(main(sys.argv[1:]))
