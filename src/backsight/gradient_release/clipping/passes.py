"""Which backward pass is under way: one that adds to `.grad`, or one that returns gradients."""

from __future__ import annotations

import torch

from backsight.gradient_release.clipping._torch import runs_in_this_backward


class Passes:
    """Tells, in a node's backward, whether the pass is a plain `backward()`, in which a gradient may stay in factors.

    It is not in `autograd.grad` and `backward(inputs=...)`, which want certain gradients and no others, under
    `create_graph=True`, which differentiates them, and once clipping has ended. The nodes go over to ordinary gradients
    then.
    """

    def __init__(self) -> None:
        self.leaf = torch.zeros((), requires_grad=True)
        """An input of every node, of which nobody knows: only a plain `backward()` goes on to it."""
        self.factoring = True
        self._node = torch.autograd.graph.get_gradient_edge(self.leaf).node

    def keeps_factors(self) -> bool:
        """Whether a weight gradient that arises now may stay in factors."""
        return self.factoring and not torch.is_grad_enabled() and runs_in_this_backward(self._node)
