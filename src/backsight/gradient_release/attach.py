"""`release`: attach to an optimizer, or say why not."""

from __future__ import annotations

import ast
import gc
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed

from backsight.gradient_release._torch import bytes_of, counts_for_a_scheduler, own_hook_tables, step_hooks
from backsight.gradient_release.bucket import bucket_bytes
from backsight.gradient_release.data_parallel import GroupAverage, OverDdp, expect_ddp
from backsight.gradient_release.errors import NotReleasable
from backsight.gradient_release.evidence import Evidence
from backsight.gradient_release.first_look import refuse_ddp
from backsight.gradient_release.origin import Line
from backsight.gradient_release.partial_step import is_of_torch
from backsight.gradient_release.probe import probe
from backsight.gradient_release.release import Release
from backsight.snapshot import stepping
from backsight.source import function_at
from backsight.surface import require
from backsight.tape import alive


def release(
    optimizer: torch.optim.Optimizer,
    bucket: int | float | str = "auto",
    *,
    ddp: torch.nn.Module | None = None,
    process_group: distributed.ProcessGroup | None = None,
    make: Callable[[list[dict[str, Any]]], torch.optim.Optimizer] | None = None,
    trust: bool = False,
) -> Release:
    """Have backward use gradients for the optimizer's step as they come, a bucket at a time, and free them.

    ```python
    release = bs.release(optimizer)
    loss.backward()          # steps most parameters, bit for bit as optimizer.step() would
    optimizer.step()         # the rest, the counters, the hooks
    optimizer.zero_grad()
    ```

    The loop stays as it is, and so do schedulers, `state_dict` and step hooks. Weights, state and groups are equal bit
    for bit to those without release. What cannot be exact is refused, here or when it happens.

    Args:
        optimizer: any optimizer that steps each parameter by its own gradient: all of `torch.optim` but LBFGS, and
            others that are shown, on small copies, to step each by itself. Of what `accelerator.prepare` returned,
            the one inside.
        bucket: bytes of gradients that may gather: "16MB", a number, 0 for every gradient by itself; "auto" is a
            sixteenth of all, between 1 MB and 16 MB, which was fastest for small and for large models.
        ddp: the DistributedDataParallel around the model, if there is one. What it has averaged is stepped in its
            communication hook, in its own buckets (`bucket_cap_mb`) instead of ours; gradients are freed, its buckets
            stay. Sharded models (`fully_shard`) need no argument.
        process_group: averages the gradients over the ranks of this group, a bucket at a time, for a model that is not
            wrapped in anything; then nothing of a gradient stays. All ranks have to use the same parameters.
        make: makes an optimizer like this one for groups of other parameters; only for the probe of an optimizer that
            cannot be made from its `defaults` and attributes.
        trust: insist, where it cannot be shown that an optimizer of others steps each parameter by itself. Then you
            vouch for it; `release.evidence` says so, and why it would have been refused.

    Raises:
        NotReleasable: with the reason, if release would not be exact with this optimizer, or not work.
        ValueError: if `bucket` is no size.
        TypeError: if `optimizer` is none.
        Unavailable: if this PyTorch lacks something that release needs.

    Source: LOMO (arXiv 2306.09782) steps inside of backward with an optimizer of its own; here it is the user's.
    """
    require("release")
    optimizer = _inside(optimizer)
    _refuse(optimizer)
    if ddp is not None:
        expect_ddp(ddp)
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    size = bucket_bytes(bucket, sum(bytes_of(each) for each in parameters if each.requires_grad))
    refuse_ddp(parameters, ddp)
    _refuse_duplicates(optimizer, parameters)
    _refuse_other_owners(optimizer, parameters)
    name = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
    evidence = Evidence(name, known=True) if is_of_torch(optimizer) else probe(optimizer, make, trust)
    if ddp is not None and process_group is not None:
        raise ValueError("ddp= already averages gradients; remove process_group=.")
    if process_group is not None:
        average = GroupAverage(process_group, parameters)
        return Release(optimizer, size, evidence, lambda _: average)
    return Release(optimizer, size, evidence, None if ddp is None else lambda stepping: OverDdp(stepping, ddp))


