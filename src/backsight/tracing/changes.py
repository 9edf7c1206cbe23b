"""Changes in place, by the memory that was changed: who made them, through which versions."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

import torch

from backsight.tape import Living, no_torch_function, storage_key
from backsight.tape import version as count
from backsight.tape.saved import memory
from backsight.tracing._torch import next_number
from backsight.tracing.facts import Change, ChangeKind
from backsight.tracing.sites import Sites

KEPT = 32
"""The latest changes that are kept of one storage; those that one line makes in a row count as one."""

UNSEEN = "a change that was not seen"


@dataclass(slots=True)
class Entry:
    """A change as it is noted; see `Change`."""

    op: str
    kind: ChangeKind
    site: int
    before: int
    after: int
    count: int = 1
    mark: int = -1


class ChangeLog:
    """The changes of every storage that is alive."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._by_storage: Living[list[Entry]] = Living()
        self._aliases: Living[weakref.ref[torch.Tensor]] = Living()

    def note(self, tensor: torch.Tensor, before: int, op: str, kind: ChangeKind, site: int) -> None:
        """Note that `tensor`, which had the version `before`, has been changed, if its version says so."""
        after = version(tensor)
        if after == before:
            return
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):  # sparse, opaque and functorch tensors have none
            return
        key = storage_key(storage)
        entries = self._by_storage.at(key)
        if entries is None:
            entries = []
            self._by_storage.put(key, storage, entries)
        if self._aliases and kind == "in place" and self._aliases.of(tensor):
            kind = "data"
        last = entries[-1] if entries else None
        if last and last.site == site and last.op == op and last.after == before and last.kind == kind:
            last.after = after
            last.count += 1
            last.mark = next_number()
            return
        if len(entries) >= KEPT:
            del entries[0]
        entries.append(Entry(op, kind, site, before, after, mark=next_number()))

    def alias(self, tensor: torch.Tensor, of: torch.Tensor) -> None:
        """Note that `tensor` shares memory with another and counts its changes by itself: the result of `.data`."""
        self._aliases.put(id(tensor), tensor, weakref.ref(of))

    def aliased(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor whose `.data` this is; itself if it is no such alias."""
        of = self._aliases.of(tensor) if self._aliases else None
        found = of() if of is not None else None
        return tensor if found is None else found

    def told(self, tensor: torch.Tensor | int, since: int | None) -> tuple[Change, ...]:
        """Return the changes of a tensor's memory, or of that of a storage; with `since`, those after that version."""
        if isinstance(tensor, int):
            key: int | None = tensor
        else:
            with no_torch_function():
                key = memory(tensor)[0]
        entries = (self._by_storage.at(key) if key is not None else None) or []
        found: list[Change] = []
        reached = -1
        for entry in list(entries):
            own = entry.kind != "data"
            if own and since is not None and entry.after <= since:
                found.clear()
                reached = entry.after
                continue
            if own and 0 <= reached < entry.before:
                found.append(Change(UNSEEN, reached, entry.before, None, "unseen"))
            reached = entry.after if own else reached
            found.append(self._told(entry))
        return tuple(found)

    def _told(self, entry: Entry) -> Change:
        site = self._sites.get(entry.site)
        line = self._sites.line(entry.site)
        via = site.via if site is not None else ""
        return Change(entry.op, entry.before, entry.after, line, entry.kind, entry.count, via, entry.mark)

    def __len__(self) -> int:
        return sum(len(entries) for _, entries in self._by_storage.items())


class StepChanges:
    """What optimizer steps change: their parameters' versions before and after."""

    def __init__(self, changes: ChangeLog) -> None:
        self._changes = changes
        self._before = threading.local()

    def begin(self, parameters: list[torch.Tensor]) -> None:
        """Note the versions before a step."""
        self._before.versions = [version(p) for p in parameters]

    def end(self, parameters: list[torch.Tensor], op: str, site: int) -> None:
        """Note what the step has changed; nothing where its parameters became others meanwhile."""
        before = getattr(self._before, "versions", ())
        if len(before) == len(parameters):
            for parameter, then in zip(parameters, before, strict=True):
                self._changes.note(parameter, then, op, "optimizer", site)


def version(tensor: torch.Tensor) -> int:
    """Return how often the tensor was changed in place; -1 where that is not counted."""
    counted = count(tensor)
    return -1 if counted is None else counted
