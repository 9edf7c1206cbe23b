"""What the operators of a step allocate inside of themselves, found by trying each of them small.

Fake tensors tell the results of an operator and nothing of what it takes and gives back while it runs: weights and
images that oneDNN puts into another order, columns of a convolution, contiguous copies; nor how large a workspace a
recurrent layer saves for its backward. So an operator runs once for real, on zeros, in each form in which the step
calls it; a large one on two shorter batches, from which its own is extrapolated. What can be neither gets a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product, zip_longest
from typing import Any

import torch
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

from backsight.memory._torch import RNN, RNN_BACKWARD
from backsight.memory.ledger import History
from backsight.memory.probe import Probe, extrapolated
from backsight.memory.tensors import in_order, parts_of, tensors_of
from backsight.profiling import hush_kineto, is_profiling
from backsight.text import amount

BYTES = 2**25
"""Arguments and results with which an operator is tried as it is."""

FLOPS = 2**30
"""Likewise: it takes some tens of milliseconds."""

LENGTHS = (8, 2)
"""Of a batch, or of a sequence, on which an operator is tried at the least; the second where the first is too large.

Scratch is the largest of several things of which each is linear in the length, and most often the same one from 4 on.
"""

_LEAST = 1 / 8
"""The part of such a try that has to be affordable."""

_LIBRARIES = {"aten", "mkldnn", "quantized"}
"""PyTorch's own operators. One of somebody else may do more than to compute, and is not run for a forecast."""

_MATRICES = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot"}
"""Operators that allocate nothing inside where each argument is contiguous along one dimension, as BLAS wants it."""

_PLAIN = {"embedding", "embedding_dense_backward", "cat", "index_select", "clone", "copy_", "fill_", "zero_"}
"""Operators that allocate nothing inside where their arguments are contiguous."""


class Inside:
    """Tries each operator in each form once, for all the ways of doing a step.

    ```python
    inside = Inside("cpu")
    probe = inside.of(func, args, kwargs, func(*args, **kwargs))
    probe.scratch, probe.results, probe.bound
    ```

    Of a step on CUDA only what recurrent layers save is asked, and losses: the other kernels there are others.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._asked = None if device == "cpu" else {RNN, *_REDUCED}
        self._found: dict[Any, Probe] = {}
        self.recurrent: set[str] = set()
        """Which recurrent layers the step has on CUDA: of "cuDNN", whose reserve is known, and "others"."""
        self.convolutions = False
        self.possible = not is_profiling()
        """Whether operators can be tried: not while a profiler runs, which it takes to see what they allocate."""
        if self.possible:
            hush_kineto()

    def of(self, func: Any, args: Any, kwargs: Any, returned: Any) -> Probe:
        """Return what an operator allocates for these fake tensors, of which it returned fake ones."""
        self.convolutions = self.convolutions or func is _CONVOLUTION
        if (self._asked is not None and func not in self._asked) or _allocates_results_only(func, args):
            return _NOTHING
        form = func, _form(args), _form(kwargs)
        found = self._found.get(form)
        if found is None:
            found = self._found[form] = self._tried(func, args, kwargs, returned)
        return found

    def _tried(self, func: Any, args: Any, kwargs: Any, returned: Any) -> Probe:
        try:
            found = _probe(func, args, kwargs, returned) if self.possible and func.namespace in _LIBRARIES else None
        except Exception:  # zeros are no argument for every operator
            found = None
        if found is None:
            found = Probe(0, (), 0 if _is_known(func, args) else _bytes((args, kwargs, returned)))
        return found if self._asked is None or func in _REDUCED else replace(found, scratch=0)


_NOTHING = Probe(0, ())

_CONVOLUTION = torch.ops.aten.convolution.default

_REDUCED = {torch.ops.aten.mse_loss.default, torch.ops.aten.smooth_l1_loss.default}
"""Losses whose one number lies in memory for all of them, on every device: they are structured kernels."""

Doubt = tuple[int, int, str]
"""Where an operator may have taken more: the position in the changes of a history, the bytes at most, and its name."""


def notes(inside: Inside, history: History, doubts: Sequence[Doubt], device: str) -> Iterator[str]:
    """Yield what is not known of the inside of operators, with a bound."""
    if not inside.possible and device == "cpu":
        yield (
            "Workspace memory inside operators (mostly convolutions and recurrent layers) is missing: measuring it "
            "needs PyTorch's profiler, which is already running. Forecast outside the profiler."
        )
    if device != "cpu":
        yield from _of_cudnn(inside)
    if any("coalesce" in block.op for block in history.blocks):
        yield "Sparse gradients are counted as if no row appeared twice in a batch: the step needs this much or less."
    if inside.possible:
        yield from _doubts(history, doubts)


def _of_cudnn(inside: Inside) -> Iterator[str]:
    """Yield what cuDNN takes on CUDA that no one can know before it chooses its algorithms."""
    if inside.convolutions:
        yield (
            "The workspaces that cuDNN takes for convolutions are missing: they are known only once it has chosen its "
            "algorithms. On an H100, small networks needed 2 to 9 MB for a moment."
        )
    if inside.recurrent:
        yield (
            "The workspace that cuDNN takes for recurrent layers is missing: it is known only once it has chosen its "
            "algorithm. On an H100 it was 43 MB for an LSTM of 64 over 400 steps of 16 sequences, and 97 MB for one of "
            "512 with 2 layers in both directions over 50 steps."
        )
    if "others" in inside.recurrent:
        yield (
            "What recurrent layers save for the backward pass is counted as on the CPU. Only for an LSTM in float32 "
            "is it known what cuDNN saves."
        )


def _doubts(history: History, doubts: Sequence[Doubt]) -> Iterator[str]:
    total, worst = history.total, dict[str, int]()
    for position, size, op in doubts:
        before = int(total[position - 1]) if position else history.start
        if before + size > history.peak:
            worst[op] = max(worst.get(op, 0), before + size)
    if worst:
        named = sorted(worst, key=lambda op: -worst[op])
        ops = ", ".join(named[:_NAMED]) + f" and {len(named) - _NAMED} more" * (len(named) > _NAMED)
        yield (
            f"What {ops} allocates inside is unknown. If each copies its arguments and results once, the peak is "
            f"{amount(max(worst.values()))}; otherwise it is lower."
        )


_NAMED = 3
"""Operators that are named in a sentence."""


def _allocates_results_only(func: Any, args: Any) -> bool:
    """Whether that is sure without a try: views, factories, and what works element by element and converts nothing."""
    if func.is_view or func.namespace == "profiler":
        return True
    tensors = [each for each in tensors_of(args) if each.dim()]
    if not tensors:
        return True
    if any(each.layout != torch.strided for each in tensors):
        return False  # their fake forms lose the rows
    if len({each.dtype for each in tensors}) > 1:
        return False
    if func.name().startswith(("aten::_foreach_", "aten::_fused_")):
        return True
    return torch.Tag.pointwise in func.tags and all(each.is_contiguous() for each in tensors)


def _is_known(func: Any, args: Any) -> bool:
    """Whether an operator that is too large to be tried allocates nothing inside for such arguments."""
    name, tensors = func.overloadpacket.__name__, list(tensors_of(args))
    if name in _MATRICES:
        return all(not each.dim() or 1 in each.stride() for each in tensors)
    if torch.Tag.pointwise in func.tags:
        return len({each.dtype for each in tensors if each.dim()}) == 1
    return name in _PLAIN and all(each.is_contiguous() for each in tensors)


def _probe(func: Any, args: Any, kwargs: Any, returned: Any) -> Probe | None:
    """Try an operator as it is, or shorter; None where that leaves it too large, or makes another call of it."""
    part = _affordable(func, args, kwargs, returned)
    if part >= 1:
        return Probe.of(func, args, kwargs)
    first = next(in_order(args))
    whole = first.size(0)
    alike: tuple[Callable[[torch.Tensor], bool], ...] = (lambda each: each.size(0) == whole, lambda each: each is first)
    for large, shortened in product({max(int(whole * part), LENGTHS[0]): None, LENGTHS[1]: None}, alike):
        lengths = large // 2, large
        calls = [_shorter(args, shortened, length) for length in lengths]
        if large < whole and all(
            _is_the_call(func, call, kwargs, returned, whole, n) for call, n in zip(calls, lengths, strict=True)
        ):
            low, high = (Probe.of(func, call, kwargs) for call in calls)
            return extrapolated(low, high, (*lengths, whole))
    return None


def _affordable(func: Any, args: Any, kwargs: Any, returned: Any) -> float:
    """Return the part of an operator's work that can be done in no time; 1 or more for all of it."""
    work = _flops(func, args, kwargs, returned)
    return min(BYTES / max(1, _bytes((args, kwargs, returned))), FLOPS / max(1, work))