def _inside(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return what Accelerate has wrapped, whose `step` is called by the wrapper's and nothing else is done there."""
    return stepping(optimizer) if type(optimizer).__module__ == "accelerate.optimizer" else optimizer


def _refuse(optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer for what it is."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"release() takes an optimizer, not an object of type {type(optimizer).__name__}.")
    kind = type(optimizer).__name__
    if not own_hook_tables(optimizer):
        raise NotReleasable(f"{kind} wraps another optimizer: release that one, for example `wrapper.optimizer`.")
    if any(isinstance(getattr(hook, "__self__", None), Release) for hook in step_hooks(optimizer)):
        raise NotReleasable(f"This {kind} is already released: call remove() on its release first.")
    if _needs_closure(type(optimizer)):
        line = _closure_called(type(optimizer))
        calls = f" It calls the closure at {line}." if line else ""
        raise NotReleasable(
            f"{kind} evaluates the loss several times within a step, through a closure: every gradient is needed more "
            f"than once, and none can be freed after its first use.{calls} Train it "
            "without release(), or use an optimizer whose step takes no closure."
        )
    own_step = vars(optimizer).get("step")
    if own_step is not None and not counts_for_a_scheduler(own_step):
        raise NotReleasable(
            f"The `step` of this {kind} was replaced by another one, which steps inside backward would not call."
        )
    if any(group.get("differentiable") for group in optimizer.param_groups):
        raise NotReleasable(f"{kind}(differentiable=True) keeps the graph through its step: no gradient can be freed.")
    if not any(each.requires_grad for group in optimizer.param_groups for each in group["params"]):
        raise NotReleasable(f"No parameter of this {kind} requires a gradient.")


def _closure_called(kind: type[torch.optim.Optimizer]) -> Line | None:
    """Return the last line of a `step` that calls its closure, as one in a loop is; None if the source is not there."""
    step = inspect.unwrap(kind.step)
    body = function_at(step.__code__) if inspect.isfunction(step) else None
    lines = [
        each.lineno
        for each in (ast.walk(body.node) if body is not None else ())
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "closure"
    ]
    return Line(step.__code__.co_filename, max(lines)) if lines else None


def _needs_closure(kind: type[torch.optim.Optimizer]) -> bool:
    """Whether `step` cannot be called without an argument."""
    if issubclass(kind, torch.optim.LBFGS):
        return True
    try:
        parameters = list(inspect.signature(kind.step).parameters.values())[1:]
    except (TypeError, ValueError):  # a step in C has no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)


def _refuse_duplicates(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> None:
    """Refuse an optimizer that steps a parameter several times per step, as PyTorch lets it with a warning."""
    twice = len(parameters) - len({id(each) for each in parameters})
    if twice:
        raise NotReleasable(
            f"This {type(optimizer).__name__} holds {twice} of its parameters more than once (tied weights?), and "
            "steps them that many times in each step. Pass each parameter once: `list(dict.fromkeys(parameters))`."
        )


def _refuse_other_owners(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> None:
    """Refuse parameters that another optimizer steps as well: for that one the gradient would be gone."""
    if _other_owner(optimizer, parameters) is None:
        return
    gc.collect()  # it may be one that was forgotten, but not yet freed
    other = _other_owner(optimizer, parameters)
    if other is not None:
        kind, shared = other
        raise NotReleasable(
            f"Another optimizer, {kind}, holds {shared} of the {len(parameters)} parameters: it would find their "
            "gradients gone. Pass each parameter to one optimizer. If the other one is old, delete it and its "
            "schedulers, and call remove() on its release."
        )


def _other_owner(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> tuple[str, int] | None:
    """Return the class of another optimizer that holds some of the parameters, and how many."""
    ours = {id(each) for each in parameters}
    for other in alive(torch.optim.Optimizer):
        groups = vars(other).get("param_groups")
        if other is optimizer or not isinstance(groups, list) or _wraps(other, optimizer) or _wraps(optimizer, other):
            continue
        if shared := sum(id(each) in ours for group in groups for each in group["params"]):
            return type(other).__name__, shared
    return None


def _wraps(one: torch.optim.Optimizer, other: torch.optim.Optimizer) -> bool:
    """Whether an optimizer holds another as the one that does its steps."""
    return any(value is other for value in vars(one).values())
