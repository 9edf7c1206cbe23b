"""Naming speed: every parameter, gradient and AdamW state of a GPT-2-sized model, beside two other ways to look.

    python bench/naming.py

The rows are measured in turn, round by round, so that a busy machine slows them alike; the median is shown.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import weakref
from collections.abc import Callable

import torch

from backsight.naming import Search, search

ROUNDS = 9
REFERRERS = 8  # one gc.get_referrers call a tensor: measured on a few, scaled to all


def gpt2() -> torch.nn.Module:
    """Twelve layers, 148 parameters, 124 million weights; the same shape without transformers."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel

        model: torch.nn.Module = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=768, n_head=12))
        return model
    except ImportError:
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072)
        return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


def well_named(found: Search) -> int:
    """How many targets have a name that a person would use."""
    return sum(bool(names) and names[0].path.startswith(("model.", "optimizer.state[model.")) for names in found.names)


def module_globals(targets: list[torch.Tensor]) -> int:
    """What torchID does: look through the globals of every imported module."""
    names: dict[int, str] = {}
    for module_name, module in list(sys.modules.items()):
        for name, held in list(getattr(module, "__dict__", {}).items()):
            if issubclass(type(held), torch.Tensor):
                names[id(held)] = f"{module_name}.{name}"
    return sum(id(target) in names for target in targets)


def referrers(targets: list[torch.Tensor]) -> int:
    """One step back from each tensor with gc.get_referrers; a dict of variables is as good as a name."""
    spaces = {id(vars(module)) for module in list(sys.modules.values()) if hasattr(module, "__dict__")}
    return sum(any(id(holder) in spaces for holder in gc.get_referrers(target)) for target in targets)


def timed(function: Callable[[], int]) -> tuple[float, int]:
    start = time.perf_counter()
    found = function()
    return (time.perf_counter() - start) * 1e3, found


def main() -> None:
    torch.manual_seed(0)
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    del parameter
    tensors = (tensor for p in model.parameters() for tensor in (p, p.grad, *optimizer.state[p].values()))
    hidden = [weakref.ref(tensor) for tensor in tensors]  # a list of the tensors themselves would name them all

    def targets(count: int = len(hidden)) -> list[torch.Tensor]:
        return [ref() for ref in hidden[:count]]

    rows: dict[str, Callable[[], int]] = {
        "backsight: all targets": lambda: well_named(search(targets())),
        "backsight: one target": lambda: well_named(search(targets(1))),
        "backsight: all, and modules": lambda: well_named(search(targets(), collect=(torch.nn.Module,))),
        "globals of all modules": lambda: module_globals(targets()),
        f"gc.get_referrers, {REFERRERS} targets": lambda: referrers(targets(REFERRERS)),
    }
    times: dict[str, list[float]] = {row: [] for row in rows}
    found: dict[str, int] = {}
    for _ in range(ROUNDS):
        for row, function in rows.items():
            spent, found[row] = timed(function)
            times[row].append(spent)
    print(f"{len(hidden)} targets, {len(gc.get_objects()):,} objects known to gc, median of {ROUNDS}")
    print(f"{'':34}{'ms':>9}{'best':>9}{'found':>8}")
    for row, spent_all in times.items():
        print(f"{row:34}{statistics.median(spent_all):9.1f}{min(spent_all):9.1f}{found[row]:8}")
    whole = statistics.median(times[f"gc.get_referrers, {REFERRERS} targets"]) / REFERRERS * len(hidden)
    print(f"gc.get_referrers for all targets would take {whole:,.0f} ms, one step back each")


if __name__ == "__main__":
    main()
