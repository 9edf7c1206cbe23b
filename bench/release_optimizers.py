"""Which optimizers `bs.release` steps exactly, and which it refuses: every optimizer of PyTorch and of its ecosystem.

    python bench/release_optimizers.py                  # all that are installed; about ten minutes
    python bench/release_optimizers.py --only lion      # those with "lion" in their name
    python bench/release_optimizers.py --markdown       # the table of docs/release.md

Each trains a small GPT for a few steps, twice by the ordinary loop and once for every bucket size by the released
one, from the same seed: weights, optimizer state and param_groups are compared bit for bit. An optimizer that differs
from itself in two ordinary runs, or does not run at all here, is told apart. The peers: `pip install
pytorch_optimizer schedulefree prodigyopt dadaptation heavyball came-pytorch adam-mini torch-optimi galore-torch
bitsandbytes torchao lion-pytorch adabelief-pytorch muon-optimizer`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import track
from rich.table import Table

import backsight as bs

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from gpt import gpt, next_token_batch

STEPS = 4
BUCKETS = (0, "16KB")
PATIENCE = 60
"""Seconds for all runs of one optimizer."""

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Verdict:
    """What became of one optimizer: a class of `ORDER`, and in words why."""

    name: str
    outcome: str
    reason: str = ""


ORDER = ("exact", "refused when attached", "refused in the first step", "DIFFERENT", "not reproducible", "does not run")


def candidates() -> Iterator[tuple[str, Make]]:
    """Yield the name and the maker of every optimizer that is installed."""
    for name in sorted(vars(torch.optim)):
        kind = getattr(torch.optim, name)
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name != "Optimizer":
            yield f"torch.{name}", kind
    with contextlib.suppress(ImportError):
        library = importlib.import_module("pytorch_optimizer")
        for name in library.get_supported_optimizers():
            yield f"pytorch_optimizer.{name}", library.load_optimizer(name)
    for module, names, options in PEERS:
        with contextlib.suppress(ImportError):
            library = importlib.import_module(module)
            for name in names:
                if hasattr(library, name):
                    yield f"{module}.{name}", _with(getattr(library, name), options)


PEERS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("schedulefree", ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree"), {"lr": 1e-3}),
    ("prodigyopt", ("Prodigy",), {}),
    ("dadaptation", ("DAdaptAdam", "DAdaptSGD", "DAdaptLion"), {}),
    ("came_pytorch", ("CAME",), {"lr": 1e-3}),
    ("optimi", ("AdamW", "Lion", "Adan", "SGD", "StableAdamW", "RAdam", "Ranger", "Adam"), {"lr": 1e-3}),
    ("galore_torch", ("GaLoreAdamW", "GaLoreAdafactor"), {"lr": 1e-3}),
    ("bitsandbytes.optim", ("AdamW8bit", "AdamW", "Lion8bit", "Lion", "SGD8bit", "RMSprop8bit"), {"lr": 1e-3}),
    ("torchao.optim", ("AdamW8bit", "AdamW4bit", "AdamWFp8"), {"lr": 1e-3}),
    ("lion_pytorch", ("Lion",), {"lr": 1e-3}),
    ("adabelief_pytorch", ("AdaBelief",), {"lr": 1e-3, "print_change_log": False}),
    ("muon", ("SingleDeviceMuon",), {"lr": 1e-3}),
    (
        "heavyball",
        ("AdamW", "ForeachAdamW", "Muon", "ForeachMuon", "SOAP", "ForeachSOAP", "PSGDKron", "ForeachPSGDKron"),
        {"lr": 1e-3},
    ),
)


def _with(kind: type[torch.optim.Optimizer], options: dict[str, Any]) -> Make:
    return lambda groups: kind(groups, **options)


def judge(name: str, make: Make) -> Verdict:
    """Return what becomes of one optimizer."""
    try:
        ordinary, again = trained(make, None), trained(make, None)
    except Exception as error:
        return Verdict(name, "does not run", _brief(error))
    if difference(ordinary, again):
        return Verdict(name, "not reproducible", f"two ordinary runs differ in {difference(ordinary, again)}")
    for bucket in BUCKETS:
        try:
            released = trained(make, bucket)
        except bs.NotReleasable as error:
            return Verdict(name, "refused when attached", _brief(error))
        except bs.ReleaseError as error:
            return Verdict(name, "refused in the first step", _brief(error))
        except Exception as error:
            return Verdict(name, "DIFFERENT", f"raises with bucket={bucket!r}: {_brief(error)}")
        if found := difference(ordinary, released):
            return Verdict(name, "DIFFERENT", f"{found} with bucket={bucket!r}")
    return Verdict(name, "exact")


def trained(make: Make, bucket: int | str | None) -> dict[str, Any]:
    """Return the weights, the state and the groups after some steps; released where a `bucket` is given."""
    torch.manual_seed(0)
    model = gpt(vocabulary=61, width=32, layers=2, heads=4, context=32)
    optimizer = _made(make, model)
    if callable(getattr(optimizer, "train", None)):
        optimizer.train()  # schedulefree
    if bucket is not None:
        bs.release(optimizer, bucket=bucket)
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        tokens, following = next_token_batch(61, 2, 16)
        F.cross_entropy(model(tokens), following).backward()
        optimizer.step()
        optimizer.zero_grad()
        model.zero_grad()
    saved = optimizer.state_dict()
    return {"weights": dict(model.named_parameters()), "state": saved["state"], "param_groups": saved["param_groups"]}


def _made(make: Make, model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer over matrices and vectors, in the groups that it wants: those of Muon differ."""
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    vectors = [weight for weight in model.parameters() if weight.ndim <= 1]
    hidden = [weight for weight in model[1:-1].parameters() if weight.ndim > 1]
    for groups in (
        [{"params": matrices}, {"params": vectors}],
        [{"params": matrices, "use_muon": True}, {"params": vectors, "use_muon": False}],
        [{"params": hidden}],
    ):
        try:
            return make(groups)
        except Exception as error:
            refused = error.with_traceback(None)  # or it keeps the half-made optimizer alive
    raise refused


def difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return which parts of two trainings differ, or ''."""
    return ", ".join(part for part in one if not _same(one[part], other[part]))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        if not isinstance(other, torch.Tensor) or one.dtype != other.dtype or one.shape != other.shape:
            return False
        return torch.equal(torch.nan_to_num(_plain(one)), torch.nan_to_num(_plain(other)))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, (int, float, str, bool, type(None))):
        return bool(one == other) or (one != one and other != other)
    return type(one) is type(other)  # generators, compiled functions


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor.dequantize() if hasattr(tensor, "dequantize") and type(tensor) is not torch.Tensor else tensor


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:150]


class _TookTooLong(Exception):
    pass


def _alarm(*_: object) -> None:
    raise _TookTooLong(f"more than {PATIENCE} s")


def sweep(only: str) -> list[Verdict]:
    """Return the verdicts on all optimizers whose name contains `only`."""
    signal.signal(signal.SIGALRM, _alarm)
    chosen = [(name, make) for name, make in candidates() if only in name.lower()]
    verdicts = []
    for name, make in track(chosen, description="optimizers", transient=True):
        signal.alarm(PATIENCE)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                verdicts.append(judge(name, make))
            except _TookTooLong as error:
                verdicts.append(Verdict(name, "does not run", str(error)))
            finally:
                signal.alarm(0)
    return verdicts


def report(verdicts: list[Verdict], markdown: bool) -> None:
    """Print the verdicts by outcome."""
    tally = Counter(verdict.outcome for verdict in verdicts)
    if markdown:
        for outcome in filter(tally.get, ORDER):
            print(f"\n**{outcome}** ({tally[outcome]}): ", end="")
            print(", ".join(f"`{verdict.name}`" for verdict in verdicts if verdict.outcome == outcome))
        return
    table = Table(box=None)
    for column in ("optimizer", "outcome", "why"):
        table.add_column(column)
    for verdict in sorted(verdicts, key=lambda verdict: ORDER.index(verdict.outcome)):
        table.add_row(verdict.name, verdict.outcome, verdict.reason)
    console = Console(width=200)
    console.print(table)
    console.print(", ".join(f"{tally[outcome]} {outcome}" for outcome in filter(tally.get, ORDER)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--markdown", action="store_true", help="print lists for docs/release.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.compiler.set_stance("force_eager")  # some optimizers compile their step: here only its arithmetic matters
    report(sweep(arguments.only.lower()), arguments.markdown)


if __name__ == "__main__":
    main()
