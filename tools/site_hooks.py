"""What mkdocs calls when it builds the site: pages that stand elsewhere in the repository, and lists.

In: `mkdocs.yml` and the repository. Out: `index.md` made of README.md, `contributing.md` of CONTRIBUTING.md
(so that neither is written twice), and the list of decisions in the navigation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent
INCLUDED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
_LINK = re.compile(r"\[([^]]+)]\((?!https?:)([^)#]+)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """List the decisions."""
    assert config.nav is not None
    pages = sorted(page.name for page in (ROOT / "docs" / "decisions").glob("0*.md"))
    for entry in config.nav:
        if "Decisions" in entry:
            entry["Decisions"] = ["decisions/README.md", *(f"decisions/{name}" for name in pages)]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that stand elsewhere."""
    from mkdocs.structure.files import File

    for source, page in INCLUDED.items():
        files.append(File.generated(config, page, content=site_page((ROOT / source).read_text())))


def site_page(text: str) -> str:
    """A page of the repository's root as a page of the site: links to what the site has are kept, and other
    files are only named."""

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if target in INCLUDED:
            return f"[{words}]({INCLUDED[target]}{anchor})"
        if target.startswith("docs/") and target.endswith(".md"):
            return f"[{words}]({target.removeprefix('docs/')}{anchor})"
        return words if words.startswith("`") else f"`{words}`" if words == target else words

    return _LINK.sub(link, text)
