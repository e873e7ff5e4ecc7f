"""TINY_PLUGINS: which external plugins may be used. Applied before anything of them is imported.

`none` (built-ins only), `amd,llvm` (only these), `-nv` (all but these). A name is a distribution's, or that
of one of its entry points; case and the kind of dash do not count. Built-ins and specs added in code are not
affected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tiny_core.plugins.discover import normalize


@dataclass(frozen=True, slots=True)
class Policy:
    """Parsed TINY_PLUGINS."""

    none: bool = False
    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()

    def forbids(self, names: Iterable[str]) -> str:
        """Return why a plugin known by any of `names` (normalized) may not be used, or ""."""
        if self.none:
            return "TINY_PLUGINS=none"
        known = frozenset(names)
        if known & self.deny:
            return f"TINY_PLUGINS=-{min(known & self.deny)}"
        if self.allow and not known & self.allow:
            return f"TINY_PLUGINS allows {', '.join(sorted(self.allow))} only"
        return ""

    @property
    def words(self) -> frozenset[str]:
        """All names mentioned."""
        return self.allow | self.deny


@lru_cache(maxsize=8)
def parse_policy(text: str) -> Policy:
    """Return the policy that the value of TINY_PLUGINS stands for; any text is one."""
    words = [w.strip() for w in text.split(",") if w.strip()]
    allow = frozenset(normalize(w) for w in words if not w.startswith("-"))
    deny = frozenset(normalize(w[1:]) for w in words if w.startswith("-"))
    return Policy("none" in allow, allow - {"none"}, deny)
