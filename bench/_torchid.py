"""What torchID 0.2 does to find leaves, written anew from its description as a baseline: it walks every path.

Kept from it: the recursion, the limit of 1000 nodes, and that any exception ends a branch in silence.
Source: https://github.com/daniel-redder/torchID (torchid/torchid.py, find_leaves)
"""

from __future__ import annotations

import time
from typing import Any

from _measure import GaveUp

MAX_DEPTH = 1000
ENTRIES = 150_000_000  # of all paths together: 1.2 GB


def every_path(loss: Any, limit: float) -> EveryPath:
    """Walk every path below `loss`.

    Raises:
        GaveUp: after `limit` seconds, or when the paths have filled 1.2 GB.
    """
    walk = EveryPath(limit)
    walk.explore(loss.grad_fn)
    return walk


class EveryPath:
    """The leaves and paths found so far."""

    def __init__(self, limit: float) -> None:
        self.leaves: list[Any] = []
        self.paths: list[list[Any]] = []
        self._trail: list[Any] = []
        self._deadline = time.perf_counter() + limit
        self._entries = 0

    def explore(self, node: Any) -> None:
        if len(self._trail) >= MAX_DEPTH:
            return
        for producer, _ in node.next_functions:
            if producer is None:
                continue
            self._trail.append(producer)
            try:
                if hasattr(producer, "variable"):
                    self._keep(producer)
                self.explore(producer)
            except Exception:
                pass  # as torchID does: a RecursionError loses the leaves below
            finally:
                self._trail.pop()

    def _keep(self, producer: Any) -> None:
        self.leaves.append(producer.variable)
        self.paths.append(list(self._trail))
        self._entries += len(self._trail)
        if self._entries > ENTRIES:
            raise GaveUp("1.2 GB")
        if time.perf_counter() > self._deadline:
            raise GaveUp("time is up")
