"""`Row`: the times of everything that is called alike in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Literal

Kind = Literal["node", "leaf", "operation", "optimizer", "sum"]


@dataclass(frozen=True)
class Row:
    """What one kind of node in one module took, in seconds, without what other rows took inside of it.

    `op` is the node's name (`AddmmBackward0`); the operation's (`aten::arange`) where no node ran backward; the
    optimizer's (`AdamW.step`). `module` is its path, None where that is not known. `parameters` are the names of the
    leaf whose gradient is accumulated. Times: `forward`; `recomputed`, forward work repeated by checkpoints inside the
    backward pass; `backward`; `update`, what optimizers do. `device_...` are the same on the GPU.
    """

    op: str
    module: str | None = None
    parameters: tuple[str, ...] = ()
    kind: Kind = "node"
    forward_calls: int = 0
    backward_calls: int = 0
    forward: float = 0.0
    recomputed: float = 0.0
    backward: float = 0.0
    update: float = 0.0
    device_forward: float = 0.0
    device_recomputed: float = 0.0
    device_backward: float = 0.0
    device_update: float = 0.0
    share: float = 0.0

    @property
    def calls(self) -> int:
        """How often it ran forward or backward, whichever is more."""
        return max(self.forward_calls, self.backward_calls)

    @property
    def total(self) -> float:
        """All of its time on the CPU."""
        return self.forward + self.recomputed + self.backward + self.update

    @property
    def device_total(self) -> float:
        """All of its time on the GPU."""
        return self.device_forward + self.device_recomputed + self.device_backward + self.device_update


_ADDED = [field.name for field in fields(Row) if field.type in ("int", "float") and field.name != "share"]


def heading(row: Row) -> Row:
    """Return a row without its times."""
    return Row(row.op, row.module, row.parameters, row.kind)


def merged(rows: Iterable[Row], alike: Callable[[Row], Row] = heading) -> list[Row]:
    """Add up the rows for which `alike` returns the same, which is what the sum is called."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        head = alike(row)
        groups.setdefault((head.op, head.module, head.parameters, head.kind), [head]).append(row)
    return [
        replace(head, **{name: sum(getattr(each, name) for each in group) for name in _ADDED})
        for head, *group in groups.values()
    ]


def ranked(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows with their shares of the sum, the largest first; by time on the GPU where one worked."""
    held = list(rows)
    on_device = any(row.device_total for row in held)

    def size(row: Row) -> float:
        return row.device_total if on_device else row.total

    whole = sum(map(size, held)) or 1.0
    return tuple(replace(row, share=size(row) / whole) for row in sorted(held, key=lambda row: -size(row)))
