"""What a compiled kernel takes of a machine, as its compiler reports it: facts for people and for tuning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes.

    Args:
        registers: (kind, count) for each kind of register, in the target's own words: ("vgpr", 24).
        spills: registers that were kept in memory because there were too few.
        scratch: bytes of private memory of an item.
        near: bytes of near memory of a group.
        occupancy: subgroups that an execution unit holds at once; 0 where that means nothing.
        most: subgroups that it would hold of a kernel that takes nothing.
        limit: what keeps it from holding more: a kind of register, "near", "group" (a whole group must fit);
            "" if nothing does.
    """

    registers: tuple[tuple[str, int], ...]
    spills: int = 0
    scratch: int = 0
    near: int = 0
    occupancy: int = 0
    most: int = 0
    limit: str = ""

    def __str__(self) -> str:
        """Return a line for people: `24 vgpr, 16 sgpr, 256 B near, occupancy 16/16`."""
        parts = [f"{count} {kind}" for kind, count in self.registers]
        parts += [
            f"{count} {what}"
            for count, what in ((self.spills, "spills"), (self.scratch, "B scratch"), (self.near, "B near"))
            if count
        ]
        if self.most:
            parts.append(
                f"occupancy {self.occupancy}/{self.most}" + (f" ({self.limit})" if self.limit else "")
            )
        return ", ".join(parts)
