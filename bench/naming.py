"""How long it takes to name all parameters, gradients and AdamW state of a GPT-2-sized model, beside two other ways.

    python bench/naming.py [--quick]

All ways are measured in turn, round by round, on the same live objects.
"""

from __future__ import annotations

import argparse
import gc
import sys
import weakref
from collections.abc import Callable

import torch
from _measure import Result, Side, interleaved, report, simple_table, verdict
from rich.table import Table

from backsight.naming import Search, search

ALL, ONE, AROUND = "backsight, all at once", "backsight, one", "backsight, all and the modules around"
GLOBALS, REFERRERS = "globals of all modules, as torchID", "gc.get_referrers, one step back"
LIMIT = 0.060  # seconds

Hidden = list["weakref.ref[torch.Tensor]"]


def gpt2() -> torch.nn.Module:
    """Twelve layers, 148 parameters, 124 million weights."""
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    model: torch.nn.Module = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=768, n_head=12))
    return model


def alive(hidden: Hidden) -> list[torch.Tensor]:
    return [tensor for ref in hidden if (tensor := ref()) is not None]


def well_named(found: Search) -> int:
    """How many targets have a name that a person would use."""
    return sum(bool(names) and names[0].path.startswith(("model.", "optimizer.state[model.")) for names in found.names)


def in_globals(targets: list[torch.Tensor]) -> int:
    """What torchID does: look through the variables of every imported module."""
    names: dict[int, str] = {}
    for module_name, module in list(sys.modules.items()):
        for name, held in list(getattr(module, "__dict__", {}).items()):
            if issubclass(type(held), torch.Tensor):
                names[id(held)] = f"{module_name}.{name}"
    return sum(id(target) in names for target in targets)


def in_referrers(targets: list[torch.Tensor]) -> int:
    """How many targets gc.get_referrers finds in the variables of a module; each further step back costs as much."""
    spaces = {id(vars(module)) for module in list(sys.modules.values()) if hasattr(module, "__dict__")}
    holders = [holder for holder in gc.get_referrers(*targets) if id(holder) in spaces]
    held = {id(value) for holder in holders for value in holder.values()}
    return sum(id(target) in held for target in targets)


def measured(hidden: Hidden, rounds: int) -> dict[str, Result]:
    # The list of targets is made within each call: one that a variable holds would name them all.
    ways: dict[str, Callable[[], int]] = {
        ALL: lambda: well_named(search(alive(hidden))),
        ONE: lambda: well_named(search(alive(hidden[:1]))),
        AROUND: lambda: well_named(search(alive(hidden), collect=(torch.nn.Module,))),
        GLOBALS: lambda: in_globals(alive(hidden)),
        REFERRERS: lambda: in_referrers(alive(hidden)),
    }
    sides = {
        name: Side(lambda: None, lambda _, way=way: way(), lambda found: f"{found:,}") for name, way in ways.items()
    }
    return interleaved(sides, rounds)


def table(results: dict[str, Result], targets: int, rounds: int) -> Table:
    title = f"Naming {targets} tensors of GPT-2: median of {rounds}, ways in turn"
    out = simple_table("way to look", "ms", "looked for", "named", title=title)
    for name, result in results.items():
        out.add_row(name, f"{result.seconds * 1e3:,.1f}", str(1 if name == ONE else targets), result.note)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long naming the tensors of a GPT-2-sized model takes.")
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 5")
    rounds = 3 if parser.parse_args().quick else 5
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    del parameter
    tensors = (tensor for p in model.parameters() for tensor in (p, p.grad, *optimizer.state[p].values()))
    hidden = [weakref.ref(tensor) for tensor in tensors]
    results = measured(hidden, rounds)
    report(
        table(results, len(hidden), rounds),
        f"{len(gc.get_objects()):,} objects are known to the garbage collector.",
        verdict(results[ALL].seconds < LIMIT, f"all at once: {results[ALL].seconds * 1e3:.1f} ms (under 60)"),
    )


if __name__ == "__main__":
    main()
