"""Where calls of layers are met, and which of them keep their weight's gradient in factors."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from backsight.gradient_release.clipping._torch import before_other_forward_hooks, has_hooks, is_transformed
from backsight.gradient_release.clipping.layers import (
    EmbeddingCall,
    FactoredEmbedding,
    FactoredLinear,
    LinearCall,
    Passes,
)

SAVES = 2
"""Factors are kept if they are at most half as large as the gradient. In float32 that is also where the norm by Gram
matrices becomes cheaper than by a temporary gradient."""


@dataclass(frozen=True)
class Tap:
    """What became of the last call of a layer: `reason` says why its weight's gradient is dense; "" if it is not."""

    layer: str
    weight: weakref.ref[torch.Tensor]
    tokens: int
    factor_bytes: int
    reason: str


class Taps:
    """Replaces, while it is open, what layers return by the same value with another backward.

    A global hook of `torch.nn`: nothing is attached to the user's modules, so copying, pickling and compiling them is
    as before. It runs before other hooks, which see the output that counts.
    """

    def __init__(self, is_ours: Callable[[torch.Tensor], bool]):
        self.passes = Passes()
        self.last: dict[int, Tap] = {}
        """The last tap of each weight, by `id`."""
        self._is_ours = is_ours
        self._handle = _hooked(self)
        before_other_forward_hooks(self._handle)

    def close(self) -> None:
        """Leave the layers alone; graphs that exist go over to dense gradients."""
        self._handle.remove()
        self.passes.factoring = False

    def _called(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> torch.Tensor | None:
        """Run after the forward of a module; return what replaces its output, if anything."""
        parameters = vars(module).get("_parameters")
        weight: Any = parameters.get("weight") if isinstance(parameters, dict) else None  # a script has none of its own
        if weight is None or not weight.requires_grad or not self._is_ours(weight):
            return None
        way, kind = _way_of(module), type(module).__name__
        if way is None:
            self.last.setdefault(id(weight), Tap(kind, weakref.ref(weight), 0, 0, f"{kind} is not supported"))
            return None
        given = args[0] if args else kwargs.get("input", kwargs.get("x"))
        reason = _plain(module, weight, given, output) or way.refuses(module, weight, given)
        tokens, kept = way.size(given, weight, output) if not reason else (0, 0)
        if not reason and kept * SAVES > weight.nbytes:
            reason = f"{tokens:,} tokens: factors of {kept:,} bytes for a gradient of {weight.nbytes:,}"
        self.last[id(weight)] = Tap(kind, weakref.ref(weight), tokens, kept, reason)
        return None if reason else way.tap(self.passes, module, weight, given, output)


def _hooked(taps: Taps) -> Any:
    """Register the hook, which PyTorch keeps for the whole process, and which must not keep a release alive.

    A compiler that traces through it finds nothing to do. The hook of a release that is gone removes itself when it is
    called next, and not at once: that might be in the midst of a compilation, which guards the table of hooks.
    """
    method = weakref.WeakMethod(taps._called)

    def called(module: nn.Module, args: Any, kwargs: Any, output: Any) -> torch.Tensor | None:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return None
        tap = method()
        if tap is None:
            handle.remove()
            return None
        return tap(module, args, kwargs, output)

    hook: Any = called  # typed for hooks that return nothing
    handle = register_module_forward_hook(hook, with_kwargs=True)
    return handle


@dataclass(frozen=True)
class Way:
    """How layers of one kind are tapped."""

    refuses: Callable[[Any, torch.Tensor, torch.Tensor], str]
    """Say why a call cannot be, or return ""."""
    size: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[int, int]]
    """Return the tokens of a call, and the bytes of the factors that it would leave."""
    tap: Callable[[Passes, Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    """Return the output of a call with the other backward."""


def _way_of(module: nn.Module) -> Way | None:
    """Return how a module is tapped; only one whose forward is the library's own, which we know."""
    forward = type(module).forward
    way = WAYS.get(forward)
    if way is None:
        conv1d: Any = getattr(sys.modules.get("transformers.pytorch_utils"), "Conv1D", None)
        way = INPUT_FIRST if conv1d is not None and forward is conv1d.forward else None
    return None if way is None or "forward" in module.__dict__ else way


def _plain(module: nn.Module, weight: torch.Tensor, given: Any, output: Any) -> str:
    """Say what keeps a call from being differentiated in another way, or return ""."""
    if type(weight) is not nn.Parameter or type(given) is not torch.Tensor or type(output) is not torch.Tensor:
        return "a subclass of Tensor"
    if is_transformed():
        return "compiled, traced or transformed"
    if has_hooks(weight):
        return "a hook wants to see its gradient during backward"
    if weight.is_complex() or weight.layout != torch.strided or given.layout != torch.strided:
        return "complex or sparse"
    return ""


def _refuses_linear(module: Any, weight: torch.Tensor, given: torch.Tensor) -> str:
    return "" if given.is_floating_point() else "an input of integers"


def _linear_size(given: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> tuple[int, int]:
    tokens = given.shape[:-1].numel()
    return tokens, tokens * (weight.shape[0] + weight.shape[1]) * output.element_size()


def _linear(input_first: bool) -> Callable[..., torch.Tensor]:
    def tap(
        passes: Passes, module: Any, weight: torch.Tensor, given: torch.Tensor, output: torch.Tensor
    ) -> torch.Tensor:
        call = LinearCall(passes, weight, input_first, input_is_lent=given.grad_fn is None)
        apply: Any = FactoredLinear.apply  # which has no types
        return apply([output], call, passes.leaf, given, weight, module.bias)  # type: ignore[no-any-return]  # as above

    return tap


def _refuses_embedding(module: Any, weight: torch.Tensor, given: torch.Tensor) -> str:
    if module.max_norm is not None:
        return "max_norm changes the weight in forward"
    if module.scale_grad_by_freq:
        return "scale_grad_by_freq"
    return "sparse gradients" if module.sparse else ""


def _embedding_size(given: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> tuple[int, int]:
    tokens = given.numel()
    return tokens, tokens * (weight.shape[1] * output.element_size() + given.element_size())


def _embedding(
    passes: Passes, module: Any, weight: torch.Tensor, given: torch.Tensor, output: torch.Tensor
) -> torch.Tensor:
    call = EmbeddingCall(passes, weight, module.padding_idx)
    apply: Any = FactoredEmbedding.apply  # which has no types
    return apply([output], call, passes.leaf, weight, given)  # type: ignore[no-any-return]  # as above


INPUT_FIRST = Way(_refuses_linear, _linear_size, _linear(input_first=True))
"""Conv1D of transformers, whose weight is (inputs, outputs)."""

WAYS: dict[Any, Way] = {
    nn.Linear.forward: Way(_refuses_linear, _linear_size, _linear(input_first=False)),
    nn.Embedding.forward: Way(_refuses_embedding, _embedding_size, _embedding),
}
"""How layers are tapped, by the function that is their forward."""