def _flops(func: Any, args: Any, kwargs: Any, returned: Any) -> float:
    formula = flop_registry.get(func.overloadpacket)
    if formula is not None:
        return float(formula(*args, **kwargs, out_val=returned))
    if func not in (RNN, RNN_BACKWARD):
        return 0
    steps, batch, weights = args[0].size(0), args[0].size(1), args[1].numel() + args[2].numel()
    return float(2 * steps * batch * weights)


def _shorter(args: Any, shortened: Callable[[torch.Tensor], bool], length: int) -> Any:
    """Return the arguments with fewer rows in some of the tensors."""

    def shorter(each: torch.Tensor) -> torch.Tensor:
        if not each.dim() or not shortened(each):
            return each
        return torch.empty_strided((length, *each.size()[1:]), each.stride(), dtype=each.dtype)

    return tree_map_only(torch.Tensor, shorter, args)


def _is_the_call(func: Any, args: Any, kwargs: Any, returned: Any, whole: int, length: int) -> bool:
    """Whether shorter arguments make results that are as much shorter, and small enough: told by fake tensors."""
    try:
        result = func(*args, **kwargs)
    except Exception:
        return False
    if _affordable(func, args, kwargs, result) < _LEAST:
        return False
    pairs = zip_longest(in_order((result,)), in_order((returned,)))
    return all(
        short is not None
        and full is not None
        and short.size()[1:] == full.size()[1:]
        and (short.size() == full.size() or (short.size(0), full.size(0)) == (length, whole))
        for short, full in pairs
    )


def _bytes(values: Any) -> int:
    return sum(part.numel() * part.element_size() for each in tensors_of(values) for part in parts_of(each))


def _form(value: Any) -> Any:
    """Return what tells one call from another: the forms of tensors, and all numbers but for floating-point ones."""
    if isinstance(value, torch.Tensor):
        if value.layout == torch.sparse_coo:
            return tuple(value.size()), value._nnz(), value.dtype, value.is_coalesced()
        return tuple(value.size()), value.stride(), value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(map(_form, value))
    if isinstance(value, dict):
        return tuple((key, _form(each)) for key, each in value.items())
    return value if isinstance(value, (int, bool, str, torch.dtype, type(None))) else type(value)
