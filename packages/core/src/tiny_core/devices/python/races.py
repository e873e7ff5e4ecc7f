"""The race checker: who touched a location last, for every location of a region at once.

In: accesses (location, item, its group, the group's epoch), a whole node's worth per call. Out: a `Conflict`
as soon as two items touch one location, at least one of them writes, and no barrier of their group lies
between; items of two groups have none. Guaranteed: every such pair of accesses is found, loop-carried ones
included, because an access is compared with all earlier ones since the last barrier, not only with its
neighbours in the program.

Items are told apart by *keys*: the epoch in the upper 32 bits, the item's number below. Two keys of one group
differ in the low half only (`0 < a ^ b < 2**32`) when two items act in one epoch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Smalls = NDArray[np.int32]

_NOBODY = 1 << 62  # an epoch that never comes
_MANY = 0xFFFFFFFF  # item part of a key: several items of the epoch
_HALF = np.uint64(0xFFFFFFFF)
_NO_GROUP, _MANY_GROUPS = -1, -2


class Conflict(Exception):
    """Two accesses that are not ordered. It never leaves this device: it becomes a RaceError, or another way
    to run.

    Attributes:
        before: number of the node that touched the location first.
        now: number of the node that touches it.
        place: the location.
        items: numbers of the two items, the first -1 where it is not known which.
        group: group of the first item, -1 where that is not known.
        where: the location, for people to read.
    """

    def __init__(self, before: int, now: int, place: int, items: tuple[int, int], group: int = -1) -> None:
        super().__init__(before, now, place, items)
        self.before, self.now, self.place, self.items, self.group = before, now, place, items, group
        self.where = f"location {place}"


class Shadow:
    """What is remembered about a region of memory.

    Args:
        size: its locations.
        groups: whether items of several groups reach it.
        items: whether groups have several items.
    """

    def __init__(self, size: int, groups: bool, items: bool) -> None:
        self.groups, self.items = groups, items
        # An item outside any group of several is known by its group alone.
        self.writer = np.full(size if items else 0, _NOBODY, np.int64)
        self.reader = np.full(size if items else 0, _NOBODY, np.int64)
        self.writer_group = np.full(size if groups else 0, _NO_GROUP, np.int32)
        self.reader_group = np.full(size if groups else 0, _NO_GROUP, np.int32)
        self.writer_node = np.full(size, -1, np.int32)
        self.reader_node = np.full(size, -1, np.int32)

    def read(self, places: Ints, keys: Ints, groups: Smalls, node: int) -> None:
        """Record reads; the three arrays have one entry per access. Raises Conflict."""
        if self.groups:
            group = self.writer_group[places]
            self._refuse((group != groups) & (group >= 0), self.writer_node, places, keys, node, group=group)
            readers = self.reader_group[places]
            now = np.where((readers == groups) | (readers == _NO_GROUP), groups, _MANY_GROUPS).astype(
                np.int32
            )
            self.reader_group[places] = now
            shared = self.reader_group[places] != now  # the same place more than once within this node
            if shared.any():
                self.reader_group[places[shared]] = _MANY_GROUPS
        if self.items:
            self._refuse(
                _together(self.writer[places], keys), self.writer_node, places, keys, node, self.writer
            )
            several = _together(self.reader[places], keys)
            updated = np.where(several, keys | _MANY, keys)
            self.reader[places] = updated
            shared = self.reader[places] != updated
            if shared.any():
                self.reader[places[shared]] = keys[shared] | _MANY
        self.reader_node[places] = node

    def write(self, places: Ints, keys: Ints, groups: Smalls, node: int) -> None:
        """Record writes; the three arrays have one entry per access. Raises Conflict, before anything is
        written."""
        if self.groups:
            group = self.writer_group[places]
            self._refuse((group != groups) & (group >= 0), self.writer_node, places, keys, node, group=group)
            group = self.reader_group[places]
            bad = (group != groups) & (group != _NO_GROUP)
            self._refuse(bad, self.reader_node, places, keys, node, group=group)
            self.writer_group[places] = groups
            twice = self.writer_group[places] != groups
            if twice.any():
                self._refuse_twice(twice, places, keys, node)
        if self.items:
            self._refuse(
                _together(self.writer[places], keys), self.writer_node, places, keys, node, self.writer
            )
            self._refuse(
                _together(self.reader[places], keys), self.reader_node, places, keys, node, self.reader
            )
            self.writer[places] = keys
            twice = self.writer[places] != keys
            if twice.any():
                self._refuse_twice(twice, places, keys, node)
        self.writer_node[places] = node

    def _refuse(
        self,
        bad: NDArray[np.bool_],
        nodes: Smalls,
        places: Ints,
        keys: Ints,
        node: int,
        others: Ints | None = None,
        group: Smalls | None = None,
    ) -> None:
        if not bad.any():
            return
        at = int(np.argmax(bad))
        place = int(places[at])
        other = _MANY if others is None else int(others[place]) & _MANY
        items = (-1 if other == _MANY else other, int(keys[at]) & _MANY)
        raise Conflict(
            int(nodes[place]), node, place, items, -1 if group is None else max(int(group[at]), -1)
        )

    @staticmethod
    def _refuse_twice(twice: NDArray[np.bool_], places: Ints, keys: Ints, node: int) -> None:
        at = int(np.argmax(twice))
        last = int(np.nonzero(places == places[at])[0][-1])
        raise Conflict(node, node, int(places[at]), (int(keys[at]) & _MANY, int(keys[last]) & _MANY))


def _together(known: Ints, keys: Ints) -> NDArray[np.bool_]:
    """Whether the known item is another of the same group in the same epoch."""
    # x - 1 < 2**32 - 1 as unsigned: x is neither 0 nor beyond the low half.
    together: NDArray[np.bool_] = ((known ^ keys) - 1).view(np.uint64) < _HALF
    return together
