"""Where a module ends whose last operations have no parameters, if no log of its calls tells.

An operation behind a module's last parameter may be its activation, or what the model computes next: a U-Net's
`F.interpolate` behind `mid`. The model says which it can be. An `nn.Sequential` runs its children and nothing else, so
what comes after the last of them is outside. Another module may end in functions, but one that makes another shape, a
pooling or an interpolation, is rarely among them unless the module has a child without parameters for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from backsight.tape._torch import registered
from backsight.tape.tensors import Output

Outputs = Sequence[tuple[Output | None, ...]]

_ELEMENTWISE: tuple[type, ...] = (
    *(nn.CELU, nn.ELU, nn.GELU, nn.GLU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU),
    *(nn.LogSigmoid, nn.LogSoftmax, nn.Mish, nn.RReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softmax),
    *(nn.Softmax2d, nn.Softmin, nn.Softplus, nn.Softshrink, nn.Tanh, nn.Threshold),
)
_POOLS: tuple[type, ...] = (
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.Upsample),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.UpsamplingNearest2d),
    *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d, nn.UpsamplingBilinear2d),
)
_DROPOUTS: tuple[type, ...] = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
_VIEWS: tuple[type, ...] = (nn.Identity, nn.Flatten, nn.Unflatten)

_OPERATIONS: dict[int, int] = {
    **dict.fromkeys(map(id, _ELEMENTWISE + _POOLS + _DROPOUTS), 1),
    **dict.fromkeys(map(id, _VIEWS), 0),
}
"""How many operations that are no views a call of a class runs, by its id: no class of the user's is hashed."""

_ALIASES: dict[str, str | tuple[str, ...]] = {
    "selu": "elu",
    "relu6": "hardtanh",
    "softmax2d": "softmax",
    "rrelu": ("rrelu", "leakyrelu"),
}
"""Operations of activations that have another name than their class, both in small letters."""

_KEEP_SHAPE = frozenset(map(id, (*_ELEMENTWISE, *_DROPOUTS, nn.Identity)))


class Tails:
    """How far modules reach behind their parameters, by what the model holds.

    ```python
    tails = Tails(modules, outputs)
    tails.begin("mid.1")                                    # the last node that consumed a parameter was of this module
    tails.within("mid", 12, [13], "", enters=False)         # "mid" for its ReLU, "" for what comes then
    ```
    """

    def __init__(self, modules: Mapping[str, torch.nn.Module], outputs: Outputs):
        self._modules, self._outputs = modules, outputs
        self._left: dict[str, float] = {}
        self._ended: set[str] = set()

    def begin(self, owner: str) -> None:
        """Let a parameter of `owner` be the last one that was met."""
        self._left, self._ended = {}, set()
        while owner:
            owner, _, name = owner.rpartition(".")
            module = self._modules.get(owner)
            if module is not None and _runs_its_children_alone(module):
                self._left[owner] = _operations_after(module, name)

    def counts(self, module: str) -> bool:
        """Whether it is known how many operations of a module follow."""
        return self._left.get(module, math.inf) < math.inf

    def within(self, module: str, node: int, sources: Sequence[int], around: str, *, enters: bool) -> str:
        """Return `module`, or what is around it where that has ended before `node`, at most `around`.

        `sources` are the nodes that it consumes; `enters` says whether one of them was made before the module began.
        """
        while len(module) > len(around):
            if module not in self._ended and not self._ends(module, node, sources, enters=enters):
                break
            self._ended.add(module)
            module = module.rpartition(".")[0]
        return module

    def _ends(self, module: str, node: int, sources: Sequence[int], *, enters: bool) -> bool:
        if module in self._left:
            self._left[module] -= 1
            return self._left[module] < 0
        held = self._modules.get(module)
        if held is None or not sources or (len(sources) > 1 and not enters):
            return False
        made, given = self._shape(node), [self._shape(source) for source in sources]
        return made is not None and None not in given and made not in given and not _may_reshape(held)

    def _shape(self, node: int) -> tuple[int, ...] | None:
        first = next(filter(None, self._outputs[node]), None) if self._outputs else None
        return first.shape if first is not None else None


def _runs_its_children_alone(module: torch.nn.Module) -> bool:
    forward = next((found for each in type(module).__mro__ if (found := vars(each).get("forward"))), None)
    return forward is nn.Sequential.forward


def _operations_after(module: torch.nn.Module, name: str) -> float:
    """Return how many operations the children without parameters run that follow one of this name."""
    children = registered(module, "_modules")
    names = list(children)
    found = 0.0
    for each in names[names.index(name) + 1 :] if name in names else ():
        child = children[each]
        if not isinstance(child, torch.nn.Module) or not _is_bare(child):
            break
        found += _count(child)
    return found


def running(module: torch.nn.Module, before: str, after: str) -> list[str] | None:
    """Return the children without parameters between two others of an `nn.Sequential`, one for each operation they run.

    `before` and `after` are empty at its ends. None where a child runs nobody knows how many.
    """
    if not _runs_its_children_alone(module):
        return None
    children = registered(module, "_modules")
    names = list(children)
    start = names.index(before) + 1 if before in names else 0
    found: list[str] = []
    for each in names[start : names.index(after) if after in names else None]:
        count = _count(children[each])
        if count > 1:
            return None
        found += [each] * int(count)
    return found


def may_run(child: object, op: str) -> bool:
    """Whether an operation may be what a child without parameters runs: that of an activation has its name.

    >>> may_run(nn.ReLU(), "Relu"), may_run(nn.ReLU(), "Tanh")
    (True, False)
    """
    if id(type(child)) not in map(id, _ELEMENTWISE) or isinstance(child, nn.Softmin):
        return True
    name = type(child).__name__.lower()
    return op.lower().startswith(_ALIASES.get(name, name))


def _count(child: object) -> float:
    """Return how many operations a child without parameters runs; infinity where that is not known."""
    if not isinstance(child, torch.nn.Module) or not _is_bare(child):
        return math.inf
    return 0 if isinstance(child, _DROPOUTS) and not child.training else _OPERATIONS.get(id(type(child)), math.inf)


def _may_reshape(module: torch.nn.Module) -> bool:
    """Whether a child without parameters is of a class that can make another shape."""
    children = registered(module, "_modules").values()
    return any(_is_bare(child) and id(type(child)) not in _KEEP_SHAPE for child in children)


def _is_bare(module: object) -> bool:
    """Whether nothing in a module is a parameter."""
    stack = [module]
    while stack:
        each = stack.pop()
        if not isinstance(each, torch.nn.Module):
            continue
        if any(held is not None for held in registered(each, "_parameters").values()):
            return False
        stack += registered(each, "_modules").values()
    return True
