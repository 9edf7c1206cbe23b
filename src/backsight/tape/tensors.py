"""Tensors as a graph tells of them: what an operation produced, what it keeps for its backward, where the graph ends.

Only weak references lead to the live ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import torch

LeafKind = Literal["parameter", "buffer", "variable", "overwritten", "unknown"]
SavedState = Literal["alive", "freed", "modified", "hooked", "unread"]


class Output(NamedTuple):
    """What an operation produced: the shape, dtype and device of one output."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True)
class Ref:
    """A weak reference to a tensor that survives pickling as a dead one."""

    _ref: Callable[[], Any] = field(repr=False, compare=False)

    def __call__(self) -> Any:
        return self._ref()

    def __reduce__(self) -> tuple[Callable[[], Ref], tuple[()]]:
        return _dead_ref, ()


def _nothing() -> None:
    return None


def _dead_ref() -> Ref:
    return Ref(_nothing)


def ref_to(tensor: torch.Tensor) -> Ref:
    """Return a weak reference to `tensor`."""
    return Ref(weakref.ref(tensor))


@dataclass(frozen=True)
class Saved:
    """One tensor that a node keeps for its backward.

    ```python
    [(s.name, s.shape, s.state) for s in graph.nodes[0].saved]      # [('self', (8, 4), 'alive')]
    ```

    `state` is `"alive"`, `"freed"` (a backward has released it), `"modified"` (changed in place since: `version` is not
    the `expected` one, and backward will raise), `"hooked"` (packed by saved-tensor hooks or checkpointing; never
    unpacked here) or `"unread"` (this PyTorch gives no way to look at it without unpacking it).
    `bytes` is the size of the tensor, `storage_bytes` that of the memory it lies in; `storage` says which saved tensors
    share memory. `finite` says whether all values are, and is known only if the capture was asked for it.
    """

    name: str
    state: SavedState
    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None
    bytes: int = 0
    storage: int | None = None
    storage_bytes: int = 0
    version: int | None = None
    expected: int | None = None
    finite: bool | None = None
    requires_grad: bool = False
    is_leaf: bool = False
    ref: Ref = field(default_factory=_dead_ref, repr=False, compare=False)

    def tensor(self) -> torch.Tensor | None:
        """Return the live tensor, or None when it is gone."""
        return self.ref()  # type: ignore[no-any-return]  # a weak reference to a tensor


@dataclass(frozen=True)
class Leaf:
    """A tensor at which the graph ends, and whose `.grad` backward fills.

    ```python
    [leaf.name for leaf in graph.leaves if leaf.owner is None]      # ['delta']: no optimizer updates it
    ```

    `name` is the best name known and `names` all of them; `owner` names the optimizer that holds it; `module` is the
    path of the module whose parameter it is; `near` says where a leaf without a variable stands. `uses` counts the
    edges that lead to it. `index` is its position in `graph.leaves`, `node` that of its node in `graph.nodes`. Saved
    tensors with the same `storage` share its memory. `kind` is "overwritten" for a leaf whose variable holds something
    else by now, and "unknown" where no variable was found or looked for.
    """

    index: int
    node: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    kind: LeafKind = "unknown"
    name: str = ""
    names: tuple[str, ...] = ()
    owner: str | None = None
    module: str | None = None
    near: str = ""
    uses: int = 0
    storage: int | None = None
    ref: Ref = field(default_factory=_dead_ref, repr=False, compare=False)

    def tensor(self) -> torch.Tensor | None:
        """Return the live tensor, or None when it is gone."""
        return self.ref()  # type: ignore[no-any-return]  # a weak reference to a tensor

    @property
    def grad(self) -> torch.Tensor | None:
        """The leaf's gradient as it is now; None when it has none or the leaf is gone."""
        tensor = self.tensor()
        return None if tensor is None else tensor.grad

    @property
    def label(self) -> str:
        """The name, or a description for a leaf whose name is not known."""
        shape = "×".join(map(str, self.shape)) or "()"
        return self.name or f"unnamed leaf of shape {shape}{f' ({self.near})' if self.near else ''}"
