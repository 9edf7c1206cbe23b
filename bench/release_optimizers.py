"""Which optimizers `bs.release` steps exactly, and which it refuses: every optimizer of PyTorch and of its ecosystem.

    python bench/release_optimizers.py                      # all that are installed; three quarters of an hour
    python bench/release_optimizers.py --only lion          # those with "lion" in their name
    python bench/release_optimizers.py --kept found.jsonl   # keeps each verdict, and goes on where it was stopped
    python bench/performance.py release_optimizers          # the tables of docs/release.md

Each trains a small GPT for a few steps, twice by the ordinary loop and once for every bucket size by the released
one, from the same seed: weights, optimizer state and param_groups are compared bit for bit. An optimizer that differs
from itself in two ordinary runs, or does not run at all here, is told apart. Each has a process of its own. The peers:
`pip install pytorch_optimizer torch-optimizer timm schedulefree prodigyopt dadaptation heavyball came-pytorch
torch-optimi galore-torch bitsandbytes torchao lion-pytorch adabelief-pytorch muon-optimizer`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import multiprocessing
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from _measure import report, simple_table
from rich.progress import track
from rich.table import Table

import backsight as bs

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from gpt import gpt, next_token_batch

STEPS = 4
BUCKETS = (0, "16KB")
PATIENCE = 90
"""Seconds for all runs of one optimizer."""

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Verdict:
    """What became of one optimizer: a class of `ORDER`, and in words why."""

    library: str
    name: str
    outcome: str
    reason: str = ""


ORDER = ("exact", "refused when attached", "refused in the first step", "DIFFERENT", "not reproducible", "does not run")


def candidates() -> Iterator[tuple[str, str, Make]]:
    """Yield the library, the name and the maker of every optimizer that is installed."""
    for name in sorted(vars(torch.optim)):
        kind = getattr(torch.optim, name)
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name != "Optimizer":
            yield "torch", f"torch.{name}", kind
    with contextlib.suppress(ImportError):
        library = importlib.import_module("pytorch_optimizer")
        for name in library.get_supported_optimizers():
            yield "pytorch_optimizer", f"pytorch_optimizer.{name}", library.load_optimizer(name)
    for distribution, module, names, options in PEERS:
        with contextlib.suppress(ImportError):
            library = importlib.import_module(module)
            for name in names:
                if hasattr(library, name):
                    yield distribution, f"{module}.{name}", _with(getattr(library, name), options)
    with contextlib.suppress(ImportError):
        library = importlib.import_module("torch_optimizer")
        for name, kind in vars(library).items():
            if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name != "Optimizer":
                yield "torch-optimizer", f"torch_optimizer.{name}", _with(kind, {"lr": 1e-3})
    with contextlib.suppress(ImportError):
        library = importlib.import_module("timm.optim")
        for name in library.list_optimizers():
            yield "timm", f"timm.{name}", functools.partial(library.create_optimizer_v2, opt=name, lr=1e-3)


PEERS: tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...] = (
    ("schedulefree", "schedulefree", ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree"), {"lr": 1e-3}),
    ("prodigyopt", "prodigyopt", ("Prodigy",), {}),
    ("dadaptation", "dadaptation", ("DAdaptAdam", "DAdaptSGD", "DAdaptLion"), {}),
    ("came-pytorch", "came_pytorch", ("CAME",), {"lr": 1e-3}),
    (
        "torch-optimi",
        "optimi",
        ("AdamW", "Lion", "Adan", "SGD", "StableAdamW", "RAdam", "Ranger", "Adam"),
        {"lr": 1e-3},
    ),
    ("galore-torch", "galore_torch", ("GaLoreAdamW", "GaLoreAdafactor"), {"lr": 1e-3}),
    (
        "bitsandbytes",
        "bitsandbytes.optim",
        ("AdamW8bit", "AdamW", "Lion8bit", "Lion", "SGD8bit", "RMSprop8bit"),
        {"lr": 1e-3},
    ),
    ("torchao", "torchao.optim", ("AdamW8bit", "AdamW4bit", "AdamWFp8"), {"lr": 1e-3}),
    ("lion-pytorch", "lion_pytorch", ("Lion",), {"lr": 1e-3}),
    ("adabelief-pytorch", "adabelief_pytorch", ("AdaBelief",), {"lr": 1e-3, "print_change_log": False}),
    ("muon-optimizer", "muon", ("SingleDeviceMuon",), {"lr": 1e-3}),
    (
        "heavyball",
        "heavyball",
        ("AdamW", "ForeachAdamW", "Muon", "ForeachMuon", "SOAP", "ForeachSOAP", "PSGDKron", "ForeachPSGDKron"),
        {"lr": 1e-3},
    ),
)


def _with(kind: type[torch.optim.Optimizer], options: dict[str, Any]) -> Make:
    return lambda groups: kind(groups, **options)


def judge(library: str, name: str, make: Make) -> Verdict:
    """Return what becomes of one optimizer."""
    verdict = functools.partial(Verdict, library, name)
    try:
        ordinary, again = trained(make, None), trained(make, None)
    except Exception as error:
        return verdict("does not run", _brief(error))
    if difference(ordinary, again):
        return verdict("not reproducible", f"two ordinary runs differ in {difference(ordinary, again)}")
    for bucket in BUCKETS:
        try:
            released = trained(make, bucket)
        except bs.NotReleasable as error:
            return verdict("refused when attached", _reason(error))
        except bs.ReleaseError as error:
            return verdict("refused in the first step", _reason(error))
        except Exception as error:
            return verdict("DIFFERENT", f"raises with bucket={bucket!r}: {_brief(error)}")
        if found := difference(ordinary, released):
            return verdict("DIFFERENT", f"{found} with bucket={bucket!r}")
    return verdict("exact")


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
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:120]


def _reason(error: Exception) -> str:
    """Return why one was refused: the line of its code, or else what is said first."""
    text = " ".join(str(error).split()).partition(" Release steps a parameter")[0].partition(" If you know that")[0]
    return text.rpartition("by itself: ")[2].rstrip(".:")[:240]


def sweep(only: str, kept: Path | None) -> list[Verdict]:
    """Return the verdicts on all optimizers whose name contains `only`, and which are not among those kept."""
    verdicts = []
    if kept is not None and kept.exists():
        verdicts = [Verdict(**json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()]
    known = {verdict.name for verdict in verdicts}
    chosen = [each for each in candidates() if only in each[1].lower() and each[1] not in known]
    for each in track(chosen, description="optimizers", transient=True):
        verdicts.append(_apart(*each))
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(verdicts[-1])) + "\n")
    return verdicts


def _apart(library: str, name: str, make: Make) -> Verdict:
    """Judge an optimizer in a process of its own, which is ended when it takes too long."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_told, args=(there, library, name, make))
    process.start()
    there.close()
    try:
        if here.poll(PATIENCE):
            verdict: Verdict = here.recv()
            return verdict
        return Verdict(library, name, "does not run", f"more than {PATIENCE} s")
    except EOFError:
        return Verdict(library, name, "does not run", "its process ended")
    finally:
        process.kill()
        process.join()


def _told(there: Any, library: str, name: str, make: Make) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    there.send(judge(library, name, make))


def tables(verdicts: list[Verdict]) -> Iterator[Table]:
    """Yield a table of numbers, one of those that are exact, and one for each other outcome, with why."""
    outcomes = [outcome for outcome in ORDER if any(each.outcome == outcome for each in verdicts)]
    libraries = list(dict.fromkeys(each.library for each in verdicts))
    numbers = simple_table("library", *outcomes, title=" ")
    for library in libraries:
        tally = Counter(each.outcome for each in verdicts if each.library == library)
        numbers.add_row(library, *(str(tally[outcome]) for outcome in outcomes))
    tally = Counter(each.outcome for each in verdicts)
    numbers.add_row("all", *(str(tally[outcome]) for outcome in outcomes))
    yield numbers
    exact = Table("library", "exact", title=" ")
    for library in libraries:
        names = [each.name for each in verdicts if each.library == library and each.outcome == "exact"]
        if names:
            exact.add_row(library, ", ".join(name.rpartition(".")[2] for name in names))
    yield exact
    for outcome in outcomes:
        if outcome != "exact":
            others = Table(outcome, "why", title=" ")
            for each in verdicts:
                if each.outcome == outcome:
                    others.add_row(each.name, each.reason.replace("[", "\\["))
            yield others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--kept", type=Path, default=None, help="a file of verdicts, to which others are added")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.compiler.set_stance("force_eager")  # some optimizers compile their step: here only its arithmetic matters
    report(*tables(sweep(arguments.only.lower(), arguments.kept)))


if __name__ == "__main__":
    main()
